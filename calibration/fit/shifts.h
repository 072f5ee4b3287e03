/* calibration/fit/shifts.h - how far whole sources are off, by what was measured before them.
 *
 * calibration/left_out.json holds, for each source left out in turn
 * (calibration/fit/leave_out.h), its errors, and how wide a shift its rows need beside their own
 * scatter. The width of a tier is split conformal over sources (hierarchical: Lee, Barber and
 * Willett 2023, arXiv:2306.06342): the least that covers (1 + 1/n) 0.9 of the mean source of n; of
 * fewer than nine sources, nearly all. */
#ifndef CALIBRATION_FIT_SHIFTS_H
#define CALIBRATION_FIT_SHIFTS_H

#include "base/text.h"
#include "calibration/fit/leave_out.h"

enum { NUM_NEEDS = 21 }; /* quantiles 0, 0.05 ... 1 */

/* The rows of a source that are in one tier without it. */
struct source_shift {
    char source[40];
    int tier; /* enum tier */
    int groups;
    double median, mean, p90, worst, bias; /* of sizes of errors; bias with its sign */
    double scatter; /* standard deviation of errors about the bias, by their 90th percentile */
    double needs[NUM_NEEDS]; /* half widths in log time of a shift that rows lie within, rising */
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
