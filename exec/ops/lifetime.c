#include "exec/ops/lifetime.h"

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

/* The reader that runs last; with `in_halves`, all input gradients run before weight gradients. */
static struct last_reader last_reader_of(const struct ops *list, bool in_halves)
{
    struct last_reader last;
    for (int i = 0; i < MAX_VALUES; i++)
        last.of[i] = -1;
    for (int half = 0; half < (in_halves ? 2 : 1); half++)
        for (int i = 0; i < list->count; i++) {
            const struct op *op = &list->at[i];
            if (in_halves && (op->pass == PASS_BACKWARD_WEIGHT) != (half == 1))
                continue;
            for (int j = 0; j < op->in.count; j++)
                last.of[op->in.at[j]] = (short)i;
            for (int j = 0; j < MAX_SUMS; j++)
                if (op->sum[j] != NO_ID)
                    last.of[op->sum[j]] = (short)i;
        }
    return last;
}

static void find_places(const struct ops *list, struct lifetimes *out)
{
    for (int i = 0; i < MAX_VALUES; i++)
        out->place[i] = (short)i;
    for (int i = list->count - 1; i >= 0; i--)
        if (op_is_in_place(list, &list->at[i]))
            out->place[list->at[i].in.at[0]] = out->place[list->at[i].out.at[0]];
}

struct lifetimes lifetimes_of(const struct local_ops *ops)
{
    struct lifetimes out = { .forward = last_reader_of(&ops->forward, false),
                             .backward = last_reader_of(&ops->backward, false),
                             .halves = last_reader_of(&ops->backward, true) };
    for (int i = 0; i < ops->forward.count; i++)
        for (int j = 0; j < ops->forward.at[i].saved.count; j++)
            out.is_kept[ops->forward.at[i].saved.at[j]] = true;
    find_places(&ops->forward, &out);
    return out;
}
