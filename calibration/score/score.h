/* calibration/score/score.h - scores predictions by their errors against measurements.
 *
 * A row is one measured run; its source is the publication that states it. A configuration is the
 * rows of a source with the same config_group. For each configuration, the last row that runs.csv
 * marks with core = 1 is scored. A row's error is log(predicted / measured). Sources are scored
 * separately, so that a large one does not dominate, and fitted rows separately from held-out
 * rows. */
#ifndef CALIBRATION_SCORE_SCORE_H
#define CALIBRATION_SCORE_SCORE_H

#include "calibration/score/predict.h"
#include "sim/engine/tier.h"

/* Statistics of the sizes of errors; bias is the signed median. */
struct score {
    int groups;
    double median, mean, p90, worst, bias; /* NaN without groups */
    /* share of times within their 90 % intervals; NaN for memory, which has none */
    double coverage;
};
struct split_score {
    struct score all, fitted, not_fitted;
};

enum score_kind { SCORE_TIME, SCORE_DENSE, SCORE_MOE, SCORE_MEMORY, NUM_SCORE_KINDS };
extern const char *const score_kind_names[NUM_SCORE_KINDS]; /* such as "sources" */

struct source_score {
    const char *source;
    struct split_score kind[NUM_SCORE_KINDS];
};

struct scores {
    int num_rows;
    int num_core_groups;
    int num_scored;
    struct source_score *sources; /* in order of first appearance, including skipped ones */
    int num_sources;
    struct score
        /* held-out times, by tier (whether the stack and the GPU were measured) */
        tiers[NUM_TIERS];
    double mean_of_medians; /* mean over sources with dense models; NaN: there are none */
    struct split_score all; /* times of all sources, each group with the same weight */
    const int *worst;       /* indices of the num_scored cases in descending order of error size */
};

/* Arrays live in the arena. */
struct scores runs_score(const struct run_case *cases, const struct run_prediction *predictions,
                         int count, struct arena *arena);

/* Why the row has no score (it cannot be predicted, or nothing was measured); "": it has one. */
const char *run_skip_reason(const struct run_case *of);

double run_error(const struct run_case *of, const struct run_prediction *predicted);
/* Bytes of measured_mem_gb: in GB unless mem_unit is GiB; -1 if the row has none. */
double run_measured_bytes(const struct run_row *row);

/* Whether the measured time lies in the interval, ends included. */
bool run_is_covered(const struct run_case *of, const struct run_prediction *predicted);

/* The score of n errors, which are sorted by size on return; without coverage. */
struct score score_errors(double *errors, int n);

#endif
