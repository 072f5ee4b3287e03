/* The loss over a vocabulary that is split over tensor ranks, on the CPU. */
#include "kernels/host/cross_entropy.h"

#include "kernels/host/vector.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* Number of columns that are not padding. */
static long used_columns(const struct cross_entropy *loss)
{
    int64_t used = loss->vocab - loss->first;
    used = used < loss->columns ? used : loss->columns;
    return used > 0 ? used : 0;
}

EACH_MACHINE
static float row_maximum(long n, const float *logits)
{
    return row_max(n, logits, -FLT_MAX);
}

/* Computes exp in parts in a small buffer, because the logits must not be overwritten. */
EACH_MACHINE
static float exp_sum(long n, float maximum, const float *logits)
{
    enum { PART = 256 };
    float part[PART], sum = 0;
    for (long from = 0; from < n; from += PART) {
        long values = n - from < PART ? n - from : PART;
        for (long i = 0; i < values; i++)
            part[i] = exp_f32(logits[from + i] - maximum);
        sum += row_sum(values, part);
    }
    return sum;
}

EACH_MACHINE
static void gradient_row(long n, float maximum, float factor, const float *logits, float *dlogits)
{
    SAME_OR_APART
    for (long i = 0; i < n; i++)
        dlogits[i] = factor * exp_f32(logits[i] - maximum);
}

static bool is_here(const struct cross_entropy *loss, int64_t target)
{
    return target >= loss->first && target < loss->first + loss->columns;
}

void cross_entropy_maxima(const struct cross_entropy *loss, const float *logits, float *maxima)
{
    long used = used_columns(loss);
    for (long row = 0; row < loss->rows; row++)
        maxima[row] = row_maximum(used, logits + row * loss->columns);
}

void cross_entropy_sums(const struct cross_entropy *loss, const float *logits,
                        const int64_t *targets, const float *maxima, float *sums)
{
    long used = used_columns(loss);
    for (long row = 0; row < loss->rows; row++, logits += loss->columns) {
        int64_t target = targets[row];
        sums[2 * row] = exp_sum(used, maxima[row], logits);
        sums[2 * row + 1] = is_here(loss, target) ? logits[target - loss->first] - maxima[row] : 0;
    }
}

double cross_entropy_loss(long rows, const int64_t *targets, const float *sums)
{
    double loss = 0;
    for (long row = 0; row < rows; row++)
        if (targets[row] >= 0)
            loss += log((double)sums[2 * row]) - (double)sums[2 * row + 1];
    return loss;
}

void cross_entropy_gradient(const struct cross_entropy *loss, const float *logits,
                            const int64_t *targets, const float *maxima, const float *sums,
                            float scale, float *dlogits)
{
    long used = used_columns(loss);
    for (long row = 0; row < loss->rows; row++) {
        int64_t target = targets[row];
        float row_scale = target < 0 ? 0 : scale;
        gradient_row(used, maxima[row], row_scale / sums[2 * row], logits, dlogits);
        for (long i = used; i < loss->columns; i++)
            dlogits[i] = 0;
        if (is_here(loss, target))
            dlogits[target - loss->first] -= row_scale;
        logits += loss->columns;
        dlogits += loss->columns;
    }
}
