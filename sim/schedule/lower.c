/* Adds messages, gathers and reductions to the order of compute instructions. A slot is one
 * instruction of that order together with its messages. In the lowered list the receive of slot k +
 * 1 comes right before slot k, so it runs during k's compute and never earlier; k's send comes
 * right after k. If the pipeline holds only one microbatch at a time, the receive of slot k + 1
 * depends on k and comes after k's send, because on a GPU a pending receive may delay the first
 * launch of a kernel. The two slots of a pair begin together, so both receives come before the slot
 * in front of the pair, and both sends after it. Every edge thus points to a producer or to an
 * earlier slot, so the lowered lists finish whenever the compute order alone does. */
#include "sim/schedule/schedule.h"

#include <assert.h>

/* Indices in the lowered list; NO_INSTR if the slot has no such instruction. */
struct slot {
    int received; /* the receive that feeds the slot */
    int computed; /* the instruction itself */
};

/* The slots of all forwards, or of all backwards, in order. */
struct passes {
    int *slots;
    int count;
    /* the next one whose receive may be posted early (schedule_lead) and is not in the list yet */
    int next;
};

struct lowerer {
    const struct schedule *schedule;
    const struct schedule_shape *shape;
    struct placement placement;
    const struct lowering *lowering;
    /* whether the pipeline holds one microbatch at a time, so that each slot depends on the one
     * before */
    bool is_chain;
    int stage;
    const struct instrs *order;
    struct instrs out;
    struct slot *slots;
    struct passes forwards, backwards;
    int *backwards_left; /* number of backwards left, per chunk of the stage */
};

static bool is_turned(const struct lowerer *to, int chunk)
{
    return placement_direction(to->placement, placement_round(to->placement, chunk)) ==
           DIRECTION_UP;
}

static struct instr of_chunk(enum opcode op, int chunk)
{
    return (
        struct instr){ .op = op, .chunk = chunk, .microbatch = -1, .peer = -1, .after = NO_INSTR };
}

static struct instr of_stage(enum opcode op)
{
    return of_chunk(op, -1);
}

static int add(struct lowerer *to, struct instr instr, int after)
{
    instr.after = after;
    to->out.at[to->out.count] = instr;
    return to->out.count++;
}

/* Adds the receive of `slot`, which is posted when slot `during` begins and not earlier. */
static int receive_of(struct lowerer *to, int slot, int during)
{
    const struct instr *compute = &to->order->at[slot];
    bool down = compute->op == INSTR_FORWARD;
    if (compute->op == INSTR_BACKWARD_WEIGHT)
        return NO_INSTR;
    if (down ? placement_has_embedding(to->placement, compute->chunk)
             : placement_has_head(to->placement, compute->chunk))
        return NO_INSTR;
    int maker = compute->chunk + (down ? -1 : 1);
    int peer = placement_stage(to->placement, maker);
    if (peer == to->stage)
        return NO_INSTR;
    struct instr receive = {
        .op = down ? INSTR_RECV_ACT : INSTR_RECV_GRAD,
        .chunk = maker,
        .microbatch = compute->microbatch,
        .peer = peer,
        .is_turned = is_turned(to, maker),
    };
    return add(to, receive, during < 1 ? NO_INSTR : to->slots[during - 1].computed);
}

static int lead_of(const struct lowerer *to, int slot)
{
    return schedule_lead(to->schedule, to->stage, &to->order->at[slot]);
}

static void add_receive(struct lowerer *to, int slot, int during)
{
    if (slot < to->order->count && lead_of(to, slot) == 0)
        to->slots[slot].received = receive_of(to, slot, during);
}

/* Adds the receives that must be posted during a slot, several slots before their passes
 * (schedule_lead). */
static void add_leading(struct lowerer *to, int during, struct passes *passes)
{
    for (; passes->next < passes->count; passes->next++) {
        int fed = passes->slots[passes->next];
        int lead = lead_of(to, fed);
        int beside = passes->next - 1 - lead;
        if (lead == 0 || beside < 0)
            continue;
        if (passes->slots[beside] > during)
            return;
        to->slots[fed].received = receive_of(to, fed, during);
    }
}

static void find_passes(struct lowerer *to)
{
    to->forwards.count = to->forwards.next = to->backwards.count = to->backwards.next = 0;
    for (int slot = 0; slot < to->order->count; slot++) {
        struct passes *passes = to->order->at[slot].op == INSTR_FORWARD         ? &to->forwards
                                : instr_starts_backward(to->order->at[slot].op) ? &to->backwards
                                                                                : NULL;
        if (passes)
            passes->slots[passes->count++] = slot;
        to->slots[slot].received = NO_INSTR;
    }
}

/* Whether a slot is the second of a pair and so begins together with the one before. */
static bool joins(const struct lowerer *to, int slot)
{
    const struct instr *compute = &to->order->at[slot];
    return compute->is_paired && compute->op == INSTR_BACKWARD;
}

/* Adds the receives of the next slot, or of both slots if it begins a pair. */
static void add_next_receives(struct lowerer *to, int present)
{
    int next = present + 1;
    if (next < to->order->count && joins(to, next))
        return; /* the receives of the pair's second slot are already in the list */
    add_receive(to, next, present);
    if (next + 1 < to->order->count && joins(to, next + 1))
        add_receive(to, next + 1, present);
}

/* Adds recompute, if there is any, and the pass. Recompute starts when the gradient has arrived, as
 * in Megatron, where it is part of the backward. */
static void add_compute(struct lowerer *to, int slot)
{
    struct instr compute = to->order->at[slot];
    struct slot *at = &to->slots[slot];
    int after = at->received;
    if (instr_starts_backward(compute.op) && to->lowering->recompute) {
        struct instr recompute = compute;
        recompute.op = INSTR_RECOMPUTE;
        recompute.is_paired = false;
        add(to, recompute, after);
        after = NO_INSTR;
    }
    at->computed = add(to, compute, after);
}

/* Adds the send of `slot`; it starts when slot `after` has finished. */
static void add_send(struct lowerer *to, int slot, int after)
{
    struct instr send = to->order->at[slot];
    bool down = send.op == INSTR_FORWARD;
    if (send.op == INSTR_BACKWARD_WEIGHT)
        return;
    if (down ? placement_has_head(to->placement, send.chunk)
             : placement_has_embedding(to->placement, send.chunk))
        return;
    send.peer = placement_stage(to->placement, send.chunk + (down ? 1 : -1));
    if (send.peer == to->stage)
        return;
    send.op = down ? INSTR_SEND_ACT : INSTR_SEND_GRAD;
    send.is_turned = is_turned(to, send.chunk);
    send.is_paired = false;
    add(to, send, to->slots[after].computed);
}

static void add_sends(struct lowerer *to, int slot)
{
    if (joins(to, slot))
        add_send(to, slot - 1, slot);
    else if (to->order->at[slot].is_paired)
        return; /* the send is added after the second slot of the pair */
    add_send(to, slot, slot);
}

/* Adds a chunk's reduction after its last backward. */
static void add_reduction(struct lowerer *to, int slot)
{
    if (!instr_ends_backward(to->order->at[slot].op))
        return;
    int chunk = to->order->at[slot].chunk;
    bool is_last = --to->backwards_left[placement_round(to->placement, chunk)] == 0;
    if (to->lowering->has_data_group && is_last)
        add(to, of_chunk(INSTR_REDUCE_GRAD, chunk), to->slots[slot].computed);
}

static int last_backward(const struct lowerer *to, int chunk)
{
    int i = to->out.count - 1;
    while (!instr_ends_backward(to->out.at[i].op) || to->out.at[i].chunk != chunk)
        i--;
    return i;
}

/* Adds the reduction of tied gradients: the first chunk uses the table as the embedding, the other
 * as the head or to embed later tokens. It follows the reductions on the data lane, so that both
 * ends add gradients that are already summed over the data group. */
static void add_tied(struct lowerer *to)
{
    struct placement placement = to->placement;
    bool is_mirrored = placement_is_mirrored(placement);
    /* Two mirrored copies of the model have the first chunk twice. Each chunk adds its gradient to
     * that of the other copy's chunk on the neighbouring stage, after the gradients of the two
     * copies were added. */
    for (int first = 0; to->lowering->tied && first < placement_chunks(placement);
         first += placement.num_stages) {
        int other = placement_chunks(placement) - 1 - to->lowering->tied_back - first;
        int here = placement_stage(placement, first);
        int there = other > 0 ? placement_stage(placement, other) : here;
        if (here != there && (to->stage == here || to->stage == there)) {
            struct instr tied = of_stage(INSTR_REDUCE_TIED);
            tied.peer = to->stage == here ? there : here;
            add(to, tied, last_backward(to, to->stage == here ? first : other));
        }
        if (!is_mirrored)
            return;
    }
}

/* Adds an instruction per chunk of the stage, after the last one on the data lane. */
static void add_all_chunks(struct lowerer *to, enum opcode op, int after)
{
    for (int i = 0; i < to->shape->chunks_per_stage; i++)
        add(to, of_chunk(op, placement_chunk(to->placement, to->stage, i)), after);
}

/* Adds the norm and the update. The norm comes after all reductions on the data lane, so it needs
 * an edge only to compute. */
static void add_update(struct lowerer *to)
{
    int computed = to->slots[to->order->count - 1].computed;
    int norm = add(to, of_stage(INSTR_NORM_GRAD), computed);
    int update = add(to, of_stage(INSTR_OPTIMIZER), norm);
    if (to->lowering->gather_updated)
        add_all_chunks(to, INSTR_GATHER_PARAM, update);
    if (to->lowering->mix_updated)
        add_all_chunks(to, INSTR_MIX_PARAM, update);
}

/* Upper bound on the length of the lowered list. A forward or a backward becomes three instructions
 * (receive, compute, send), a weight gradient one. */
static size_t room(const struct lowerer *to)
{
    size_t chunks = (size_t)to->shape->chunks_per_stage;
    size_t passes = chunks * (size_t)to->shape->num_microbatches;
    size_t weights = (size_t)to->order->count - 2 * passes;
    size_t recomputes = to->lowering->recompute ? passes : 0;
    return 6 * passes + weights + recomputes + 3 * chunks + 3;
}

static void lower_stage(struct lowerer *to)
{
    int num_slots = to->order->count;
    for (int i = 0; i < to->shape->chunks_per_stage; i++)
        to->backwards_left[i] = to->shape->num_microbatches;
    if (to->lowering->mix_beside)
        add_all_chunks(to, INSTR_MIX_PARAM, NO_INSTR);
    find_passes(to);
    add_receive(to, 0, NO_INSTR);
    for (int slot = 0; slot < num_slots; slot++) {
        add_leading(to, slot, &to->forwards);
        add_leading(to, slot, &to->backwards);
        if (!to->is_chain)
            add_next_receives(to, slot);
        add_compute(to, slot);
        add_sends(to, slot);
        add_reduction(to, slot);
        if (to->is_chain)
            add_next_receives(to, slot);
    }
    add_tied(to);
    add_update(to);
}

static size_t num_slots_of(const struct generator *generator, const struct schedule_shape *shape)
{
    size_t passes = generator_splits(generator) ? 3 : 2;
    return passes * (size_t)shape->chunks_per_stage * (size_t)shape->num_microbatches;
}

static void lower_stages(const struct generator *generator, const struct lowering *lowering,
                         struct schedule *schedule, struct arena *arena)
{
    const struct schedule_shape *shape = &schedule->shape;
    size_t num_slots = num_slots_of(generator, shape);
    struct arena scratch = { 0 };
    struct instrs order = { .at = ARENA_ARRAY(&scratch, struct instr, num_slots) };
    struct lowerer to = { .schedule = schedule,
                          .shape = shape,
                          .placement = schedule_placement(schedule),
                          .lowering = lowering,
                          .order = &order };
    to.is_chain = generator->in_flight(shape, 0) == 1;
    to.slots = ARENA_ARRAY(&scratch, struct slot, num_slots);
    to.forwards.slots = ARENA_ARRAY(&scratch, int, num_slots);
    to.backwards.slots = ARENA_ARRAY(&scratch, int, num_slots);
    to.backwards_left = ARENA_ARRAY(&scratch, int, (size_t)shape->chunks_per_stage);
    for (to.stage = 0; to.stage < shape->num_stages; to.stage++) {
        order.count = 0;
        generator->emit(shape, to.stage, &order);
        to.out = (struct instrs){ .at = ARENA_ARRAY(arena, struct instr, room(&to)) };
        lower_stage(&to);
        assert((size_t)to.out.count <= room(&to));
        schedule->ranks[to.stage] = to.out;
    }
    arena_release(&scratch);
}

/* --- schedules ----------------------------------------------------------------------------- */

static struct schedule *empty_schedule(const struct generator *generator,
                                       const struct schedule_shape *shape, struct arena *arena)
{
    struct schedule *schedule = ARENA_NEW(arena, struct schedule);
    schedule->shape = *shape;
    schedule->rule = generator->rule;
    schedule->ranks = ARENA_ARRAY(arena, struct instrs, (size_t)shape->num_stages);
    return schedule;
}

static bool accepts(const struct generator *generator, const struct schedule_shape *shape,
                    struct err *err)
{
    assert(shape->num_stages > 0 && shape->chunks_per_stage > 0 && shape->num_microbatches > 0);
    return generator->accepts(shape, err);
}

struct schedule *schedule_compute_order(const struct generator *generator,
                                        const struct schedule_shape *shape, struct arena *arena,
                                        struct err *err)
{
    if (!accepts(generator, shape, err))
        return NULL;
    struct schedule *schedule = empty_schedule(generator, shape, arena);
    for (int stage = 0; stage < shape->num_stages; stage++) {
        schedule->ranks[stage].at =
            ARENA_ARRAY(arena, struct instr, num_slots_of(generator, shape));
        generator->emit(shape, stage, &schedule->ranks[stage]);
    }
    return schedule;
}

struct schedule *schedule_new(const struct generator *generator, const struct schedule_shape *shape,
                              const struct lowering *lowering, struct arena *arena, struct err *err)
{
    if (!accepts(generator, shape, err))
        return NULL;
    struct schedule *schedule = empty_schedule(generator, shape, arena);
    lower_stages(generator, lowering, schedule, arena);
    return schedule;
}
