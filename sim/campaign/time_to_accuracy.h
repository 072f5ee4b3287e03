/* sim/campaign/time_to_accuracy.h - how long a plan trains until it is where all-reduce would be.
 *
 * Assumed: all-reduce needs the model's tokens; variance and smoothness of the gradients are those
 * that `convergence` was scaled by; what a transient costs is at most its length. */
#ifndef SIM_CAMPAIGN_TIME_TO_ACCURACY_H
#define SIM_CAMPAIGN_TIME_TO_ACCURACY_H

#include "sim/campaign/convergence.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct time_to_accuracy {
    double all_reduce_steps; /* tokens over those of a batch */
    double transient_steps;  /* that the exchange adds */
    double noise_factor;     /* times as many as all-reduce's, besides; HUGE_VAL: never there */
    enum steps_basis basis;  /* of `steps` */
    const char *source;
    double steps;                    /* to go by */
    double seconds;                  /* of them */
    double most_steps, most_seconds; /* by the theorems' worst case; HUGE_VAL: never there */
};

/* For a model whose tokens are stated, at `step_s` a step. */
struct time_to_accuracy time_to_accuracy(const struct convergence *convergence,
                                         const struct system *system, const struct model *model,
                                         const struct plan *plan, double step_s);

#endif
