#include "sim/cost/averaging.h"
#include "sim/cost/straggler.h"
#include "sim/cost/waiting.h"
#include "sim/engine/work.h"

#include <math.h>

/* Passes stray by pass_spread each, and by drift_s a second all together; chance, so squares add
 * up. Of one microbatch. */
static double variance_s2(const struct work *w, double squares_s2, double sum_s)
{
    const struct profile *profile = &w->system->profile;
    return profile->pass_spread * profile->pass_spread * squares_s2 + profile->drift_s * sum_s;
}

static double stage_variance_s2(const struct work *w, int stage)
{
    double squares_s2 = 0, sum_s = 0;
    for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
        for (int pass = 0; pass < CHUNK_PASSES; pass++) {
            double pass_s = w->duration_s[CHUNK_PASSES * chunk + pass];
            squares_s2 += pass_s * pass_s;
            sum_s += pass_s;
        }
    return variance_s2(w, squares_s2, sum_s);
}

/* How much less than with all-reduce, in deviations of a replica's step. */
static double spared_deviations(const struct work *w)
{
    const struct exchange *exchange = &w->plan->exchange;
    if (exchange_keeps_replicas_equal(exchange) || w->plan->dp == 1)
        return 0;
    double wait = exchange_wait(exchange, w->plan->dp, averaging_share(exchange, w->model));
    return fmax(0, expected_maximum(w->plan->dp) - wait);
}

/* The stage that strays most stands for its replica. */
double work_spared_s(const struct work *w)
{
    double deviations = spared_deviations(w), most_s2 = 0;
    for (int stage = 0; stage < w->plan->pp && deviations > 0; stage++)
        most_s2 = fmax(most_s2, stage_variance_s2(w, stage));
    return deviations * sqrt(w->num_microbatches * most_s2);
}

/* Passes stray no more together than one that takes as long as all of them. */
double evaluate_least_once_s(struct evaluator *evaluator, const struct plan *plan, double passes_s)
{
    struct work w = work_begin(evaluator, plan);
    double most_s2 = w.num_microbatches * variance_s2(&w, passes_s * passes_s, passes_s);
    return w.system->stack.step_s - spared_deviations(&w) * sqrt(most_s2);
}

double work_once_s(const struct work *w)
{
    return w->system->stack.step_s - work_spared_s(w);
}
