/* Times a forward and a backward that run as a pair: the all-to-all of experts' rows of one
 * overlaps the compute of the other. */
#include "sim/engine/evaluation.h"

#include "sim/cost/dispatcher.h"

#include <math.h>

/* Exposed time of the experts' rows in one pass over a chunk. */
double evaluation_expert_comm_s(const struct evaluation *w, const struct holding *held,
                                bool is_forward)
{
    double sum_s = 0;
    for (int i = 0; i < NUM_PIECES; i++) {
        const struct piece_cost *piece = &w->pieces->at[i];
        sum_s += held->count[i] * (is_forward ? piece->forward.expert_s : piece->backward.expert_s);
    }
    return sum_s;
}

/* Time of compute and overlapping messages. The kernels that send take multiprocessors from
 * compute. Messages between nodes are too slow to take much of the memory bandwidth. */
static double beside_s(const struct evaluation *w, double compute_s, double comm_s)
{
    const struct gpu *gpu = &w->system->gpu;
    struct profile profile = w->system->profile;
    int taken = dispatchers[w->system->stack.dispatcher].sms;
    if (taken < gpu->num_sms)
        profile.overlap_compute_slowdown = (double)gpu->num_sms / (gpu->num_sms - taken);
    return overlapped_s(&profile, compute_s, comm_s);
}

/* The time that a pair saves by overlapping messages with compute. Its first and last message are
 * exposed; together they count as one of the four messages per layer. */
double evaluation_spared_beside_s(const struct evaluation *w, double compute_s, double comm_s,
                                  double layers)
{
    if (comm_s <= 0 || !plan_overlaps(w->plan, &w->system->stack, OVERLAP_EP))
        return 0;
    double end_s = comm_s / (4.0 * layers);
    double pair_s = beside_s(w, compute_s, comm_s - end_s) + end_s;
    return fmax(0, compute_s + comm_s - pair_s);
}

/* The time that a pair saves over running its two passes one after the other: the backward of the
 * stage's chunk in `round`, and a forward of the stage's other chunk. */
static double pair_spares_s(const struct evaluation *w, int stage, int round)
{
    int backward = evaluation_chunk(w, stage, round),
        forward = evaluation_chunk(w, stage, 1 - round);
    struct holding held = chunk_holding(w->plan, w->model, backward);
    struct holding other = chunk_holding(w->plan, w->model, forward);
    double comm_s =
        evaluation_expert_comm_s(w, &other, true) + evaluation_expert_comm_s(w, &held, false);
    const double *backward_s = &w->duration_s[CHUNK_PASSES * backward];
    double both_s = w->duration_s[CHUNK_PASSES * forward + CHUNK_FORWARD] +
                    backward_s[CHUNK_BACKWARD] + backward_s[CHUNK_WEIGHT];
    double messages_s = blocking_messages(w, forward).down_s + blocking_messages(w, backward).up_s;
    return evaluation_spared_beside_s(w, both_s - messages_s - comm_s, comm_s,
                                      0.5 * (held.layers + other.layers));
}

void evaluation_time_pairs_of(struct evaluation *w, int stage)
{
    for (int round = 0; w->generator->pairs && round < 2; round++) {
        int backward = evaluation_chunk(w, stage, round),
            forward = evaluation_chunk(w, stage, 1 - round);
        const double *backward_s = &w->duration_s[CHUNK_PASSES * backward];
        w->spared_s[backward] = pair_spares_s(w, stage, round);
        w->pair_s[backward] = w->duration_s[CHUNK_PASSES * forward + CHUNK_FORWARD] +
                              backward_s[CHUNK_BACKWARD] + backward_s[CHUNK_WEIGHT] -
                              w->spared_s[backward];
    }
}

void evaluation_time_pairs(struct evaluation *w)
{
    for (int stage = 0; w->generator->pairs && stage < w->plan->pp; stage++)
        evaluation_time_pairs_of(w, stage);
}

double evaluation_spared_by_pairs_s(const struct evaluation *w, int stage)
{
    struct schedule_shape shape = { w->plan->pp, w->plan->vpp, w->num_microbatches, 0 };
    double spared_s = 0;
    for (int round = 0; w->generator->pairs && round < 2; round++)
        spared_s += fmax(0, w->generator->pairs(&shape, stage, round)) *
                    w->spared_s[evaluation_chunk(w, stage, round)];
    return spared_s;
}
