/* sim/campaign/time_to_accuracy.h - how long a plan trains to reach all-reduce's accuracy.
 *
 * Assumptions: all-reduce needs the model's tokens; the gradients' variance and smoothness are
 * those behind the scales of `convergence`; a transient costs at most its length in steps. */
#ifndef SIM_CAMPAIGN_TIME_TO_ACCURACY_H
#define SIM_CAMPAIGN_TIME_TO_ACCURACY_H

#include "sim/campaign/convergence.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct time_to_accuracy {
    double all_reduce_steps; /* tokens over those of a batch */
    double transient_steps;  /* steps that the exchange's transient adds */
    double noise_factor;     /* a further factor on all-reduce's steps; HUGE_VAL: never reached */
    double gradient_error;   /* kappa of a robust rule (sim/exchange/robust.h); 0: none */
    enum steps_basis basis;  /* of `steps` */
    const char *source;
    double steps;                    /* the expected number */
    double seconds;                  /* the time of these steps */
    double most_steps, most_seconds; /* by the theorems' worst case; HUGE_VAL: never reached */
};

/* For a model whose tokens are stated, at `step_s` per step. */
struct time_to_accuracy time_to_accuracy(const struct convergence *convergence,
                                         const struct system *system, const struct model *model,
                                         const struct plan *plan, double step_s);

#endif
