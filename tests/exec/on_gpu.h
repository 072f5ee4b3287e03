/* tests/exec/on_gpu.h - the GPU that tests/gpu_*.c run on. CUDA state does not survive a fork, and
 * an illegal access ends CUDA in the whole process. So tests run in separate processes, and each
 * opens the GPU itself. */
#ifndef TESTS_EXEC_ON_GPU_H
#define TESTS_EXEC_ON_GPU_H

#include "exec/plugin/backend.h"

/* The backend; NULL where it has no GPU. */
const struct backend *on_gpu_backend(struct err *err);

/* The same in a separate process; without a GPU it prints why. */
bool on_gpu_is_there(void);

/* Runs function(argument) in a separate process for at most `seconds` and returns its result; when
 * the process ends otherwise, prints how and returns false. */
bool on_gpu_alone(const char *what, unsigned seconds, bool (*function)(const char *),
                  const char *argument);

#endif
