/* calibration/fit/fit_result.h - what a fit finds of a job's constants. */
#ifndef CALIBRATION_FIT_FIT_RESULT_H
#define CALIBRATION_FIT_FIT_RESULT_H

#include "calibration/fit/observation.h"
#include "calibration/score/score.h"

struct fit_value {
    const struct fit_constant *of;
    double before; /* in the shipped file */
    double value;
    double standard_error; /* standard error of its logarithm; 0 on a bound */
    bool is_at_bound;
    bool is_informed; /* some row that counts ran on it */
    bool has_runs;    /* some of those rows is a whole run, no micro-benchmark */
};

/* Two constants that the rows cannot tell apart well. */
struct fit_correlation {
    int a, b; /* indices of the values, a < b */
    double value;
};

struct fit_source {
    const char *name;
    struct score in_sample;
    struct score out_of_sample; /* 0 groups unless cross-validated */
};

struct fit_result {
    struct arena arena;
    const struct fit_job *job;
    struct fit_value *values; /* one per constant of the job */
    int num_values;
    struct fit_correlation *correlations; /* largest first */
    int num_correlations;
    struct fit_source *sources;
    int num_sources;
    int steps;
    bool is_kept; /* nothing in it depends on the source that is left out: as it is shipped */
    struct observations rows; /* the rows it was fitted on */
};

#endif
