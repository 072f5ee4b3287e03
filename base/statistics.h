/* base/statistics.h - numbers in rising order, and what stands where in them. */
#ifndef BASE_STATISTICS_H
#define BASE_STATISTICS_H

#include <stddef.h>

void numbers_sort(double *numbers, size_t count); /* in rising order, in place */

/* Of count > 0 numbers, which it sorts; of an even count, the upper of the middle two. */
double numbers_median(double *numbers, int count);

/* Of count > 0 numbers in rising order: between the two nearest ranks, in proportion. */
double sorted_quantile(const double *sorted, int count, double share);

#endif
