#include "exec/saved.h"

enum { ALIGNMENT = 64 };

static size_t aligned(double bytes)
{
    return ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct slot place(struct saved_layout *layout, bool is_replayed, double bytes)
{
    size_t *end = is_replayed ? &layout->replayed_bytes : &layout->kept_bytes;
    struct slot slot = { *end, is_replayed };
    *end += aligned(bytes);
    return slot;
}

static bool is_replayed(const struct op *op, enum keeping keeping)
{
    return keeping == KEEP_INPUT || keeping == KEEP_NOTHING ||
           (keeping == KEEP_ALL_BUT_CORE && op->region == REGION_ATTENTION_CORE);
}

/* Queries, keys and values lie packed: the scores' inputs and the context's are one tensor. */
static double input_bytes(const struct ops *forward, int i)
{
    double bytes = forward->at[i].saved_input_bytes;
    if (forward->at[i].kind == OP_CONTEXT)
        return 0;
    if (forward->at[i].kind == OP_SCORES)
        for (int j = i + 1; j < forward->count; j++)
            if (forward->at[j].kind == OP_CONTEXT)
                bytes += forward->at[j].saved_input_bytes;
    return bytes;
}

struct saved_layout saved_layout_of(const struct ops *forward, enum keeping keeping,
                                    size_t checkpoint_bytes, struct arena *arena)
{
    size_t count = (size_t)forward->count;
    struct saved_layout layout = { .own = ARENA_ARRAY(arena, struct slot, count),
                                   .folded = ARENA_ARRAY(arena, struct slot, count),
                                   .input = ARENA_ARRAY(arena, struct slot, count) };
    bool drops_inputs = keeping == KEEP_INPUT || keeping == KEEP_NOTHING;
    if (keeping == KEEP_INPUT)
        layout.checkpoint = place(&layout, false, (double)checkpoint_bytes).offset;
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        double own_bytes = op_own_saved_bytes(op);
        layout.own[i] = place(&layout, is_replayed(op, keeping), own_bytes);
        layout.folded[i] = place(&layout, is_replayed(op, keeping), op->saved_bytes - own_bytes);
        layout.input[i] = place(&layout, drops_inputs, input_bytes(forward, i));
    }
    return layout;
}
