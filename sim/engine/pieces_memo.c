#include "sim/engine/pieces_memo.h"

#include "sim/cost/network.h"
#include "sim/plan/layout.h"

#include <string.h>

/* What pieces_cost depends on. */
struct pieces_key {
    int tp, cp, microbatch, attention, precision, gradient_dtype, tensor_stride;
    int context_comm, context_stride;
    bool sp, overlap_tp, has_one_stage, splits;
};

/* All that the strides are there for. */
struct wires {
    struct comm_group tensor, context, context_pair;
};

struct known_pieces {
    struct pieces_key key;
    struct wires wires;
    const struct pieces *pieces;
    struct known_pieces *older;           /* of the same bucket with strides */
    struct known_pieces *older_elsewhere; /* without them, of those that own their pieces */
};

static struct pieces_key pieces_key(const struct stack *stack, const struct plan *plan,
                                    const struct generator *generator)
{
    struct pieces_key key;
    memset(&key, 0, sizeof key); /* padding is compared too */
    key.tp = plan->tp;
    key.microbatch = plan->microbatch;
    key.attention = plan->attention;
    key.precision = plan->precision;
    key.gradient_dtype = plan->gradient_dtype;
    key.tensor_stride = layout_stride(plan, AXIS_TENSOR);
    key.cp = plan->cp;
    key.context_comm = plan->context_comm;
    key.context_stride = layout_stride(plan, AXIS_CONTEXT);
    key.sp = plan->sp;
    key.overlap_tp = plan_overlaps(plan, stack, OVERLAP_TP);
    key.has_one_stage = plan->pp == 1;
    key.splits = generator_splits(generator);
    return key;
}

static struct wires wires_of(const struct system *system, const struct plan *plan)
{
    return (struct wires){ .tensor = network_axis_group(system, plan, AXIS_TENSOR),
                           .context = network_axis_group(system, plan, AXIS_CONTEXT),
                           .context_pair = network_axis_pair(system, plan, AXIS_CONTEXT) };
}

static bool are_alike(const struct wires *a, const struct wires *b)
{
    return comm_groups_are_alike(&a->tensor, &b->tensor) &&
           comm_groups_are_alike(&a->context, &b->context) &&
           comm_groups_are_alike(&a->context_pair, &b->context_pair);
}

/* Other strides often lead over the same wires. NULL: none that is known does. */
static const struct pieces *over_same_wires(const struct known_pieces *known, struct pieces_key key,
                                            const struct wires *wires)
{
    for (; known; known = known->older_elsewhere) {
        key.tensor_stride = known->key.tensor_stride;
        key.context_stride = known->key.context_stride;
        if (memcmp(&known->key, &key, sizeof key) == 0 && are_alike(&known->wires, wires))
            return known->pieces;
    }
    return NULL;
}

const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator)
{
    struct pieces_key key = pieces_key(&system->stack, plan, generator);
    int any_stride =
        (key.tp * 31 + key.cp * 11 + key.microbatch * 7 + key.sp) & (NUM_PIECES_BUCKETS - 1);
    unsigned strides = (unsigned)key.tensor_stride * 2654435761U + (unsigned)key.context_stride;
    int bucket = (any_stride ^ (int)(strides * 2654435761U >> 20)) & (NUM_PIECES_BUCKETS - 1);
    for (struct known_pieces *k = memo->known[bucket]; k; k = k->older)
        if (memcmp(&k->key, &key, sizeof key) == 0)
            return k->pieces;
    struct known_pieces *found = ARENA_NEW(&memo->arena, struct known_pieces);
    found->key = key;
    found->wires = wires_of(system, plan);
    found->pieces = over_same_wires(memo->wired[any_stride], key, &found->wires);
    if (!found->pieces) {
        struct pieces *pieces = ARENA_NEW(&memo->arena, struct pieces);
        *pieces = pieces_cost(system, model, plan, &memo->arena);
        found->pieces = pieces;
        found->older_elsewhere = memo->wired[any_stride];
        memo->wired[any_stride] = found;
    }
    found->older = memo->known[bucket];
    memo->known[bucket] = found;
    return found->pieces;
}

void pieces_memo_release(struct pieces_memo *memo)
{
    arena_release(&memo->arena);
}
