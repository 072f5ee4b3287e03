#include "base/statistics.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    return numbers_order(*(const double *)a, *(const double *)b);
}

void numbers_sort(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare);
}

double numbers_median(double *numbers, int count)
{
    numbers_sort(numbers, (size_t)count);
    return numbers[count / 2];
}

double sorted_quantile(const double *sorted, int count, double share)
{
    double rank = share * (count - 1);
    int below = (int)rank;
    int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - below) * (sorted[above] - sorted[below]);
}
