/* Sorts the passes of all stages so that each pass follows those whose results it needs. A pair is
 * a forward and a backward that run as one unit (sim/schedule/instr.h). */
#include "sim/engine/order.h"

#include <assert.h>

/* The progress of sorting. */
struct sorter {
    struct order *order;
    const struct schedule *schedule;
    bool pairs;                /* whether the schedule pairs forwards with backwards */
    int *next;                 /* per stage: first instruction not yet sorted */
    int *sorted[CHUNK_PASSES]; /* per stage: number of sorted passes of each kind */
    int *done_at; /* per chunk, microbatch and direction: index in ops plus 1; 0: not sorted yet */
};

static enum chunk_pass pass_of(const struct instr *instr)
{
    if (instr->op == INSTR_FORWARD)
        return CHUNK_FORWARD;
    return instr_starts_backward(instr->op) ? CHUNK_BACKWARD : CHUNK_WEIGHT;
}

static int *done_slot(const struct sorter *s, int chunk, int microbatch, bool backward)
{
    int microbatches = s->order->shape.num_microbatches;
    return &s->done_at[(chunk * microbatches + microbatch) * 2 + (backward ? 1 : 0)];
}

/* The index of the lag before a pass: the boundary that its input crosses, order_turn or order_last
 * (order.h). NO_BOUNDARY: it needs nothing from another stage. */
static int boundary_before(const struct sorter *s, const struct instr *instr)
{
    struct placement placement = schedule_placement(s->schedule);
    bool backward = instr_starts_backward(instr->op);
    if (instr->op == INSTR_BACKWARD_WEIGHT ||
        (backward ? placement_has_head(placement, instr->chunk)
                  : placement_has_embedding(placement, instr->chunk)))
        return NO_BOUNDARY;
    int before = instr->chunk - !backward;
    int boundary = placement_boundary(placement, before);
    if (boundary == NO_BOUNDARY)
        return s->pairs ? order_turn(&s->order->shape) : boundary;
    bool is_last = placement.chunks_per_stage > 1 && before + 2 == placement_chunks(placement);
    return is_last ? order_last(&s->order->shape) : boundary;
}

/* Index plus 1 of the op on another stage that `instr` waits for: that of the same microbatch in
 * the previous chunk (forward) or the next one (backward). 0: not sorted yet. */
static int needed(const struct sorter *s, const struct instr *instr)
{
    bool backward = instr_starts_backward(instr->op);
    return *done_slot(s, instr->chunk + (backward ? 1 : -1), instr->microbatch, backward);
}

static int slot_of(const struct sorter *s, const struct instr *instr)
{
    const struct schedule_shape *shape = &s->order->shape;
    if (instr->is_paired)
        return instr->op == INSTR_FORWARD ? order_empty_slot(shape)
                                          : order_pair_slot(shape, instr->chunk);
    if (s->pairs && instr->op == INSTR_BACKWARD)
        return order_whole_slot(shape, instr->chunk);
    return CHUNK_PASSES * instr->chunk + (int)pass_of(instr);
}

/* A pair of a forward and a backward ends with its backward, which is the next instruction. Ops
 * that need its forward wait for that end. */
static void keep_done(struct sorter *s, const struct instr *instr, int index)
{
    if (instr->is_paired && instr->op == INSTR_FORWARD)
        return;
    *done_slot(s, instr->chunk, instr->microbatch, pass_of(instr) == CHUNK_BACKWARD) = index + 1;
    if (instr->is_paired)
        *done_slot(s, instr[-1].chunk, instr[-1].microbatch, false) = index + 1;
}

static void sort_one(struct sorter *s, int stage, const struct instr *instr, int from, int boundary)
{
    struct order *order = s->order;
    enum chunk_pass pass = pass_of(instr);
    int index = order->count++;
    order->ops[index] = (struct order_op){
        .stage = stage, .slot = slot_of(s, instr), .from = from, .boundary = boundary
    };
    if (pass != CHUNK_WEIGHT)
        keep_done(s, instr, index);
    order->at[pass][stage * order->per_stage + s->sorted[pass][stage]++] = index;
}

/* Sorts all ready ops of a stage; false if there were none. */
static bool sort_stage(struct sorter *s, int stage)
{
    const struct instrs *list = &s->schedule->ranks[stage];
    int before = s->next[stage];
    for (; s->next[stage] < list->count; s->next[stage]++) {
        const struct instr *instr = &list->at[s->next[stage]];
        int boundary = boundary_before(s, instr);
        int from = boundary == NO_BOUNDARY ? -1 : needed(s, instr);
        if (from == 0)
            break;
        sort_one(s, stage, instr, from > 0 ? from - 1 : -1, boundary);
    }
    return s->next[stage] > before;
}

/* Sweeps down the pipeline, as forwards go, and up, as backwards do, so that each sweep advances
 * many stages. */
static void sort_stages(struct sorter *s)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < s->order->shape.num_stages; stage++)
            moved |= sort_stage(s, stage);
        for (int stage = s->order->shape.num_stages - 1; stage >= 0; stage--)
            moved |= sort_stage(s, stage);
    }
}

/* Number of forwards before a stage's first backward, without the forward that is in the same round
 * as that backward. */
static int count_warmup(const struct instrs *list)
{
    int forwards = 0;
    while (forwards < list->count && list->at[forwards].op == INSTR_FORWARD)
        forwards++;
    return forwards > 0 ? forwards - 1 : 0;
}

/* Number of backwards before a stage's first weight pass, without the backward that is in the same
 * round. */
static int count_put_off(const struct instrs *list)
{
    int backwards = 0;
    for (int i = 0; i < list->count && list->at[i].op != INSTR_BACKWARD_WEIGHT; i++)
        backwards += list->at[i].op == INSTR_BACKWARD_INPUT;
    return backwards > 0 ? backwards - 1 : 0;
}

static int passes_of(const struct order *order)
{
    return order->is_split ? CHUNK_PASSES : CHUNK_PASSES - 1;
}

static struct order *order_empty(const struct generator *generator,
                                 const struct schedule_shape *shape, struct arena *arena)
{
    struct order *order = ARENA_NEW(arena, struct order);
    size_t stages = (size_t)shape->num_stages;
    order->shape = *shape;
    order->per_stage = shape->chunks_per_stage * shape->num_microbatches;
    order->is_split = generator_splits(generator);
    size_t passes = stages * (size_t)order->per_stage;
    order->ops = ARENA_ARRAY(arena, struct order_op, (size_t)passes_of(order) * passes);
    for (int pass = 0; pass < passes_of(order); pass++)
        order->at[pass] = ARENA_ARRAY(arena, int, passes);
    order->warmup = ARENA_ARRAY(arena, int, stages);
    order->put_off = ARENA_ARRAY(arena, int, stages);
    return order;
}

struct order *order_new(const struct generator *generator, const struct schedule_shape *shape,
                        struct arena *arena)
{
    struct err ignored = { 0 };
    struct order *order = order_empty(generator, shape, arena);
    struct arena_mark scratch = arena_mark(arena);
    struct schedule *schedule = schedule_compute_order(generator, shape, arena, &ignored);
    if (!schedule)
        return NULL;
    size_t stages = (size_t)shape->num_stages;
    struct sorter sorter = {
        .order = order,
        .schedule = schedule,
        .pairs = generator->pairs != NULL,
        .next = ARENA_ARRAY(arena, int, stages),
        .done_at = ARENA_ARRAY(arena, int, 2 * stages * (size_t)order->per_stage),
    };
    for (int pass = 0; pass < CHUNK_PASSES; pass++)
        sorter.sorted[pass] = ARENA_ARRAY(arena, int, stages);
    for (int s = 0; s < shape->num_stages; s++) {
        order->warmup[s] = count_warmup(&schedule->ranks[s]);
        if (order->is_split)
            order->put_off[s] = count_put_off(&schedule->ranks[s]);
    }
    sort_stages(&sorter);
    assert(sorter.pairs || order->count == passes_of(order) * shape->num_stages * order->per_stage);
    arena_reset(arena, scratch);
    return order;
}

double order_time(const struct order *order, const double *duration_s, const double *lag_s,
                  double *done_s, double *end_s)
{
    for (int s = 0; s < order->shape.num_stages; s++)
        end_s[s] = 0;
    for (int i = 0; i < order->count; i++) {
        const struct order_op *op = &order->ops[i];
        double start_s = end_s[op->stage];
        if (op->from >= 0 && done_s[op->from] + lag_s[op->boundary] > start_s)
            start_s = done_s[op->from] + lag_s[op->boundary];
        done_s[i] = end_s[op->stage] = start_s + duration_s[op->slot];
    }
    double makespan_s = 0;
    for (int s = 0; s < order->shape.num_stages; s++)
        makespan_s = end_s[s] > makespan_s ? end_s[s] : makespan_s;
    return makespan_s;
}
