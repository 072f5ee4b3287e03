#include "exec/ops/saved.h"

enum { ALIGNMENT = 64 };

static size_t aligned(double bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct slot place(struct saved_layout *layout, bool is_replayed, double bytes)
{
    size_t *end = is_replayed ? &layout->replayed_bytes : &layout->kept_bytes;
    struct slot slot = { *end, true, is_replayed };
    *end += aligned(bytes);
    return slot;
}

/* Whether a value, kept last by `op`, is in the replayed block. */
static bool is_replayed(const struct ops *forward, const struct op *op, int value,
                        enum keeping keeping)
{
    if (keeping == KEEP_ALL_BUT_CORE)
        return op_remakes(forward, op, value);
    return keeping == KEEP_INPUT || keeping == KEEP_NOTHING;
}

struct saved_layout saved_layout_of(const struct ops *forward, enum keeping keeping,
                                    size_t checkpoint_bytes, struct arena *arena)
{
    size_t count = (size_t)forward->operands->num_values;
    struct saved_layout layout = { .slots = ARENA_ARRAY(arena, struct slot, count) };
    if (keeping == KEEP_INPUT)
        layout.checkpoint = place(&layout, false, (double)checkpoint_bytes).offset;
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        for (int j = 0; j < op->saved.count; j++) {
            int id = op->saved.at[j];
            const struct op_value *value = &forward->operands->values[id];
            if (!value->is_live && op_keeps_last(forward, op, id))
                layout.slots[id] =
                    place(&layout, is_replayed(forward, op, id, keeping), value->bytes);
        }
    }
    return layout;
}
