/* tests/cuda_on_host/runtime.h - CUDA streams as host threads, for the headers and libraries in
 * this folder.
 *
 * Work of a stream runs in the order of issue, on the stream's thread, asynchronously; on the NULL
 * stream it has run when the call returns. */
#ifndef TESTS_CUDA_ON_HOST_RUNTIME_H
#define TESTS_CUDA_ON_HOST_RUNTIME_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs function(args) on a copy of the `size` bytes at `args`, aligned for any type. */
cudaError_t runtime_issue(cudaStream_t stream, void (*function)(void *args), const void *args,
                          size_t size);

/* Waits until all streams of the calling thread's GPU are empty. */
void runtime_wait_for_device(void);

/* Call it before a kernel's launch. At the first launch the kernel is loaded, for which a GPU may
 * wait for all streams, as this function does. */
void runtime_load(uint64_t kernel);

/* Called by a stream's work: the stream's later events appear `ms` later. */
void runtime_add_ms(double ms);

/* Whether the calling thread captures a stream. */
bool runtime_captures(void);

/* Set by tests: every GPU is out of memory. */
extern bool runtime_memory_is_full;
extern size_t runtime_most_bytes; /* largest allocation on a GPU, in bytes; 0: no limit */

#ifdef __cplusplus
}
#endif

#endif
