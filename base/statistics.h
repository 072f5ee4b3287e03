/* base/statistics.h - sorting, medians, quantiles, and the rounding error of sums. */
#ifndef BASE_STATISTICS_H
#define BASE_STATISTICS_H

#include <stddef.h>

/* -1, 0 or 1: a is less than, equal to or greater than b. */
static inline int numbers_order(double a, double b)
{
    return (a > b) - (a < b);
}

/* A lower bound of what the same positive doubles sum to in any other order. Each order of n terms
 * has a relative rounding error of at most n x 2^-53, and the longest sums have some thousands of
 * terms. */
static inline double sum_floor(double sum)
{
    return sum * (1 - 1e-12);
}

void numbers_sort(double *numbers, size_t count); /* sorts in rising order, in place */

/* The median of count > 0 numbers, which it sorts; for an even count, the upper of the middle
 * two. */
double numbers_median(double *numbers, int count);

/* A quantile of count > 0 sorted numbers, interpolated between the two nearest ranks. */
double sorted_quantile(const double *sorted, int count, double share);

#endif
