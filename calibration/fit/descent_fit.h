/* calibration/fit/descent_fit.h - the open constants of the theory of convergence, fitted on
 * losses.
 *
 * Least squares over the losses of one or a few short runs, averaged over intervals of steps that
 * grow geometrically, so that each part of the curve has the same weight. Constants that the runs
 * cannot tell apart are refused by name. Pure. */
#ifndef CALIBRATION_FIT_DESCENT_FIT_H
#define CALIBRATION_FIT_DESCENT_FIT_H

#include "base/err.h"
#include "sim/campaign/descent.h"

/* Runs of one problem, all with the same number of samples per rank. */
struct loss_run {
    const char *name; /* in messages */
    struct descent_run run;
    const double *losses;
    int num_steps;
};

/* The mean loss over steps [first, end). */
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

/* 90 % interval; both ends equal: known, or not fitted. */
struct descent_interval {
    double low, high;
};

struct descent_fit {
    struct descent descent;
    struct descent_interval intervals[NUM_DESCENT_CONSTANTS];
    bool is_fitted[NUM_DESCENT_CONSTANTS];
    struct convergence convergence; /* the constants that follow; 0 where nothing was fitted */
    struct descent_interval mixing_scale, memory_scale;
    double error; /* median of |log(fitted / measured)|; when `least` is known, of losses minus
                     `least` */
};

struct descent_request {
    const struct loss_run *runs;
    int num_runs;
    double least;         /* the known least loss; negative: to be fitted too */
    double heterogeneity; /* known or assumed */
    bool is_exact;        /* gradients use all samples, so they have no noise */
};

/* Whether the losses fall for long enough, with learning rates and numbers of ranks that tell the
 * constants apart. ERR_INPUT, where = the run's name or that of a constant. */
bool descent_request_check(const struct descent_request *request, struct err *err);

/* Checks the request first, with the same errors; refuses constants that stay too uncertain, too.
 */
bool descent_fit(const struct descent_request *request, struct descent_fit *out, struct err *err);

#endif
