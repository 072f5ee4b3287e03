/* calibration/fit/diagnosis.h - which constants probably cause the errors of predictions.
 *
 * Each constant of the profiles and stacks is raised by 1 % in turn and all rows are predicted
 * again: d log(step) / d log(constant), its sensitivity. Errors e of rows with sensitivities s are
 * explained by changing the constant's logarithm by the x that minimises the sum of |e + s x| (a
 * weighted median) within the file's bounds. The constant that leaves the least error is named. It
 * is only a suspect: times of whole steps cannot tell constants with similar effects apart.
 *
 * A single row is explained together with its source, which gets half of the weight: a change that
 * would spoil all other rows does not explain this one. */
#ifndef CALIBRATION_FIT_DIAGNOSIS_H
#define CALIBRATION_FIT_DIAGNOSIS_H

#include "calibration/rows/trait.h"
#include "calibration/score/score.h"

/* One constant as the explanation. */
struct suspect {
    const char *constant; /* the key, "gemm_efficiency" */
    bool is_of_stack;     /* else of the profile */
    double sensitivity;   /* mean over rows of d log(step) / d log(constant) */
    double change;        /* of its logarithm */
    double left; /* mean |error| after the change; of the row alone when it is about one row */
    double cost; /* sort key of the suspects */
};
enum { NUM_SUSPECTS = 3, MOST_TIME_PARTS = 16 };

struct diagnosis {
    const char *source;
    int row; /* index of the case; -1: all held-out rows of the source, or all its rows if none is
                held out */
    int groups;                    /* rows judged together */
    double bias, mean;             /* signed median and mean size of errors */
    double share[MOST_TIME_PARTS]; /* per time_part_table: mean share of the predicted step */
    double usual[MOST_TIME_PARTS]; /* for a row: its source's mean share; else 0 */
    struct suspect suspects[NUM_SUSPECTS]; /* least remaining error first */
    struct traits traits;                  /* for a source: columns that its errors depend on */
    int num_suspects; /* number of suspects with a share of the step of 1 % or more */
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
