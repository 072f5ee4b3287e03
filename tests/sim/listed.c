#include "tests/sim/listed.h"

#include "tests/testing.h"

#include <string.h>

static double values_bytes(const struct operands *operands, const struct ids *ids)
{
    double bytes = 0;
    for (int i = 0; i < ids->count; i++)
        bytes += operands->values[ids->at[i]].bytes;
    return bytes;
}

static double weights_bytes(const struct operands *operands, const struct ids *ids)
{
    double bytes = 0;
    for (int i = 0; i < ids->count; i++)
        bytes += 4 * operands->weights[ids->at[i]].rows * operands->weights[ids->at[i]].columns;
    return bytes;
}

static struct op whole_op(const struct op *listed, const struct operands *operands, int after)
{
    struct op op = *listed;
    bool is_product = op.kind == OP_GEMM;
    double bytes = values_bytes(operands, &op.in) + values_bytes(operands, &op.out);
    op.variant = "";
    op.dtype = DTYPE_FP32;
    for (int i = 0; i < MAX_SUMS; i++)
        op.sum[i] = NO_ID;
    op.after = after;
    op.batch = op.batch > 0 ? op.batch : 1;
    op.kernels = op.backward_kernels = 1;
    op.bytes = bytes + weights_bytes(operands, &op.weights);
    if (is_product)
        op.flops = op.model_flops = 2 * op.batch * op.m * op.n * op.k;
    else if (op.kind == OP_FLASH_ATTENTION)
        op.flops = op.model_flops = 4 * op.batch * op.m * op.n * op.k;
    if (!is_product)
        op.backward_bytes = bytes + values_bytes(operands, &op.saved);
    return op;
}

struct ops listed_ops(const struct listed *listed, struct arena *arena)
{
    struct ops ops = { .at = ARENA_ARRAY(arena, struct op, (size_t)listed->num_ops),
                       .count = listed->num_ops,
                       .operands = ARENA_NEW(arena, struct operands),
                       .input = listed->input,
                       .output = listed->output,
                       .aside = listed->aside };
    for (int i = 0; i < listed->num_values; i++)
        ck_assert_int_eq(operands_add_value(ops.operands, listed->values[i]), i);
    for (int i = 0; i < listed->num_weights; i++)
        ck_assert_int_eq(operands_add_weight(ops.operands, listed->weights[i]), i);
    for (int i = 0; i < listed->num_ops; i++)
        ops.at[i] = whole_op(&listed->ops[i], ops.operands, i - 1);
    return ops;
}
