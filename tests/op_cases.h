/* tests/op_cases.h - every op of kernels/host/args.h on awkward shapes and fresh random inputs:
 * what a backend makes of them, held against what the host does.
 *
 * The host computes each case twice: in fp32 from the very inputs, and as the case is stored. The
 * backend's root mean square error may be 1.5 times that of the host's stored result (and a
 * little), and no row may be off by more than a few roundings of its largest value and twice what
 * the host is off by anywhere, so that a missing row can't hide. Outputs hold NaN before, and a
 * second run gives the same bits. */
#ifndef TESTS_OP_CASES_H
#define TESTS_OP_CASES_H

#include "kernels/host/args.h"
#include "models/op.h"

#include <stddef.h>

/* Where ops run: memory of its own, and every op, run to its end; OP_RUNS are its members where its
 * functions are called run_NAME. */
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

/* Memory of the host, for backends that run there. */
void *op_host_copy_in(void *self, const void *from, size_t bytes);
void op_host_copy_out(void *self, void *to, const void *from, size_t bytes);
void op_host_release(void *self, void *memory);

/* Every case in every type that values are stored as, one type after another. */
int op_case_count(void);
enum dtype op_case_storage(int index);
const char *op_case_name(int index); /* the op's; several cases have one */

/* `self` runs values that are stored as the case wants it. Ends the test at the first difference,
 * with the seed of the inputs: SEED=n in the environment brings it back. */
void op_case_check(int index, const struct op_backend *backend);

#endif
