/* calibration/fit/curve_fit.h - fits a collective's curve of time by message size to measured
 * times.
 *
 * Log time is piecewise linear in log size between the knots given in fit.json, is fitted by least
 * squares and never falls. With few knots the curve smooths out the scatter of single sizes and the
 * dips where NCCL changes algorithms. */
#ifndef CALIBRATION_FIT_CURVE_FIT_H
#define CALIBRATION_FIT_CURVE_FIT_H

#include "calibration/fit/fit_table.h"
#include "calibration/score/score.h"

struct curve_result {
    const struct fit_curve *of;
    struct curve curve;  /* the fitted curve, times rounded to four digits */
    struct score errors; /* log(curve / measured) of the measured times */
};

struct curve_results {
    struct arena arena;
    struct curve_result *at; /* one per curve of the table */
    int count;
};

/* Fits all curves of the table. A curve without a row of its collective is an error. Release the
 * results also after an error. */
bool curves_fit(const struct fit_table *table, struct curve_results *out, struct err *err);
void curves_release(struct curve_results *results);

/* Fits the times of the curve's knots, whose sizes are given, to n measurements. */
void curve_fit(struct curve *curve, const double *bytes, const double *time_s, int n);

#endif
