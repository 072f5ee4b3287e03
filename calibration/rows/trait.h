/* calibration/rows/trait.h - finds the columns of measured rows on which the prediction errors
 * depend.
 *
 * Up to three columns are chosen, one after the other. A row's error is predicted by the mean error
 * of the other rows with the same values in all chosen columns; each time the column that predicts
 * best is added. If no other row has the same values, the error cannot be predicted, so more
 * columns are not always better. */
#ifndef CALIBRATION_ROWS_TRAIT_H
#define CALIBRATION_ROWS_TRAIT_H

#include "calibration/rows/runs.h"

enum { MOST_TRAITS = 3, FEWEST_TRAIT_ROWS = 12 };

struct traits {
    const char *column[MOST_TRAITS]; /* in the order in which they were chosen */
    int count;
    double explained; /* explained share of the errors' variance; 0 without columns */
};

/* Finds the traits of n rows with their errors. With fewer than FEWEST_TRAIT_ROWS rows there are
 * none. */
struct traits traits_find(const struct run_row *const *rows, const double *errors, int n);

#endif
