/* calibration/fit/held_peaks.h - bounds the error of predicted memory peaks by runs whose memory
 * was not measured: none of them ran out of memory.
 *
 * The log of a real peak over the predicted one is S + e. S, with variance `between`, is the same
 * for all runs of a stack; e, with variance `within`, differs between plans. A run whose predicted
 * peak is P fitted into U bytes, so S + e <= b = log(U / P): a censored observation (Tobin 1958).
 * Given S its probability is Phi((b - S) / sqrt(within)), so the density of S given all bounds is
 *
 *     phi(S / sqrt(between)) x product of Phi((b_i - S) / sqrt(within))
 *
 * up to a factor. Its mean and variance are found by Simpson's rule. */
#ifndef CALIBRATION_FIT_HELD_PEAKS_H
#define CALIBRATION_FIT_HELD_PEAKS_H

#include "base/err.h"
#include "calibration/fit/fit_table.h"
#include "calibration/fit/shipped_runs.h"
#include "calibration/fit/widths.h"

struct peak_variances {
    double between, within;
};

/* The variances of a random-effects model, by expectation maximisation on the errors of measured
 * peaks. Rows of one stack are adjacent. 0 rows: both are 0. */
struct peak_variances peak_variances_find(const struct width_row *rows, int count);

struct held_peak {
    const char *stack, *model, *gpu;
    double bound; /* log(usable memory / predicted peak) */
};

/* Mean and variance of S given the bounds, which need not be sorted. Of bounds of one model on one
 * GPU only the smallest counts, as such runs also share most of e. */
struct peak_shift {
    double mean, variance;
};
struct peak_shift peak_shift_find(struct peak_variances variances, const struct held_peak *bounds,
                                  int count);

/* Loads bounds from two kinds of runs: shipped runs that state what they recompute and have a
 * measured time but no measured memory; and the runs listed in the table under "ran". The bounds
 * are sorted by stack, with texts in the arena. Returns their number. */
bool held_peaks_load(const struct shipped_runs *runs, const struct fit_table *table,
                     struct arena *arena, struct held_peak **out, int *count, struct err *err);

#endif
