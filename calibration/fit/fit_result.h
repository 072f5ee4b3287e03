/* calibration/fit/fit_result.h - the result of a job of fit.json: the fitted constants, and the
 * errors of the rows (measured runs or micro-benchmarks) on which they were fitted. */
#ifndef CALIBRATION_FIT_FIT_RESULT_H
#define CALIBRATION_FIT_FIT_RESULT_H

#include "calibration/fit/observation.h"
#include "calibration/score/score.h"

struct fit_value {
    const struct fit_constant *of;
    double before; /* value in the shipped file */
    double value;
    double standard_error; /* standard error of its logarithm; 0 on a bound */
    bool is_at_bound;
    bool is_informed; /* some row of weight above 0 ran on the constant's profile or stack */
    bool has_runs;    /* some row of weight above 0 is a whole run and not a micro-benchmark */
};

/* Two constants with correlated errors: the rows determine a combination of them better than each
 * alone. */
struct fit_correlation {
    int a, b; /* indices of the values, a < b */
    double value;
};

struct fit_source {
    const char *name;
    struct score in_sample;
    struct score out_of_sample; /* has 0 groups unless the job was cross-validated */
};

struct fit_result {
    struct arena arena;
    const struct fit_job *job;
    struct fit_value *values; /* one per constant of the job */
    int num_values;
    struct fit_correlation *correlations; /* in descending order */
    int num_correlations;
    struct fit_source *sources;
    int num_sources;
    int steps;
    /* the job does not depend on the left-out source, so these are the shipped constants */
    bool is_kept;
    struct observations rows; /* the rows of the fit */
};

#endif
