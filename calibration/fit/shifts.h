/* calibration/fit/shifts.h - the common error (shift) of predictions for a source that was left out
 * of the fit, by tier. The tier says whether other sources measured the same stack and GPU.
 *
 * calibration/left_out.json holds the errors of each source left out in turn
 * (calibration/fit/leave_out.h), and quantiles over its rows of the shift that a row's error needs
 * in addition to the row's own scatter. The width of a tier is found by split conformal prediction
 * over its n sources (hierarchical: Lee, Barber and Willett 2023, arXiv:2306.06342): the smallest
 * width whose coverage, averaged over the sources, is at least 0.9 (1 + 1/n). With fewer than nine
 * sources this number exceeds 1, and the width covers all rows. */
#ifndef CALIBRATION_FIT_SHIFTS_H
#define CALIBRATION_FIT_SHIFTS_H

#include "base/text.h"
#include "calibration/fit/leave_out.h"

enum { NUM_NEEDS = 21 }; /* quantiles 0, 0.05 ... 1 */

/* The rows of one source that are in tier `tier` when the source itself is left out. */
struct source_shift {
    char source[40];
    int tier; /* enum tier */
    int groups;
    double median, mean, p90, worst, bias; /* of the errors' sizes; bias is signed */
    /* Standard deviation of errors about the bias, estimated as their 90th percentile / 1.645. */
    double scatter;
    /* Quantiles over rows, ascending, of the shift that a row needs: a half width in log time. */
    double needs[NUM_NEEDS];
};
struct source_shifts {
    struct arena arena;
    struct source_shift *at;
    int count;
};

/* Loads calibration/left_out.json. A faulty file is ERR_INPUT with FILE:LINE: key. Release the
 * result also after an error. */
bool source_shifts_load(struct source_shifts *out, struct err *err);
/* Computes the shifts from sources that were left out one at a time. Only rows of dense models
 * count. */
void source_shifts_find(const struct left_out *sources, int count, struct source_shifts *out);
void source_shifts_write(const struct source_shifts *shifts, struct text *out);
void source_shifts_release(struct source_shifts *shifts);

/* Half width of the shift of a tier, in log time, rounded to two digits, from all sources except
 * `without`. 0 if no other source is in the tier, or for TIER_SEEN. */
double shift_width(const struct source_shifts *shifts, enum tier tier, const char *without);
/* Share of the source's rows that this width covers. */
double shift_covers(const struct source_shift *of, double width);

#endif
