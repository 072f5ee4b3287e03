/* Fits the half widths of the 90 % intervals, by class of time in a step, to the errors of rows
 * (measured runs). */
#include "calibration/fit/widths.h"

#include "base/normal.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200 };
/* Largest total weight of one stack's rows when all stacks are pooled. */
static const double most_weight = 20;

/* --- variances ----------------------------------------------------------------------------- */

static double variance_of(const struct width_row *row, const double *v)
{
    double sum = 0;
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        sum += row->shares[k] * row->shares[k] * v[k];
    return sum;
}

/* One row's contribution to expectation maximisation. Given the variances v and the row's error e,
 * whose total variance is V, the error of class k (such as compute) has mean c e and variance
 * share^2 v_k (1 - c), where c = share^2 v_k / V. The new v_k is the weighted mean over the rows of
 * this error's mean square divided by share^2. */
static void add_row(const struct width_row *row, double weight, double cutoff, const double *v,
                    double *sums, double *weights)
{
    double all = variance_of(row, v);
    double error = fmin(fabs(row->error), cutoff);
    for (int k = 0; k < NUM_ERROR_PARTS; k++) {
        double squared_share = row->shares[k] * row->shares[k];
        if (squared_share <= 0)
            continue;
        double c = squared_share * v[k] / all;
        sums[k] += weight * (v[k] * (1 - c) + c * c * error * error / squared_share);
        weights[k] += weight;
    }
}

static void maximise(const struct width_rules *rules, const struct width_row *rows, int count,
                     const double *weight, const double *prior, double *v)
{
    memcpy(v, prior, NUM_ERROR_PARTS * sizeof *v);
    for (int step = 0; step < STEPS; step++) {
        double sums[NUM_ERROR_PARTS], weights[NUM_ERROR_PARTS];
        for (int k = 0; k < NUM_ERROR_PARTS; k++) {
            sums[k] = rules->prior_rows * prior[k];
            weights[k] = rules->prior_rows;
        }
        for (int i = 0; i < count; i++)
            add_row(&rows[i], weight[i], rules->cutoff, v, sums, weights);
        for (int k = 0; k < NUM_ERROR_PARTS; k++)
            v[k] = sums[k] / weights[k];
    }
}

/* --- scales -------------------------------------------------------------------------------- */

struct scaled {
    double size, weight;
};

static int compare_scaled(const void *a, const void *b)
{
    return numbers_order(((const struct scaled *)a)->size, ((const struct scaled *)b)->size);
}

/* The weighted 90 % quantile, with one additional row of mean weight (split conformal
 * prediction). */
static double scale_of(struct scaled *sorted, int n)
{
    double sum = 0, below = 0;
    for (int i = 0; i < n; i++)
        sum += sorted[i].weight;
    qsort(sorted, (size_t)n, sizeof *sorted, compare_scaled);
    for (int i = 0; i < n; i++) {
        below += sorted[i].weight;
        if (below >= 0.9 * (sum + sum / n) * (1 - 1e-12))
            return sorted[i].size;
    }
    return n > 0 ? sorted[n - 1].size : normal_90;
}

/* --- families ------------------------------------------------------------------------------ */

static int end_of_family(const struct width_row *rows, int count, int first)
{
    int end = first + 1;
    while (end < count && strcmp(rows[end].stack, rows[first].stack) == 0)
        end++;
    return end;
}

static void set_widths(struct family_widths *family, const double *v, double scale)
{
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        error_width_set(&family->widths, k, scale * sqrt(v[k]));
}

int widths_find(const struct width_rules *rules, const struct width_row *rows, int count,
                struct arena *arena, struct family_widths *out)
{
    double prior[NUM_ERROR_PARTS], pooled[NUM_ERROR_PARTS];
    size_t room = (size_t)count + 1;
    double *weight = ARENA_ARRAY(arena, double, room);
    double *even = ARENA_ARRAY(arena, double, room);
    double *own = ARENA_ARRAY(arena, double, room *NUM_ERROR_PARTS);
    struct scaled *all = ARENA_ARRAY(arena, struct scaled, room);
    struct scaled *scratch = ARENA_ARRAY(arena, struct scaled, room);
    int families = 0;
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        prior[k] = pow(error_width(&rules->prior, k) / normal_90, 2);
    for (int first = 0, end; first < count; first = end) {
        end = end_of_family(rows, count, first);
        for (int i = first; i < end; i++) {
            even[i] = 1;
            weight[i] = fmin(1, most_weight / (end - first));
        }
    }
    maximise(rules, rows, count, weight, prior, pooled);
    for (int first = 0, end; first < count; first = end, families++) {
        double *v = &own[families * NUM_ERROR_PARTS];
        end = end_of_family(rows, count, first);
        out[families] = (struct family_widths){ .stack = rows[first].stack, .rows = end - first };
        maximise(rules, &rows[first], end - first, even, pooled, v);
        for (int i = first; i < end; i++)
            all[i] =
                (struct scaled){ fabs(rows[i].error) / sqrt(variance_of(&rows[i], v)), weight[i] };
    }
    memcpy(scratch, all, (size_t)count * sizeof *all);
    double scale = scale_of(scratch, count);
    for (int f = 0, first = 0; f < families; first += out[f++].rows) {
        for (int i = 0; i < out[f].rows; i++)
            scratch[i] = (struct scaled){ all[first + i].size, 1 };
        bool is_own = out[f].rows >= FEWEST_TO_SCALE;
        set_widths(&out[f], &own[f * NUM_ERROR_PARTS],
                   is_own ? scale_of(scratch, out[f].rows) : scale);
    }
    out[families] = (struct family_widths){ .stack = "" };
    set_widths(&out[families], pooled, scale);
    return families + 1;
}
