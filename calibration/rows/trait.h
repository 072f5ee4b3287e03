/* calibration/rows/trait.h - the columns of measured rows that their errors depend on.
 *
 * Columns are chosen one after the other, up to three: each time the one that best predicts a row's
 * error by the mean error of the other rows that agree with it in all chosen columns. A row that
 * agrees with no other cannot be predicted, so more columns are not always better. */
#ifndef CALIBRATION_ROWS_TRAIT_H
#define CALIBRATION_ROWS_TRAIT_H

#include "calibration/rows/runs.h"

enum { MOST_TRAITS = 3, FEWEST_TRAIT_ROWS = 12 };

struct traits {
    const char *column[MOST_TRAITS]; /* in the order chosen */
    int count;
    double told; /* explained share of the errors' variance; 0 without columns */
};

/* Fewer than FEWEST_TRAIT_ROWS rows give no traits. */
struct traits traits_find(const struct run_row *const *rows, const double *errors, int n);

#endif
