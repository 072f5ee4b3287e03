/* base/parallel.h - parallel loops whose result does not depend on the number of cores.
 *
 * A body writes only to data that belong to its index or to its worker. If the caller combines the
 * results per index in index order, the outcome does not depend on the number of workers. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

int parallel_cores(void); /* number of cores that this process may use, >= 1 */

/* Calls body(context, index, worker) once for each index in [0, n), worker in [0, jobs). Indices
 * are handed out in blocks of `grain` as workers become free. Returns when all are done. With jobs
 * <= 1, or if no thread can be started, everything runs in the caller's thread. */
void parallel_for(int jobs, size_t n, size_t grain,
                  void (*body)(void *context, size_t index, int worker), void *context);

#endif
