#include "sim/engine/work.h"

#include <math.h>

/* A stage's own work, all microbatches in a row: never before the first has come through the chunks
 * before it, never the end before the last has gone back through them. Its reduction follows its
 * own last backward, the first stage's follows that of all. */
static double stage_bound_s(const struct work *w, int stage, double before_s, double after_s,
                            double first_tail_s, double *optimizer_s)
{
    struct stage_tail tail = stage_tail(w, stage);
    double busy_s = 0;
    for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
        busy_s += w->duration_s[2 * chunk] + w->duration_s[2 * chunk + 1];
    busy_s *= w->num_microbatches;
    *optimizer_s = fmax(*optimizer_s, tail.optimizer_s);
    return before_s + busy_s + fmax(tail.data_comm_s, after_s + first_tail_s);
}

/* Holds for any order that keeps a chunk's passes whole, so for every generator. */
double work_bound_s(const struct work *w)
{
    double lag_s = w->blocking ? 0 : w->p2p_s;
    double first_tail_s = stage_tail(w, 0).data_comm_s;
    double bound_s = 0;
    double optimizer_s = 0;
    double before_s = 0;
    double after_s = 0;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        bound_s =
            fmax(bound_s, stage_bound_s(w, stage, before_s, after_s, first_tail_s, &optimizer_s));
        before_s += w->duration_s[2 * stage] + lag_s;
        after_s += w->duration_s[2 * stage + 1] + lag_s;
    }
    return bound_s + optimizer_s + w->system->stack.step_s;
}
