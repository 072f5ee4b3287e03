/* calibration/descent_fit.h - what the theory of convergence leaves open, fitted on losses.
 *
 * Least squares over the losses of one short run or a few, averaged over stretches of steps that
 * grow in proportion, so that each part of the curve counts alike. What the runs cannot tell apart
 * is refused by its name. Pure. */
#ifndef CALIBRATION_DESCENT_FIT_H
#define CALIBRATION_DESCENT_FIT_H

#include "base/err.h"
#include "sim/campaign/descent.h"

/* Runs of one problem, on as many samples a rank each. */
struct loss_run {
    const char *name; /* in messages */
    struct descent_run run;
    const double *losses;
    int num_steps;
};

/* Of the steps from `first` up to `end`, which is left out. */
double loss_run_mean(const struct loss_run *run, int first, int end);

enum descent_constant {
    DESCENT_LEAST,
    DESCENT_GAP,
    DESCENT_REACH,
    DESCENT_POWER,
    DESCENT_NOISE,
    DESCENT_MIXING,
    DESCENT_MEMORY,
    NUM_DESCENT_CONSTANTS
};
extern const char *const descent_constant_names[]; /* "least" ... */
double descent_constant_value(const struct descent *descent, enum descent_constant constant);

/* 90 % of what is as likely; equal: known, or not looked for. */
struct descent_interval {
    double low, high;
};

struct descent_fit {
    struct descent descent;
    struct descent_interval intervals[NUM_DESCENT_CONSTANTS];
    bool is_fitted[NUM_DESCENT_CONSTANTS];
    struct convergence convergence; /* what follows; 0 where nothing was fitted */
    struct descent_interval mixing_scale, memory_scale;
    double
        error; /* median of |log(fitted / measured)|, of losses above `least` where it is known */
};

struct descent_request {
    const struct loss_run *runs;
    int num_runs;
    double least;         /* known; negative: to be fitted too */
    double heterogeneity; /* known or assumed */
    bool is_exact;        /* gradients are of all samples: they have no noise */
};

/* Whether the runs fall, for long enough, and at rates and on ranks that tell the constants apart.
 * ERR_INPUT, where = the run's name or that of a constant. */
bool descent_request_check(const struct descent_request *request, struct err *err);

/* Checks the request first, with the same errors; then also what the fit leaves too uncertain. */
bool descent_fit(const struct descent_request *request, struct descent_fit *out, struct err *err);

#endif
