#include "tests/op_lists.h"

#include "tests/testing.h"

#include <string.h>

const struct layer_options layer_flash = { .flash_attention = true,
                                           .dtype = DTYPE_BF16,
                                           .gradient_bytes = 4 };
const struct layer_options layer_unfused = { .dtype = DTYPE_BF16, .gradient_bytes = 4 };

build_fn *const builders[NUM_BUILDERS] = { layer_forward, embedding_forward, head_forward };

int count_kind(struct ops ops, enum op_kind kind)
{
    int count = 0;
    for (int i = 0; i < ops.count; i++)
        count += ops.at[i].kind == kind;
    return count;
}

const struct op *op_named(struct ops ops, const char *name)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0)
            return &ops.at[i];
    ck_abort_msg("no %s", name);
    return NULL;
}

int op_index(struct ops ops, const char *name, enum op_kind kind, enum op_pass pass)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0 && ops.at[i].kind == kind && ops.at[i].pass == pass)
            return i;
    ck_abort_msg("no %s", name);
    return -1;
}

const struct op *gradient_product(struct ops backward, const char *name, enum op_pass pass)
{
    return &backward.at[op_index(backward, name, OP_GEMM, pass)];
}

double activation_bytes(struct ops forward, bool selective)
{
    double bytes = 0;
    for (int i = 0; i < forward.count; i++) {
        const struct op *op = &forward.at[i];
        bool is_dropped = selective && op->region == REGION_ATTENTION_CORE;
        bytes += op->saved_input_bytes + (is_dropped ? 0 : op->saved_bytes);
    }
    return bytes;
}
