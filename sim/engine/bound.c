#include "sim/engine/work.h"

#include <math.h>

static double stage_passes_s(const struct work *w, int stage, enum chunk_pass pass)
{
    double sum_s = 0;
    for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
        sum_s += w->duration_s[CHUNK_PASSES * chunk + (int)pass];
    return sum_s * w->num_microbatches;
}

/* A stage's own work, all microbatches in a row: never before the first has come through the chunks
 * before it, never the end before the last has gone back through them. Its reduction follows its
 * own last backward, the first stage's follows that of all. Weight gradients hold up no other
 * stage, and the first has one left when the last gradient has come back. */
static double stage_bound_s(const struct work *w, int stage, double before_s, double after_s,
                            double first_tail_s, double *optimizer_s)
{
    struct stage_tail tail = stage_tail(w, stage);
    double passed_on_s =
        stage_passes_s(w, stage, CHUNK_FORWARD) + stage_passes_s(w, stage, CHUNK_BACKWARD);
    double weights_s = stage_passes_s(w, stage, CHUNK_WEIGHT);
    *optimizer_s = fmax(*optimizer_s, tail.optimizer_s + tail.offload_s);
    return before_s + passed_on_s +
           fmax(weights_s + tail.data_comm_s, after_s + w->duration_s[CHUNK_WEIGHT] + first_tail_s);
}

/* Holds for any order of the passes, so for every generator. */
double work_bound_s(const struct work *w)
{
    double lag_s = work_lag_s(w);
    double first_tail_s = stage_tail(w, 0).data_comm_s;
    double bound_s = 0;
    double optimizer_s = 0;
    double before_s = 0;
    double after_s = 0;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        bound_s =
            fmax(bound_s, stage_bound_s(w, stage, before_s, after_s, first_tail_s, &optimizer_s));
        before_s += w->duration_s[CHUNK_PASSES * stage + CHUNK_FORWARD] + lag_s;
        after_s += w->duration_s[CHUNK_PASSES * stage + CHUNK_BACKWARD] + lag_s;
    }
    return bound_s + optimizer_s + w->system->stack.step_s;
}
