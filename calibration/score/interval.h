/* calibration/score/interval.h - the interval widths that stacks and profiles need.
 *
 * With n held-out rows, the interval that contains the next row with 90 % probability reaches to
 * the ceil(0.9 (n + 1))-th smallest error (split conformal prediction; Lei et al. 2018,
 * arXiv:1604.04173). That takes at least 9 rows.
 *
 * A stack is judged only on measured profiles, so that its interval contains no error of a
 * profile. */
#ifndef CALIBRATION_SCORE_INTERVAL_H
#define CALIBRATION_SCORE_INTERVAL_H

#include "calibration/score/score.h"

struct interval_need {
    const char *name; /* of the stack or profile */
    bool is_of_stack;
    int groups;
    double needed; /* half width in log time; NaN when there are too few rows */
    double stated; /* the median of the predictions' own half widths */
};
struct interval_needs {
    struct interval_need *at; /* stacks first, by name */
    int count;
};

/* Used instead of a stack's name: all sources without a fitted row, whatever their stack. A family
 * without rows needs this width. */
extern const char new_sources[];

/* Names are borrowed from the cases; the array lives in the arena. */
struct interval_needs runs_need(const struct run_case *cases,
                                const struct run_prediction *predictions,
                                const struct scores *scores, struct arena *arena);

#endif
