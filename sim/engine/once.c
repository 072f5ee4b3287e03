#include "sim/cost/averaging.h"
#include "sim/cost/straggler.h"
#include "sim/cost/waiting.h"
#include "sim/engine/work.h"

#include <math.h>

/* Passes of a stage stray by pass_spread each, and by drift_s a second all together; chance, so
 * squares add up. */
static double stage_variance_s2(const struct work *w, int stage)
{
    const struct profile *profile = &w->system->profile;
    double squares_s2 = 0, sum_s = 0;
    for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
        for (int pass = 0; pass < CHUNK_PASSES; pass++) {
            double pass_s = w->duration_s[CHUNK_PASSES * chunk + pass];
            squares_s2 += pass_s * pass_s;
            sum_s += pass_s;
        }
    double pass_s2 = profile->pass_spread * profile->pass_spread * squares_s2;
    return w->num_microbatches * (pass_s2 + profile->drift_s * sum_s);
}

/* The stage that strays most stands for its replica. */
double work_spared_s(const struct work *w)
{
    const struct exchange *exchange = &w->plan->exchange;
    double variance_s2 = 0;
    if (exchange_keeps_replicas_equal(exchange) || w->plan->dp == 1)
        return 0;
    double wait = exchange_wait(exchange, w->plan->dp, averaging_share(exchange, w->model));
    for (int stage = 0; stage < w->plan->pp; stage++)
        variance_s2 = fmax(variance_s2, stage_variance_s2(w, stage));
    return sqrt(variance_s2) * fmax(0, expected_maximum(w->plan->dp) - wait);
}

double work_once_s(const struct work *w)
{
    return w->system->stack.step_s - work_spared_s(w);
}
