/* calibration/diagnosis.h - where the errors of predictions are likely to come from.
 *
 * Each constant of the profiles and stacks is raised by 1 % in turn and all rows are predicted
 * again: d log(step) / d log(constant), its sensitivity. Errors e of rows with sensitivities s are
 * explained by changing a constant by the x that minimises the sum of |e + s x|, a weighted median;
 * x stays within the file's bounds. The constant that leaves the least error is named. That is only
 * a suspicion: constants that act alike cannot be told apart by times of whole steps.
 *
 * A single row is explained together with its source, which gets half of the weight: a change that
 * would spoil all other rows does not explain this one. */
#ifndef CALIBRATION_DIAGNOSIS_H
#define CALIBRATION_DIAGNOSIS_H

#include "calibration/score.h"
#include "calibration/trait.h"

/* One constant as the explanation. */
struct suspect {
    const char *constant; /* its key, "gemm_efficiency" */
    bool is_of_stack;     /* else of the profile */
    double sensitivity;   /* mean over rows of d log(step) / d log(constant) */
    double change;        /* of its logarithm */
    double left;          /* mean |error| after it, of the row alone where it is one */
    double cost;          /* suspects are ranked by it */
};
enum { NUM_SUSPECTS = 3, MOST_TIME_PARTS = 16 };

struct diagnosis {
    const char *source;
    int row;    /* of the cases; -1: all of the source that nothing was fitted on, else all */
    int groups; /* rows judged together */
    double bias, mean;             /* signed median and mean size of errors */
    double share[MOST_TIME_PARTS]; /* of time_part_table: mean share of the predicted step */
    double usual[MOST_TIME_PARTS]; /* of a row: the same of its source; else 0 */
    struct suspect suspects[NUM_SUSPECTS]; /* the one that leaves the least error first */
    struct traits traits;                  /* of a source: columns that its errors depend on */
    int num_suspects;                      /* those whose share of the step is 1 % or more */
};
struct diagnoses {
    struct diagnosis *sources; /* in the order of scores->sources, scored ones only */
    int num_sources;
    struct diagnosis *rows; /* those of scores->worst, in its order */
    int num_rows;
};

enum { NUM_DIAGNOSED_ROWS = 5 };

/* Arrays live in the arena. The systems of the cases are changed on the way and put back. */
struct diagnoses runs_diagnose(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, int jobs, struct arena *arena);

/* Index in time_part_table of the part that is furthest above its usual share. */
int diagnosis_part(const struct diagnosis *of);

/* The x that minimises sum |e_i + s_i x|, between -most and +most. Room for n numbers. */
double explain_errors(const double *errors, const double *sensitivities, int n, double most,
                      int *order);

#endif
