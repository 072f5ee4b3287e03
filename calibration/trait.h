/* calibration/trait.h - which columns of measured rows their errors go by.
 *
 * Columns are chosen one after the other, up to three: the one that helps most to tell a row's
 * error from the mean error of the other rows that agree with it in all columns chosen so far. A
 * row that agrees with no other has nothing to be told by, so that finer is not always better. */
#ifndef CALIBRATION_TRAIT_H
#define CALIBRATION_TRAIT_H

#include "calibration/runs.h"

enum { MOST_TRAITS = 3, FEWEST_TRAIT_ROWS = 12 };

struct traits {
    const char *column[MOST_TRAITS]; /* in the order chosen */
    int count;
    double told; /* share of the errors' variance; 0 without columns */
};

/* None of fewer than FEWEST_TRAIT_ROWS rows. */
struct traits traits_find(const struct run_row *const *rows, const double *errors, int n);

#endif
