#include "sim/engine/pieces_memo.h"

#include "sim/plan/layout.h"

#include <string.h>

/* What pieces_cost depends on. */
struct pieces_key {
    int tp, cp, microbatch, attention, precision, gradient_dtype, tensor_stride;
    int context_comm, context_stride;
    bool sp, overlap_tp, has_one_stage, splits;
};

struct known_pieces {
    struct pieces_key key;
    struct pieces pieces;
    struct known_pieces *older;
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

const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator)
{
    struct pieces_key key = pieces_key(&system->stack, plan, generator);
    int bucket =
        (key.tp * 31 + key.cp * 11 + key.microbatch * 7 + key.sp) & (NUM_PIECES_BUCKETS - 1);
    for (struct known_pieces *k = memo->known[bucket]; k; k = k->older)
        if (memcmp(&k->key, &key, sizeof key) == 0)
            return &k->pieces;
    struct known_pieces *found = ARENA_NEW(&memo->arena, struct known_pieces);
    found->key = key;
    found->pieces = pieces_cost(system, model, plan, &memo->arena);
    found->older = memo->known[bucket];
    memo->known[bucket] = found;
    return &found->pieces;
}

void pieces_memo_release(struct pieces_memo *memo)
{
    arena_release(&memo->arena);
}
