/* tests/exec/on_gpu.h - the GPU on which tests/gpu/gpu_*.c run. CUDA state does not survive a fork,
 * and an illegal access ends CUDA in the whole process. So tests run in separate processes, and
 * each opens the GPU itself. */
#ifndef TESTS_EXEC_ON_GPU_H
#define TESTS_EXEC_ON_GPU_H

#include "exec/plugin/backend.h"

/* Returns the GPU's backend, or NULL if there is no GPU. */
const struct backend *on_gpu_backend(struct err *err);

/* Whether there is a GPU, checked in a separate process; if not, prints the reason. */
bool on_gpu_is_there(void);

/* Runs function(argument) in a separate process for at most `seconds` and returns its result; if
 * the process ends in another way, prints how and returns false. */
bool on_gpu_alone(const char *what, unsigned seconds, bool (*function)(const char *),
                  const char *argument);

#endif
