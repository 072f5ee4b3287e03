/* sim/campaign/time_to_accuracy.h - how long a plan trains to reach all-reduce's accuracy.
 *
 * Assumptions: all-reduce trains on the number of tokens that the model states; the variance and
 * smoothness of the gradients are those for which `convergence` was fitted; a transient adds at
 * most its own length in steps. */
#ifndef SIM_CAMPAIGN_TIME_TO_ACCURACY_H
#define SIM_CAMPAIGN_TIME_TO_ACCURACY_H

#include "sim/campaign/convergence.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct time_to_accuracy {
    double all_reduce_steps; /* the model's tokens divided by those of a batch */
    double transient_steps;  /* steps that the exchange's transient adds */
    /* convergence_noise_factor: a further factor on all-reduce's steps; HUGE_VAL: the accuracy
     * is never reached */
    double noise_factor;
    double gradient_error;  /* kappa of a robust rule (sim/exchange/robust.h); 0: none */
    enum steps_basis basis; /* where `steps` comes from */
    const char *source;
    double steps;   /* the expected number */
    double seconds; /* the time of this number of steps */
    /* upper bounds by the theorems; HUGE_VAL: the accuracy is never reached */
    double most_steps, most_seconds;
};

/* The model must state its training tokens; each step takes `step_s`. */
struct time_to_accuracy time_to_accuracy(const struct convergence *convergence,
                                         const struct system *system, const struct model *model,
                                         const struct plan *plan, double step_s);

#endif
