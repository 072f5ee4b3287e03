/* calibration/score/needed_widths.h - the interval widths that stacks and profiles need.
 *
 * A row is one measured run. With n held-out rows, the half width of the interval that contains the
 * next row with 90 % probability is the ceil(0.9 (n + 1))-th smallest error size (split conformal
 * prediction; Lei et al. 2018, arXiv:1604.04173). It needs at least 9 rows.
 *
 * A stack's interval is computed only from rows on measured profiles, so that it does not include
 * errors of profiles. */
#ifndef CALIBRATION_SCORE_NEEDED_WIDTHS_H
#define CALIBRATION_SCORE_NEEDED_WIDTHS_H

#include "calibration/score/score.h"

struct interval_need {
    const char *name; /* name of the stack or profile */
    bool is_of_stack;
    int groups;
    double needed; /* half width in log time; NaN when there are too few rows */
    double stated; /* the median of the predictions' own half widths */
    /* the same quantile of errors divided by the rows' own half widths; above 1, intervals are too
     * narrow by this factor, even if widths differ from plan to plan; NaN if there are too few
     * rows */
    double short_by;
};
struct interval_needs {
    struct interval_need *at; /* stacks first, by name */
    int count;
};

/* Used instead of a stack's name for all sources without a fitted row, of any stack. A stack
 * without rows needs this width. */
extern const char new_sources[];

/* Names are borrowed from the cases; the array lives in the arena. */
struct interval_needs runs_need(const struct run_case *cases,
                                const struct run_prediction *predictions,
                                const struct scores *scores, struct arena *arena);

#endif
