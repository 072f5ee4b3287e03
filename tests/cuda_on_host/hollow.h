/* tests/cuda_on_host/hollow.h - GPUs that compute nothing: with SIMSEARCH_HOLLOW_GPUS=1 in the
 * environment kernels, products and long copies are left out, and take on their stream about the
 * time that a GPU would. What a calibration asks of GPUs would take the threads of a host days. */
#ifndef TESTS_CUDA_ON_HOST_HOLLOW_H
#define TESTS_CUDA_ON_HOST_HOLLOW_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

bool hollow_is_on(void);

/* Of a stream's work, on its thread: so long it takes. */
void hollow_kernel(double num_threads);
void hollow_product(double num_flops);
bool hollow_copy(size_t bytes); /* false: it is to be made */

/* The clock of the stream whose thread this is; it may be ahead of the machine's. */
double hollow_now_s(void);
/* Until the machine's has come up with it. */
void hollow_rest(void);

/* Of any size, as nobody touches it. */
void *hollow_alloc(size_t bytes);
void hollow_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
