/* tests/on_gpu.h - the GPU that tests/gpu_*.c run on. What CUDA has begun does not outlive a fork,
 * and an access that is not allowed ends all of it in a process: tests run in processes of their
 * own, and each asks for the GPU itself. */
#ifndef TESTS_ON_GPU_H
#define TESTS_ON_GPU_H

#include "exec/backend.h"

/* The backend; NULL where it has no GPU. */
const struct backend *on_gpu_backend(struct err *err);

/* The same of a process of its own; where there is none it says why. */
bool on_gpu_is_there(void);

/* What function(argument) returns in a process of its own, which has so many seconds; where it ends
 * otherwise it says how, and returns false. */
bool on_gpu_alone(const char *what, unsigned seconds, bool (*function)(const char *),
                  const char *argument);

#endif
