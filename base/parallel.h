/* base/parallel.h - the same answer on any number of cores.
 *
 * A body writes only to data of its index or its worker. The caller then reduces in index order, so
 * the result does not depend on the number of workers. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

int parallel_cores(void); /* that this process may run on, >= 1 */

/* Calls body(context, index, worker) once for each index in [0, n), worker in [0, jobs). Indices
 * are handed out in blocks of `grain` as workers become free. Returns when all are done. jobs <= 1,
 * or a thread that cannot be started, runs in the caller's thread. */
void parallel_for(int jobs, size_t n, size_t grain,
                  void (*body)(void *context, size_t index, int worker), void *context);

#endif
