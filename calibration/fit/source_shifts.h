/* calibration/fit/source_shifts.h - the common error (shift) of predictions for a source that was
 * left out of the fit, by tier. The tier says whether other sources measured the same stack and
 * GPU.
 *
 * calibration/left_out.json holds the errors of each source left out in turn
 * (calibration/fit/leave_out.h), and quantiles over the source's rows. They are quantiles of the
 * shift without which the row's error would be larger than the row's own scatter allows.
 *
 * The shifts of a tier are assumed normal around 0 with an unknown variance, whose prior is a half
 * width of 0.2 with the weight of two sources. With the deviations b of n sources the shift of a
 * further one has a t distribution with n + 2 degrees of freedom and the scale sqrt((2 (0.2 /
 * 1.645)^2 + sum b^2) / (n + 2)) (Gelman et al. 2013, Bayesian Data Analysis, section 2.6). A 90 %
 * quantile over sources is not used, as it would need at least nine sources. A source's b is its
 * bias, or the 90th percentile of its rows' needs divided by 1.645 if that is larger: its rows then
 * scatter more than those of other sources, and a further source may do so too.
 *
 * The shift of a stack that was never measured also depends on the width of the slices into which
 * tensor parallelism cuts matrices (hidden size / tensor ranks): how fast small products and the
 * kernels beside them run differs between stacks. The slopes b of the sources' errors over
 * ln(slice) are assumed normal around 0; a further source at the slice x has the additional half
 * width t sqrt(sum b^2 / n) |ln(x / usual)|, with t the 95 % quantile of Student's t distribution
 * and `usual` the mean slice of the sources. So predictions far from all measured slices are less
 * certain. */
#ifndef CALIBRATION_FIT_SOURCE_SHIFTS_H
#define CALIBRATION_FIT_SOURCE_SHIFTS_H

#include "base/text.h"
#include "calibration/fit/leave_out.h"

enum {
    NUM_NEEDS = 21,        /* quantiles 0, 0.05 ... 1 */
    FEWEST_FOR_SLOPE = 4,  /* a source with fewer rows has no slope */
    FEWEST_SHIFT_ROWS = 4, /* `learn` does not use the bias of a source with fewer rows */
};

/* The rows of one source that are in tier `tier` when the source itself is left out. */
struct source_shift {
    char source[40];
    int tier; /* enum tier */
    int groups;
    double median, mean, p90, worst, bias; /* statistics of the absolute errors; bias is signed */
    /* Standard deviation of errors about the bias, estimated as their 90th percentile / 1.645. */
    double scatter;
    double spread; /* median distance of the errors from the bias */
    /* Mean change of its rows' errors per factor e in the width of a rank's slice, by regression.
     * 0: the slices of its rows are too alike for a regression. */
    double slope;
    double slice; /* geometric mean of these slices, in columns */
    /* Quantiles over rows, ascending, of the shift (a half width in log time) with which the row's
     * error just lies within its interval. */
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
 * count. `known` has the slopes of other sources; NULL: those of `sources`. */
void source_shifts_find(const struct left_out *sources, int count,
                        const struct source_shifts *known, struct source_shifts *out);
void source_shifts_write(const struct source_shifts *shifts, struct text *out);
void source_shifts_release(struct source_shifts *shifts);

/* The trend with slices of a stack that was never measured, from the slopes of all sources except
 * `without`; width 0 if fewer than two sources have a slope. */
struct slice_trend slice_trend_find(const struct source_shifts *shifts, const char *without);

/* The trend's half width for a slice of e^log_slice columns; 0 for other tiers than TIER_NEW_STACK.
 */
double slice_width(const struct slice_trend *trend, enum tier tier, double log_slice);

/* Half width of the 90 % interval of a tier's shift, in log time, from all sources except
 * `without`. 0 if no other source is in the tier, or for TIER_SEEN. */
double shift_width(const struct source_shifts *shifts, enum tier tier, const char *without);
/* The distribution of the shift of a further source of a tier: a t distribution around 0, found
 * from the biases of the tier's known sources except `without`. TIER_SEEN uses the sources of all
 * tiers. */
struct shift_prior {
    double scale, freedom;
};
struct shift_prior shift_prior_find(const struct source_shifts *shifts, enum tier tier,
                                    const char *without);

/* Share of the source's rows that this width covers. */
double shift_covers(const struct source_shift *of, double width);

#endif
