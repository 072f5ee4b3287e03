/* calibration/fit/descent_fit.h - fits the constants of the convergence theory
 * (sim/campaign/convergence.h) to losses of short runs.
 *
 * The fit is least squares over the losses of one or a few runs, averaged over intervals of steps
 * that grow geometrically, so that early and late parts have the same weight. If the runs do not
 * determine a constant separately, the fit fails and the error names it. Every function is pure. */
#ifndef CALIBRATION_FIT_DESCENT_FIT_H
#define CALIBRATION_FIT_DESCENT_FIT_H

#include "base/err.h"
#include "sim/campaign/descent.h"

/* One run. All runs of a fit train the same problem with the same number of samples per rank. */
struct loss_run {
    const char *name; /* name in messages */
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
extern const char *const descent_constant_names[]; /* such as "least" */
double descent_constant_value(const struct descent *descent, enum descent_constant constant);

/* A 90 % interval. Both ends are equal if the constant is known or was not fitted. */
struct descent_interval {
    double low, high;
};

struct descent_fit {
    struct descent descent;
    struct descent_interval intervals[NUM_DESCENT_CONSTANTS];
    bool is_fitted[NUM_DESCENT_CONSTANTS];
    /* the constants derived from `descent`; 0 where nothing was fitted */
    struct convergence convergence;
    struct descent_interval mixing_scale, memory_scale;
    double error; /* median of |log(fitted / measured)| of the losses; if `least` is known, it is
                     subtracted from each loss first */
};

struct descent_request {
    const struct loss_run *runs;
    int num_runs;
    double least;         /* the least loss if known; negative: it is fitted too */
    double heterogeneity; /* known or assumed value */
    bool is_exact;        /* gradients use all samples, so they have no noise */
};

/* Checks that the losses fall for long enough, and that learning rates and numbers of ranks differ
 * enough to determine each constant. ERR_INPUT with the name of the run or constant in `where`. */
bool descent_request_check(const struct descent_request *request, struct err *err);

/* Checks the request first, with the same errors. It also fails if a constant remains too
 * uncertain. */
bool descent_fit(const struct descent_request *request, struct descent_fit *out, struct err *err);

#endif
