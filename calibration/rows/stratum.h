/* calibration/rows/stratum.h - measured runs that differ in nothing but their plan. */
#ifndef CALIBRATION_ROWS_STRATUM_H
#define CALIBRATION_ROWS_STRATUM_H

#include "calibration/rows/convert.h"

/* For qsort over `const struct run_case *`: runs of one source, GPU and number of them, software,
 * precision, model and batch stand together, in the order of the cases. */
int stratum_compare_cases(const void *a, const void *b);

/* One past the last of the n sorted cases in the stratum of case `first`. */
int stratum_end(const struct run_case *const *of, int n, int first);

#endif
