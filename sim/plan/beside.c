/* Reorders the ops of a block so that the shared expert overlaps the exchanges of routed experts'
 * rows. */
#include "sim/plan/beside.h"

/* The ops from `first` to `end`, without `end`. */
struct run {
    int first, end;
};

static bool is_exchange(const struct op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_EXPERT;
}

/* The consecutive exchanges from op `from` on; an empty run if there are none. */
static struct run exchanges_from(const struct ops *ops, int from)
{
    struct run run = { from, from };
    while (run.first < ops->count && !is_exchange(&ops->at[run.first]))
        run.first++;
    for (run.end = run.first; run.end < ops->count && is_exchange(&ops->at[run.end]);)
        run.end++;
    return run;
}

static struct run shared_of(const struct ops *ops)
{
    struct run run = { 0, 0 };
    while (run.first < ops->count && ops->at[run.first].region != REGION_SHARED_EXPERT)
        run.first++;
    for (run.end = run.first;
         run.end < ops->count && ops->at[run.end].region == REGION_SHARED_EXPERT;)
        run.end++;
    return run;
}

/* A list in a new order. An op waits for the same op as before, at its new place. */
struct reordering {
    const struct ops *from;
    struct ops to;
    int *place; /* indices in `to` */
};

static void append(struct reordering *r, int first, int end)
{
    for (int i = first; i < end; i++) {
        r->place[i] = r->to.count;
        r->to.at[r->to.count++] = r->from->at[i];
    }
}

static struct reordering begin(const struct ops *ops, struct arena *arena)
{
    struct reordering r = { .from = ops, .to = *ops };
    r.to.at = ARENA_ARRAY(arena, struct op, (size_t)ops->count);
    r.place = ARENA_ARRAY(arena, int, (size_t)ops->count);
    r.to.count = 0;
    return r;
}

/* Makes `op` wait for `after` instead; both are indices of the old list. */
static struct ops end_with(struct reordering *r, int op, int after)
{
    for (int i = 0; i < r->to.count; i++)
        if (r->to.at[i].after >= 0)
            r->to.at[i].after = r->place[r->to.at[i].after];
    r->to.at[r->place[op]].after = after < 0 ? -1 : r->place[after];
    return r->to;
}

struct ops shared_beside_rows(struct ops forward, struct arena *arena)
{
    struct run shared = shared_of(&forward);
    struct run sent = exchanges_from(&forward, 0), back = exchanges_from(&forward, sent.end);
    if (shared.first == shared.end || back.first == back.end || shared.first < back.end)
        return forward;
    int half = shared.first;
    while (half < shared.end && forward.at[half].kind != OP_ACTIVATION)
        half++;
    half += half < shared.end;
    struct reordering r = begin(&forward, arena);
    append(&r, 0, sent.end);
    append(&r, shared.first, half);
    append(&r, sent.end, back.end);
    append(&r, half, shared.end);
    append(&r, back.end, shared.first);
    append(&r, shared.end, forward.count);
    return end_with(&r, shared.first, sent.first - 1);
}

struct ops shared_beside_gradients(struct ops backward, struct arena *arena)
{
    struct run shared = shared_of(&backward);
    struct run sent = exchanges_from(&backward, shared.end),
               back = exchanges_from(&backward, sent.end);
    if (shared.first == shared.end || back.first == back.end || sent.first == shared.end)
        return backward;
    int half = shared.end;
    while (half > shared.first && backward.at[half - 1].kind != OP_ACTIVATION)
        half--;
    struct reordering r = begin(&backward, arena);
    append(&r, 0, shared.first);
    append(&r, shared.end, sent.end);
    append(&r, shared.first, half);
    append(&r, sent.end, back.end);
    append(&r, half, shared.end);
    append(&r, back.end, backward.count);
    return end_with(&r, shared.end, shared.first - 1);
}
