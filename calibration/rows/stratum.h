/* calibration/rows/stratum.h - groups measured runs that differ only in their plan. */
#ifndef CALIBRATION_ROWS_STRATUM_H
#define CALIBRATION_ROWS_STRATUM_H

#include "calibration/rows/convert.h"

/* Compares two `const struct run_case *` for qsort. Runs with the same source, GPU, number of GPUs,
 * software, precision, model and batch (a stratum) become adjacent, in their order in the file. */
int stratum_compare_cases(const void *a, const void *b);

/* Index after the last of the n sorted cases that belongs to the stratum of case `first`. */
int stratum_end(const struct run_case *const *of, int n, int first);

#endif
