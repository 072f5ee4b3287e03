/* tests/kernels/op_backend.h - a backend (implementation of the ops) under test. */
#ifndef TESTS_KERNELS_OP_BACKEND_H
#define TESTS_KERNELS_OP_BACKEND_H

#include "kernels/host/args.h"

#include <stddef.h>

/* Memory functions, and a function per op that runs it to its end. OP_RUNS initialises these
 * members if the functions are named run_NAME. */
struct op_backend {
    const char *name;
    void *self;
    void *(*copy_in)(void *self, const void *from, size_t bytes);
    void (*copy_out)(void *self, void *to, const void *from, size_t bytes);
    void (*release)(void *self, void *memory);
    size_t (*flash_scratch_bytes)(void *self, const struct attention *attention);
#define X(name, args) void (*name)(void *self, const struct args *args);
    KERNELS(X)
    EXCHANGE_KERNELS(X)
#undef X
};

#define OP_RUN(name, args) .name = run_##name,
#define OP_RUNS            KERNELS(OP_RUN) EXCHANGE_KERNELS(OP_RUN)

/* Host memory, for backends that run on the host. */
void *op_host_copy_in(void *self, const void *from, size_t bytes);
void op_host_copy_out(void *self, void *to, const void *from, size_t bytes);
void op_host_release(void *self, void *memory);

#endif
