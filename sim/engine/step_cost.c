/* The time of each instruction of a step when it runs alone. An instruction is one entry of a
 * stage's schedule: a pass over a chunk, a send, a receive or a reduction. */
#include "sim/engine/step_cost.h"

#include "sim/schedule/timeline.h"

#include <math.h>

/* The first, in the model, of the two chunks between which a message passes. It follows from the
 * chunk that makes the message. */
static int chunk_before(const struct instr *instr)
{
    return instr->chunk - (instr->op == INSTR_SEND_GRAD || instr->op == INSTR_RECV_GRAD);
}

/* The boundary that a message crosses. Tied gradients go from the last stage to the first. */
static const struct boundary *boundary_of(const struct step_cost *cost, struct placement placement,
                                          const struct instr *instr)
{
    int boundary = instr->op == INSTR_REDUCE_TIED
                       ? placement_last_boundary(placement)
                       : placement_boundary(placement, chunk_before(instr));
    return &cost->boundaries[boundary];
}

static double message_s(const struct step_cost *cost, struct placement placement,
                        const struct instr *instr)
{
    bool is_last = placement_is_last_message(placement, chunk_before(instr));
    return boundary_of(cost, placement, instr)->message_s + (is_last ? cost->last_more_s : 0);
}

/* Seconds of one instruction of a stage; a receive takes as long as its send. */
static double instr_alone_s(const struct step_cost *cost, struct placement placement, int stage,
                            const struct instr *instr)
{
    const struct stage_cost *once = &cost->stages[stage];
    const struct chunk_cost *chunk = &cost->chunks[instr->chunk >= 0 ? instr->chunk : 0];
    switch (instr->op) {
    case INSTR_FORWARD:
        return instr->is_paired ? 0 : chunk->forward_s;
    case INSTR_BACKWARD:
        return instr->is_paired ? chunk->pair_s : chunk->input_s + chunk->weight_s;
    case INSTR_BACKWARD_INPUT:
        return chunk->input_s;
    case INSTR_BACKWARD_WEIGHT:
        return chunk->weight_s;
    case INSTR_RECOMPUTE:
        return chunk->recompute_s;
    case INSTR_SEND_ACT:
    case INSTR_RECV_ACT:
    case INSTR_SEND_GRAD:
    case INSTR_RECV_GRAD:
        return message_s(cost, placement, instr);
    case INSTR_GATHER_PARAM:
        return once->gather_s;
    case INSTR_REDUCE_GRAD:
        return once->reduce_s;
    case INSTR_MIX_PARAM:
        return once->mix_s;
    case INSTR_REDUCE_TIED:
        return fmax(once->tied_s, cost->stages[instr->peer].tied_s);
    case INSTR_OPTIMIZER:
        return once->optimizer_s;
    case INSTR_NORM_GRAD:
        return 0;
    }
    return 0;
}

enum wire instr_wire(const struct step_cost *cost, struct placement placement,
                     const struct instr *instr)
{
    return instr->peer >= 0 ? boundary_of(cost, placement, instr)->wire : cost->data_wire;
}

/* The random factor on an instruction's mean time. */
static double luck(const struct step_cost *cost, const struct schedule *schedule, int stage,
                   int index)
{
    const struct instr *instr = &schedule->ranks[stage].at[index];
    const struct jitter *jitter = &cost->jitter;
    enum lane lane = instr_lane(instr);
    if (lane == LANE_COMPUTE)
        return timeline_is_pass(instr->op) ? jitter_pass(jitter, stage, index) : 1;
    int members = lane == LANE_DATA ? jitter->data_members : jitter->pass_ranks;
    enum wire wire = instr_wire(cost, schedule_placement(schedule), instr);
    return jitter_transfer(jitter, stage, index, wire, members);
}

static void draw_stage(const struct step_cost *cost, const struct schedule *schedule, int stage,
                       double *alone_s)
{
    const struct instrs *list = &schedule->ranks[stage];
    double chips = jitter_chips(&cost->jitter, stage);
    double squares_s2 = 0;
    for (int i = 0; i < list->count; i++) {
        bool computes = instr_lane(&list->at[i]) == LANE_COMPUTE;
        if (timeline_is_pass(list->at[i].op))
            squares_s2 += alone_s[i] * alone_s[i];
        if (alone_s[i] > 0)
            alone_s[i] *= luck(cost, schedule, stage, i) * (computes ? chips : 1);
    }
    for (int i = 0; i < list->count; i++)
        if (list->at[i].op == INSTR_NORM_GRAD)
            alone_s[i] = jitter_replicas_s(&cost->jitter, stage, squares_s2);
}

void step_alone_s(const struct step_cost *cost, const struct schedule *schedule, int stage,
                  double *alone_s)
{
    struct placement placement = schedule_placement(schedule);
    const struct instrs *list = &schedule->ranks[stage];
    for (int i = 0; i < list->count; i++)
        alone_s[i] = instr_alone_s(cost, placement, stage, &list->at[i]);
    if (cost->draws)
        draw_stage(cost, schedule, stage, alone_s);
}

static bool is_send(enum opcode op)
{
    return op == INSTR_SEND_ACT || op == INSTR_SEND_GRAD;
}

/* Makes a pass wait for the send before it. Receives stay posted one pass ahead: if they were
 * posted only when needed, as in blocking code, interleaved and ZB-H2 orders would deadlock. */
static void hold_passes(const struct instrs *list, int *held)
{
    int last_send = NO_INSTR;
    for (int i = 0; i < list->count; i++) {
        if (is_send(list->at[i].op))
            last_send = i;
        if (timeline_is_pass(list->at[i].op))
            held[i] = last_send;
    }
}

/* Makes reductions wait for the last pass. */
static void hold_reductions(const struct instrs *list, int *held)
{
    int last_pass = NO_INSTR;
    for (int i = 0; i < list->count; i++)
        if (timeline_is_pass(list->at[i].op))
            last_pass = i;
    for (int i = 0; i < list->count; i++)
        if (list->at[i].op == INSTR_REDUCE_GRAD)
            held[i] = last_pass;
}

void step_holds(const struct step_cost *cost, const struct instrs *list, int *held)
{
    for (int i = 0; i < list->count; i++)
        held[i] = NO_INSTR;
    if (cost->blocking)
        hold_passes(list, held);
    if (cost->reduces_last)
        hold_reductions(list, held);
}
