/* calibration/interval.h - how wide the intervals of stacks and profiles have to be.
 *
 * With n rows that nothing was fitted on, the interval that the next row falls into with 90 %
 * reaches to the ceil(0.9 (n + 1))-th smallest error (split conformal prediction; Lei et al. 2018,
 * arXiv:1604.04173). Fewer than 9 rows cannot say.
 *
 * A stack is judged where the profile is measured, so that its interval is its own. */
#ifndef CALIBRATION_INTERVAL_H
#define CALIBRATION_INTERVAL_H

#include "calibration/score.h"

struct interval_need {
    const char *name; /* of the stack or profile */
    bool is_of_stack;
    int groups;
    double needed; /* half width in log time; NaN when there are too few rows */
    double stated; /* the median of what their predictions state */
};
struct interval_needs {
    struct interval_need *at; /* stacks first, by name */
    int count;
};

/* In the place of a stack's name: all sources without a fitted row, whatever their stack. What they
 * need is what a family needs that has no rows of its own. */
extern const char new_sources[];

/* Names are borrowed from the cases; the array lives in the arena. */
struct interval_needs runs_need(const struct run_case *cases,
                                const struct run_prediction *predictions,
                                const struct scores *scores, struct arena *arena);

#endif
