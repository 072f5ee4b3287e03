#include "kernels/host/combine.h"

#include "kernels/host/vector.h"

EACH_MACHINE
void combine(long n, float a, const float *x, float b, const float *y, float *out)
{
    SAME_OR_APART
    for (long i = 0; i < n; i++)
        out[i] = a * x[i] + b * y[i];
}
