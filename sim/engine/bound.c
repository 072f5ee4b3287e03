/* Lower bounds of a plan's step time. A piece is a layer, the embedding or the head. A stage's tail
 * is what it adds once per step after its passes: exposed reductions and gathers, and the
 * optimizer. */
#include "models/blocks.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/evaluation.h"
#include "sim/memory/held.h"
#include "sim/plan/holding.h"
#include "sim/plan/state_share.h"

#include <math.h>

/* Time of all passes of a stage. */
struct pass_sums {
    double forward_s, backward_s, weight_s;
};

static inline struct pass_sums stage_passes(const struct evaluation *w, int stage)
{
    struct placement placement = plan_placement(w->plan);
    double forward_s = 0, backward_s = 0, weight_s = 0;
    for (int round = 0; round < placement.chunks_per_stage; round++) {
        const double *chunk_s =
            &w->duration_s[CHUNK_PASSES * placement_chunk(placement, stage, round)];
        forward_s += chunk_s[CHUNK_FORWARD];
        backward_s += chunk_s[CHUNK_BACKWARD];
        weight_s += chunk_s[CHUNK_WEIGHT];
    }
    double times = w->num_microbatches, spared_s = evaluation_spared_by_pairs_s(w, stage);
    return (struct pass_sums){ forward_s * times - spared_s, backward_s * times, weight_s * times };
}

/* Lower bounds of the times that stages add once per step. */
struct tails {
    /* exposed transfers after the last backward: those of this stage, and those of the first
     * stage */
    double stage_s, first_s;
    double update_s;    /* the stage's optimizer and offloading */
    double optimizer_s; /* the longest optimizer time of the stages so far */
};
typedef void add_tail_fn(const struct evaluation *w, int stage, struct tails *tails);

/* A lower bound from one stage. Its work begins after the first microbatch has passed the chunks
 * before it. After the work the last microbatch's gradient must go back through these chunks. The
 * stage's reduction follows its own last backward; the first stage's reduction follows all
 * backwards. Weight gradients delay no other stage; the first stage still has one to compute when
 * the last gradient has arrived. */
static double stage_bound_s(const struct evaluation *w, int stage, double before_s, double after_s,
                            const struct tails *tails)
{
    struct pass_sums passes = stage_passes(w, stage);
    return before_s + (passes.forward_s + passes.backward_s) +
           fmax(passes.weight_s + tails->stage_s,
                after_s + w->duration_s[CHUNK_WEIGHT] + tails->first_s);
}

static void add_own_tail(const struct evaluation *w, int stage, struct tails *tails)
{
    struct stage_tail tail = stage_tail(w, stage);
    tails->stage_s = tail.data_comm_s;
    if (stage == placement_embedding_stage(plan_placement(w->plan)))
        tails->first_s = tail.data_comm_s;
    tails->update_s = tail.optimizer_s + tail.offload_s;
    tails->optimizer_s = fmax(tails->optimizer_s, tails->update_s);
}

/* The shortest possible tail: all transfers are overlapped, and the optimizer takes the shortest
 * time of all ZeRO stages. */
static void add_least_tail(const struct evaluation *w, int stage, struct tails *tails)
{
    struct plan plan = *w->plan;
    struct holding held = stage_holding(&plan, w->model, stage);
    struct stage_weights weights = held_trained(&held, w->pieces);
    struct held_matrices matrices = held_matrices(&plan, &held, w->pieces);
    tails->update_s = HUGE_VAL;
    for (int cut = 0; cut < NUM_ZERO_STAGES; cut++) {
        plan.zero = cut;
        tails->update_s =
            fmin(tails->update_s,
                 optimizer_with_matrices_s(w->system, w->model, &plan, weights, &matrices));
    }
    tails->optimizer_s = fmax(tails->optimizer_s, tails->update_s);
}

/* Whether the stage's tail equals that of the stage before: the layers are the same, and so are the
 * durations of the passes that overlap transfers. */
static bool tail_is_as_before(const struct evaluation *w, int stage)
{
    if (!stage_is_as_before(w->plan, w->model, stage))
        return false;
    for (int round = 0; round < w->plan->vpp; round++) {
        const double *of_s = &w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, round)];
        const double *before_s =
            &w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage - 1, round)];
        for (int pass = 0; pass < CHUNK_PASSES; pass++)
            if (of_s[pass] != before_s[pass])
                return false;
    }
    return true;
}

/* The bound is valid for any order of the passes, so for every schedule. */
static double bound_s(const struct evaluation *w, add_tail_fn *add_tail)
{
    double most_s = 0, before_s = 0, after_s = 0;
    struct tails tails = { 0 };
    for (int stage = 0; stage < w->plan->pp; stage++) {
        if (!tail_is_as_before(w, stage))
            add_tail(w, stage, &tails);
        most_s = fmax(most_s, stage_bound_s(w, stage, before_s, after_s, &tails));
        double lag_s = evaluation_lag_s(w, stage);
        const double *first_s = &w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, 0)];
        before_s += first_s[CHUNK_FORWARD] + lag_s;
        after_s += first_s[CHUNK_BACKWARD] + lag_s;
    }
    return most_s + tails.optimizer_s + evaluation_once_s(w);
}

/* The bound if stages do not wait for the gradient norm: each stage has only its own work and
 * update. */
static double own_bound_s(const struct evaluation *w, add_tail_fn *add_tail)
{
    double most_s = 0;
    struct tails tails = { 0 };
    for (int stage = 0; stage < w->plan->pp; stage++) {
        if (!tail_is_as_before(w, stage))
            add_tail(w, stage, &tails);
        struct pass_sums passes = stage_passes(w, stage);
        double own_s = passes.forward_s + passes.backward_s + passes.weight_s;
        most_s = fmax(most_s, own_s + tails.stage_s + tails.update_s);
    }
    return most_s + evaluation_once_s(w);
}

double evaluation_bound_s(const struct evaluation *w)
{
    return w->validates ? own_bound_s(w, add_own_tail) : bound_s(w, add_own_tail);
}

double evaluation_floor_s(const struct evaluation *w)
{
    return w->validates ? own_bound_s(w, add_least_tail) : bound_s(w, add_least_tail);
}

/* --- all stages together ------------------------------------------------------------------- */

/* Compute alone, which is the same in every rank order. */
static double compute_piece_s(const struct evaluation *w, int piece)
{
    const struct piece_cost *cost = &w->pieces->at[piece];
    return w->slowdown *
           (cost->forward.compute_s + cost->backward.compute_s + cost->weight.compute_s);
}

/* A lower bound of the time of one microbatch's passes over a piece. Exchanges of experts' rows are
 * left out, as a paired pass may overlap them, and so is the host's overhead. */
static double least_piece_s(const struct evaluation *w, int piece)
{
    const struct piece_cost *cost = &w->pieces->at[piece];
    bool hides_rows = plan_overlaps(w->plan, &w->system->stack, OVERLAP_EP);
    double rows_s = hides_rows ? cost->forward.expert_s + cost->backward.expert_s : 0;
    double lists_s = cost->forward.total_s + cost->backward.total_s + cost->weight.total_s;
    return w->slowdown * lists_s - rows_s;
}

double evaluation_layer_floor_s(const struct evaluation *w)
{
    const double rounding = 1e-9;
    double least_s = HUGE_VAL;
    for (int kind = 0; kind < w->pieces->num_kinds; kind++)
        least_s = fmin(least_s, least_piece_s(w, kind));
    return fmax(0, (1 - rounding) * least_s);
}

/* A lower bound of the time of one microbatch's passes over the whole model in this many chunks,
 * from a bound for each piece. */
static double least_passes_s(const struct evaluation *w, int chunks,
                             double (*piece_s)(const struct evaluation *w, int piece))
{
    int counts[MAX_BLOCK_KINDS];
    double host_s = chunks * w->system->stack.host.microbatch_s;
    double sum_s = host_s + piece_s(w, PIECE_EMBEDDING) + piece_s(w, PIECE_HEAD);
    model_count_kinds(w->model, 0, w->model->layers, counts);
    for (int kind = 0; kind < w->pieces->num_kinds; kind++)
        sum_s += counts[kind] * piece_s(w, kind);
    if (w->model->mtp > 0)
        sum_s += w->model->mtp * (piece_s(w, PIECE_LATER) + piece_s(w, PIECE_LATER_HEAD) +
                                  piece_s(w, PIECE_LATER_EMBEDDING));
    return sum_s;
}

/* Whether the sum of all passes bounds the step: no pass overlaps another one of its stage, and no
 * replica is ahead of the others. */
static bool has_mean_floor(const struct evaluation *w)
{
    return !w->generator->pairs && !evaluation_is_folded(w) &&
           exchange_keeps_replicas_equal(&w->plan->exchange);
}

static const double mean_rounding = 1e-9;

/* Let w(s) be the time of a microbatch's passes on stage s, W their sum over p stages, m the number
 * of microbatches and M the step's bound, the largest of all stages. M is at least the mean of m
 * w(s), which is m W / p. With one chunk per stage, stage s also waits while the first microbatch
 * runs there and the last one back: M >= P(s) + m w(s), with P(s) the sum of w before s. So P(s +
 * 1) <= (1 - 1 / m) P(s) + M / m, and W = P(p) <= M (1 - (1 - 1 / m)^p). */
double evaluation_mean_floor_s(const struct evaluation *w)
{
    const struct plan *plan = w->plan;
    double m = w->num_microbatches, p = plan->pp;
    bool is_whole = plan->vpp == 1 && !generator_splits(w->generator);
    if (!has_mean_floor(w))
        return 0;
    double passes_s = (1 - mean_rounding) * least_passes_s(w, plan_chunks(plan), least_piece_s);
    return is_whole ? passes_s / (1 - pow(1 - 1 / m, p)) : passes_s * m / p;
}

/* Returns m W / p. W has the host's overhead of one chunk per stage, the fewest, so the bound holds
 * for any number of chunks. */
static double chunks_floor_s(const struct evaluation *w,
                             double (*piece_s)(const struct evaluation *w, int piece))
{
    if (!has_mean_floor(w))
        return 0;
    double passes_s = (1 - mean_rounding) * least_passes_s(w, w->plan->pp, piece_s);
    return passes_s * w->num_microbatches / w->plan->pp;
}

double evaluation_chunks_floor_s(const struct evaluation *w)
{
    return chunks_floor_s(w, least_piece_s);
}

double evaluation_compute_floor_s(const struct evaluation *w)
{
    return chunks_floor_s(w, compute_piece_s);
}
