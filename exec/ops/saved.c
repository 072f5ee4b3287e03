/* Gives each kept value of an op list (sequence of operations) its place in memory. */
#include "exec/ops/saved.h"

#include <assert.h>

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

static bool is_replayed(int value, enum keeping keeping, const struct replay *replay)
{
    if (keeping == KEEP_SOME)
        return replay->kept_of[value] == 0;
    return keeping == KEEP_INPUT || keeping == KEEP_NOTHING;
}

/* Gives slots to values that only the replay (the recomputed ops) reads and that no op saves. */
static void place_inputs_of_replay(struct saved_layout *layout, const struct ops *forward,
                                   const struct replay *replay)
{
    for (int id = 0; id < forward->operands->num_values; id++) {
        const struct op_value *value = &forward->operands->values[id];
        if (replay->kept_of[id] == 0 || layout->slots[id].is_there || value->is_live)
            continue;
        assert(ops_maker(forward, id) >= 0 && "the input of a block is saved by its norm");
        layout->slots[id] = place(layout, false, value->bytes);
    }
}

struct saved_layout saved_layout_of(const struct ops *forward, enum keeping keeping,
                                    const struct replay *replay, size_t checkpoint_bytes,
                                    struct arena *arena)
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
                layout.slots[id] = place(&layout, is_replayed(id, keeping, replay), value->bytes);
        }
    }
    if (keeping == KEEP_SOME)
        place_inputs_of_replay(&layout, forward, replay);
    return layout;
}
