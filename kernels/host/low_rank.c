/* Orthonormalises the columns of a matrix on the CPU, for PowerSGD. */
#include "kernels/host/low_rank.h"

#include <math.h>

/* If the remainder of a column is shorter than this fraction of the column, it counts as rounding
 * error. */
static const double rounding = 1e-6;

static double product_of(long rows, long rank, const float *columns, long a, long b)
{
    double sum = 0;
    for (long i = 0; i < rows; i++)
        sum += (double)columns[i * rank + a] * (double)columns[i * rank + b];
    return sum;
}

static void take_away(long rows, long rank, float *columns, long from, long other)
{
    double part = product_of(rows, rank, columns, from, other);
    for (long i = 0; i < rows; i++)
        columns[i * rank + from] -= (float)(part * (double)columns[i * rank + other]);
}

static void scale(long rows, long rank, float *columns, long column, double factor)
{
    for (long i = 0; i < rows; i++)
        columns[i * rank + column] = (float)((double)columns[i * rank + column] * factor);
}

/* Subtracts the projections on earlier columns. It runs twice per column: the second pass removes
 * the rounding errors of the first. */
static void orthogonalise_column(long rows, long rank, float *columns, long column)
{
    double before = sqrt(product_of(rows, rank, columns, column, column));
    if (before > 0)
        scale(rows, rank, columns, column, 1 / before);
    for (int turn = 0; turn < 2; turn++)
        for (long other = 0; other < column; other++)
            take_away(rows, rank, columns, column, other);
    double left = sqrt(product_of(rows, rank, columns, column, column));
    scale(rows, rank, columns, column, left <= rounding ? 0 : 1 / left);
}

void orthogonalise(long rows, long rank, float *columns)
{
    for (long column = 0; column < rank; column++)
        orthogonalise_column(rows, rank, columns, column);
}
