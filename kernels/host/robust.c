/* Rules that combine the gradients of several ranks and tolerate arbitrary values from a few of
 * them, and the false gradients of hostile ranks in tests. `x` holds `count` vectors of n elements,
 * one vector per rank. */
#include "kernels/host/robust.h"

#include "base/arena.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- element by element ------------------------------------------------------------------- */

/* Sorts few values, ascending. */
static void sort(float *values, int count)
{
    for (int i = 1; i < count; i++) {
        float value = values[i];
        int at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

static float trimmed_mean(float *values, int count, int trim)
{
    double sum = 0;
    sort(values, count);
    for (int i = trim; i < count - trim; i++)
        sum += (double)values[i];
    return (float)(sum / (count - 2 * trim));
}

void robust_trimmed(long n, int count, const float *x, int trim, float scale, float *out)
{
    float *values = arena_grow(NULL, sizeof *values * (size_t)count);
    for (long i = 0; i < n; i++) {
        for (int r = 0; r < count; r++) {
            float value = x[r * n + i];
            values[r] = isnan(value) ? INFINITY : value;
        }
        out[i] = scale * trimmed_mean(values, count, trim);
    }
    free(values);
}

/* --- by whole vectors --------------------------------------------------------------------- */

static double square_distance(long n, const float *x, const float *y)
{
    double sum = 0;
    for (long i = 0; i < n; i++) {
        double apart = (double)x[i] - (double)y[i];
        sum += apart * apart;
    }
    return sum;
}

/* Elements are processed in blocks, so that the block of every vector stays in the cache. */
void robust_distances(long n, int count, const float *x, double *squares)
{
    enum { BLOCK = 4096 };
    memset(squares, 0, sizeof *squares * (size_t)count * (size_t)count);
    for (long first = 0; first < n; first += BLOCK) {
        long length = n - first < BLOCK ? n - first : BLOCK;
        for (int i = 0; i < count; i++)
            for (int j = 0; j < i; j++)
                squares[i * count + j] +=
                    square_distance(length, x + i * n + first, x + j * n + first);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            squares[j * count + i] = squares[i * count + j];
}

/* A distance to a vector with a NaN counts as infinite. */
static double or_infinite(double square)
{
    return isnan(square) ? HUGE_VAL : square;
}

/* Puts the squared distances from vector i to the others into `sorted`, ascending. */
static void sort_others(int count, int i, const double *squares, double *sorted)
{
    int others = 0;
    for (int j = 0; j < count; j++)
        if (j != i)
            sorted[others++] = or_infinite(squares[i * count + j]);
    numbers_sort(sorted, (size_t)others);
}

void robust_krum(int count, int hostile, const double *squares, double *weights)
{
    double *sorted = arena_grow(NULL, sizeof *sorted * (size_t)count);
    double least = HUGE_VAL;
    int best = 0;
    for (int i = 0; i < count; i++) {
        double score = 0;
        sort_others(count, i, squares, sorted);
        for (int j = 0; j < count - hostile - 2; j++)
            score += sorted[j];
        if (score < least) {
            least = score;
            best = i;
        }
    }
    memset(weights, 0, sizeof *weights * (size_t)count);
    weights[best] = 1;
    free(sorted);
}

/* Sets equal weights for the vectors that are at a finite distance from at least half of the
 * others, and 0 for the rest. Returns the number of vectors with a weight. */
static int weigh_finite(int count, const double *squares, double *weights)
{
    double *sorted = arena_grow(NULL, sizeof *sorted * (size_t)count);
    int finite = 0;
    for (int i = 0; i < count; i++) {
        sort_others(count, i, squares, sorted);
        weights[i] = count < 2 || isfinite(sorted[(count - 1) / 2]) ? 1 : 0;
        finite += weights[i] > 0;
    }
    for (int i = 0; i < count; i++)
        weights[i] /= finite > 0 ? finite : 1;
    free(sorted);
    return finite;
}

/* The squared distance of vector i from the weighted sum z of all vectors: |z - x_i|^2 = sum_j w_j
 * d_ij - 1/2 sum_jk w_j w_k d_jk, with the squared distances d_ij between vectors and weights w
 * that sum to 1. `inner` is the second term. */
static double square_from_mean(int count, int i, const double *squares, const double *weights,
                               double inner)
{
    double sum = -inner;
    for (int j = 0; j < count; j++)
        if (weights[j] > 0)
            sum += weights[j] * squares[i * count + j];
    return fmax(sum, 0);
}

static double half_mean_square(int count, const double *squares, const double *weights)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (weights[i] > 0 && weights[j] > 0)
                sum += weights[i] * weights[j] * squares[i * count + j] / 2;
    return sum;
}

/* One step of Weiszfeld's iteration: the new weights are inverse distances from the weighted sum.
 * Returns the largest change of a weight. */
static double weiszfeld(int count, const double *squares, double *weights, double *next)
{
    /* smoothing (Pillutla et al.) as a fraction of the mean distance */
    const double smallest = 1e-6;
    double inner = half_mean_square(count, squares, weights), sum = 0, change = 0;
    double floor_square = smallest * smallest * inner;
    for (int i = 0; i < count; i++) {
        double square = square_from_mean(count, i, squares, weights, inner);
        next[i] = weights[i] > 0 ? 1 / sqrt(fmax(square, floor_square)) : 0;
        sum += next[i];
    }
    for (int i = 0; i < count; i++) {
        change = fmax(change, fabs(next[i] / sum - weights[i]));
        weights[i] = next[i] / sum;
    }
    return change;
}

void robust_geometric_median(int count, const double *squares, double *weights)
{
    enum { MOST_STEPS = 100 };
    const double enough = 1e-7; /* largest change of a weight at which the iteration stops; fp32
                                   rounds the sum more coarsely */
    int finite = weigh_finite(count, squares, weights);
    double *next = arena_grow(NULL, sizeof *next * (size_t)count);
    double change = half_mean_square(count, squares, weights) > 0 && finite > 1 ? 1 : 0;
    for (int step = 0; step < MOST_STEPS && change > enough; step++)
        change = weiszfeld(count, squares, weights, next);
    free(next);
}

void robust_weighted(long n, int count, const float *x, const double *weights, float scale,
                     float *out)
{
    memset(out, 0, sizeof *out * (size_t)n);
    for (int r = 0; r < count; r++) {
        float weight = (float)weights[r] * scale;
        for (long i = 0; i < n && weights[r] > 0; i++)
            out[i] += weight * x[r * n + i];
    }
}

/* --- hostile ranks ------------------------------------------------------------------------ */

static double root_mean_square(long n, const float *x)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

void falsify(long n, enum falsity falsity, float strength, const struct draw *draw, float *x)
{
    switch (falsity) {
    case FALSITY_FLIP:
        for (long i = 0; i < n; i++)
            x[i] *= -strength;
        return;
    case FALSITY_NOISE:
        draw_normal(draw, (double)strength * root_mean_square(n, x), 0, n, x);
        return;
    case FALSITY_SILENCE:
        memset(x, 0, sizeof *x * (size_t)n);
        return;
    case NUM_FALSITIES:
        return;
    }
}
