/* Functions of ops. A row block is a part of a microbatch's rows over which an op runs at once. The
 * attention core is the ops between the projections to queries, keys and values and the output
 * projection. */
#include "models/op.h"

#include <assert.h>
#include <stddef.h>

const struct op_kind_info op_kind_infos[NUM_OP_KINDS] = {
#define X(name, text, meaning) [OP_##name] = { text, meaning },
    OP_KINDS(X)
#undef X
};

const char *const dtype_names[NUM_DTYPES + 1] = { "fp32", "fp16", "bf16", "fp8", "fp4", NULL };

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
    case DTYPE_FP4:
        return 0.5;
    case NUM_DTYPES:
        break;
    }
    return 0;
}

bool dtype_is_quantized(enum dtype dtype)
{
    return dtype == DTYPE_FP8 || dtype == DTYPE_FP4;
}

bool op_is_collective(enum op_kind kind)
{
    return kind == OP_ALL_REDUCE || kind == OP_ALL_GATHER || kind == OP_REDUCE_SCATTER ||
           kind == OP_ALL_TO_ALL || kind == OP_SEND_RECEIVE;
}

/* Returns the op for one row block. A weight gradient sums over the rows, so its k is the number of
 * rows. */
struct op op_row_block(const struct op *op)
{
    struct op run = *op;
    if (op->row_blocks <= 1)
        return run;
    double *rows = op->kind == OP_GEMM && op->pass == PASS_BACKWARD_WEIGHT ? &run.k : &run.m;
    *rows /= op->row_blocks;
    run.flops /= op->row_blocks;
    run.model_flops /= op->row_blocks;
    run.bytes /= op->row_blocks;
    run.sum_bytes /= op->row_blocks;
    run.comm_bytes /= op->row_blocks;
    run.kernels /= op->row_blocks;
    run.row_blocks = 0;
    return run;
}

bool ids_have(const struct ids *ids, int id)
{
    for (int i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            return true;
    return false;
}

void ids_add(struct ids *ids, int id)
{
    assert(ids->count < MAX_IDS);
    ids->at[ids->count++] = (short)id;
}

int operands_add_value(struct operands *operands, struct op_value value)
{
    assert(operands->num_values < MAX_VALUES);
    operands->values[operands->num_values] = value;
    return operands->num_values++;
}

int operands_add_weight(struct operands *operands, struct op_weight weight)
{
    assert(operands->num_weights < MAX_WEIGHTS);
    operands->weights[operands->num_weights] = weight;
    return operands->num_weights++;
}

int ops_maker(const struct ops *ops, int value)
{
    int i = ops->count - 1;
    while (i >= 0 && !ids_have(&ops->at[i].out, value))
        i--;
    return i;
}

int ops_quantizer(const struct ops *ops, int value)
{
    int maker = ops_maker(ops, value);
    if (maker >= 0 && ops->at[maker].kind == OP_TENSOR_ENTER)
        maker = ops_maker(ops, ops->at[maker].in.at[0]);
    return maker >= 0 && ops->at[maker].kind == OP_QUANTIZE ? maker : -1;
}

bool ops_keep(const struct ops *ops, int value)
{
    for (int i = 0; i < ops->count; i++)
        if (ids_have(&ops->at[i].saved, value))
            return true;
    return false;
}

double value_kept_bytes(const struct op_value *value)
{
    return value->stored_bytes > 0 ? value->stored_bytes : value->bytes;
}

bool op_reads(const struct op *op, int value)
{
    bool is_read = ids_have(&op->in, value);
    for (int i = 0; i < MAX_SUMS; i++)
        is_read |= op->sum[i] == value;
    return is_read;
}

int ops_next_reader(const struct ops *ops, int value, int after)
{
    int i = after + 1;
    while (i < ops->count && !op_reads(&ops->at[i], value))
        i++;
    return i;
}

int ops_readers(const struct ops *ops, int value)
{
    int count = 0;
    for (int i = 0; i < ops->count; i++)
        count += op_reads(&ops->at[i], value);
    return count;
}

bool op_keeps_last(const struct ops *forward, const struct op *op, int value)
{
    for (const struct op *later = op + 1; later < forward->at + forward->count; later++)
        if (ids_have(&later->saved, value))
            return false;
    return true;
}

double op_saved_bytes(const struct ops *forward, const struct op *op)
{
    double bytes = op->kept_bytes;
    for (int i = 0; i < op->saved.count; i++) {
        const struct op_value *value = &forward->operands->values[op->saved.at[i]];
        if (!value->is_live && op_keeps_last(forward, op, op->saved.at[i]))
            bytes += value_kept_bytes(value);
    }
    return bytes;
}

/* Whether recompute of the attention core frees the value that `op` keeps. It does if the core
 * makes the value and only ops of the core keep it; the value counts at the last of these ops. */
static bool op_remakes(const struct ops *forward, const struct op *op, int value)
{
    if (op->region != REGION_ATTENTION_CORE)
        return false;
    int maker = ops_maker(forward, value);
    return maker >= 0 && forward->at[maker].region == REGION_ATTENTION_CORE &&
           op_keeps_last(forward, op, value);
}

double op_replayed_bytes(const struct ops *forward, const struct op *op)
{
    double bytes = op->region == REGION_ATTENTION_CORE ? op->kept_bytes : 0;
    for (int i = 0; i < op->saved.count; i++)
        if (op_remakes(forward, op, op->saved.at[i]))
            bytes += value_kept_bytes(&forward->operands->values[op->saved.at[i]]);
    return bytes;
}

static enum value_form form_of(const struct ops *list, int value)
{
    return list->operands->values[value].form;
}

bool op_is_in_place(const struct ops *list, const struct op *op)
{
    switch (op->kind) {
    case OP_ROTARY:
    case OP_SOFTMAX:
        return true;
    case OP_NORM: /* norm of queries and keys, which are packed with the values */
        return form_of(list, op->in.at[0]) == VALUE_HEADS;
    case OP_ALL_REDUCE: /* except the reduction of a loss's rows */
        return form_of(list, op->out.at[0]) != VALUE_STATISTICS;
    default:
        return false;
    }
}

const struct op_weight *op_weight_of(const struct ops *ops, const struct op *op,
                                     enum weight_role role)
{
    for (int i = 0; i < op->weights.count; i++)
        if (ops->operands->weights[op->weights.at[i]].role == role)
            return &ops->operands->weights[op->weights.at[i]];
    return NULL;
}
