/* calibration/fit/diagnosis.h - which constants probably cause the errors of predictions.
 *
 * A row is one measured run; its source is the publication that states it. To find the sensitivity
 * of steps to a constant, d log(step) / d log(constant), each constant of the profiles and stacks
 * is raised by 1 % in turn and all rows are predicted again. A constant explains the errors e of
 * rows with sensitivities s if its logarithm is changed by some x. The x that minimises the sum of
 * |e + s x| (a weighted median) is taken, within the bounds that the field tables of profiles and
 * stacks state. The constant that leaves the least error is named. It is only a suspect: step times
 * do not distinguish constants with similar effects.
 *
 * A single row is explained together with the other rows of its source, which get half of the
 * weight: a change that makes all of them worse is no explanation. */
#ifndef CALIBRATION_FIT_DIAGNOSIS_H
#define CALIBRATION_FIT_DIAGNOSIS_H

#include "calibration/rows/trait.h"
#include "calibration/score/score.h"

/* One constant as the explanation. */
struct suspect {
    const char *constant; /* the key, such as "gemm_efficiency" */
    bool is_of_stack;     /* it belongs to the stack, otherwise to the profile */
    double sensitivity;   /* mean over rows of d log(step) / d log(constant) */
    double change;        /* change of its logarithm */
    double left;          /* mean |error| after the change; for a single row, |error| of that row */
    double cost;          /* sort key of the suspects */
};
enum { NUM_SUSPECTS = 3, MOST_TIME_PARTS = 16 };

struct diagnosis {
    const char *source;
    int row; /* index of the case; -1: all held-out rows of the source, or all its rows if none is
                held out */
    int groups;                    /* number of rows that are explained together */
    double bias, mean;             /* signed median of errors, and mean of their sizes */
    double share[MOST_TIME_PARTS]; /* per time_part_table: mean share of the predicted step */
    double usual[MOST_TIME_PARTS]; /* for a single row, its source's mean share; else 0 */
    struct suspect suspects[NUM_SUSPECTS]; /* in ascending order of the remaining error */
    struct traits traits;                  /* for a source: columns on which its errors depend */
    int num_suspects; /* only constants with a mean sensitivity of 0.01 or more */
};
struct diagnoses {
    /* in the order of scores->sources, without those that are not scored */
    struct diagnosis *sources;
    int num_sources;
    struct diagnosis *rows; /* the rows of scores->worst, in that order */
    int num_rows;
};

enum { NUM_DIAGNOSED_ROWS = 5 };

/* Arrays live in the arena. The function changes the systems of the cases temporarily and restores
 * them. */
struct diagnoses runs_diagnose(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, int jobs, struct arena *arena);

/* Index in time_part_table of the class of time that is furthest above its usual share. */
int diagnosis_part(const struct diagnosis *of);

/* The x that minimises sum |e_i + s_i x|, between -most and +most. `order` has room for n
 * numbers. */
double explain_errors(const double *errors, const double *sensitivities, int n, double most,
                      int *order);

#endif
