/* A step's fixed cost: the host's overhead, the waiting for ranks with longer documents and a
 * reference model's forwards, minus the waiting for other data ranks that a gradient exchange saves
 * in comparison with all-reduce. */
#include "sim/cost/straggler.h"
#include "sim/cost/waiting.h"
#include "sim/engine/simulate_part.h"
#include "sim/exchange/averaging.h"

#include <math.h>

/* Sums over the passes of one replica's stage in a step. */
struct passes {
    double sum_s;
    double squares_s2;
};

static struct passes stage_passes(const struct evaluation *w, int stage)
{
    struct passes passes = { 0 };
    for (int round = 0; round < w->plan->vpp; round++)
        for (int pass = 0; pass < CHUNK_PASSES; pass++) {
            double pass_s = w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, round) + pass];
            passes.sum_s += w->num_microbatches * pass_s;
            passes.squares_s2 += w->num_microbatches * pass_s * pass_s;
        }
    passes.sum_s -= evaluation_spared_by_pairs_s(w, stage);
    return passes;
}

/* The share f of the passes' time T that is work; the rest is waiting for other replicas. Passes
 * were measured with all-reduce, in which each replica waits for the slowest, so T = f T + E sd. E
 * is the expected maximum of R standard normal variables, with R the number of replicas, and sd is
 * the standard deviation of one replica's work. Each pass deviates by pass_spread, and the work as
 * a whole has a variance of drift_s per second. These are independent, so sd^2 = f^2 A + f B, with
 * A = pass_spread^2 x the sum of squared pass times and B = drift_s T. f is the root of (T^2 - E^2
 * A) f^2 - (2 T^2 + E^2 B) f + T^2 = 0 in (0, 1], in a form without cancellation. */
static double working_share(const struct profile *profile, const struct passes *passes,
                            double expected)
{
    double t2 = passes->sum_s * passes->sum_s, e2 = expected * expected;
    double a = t2 - e2 * profile->pass_spread * profile->pass_spread * passes->squares_s2;
    double b = 2 * t2 + e2 * profile->drift_s * passes->sum_s;
    return t2 > 0 ? 2 * t2 / (b + sqrt(fmax(0, b * b - 4 * a * t2))) : 1;
}

/* The share of the waiting with all-reduce that the plan's exchange saves. `expected`: the expected
 * maximum of the replicas' deviations, in standard deviations. */
static double spared_share(const struct evaluation *w, double expected)
{
    const struct exchange *exchange = &w->plan->exchange;
    if (exchange_keeps_replicas_equal(exchange) || w->plan->dp == 1)
        return 0;
    double wait = exchange_wait(exchange, w->plan->dp, averaging_share(exchange, w->model));
    return fmax(0, 1 - wait / expected);
}

/* Seconds of waiting saved; always less than the passes take. */
static double spared_s(const struct evaluation *w, const struct passes *passes, double share,
                       double expected)
{
    double working = working_share(&w->system->profile, passes, expected);
    return share * passes->sum_s * (1 - working);
}

/* The waiting that a replica saves is taken to be that of the stage that saves the most. */
double evaluation_spared_s(const struct evaluation *w)
{
    if (exchange_keeps_replicas_equal(&w->plan->exchange))
        return 0;
    double expected = expected_maximum(w->plan->dp);
    double share = spared_share(w, expected), most_s = 0;
    for (int stage = 0; stage < w->plan->pp && share > 0; stage++) {
        struct passes passes = stage_passes(w, stage);
        most_s = fmax(most_s, spared_s(w, &passes, share, expected));
    }
    return most_s;
}

/* The passes are replaced by one pass of their total time, which deviates at least as much. */
double evaluate_least_once_s(struct evaluator *evaluator, const struct plan *plan, double passes_s)
{
    struct evaluation w = evaluation_begin(evaluator, plan);
    double ratio = time_ratio_of(w.system, w.model);
    double unscaled_s = passes_s / ratio;
    bool saves = !exchange_keeps_replicas_equal(&plan->exchange);
    double expected = saves ? expected_maximum(plan->dp) : 0, share = spared_share(&w, expected);
    struct passes one = { w.num_microbatches * unscaled_s,
                          w.num_microbatches * unscaled_s * unscaled_s };
    return ratio * (w.system->stack.host.step_s + evaluation_packing_s(&w) -
                    (share > 0 ? spared_s(&w, &one, share, expected) : 0));
}

/* Time of a reference model's forwards over the batch, before the step. They run in the same
 * pipeline as the step; once it is full, the busiest stage determines the time. */
double evaluation_reference_s(const struct evaluation *w)
{
    double fill_s = 0, most_s = 0;
    if (!w->model->reference)
        return 0;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        double forward_s = 0;
        for (int round = 0; round < w->plan->vpp; round++)
            forward_s +=
                w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, round) + CHUNK_FORWARD];
        fill_s += forward_s;
        most_s = fmax(most_s, forward_s);
    }
    return fill_s + (w->num_microbatches - 1) * most_s;
}

double evaluation_once_s(const struct evaluation *w)
{
    return w->system->stack.host.step_s + evaluation_packing_s(w) + evaluation_reference_s(w) -
           evaluation_spared_s(w);
}
