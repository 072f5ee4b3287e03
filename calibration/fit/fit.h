/* calibration/fit/fit.h - fits constants of profiles and stacks to measurements.
 *
 * A job of fit.json minimises the squares of log(predicted / measured) over the logarithms of its
 * constants, starting from their priors. The result is rounded to three digits, so that it is the
 * same on every machine. */
#ifndef CALIBRATION_FIT_FIT_H
#define CALIBRATION_FIT_FIT_H

#include "calibration/fit/fit_result.h"

/* Runs a job. The results of the `earlier` jobs replace the shipped constants.
 *
 * A row is a measured run or micro-benchmark; its source is the publication that states it.
 * Cross-validation predicts every row with constants fitted without it, by the protocol of
 * `validate`: a profile's constants are fitted without the row's whole source, then a stack's
 * constants on that source without the row's fold (one of five, by configuration). In a job with
 * one source, all constants are fitted by folds. Rows of the table's left_out source have weight 0.
 * A job without rows (is_middle) takes medians of `earlier` results. Release the result also after
 * an error. */
bool fit_run(const struct fit_table *table, const struct fit_job *job,
             const struct fit_result *earlier, int num_earlier, int jobs, bool cross_validate,
             struct fit_result *out, struct err *err);
void fit_result_release(struct fit_result *result);

#endif
