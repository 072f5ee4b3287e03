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

/* Waits on the stream's thread for the time of such a kernel. */
void hollow_kernel(double num_threads);
void hollow_product(double num_flops);
bool hollow_copy(size_t bytes); /* false: it is to be made */

/* The clock of the stream whose thread this is; it may be ahead of the machine's. */
double hollow_now_s(void);
/* Until the machine's has come up with it. */
void hollow_rest(void);

/* Memory of any size, as nothing touches it. */
void *hollow_alloc(size_t bytes);
void hollow_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
