#include "models/op.h"

#include <stddef.h>

const struct op_kind_info op_kind_infos[NUM_OP_KINDS] = {
#define X(name, text, meaning) [OP_##name] = { text, meaning },
    OP_KINDS(X)
#undef X
};

const char *const dtype_names[NUM_DTYPES + 1] = { "fp32", "fp16", "bf16", "fp8", NULL };

double dtype_bytes(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP32:
        return 4;
    case DTYPE_FP16:
    case DTYPE_BF16:
        return 2;
    case DTYPE_FP8:
        return 1;
    case NUM_DTYPES:
        break;
    }
    return 0;
}

bool op_is_collective(enum op_kind kind)
{
    return kind == OP_ALL_REDUCE || kind == OP_ALL_GATHER || kind == OP_REDUCE_SCATTER ||
           kind == OP_ALL_TO_ALL || kind == OP_SEND_RECEIVE;
}

/* Rows are what a weight gradient sums over. */
struct op op_run(const struct op *op)
{
    struct op run = *op;
    if (op->chunks <= 1)
        return run;
    double *rows = op->kind == OP_GEMM && op->pass == PASS_BACKWARD_WEIGHT ? &run.k : &run.m;
    *rows /= op->chunks;
    run.flops /= op->chunks;
    run.model_flops /= op->chunks;
    run.bytes /= op->chunks;
    run.comm_bytes /= op->chunks;
    run.kernels /= op->chunks;
    run.chunks = 0;
    return run;
}

double op_own_saved_bytes(const struct op *op)
{
    return op->saved_bytes - (op->folded ? op->folded->saved_bytes : 0);
}

bool ops_folds_before(const struct ops *forward, int i)
{
    return i > 0 && forward->at[i].kind == OP_GEMM && forward->at[i - 1].kind == OP_GEMM &&
           forward->at[i - 1].folded;
}
