/* How long the values of an op list (sequence of operations) live, derived from the ops that read
 * them. */
#include "exec/ops/lifetime.h"

static void read_by(const struct op *op, int i, struct last_reader *last)
{
    for (int j = 0; j < op->in.count; j++)
        last->of[op->in.at[j]] = (short)i;
    for (int j = 0; j < MAX_SUMS; j++)
        if (op->sum[j] != NO_ID)
            last->of[op->sum[j]] = (short)i;
}

/* For each value, the op that reads it last. With `in_halves`, all input gradients run before
 * weight gradients. */
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
            read_by(op, i, &last);
        }
    return last;
}

struct last_reader last_reader_again(const struct ops *list, const bool *is_again)
{
    struct last_reader last;
    for (int i = 0; i < MAX_VALUES; i++)
        last.of[i] = -1;
    for (int i = 0; i < list->count; i++)
        if (is_again[i])
            read_by(&list->at[i], i, &last);
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
