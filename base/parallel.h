/* base/parallel.h - the same answer on any number of cores.
 *
 * Bodies may write only to what belongs to their index or their worker; the caller reduces in index
 * order afterwards, so the number of workers cannot be seen in the result. */
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
