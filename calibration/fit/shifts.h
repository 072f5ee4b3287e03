/* calibration/fit/shifts.h - how far predictions are off for whole sources that were left out of
 * the fit, by tier: which of their stack and GPU other sources have measured.
 *
 * calibration/left_out.json holds the errors of each source left out in turn
 * (calibration/fit/leave_out.h), and quantiles over its rows of the half width of a shift that
 * would cover the row's error beside its own scatter. The width of a tier is found by split
 * conformal prediction over its n sources (hierarchical: Lee, Barber and Willett 2023,
 * arXiv:2306.06342): the least width whose coverage, averaged over the sources, is at least 0.9 (1
 * + 1/n). With fewer than nine sources that exceeds 1, so the width covers all rows. */
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
    double median, mean, p90, worst, bias; /* of sizes of errors; bias with its sign */
    /* Standard deviation of errors about the bias, estimated as their 90th percentile / 1.645. */
    double scatter;
    /* Quantiles over rows, rising: the half width, in log time, of a shift that covers the row. */
    double needs[NUM_NEEDS];
};
struct source_shifts {
    struct arena arena;
    struct source_shift *at;
    int count;
};

/* calibration/left_out.json. A fault is ERR_INPUT with FILE:LINE: key. Release in either case. */
bool source_shifts_load(struct source_shifts *out, struct err *err);
/* From sources left out in turn; dense rows alone count. */
void source_shifts_find(const struct left_out *sources, int count, struct source_shifts *out);
void source_shifts_write(const struct source_shifts *shifts, struct text *out);
void source_shifts_release(struct source_shifts *shifts);

/* Half width of the shift of a tier, in log time, to two digits, by all sources but one; 0: no
 * other source is in it, or it is a tier that was measured. */
double shift_width(const struct source_shifts *shifts, enum tier tier, const char *without);
/* Share of the source's rows that this width covers. */
double shift_covers(const struct source_shift *of, double width);

#endif
