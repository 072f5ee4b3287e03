#include "tests/exec/op_lists.h"
#include "sim/cost/unfused.h"

#include "tests/testing.h"

#include <string.h>

const struct layer_options layer_flash = {
    .flash_attention = true, .unfused = &unfused_usual, .dtype = DTYPE_BF16, .gradient_bytes = 4
};
const struct layer_options layer_unfused = { .unfused = &unfused_usual,
                                             .dtype = DTYPE_BF16,
                                             .gradient_bytes = 4 };

build_fn *const builders[NUM_BUILDERS] = { layer_forward, embedding_forward, head_forward,
                                           later_forward };

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
    ck_abort_msg("there is no op %s", name);
    return NULL;
}

int op_index(struct ops ops, const char *name, enum op_kind kind, enum op_pass pass)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0 && ops.at[i].kind == kind && ops.at[i].pass == pass)
            return i;
    ck_abort_msg("there is no op %s", name);
    return -1;
}

const struct op *gradient_product(struct ops backward, const char *name, enum op_pass pass)
{
    return &backward.at[op_index(backward, name, OP_GEMM, pass)];
}

static bool is_from_before(struct ops forward, int value)
{
    return value == forward.input || ids_have(&forward.aside, value) ||
           forward.operands->values[value].form == VALUE_IDS;
}

static void check_reads(struct ops ops, const struct op *op, const bool *there)
{
    for (int i = 0; i < op->in.count; i++)
        ck_assert_msg(there[op->in.at[i]],
                      "op %s (pass %d, kind %s): operand %d, value %d, does not exist yet",
                      op->name, (int)op->pass, op_kind_infos[op->kind].text, i, op->in.at[i]);
    for (int i = 0; i < MAX_SUMS; i++)
        ck_assert(op->sum[i] == NO_ID || there[op->sum[i]]);
    for (int i = 0; i < op->weights.count; i++)
        ck_assert_int_lt(op->weights.at[i], ops.operands->num_weights);
}

static void check_makes(struct ops ops, const struct op *op, bool *there)
{
    for (int i = 0; i < op->out.count; i++) {
        ck_assert_msg(!there[op->out.at[i]], "op %s computes value %d a second time", op->name,
                      op->out.at[i]);
        ck_assert_double_gt(ops.operands->values[op->out.at[i]].bytes, 0);
        there[op->out.at[i]] = true;
    }
}

static void check_list(struct ops ops, bool *there)
{
    for (int i = 0; i < ops.count; i++) {
        check_reads(ops, &ops.at[i], there);
        check_makes(ops, &ops.at[i], there);
    }
    ck_assert(ops.output == NO_ID || there[ops.output]);
}

void check_operands(struct ops forward, struct ops backward)
{
    bool there[MAX_VALUES] = { false }, kept[MAX_VALUES] = { false };
    for (int i = 0; i < forward.operands->num_values; i++)
        there[i] = is_from_before(forward, i);
    check_list(forward, there);
    for (int i = 0; i < forward.count; i++)
        for (int j = 0; j < forward.at[i].saved.count; j++) {
            ck_assert(there[forward.at[i].saved.at[j]]);
            kept[forward.at[i].saved.at[j]] = true;
        }
    if (backward.input != NO_ID)
        kept[backward.input] = true;
    check_list(backward, kept);
    for (int i = 0; i < backward.count; i++)
        ck_assert_int_eq(backward.at[i].saved.count, 0);
}

double activation_bytes(struct ops forward, bool selective)
{
    double bytes = 0;
    for (int i = 0; i < forward.count; i++) {
        const struct op *op = &forward.at[i];
        bytes += op_saved_bytes(&forward, op) - (selective ? op_replayed_bytes(&forward, op) : 0);
    }
    return bytes;
}
