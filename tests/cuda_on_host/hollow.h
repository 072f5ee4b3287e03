/* tests/cuda_on_host/hollow.h - GPUs that compute nothing: with SIMSEARCH_HOLLOW_GPUS=1 in the
 * environment, kernels, products and long copies are skipped but take about a GPU's time on their
 * stream. On host threads, a GPU calibration would take days. */
#ifndef TESTS_CUDA_ON_HOST_HOLLOW_H
#define TESTS_CUDA_ON_HOST_HOLLOW_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

bool hollow_is_on(void);

/* Waits on the stream's thread for the time that a kernel with `num_threads` threads would take. */
void hollow_kernel(double num_threads);
void hollow_product(double num_flops);
/* Takes the time that a GPU's copy would take. False: the copy must really be made. */
bool hollow_copy(size_t bytes);

/* The clock of the calling thread's stream, which may be ahead of the machine's clock. */
double hollow_now_s(void);
/* Waits until the machine's clock has reached the stream's clock. */
void hollow_rest(void);

/* Allocates memory of any size; it is never touched. */
void *hollow_alloc(size_t bytes);
void hollow_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
