#include "tests/exec/exchange/logistic.h"

#include "kernels/host/philox.h"

#include <math.h>
#include <string.h>

enum { MOST_FEATURES = 128, NEWTON_STEPS = 30 };

static const float *row_of(const struct logistic *p, int rank, int sample)
{
    return p->rows + ((long)rank * p->samples + sample) * p->features;
}

static double label_of(const struct logistic *p, int rank, int sample)
{
    return (double)p->labels[rank * p->samples + sample];
}

/* The margin y a.x of a sample with label y and features a. */
static double margin(const struct logistic *p, int rank, int sample, const double *x)
{
    const float *row = row_of(p, rank, sample);
    double sum = 0;
    for (int i = 0; i < p->features; i++)
        sum += (double)row[i] * x[i];
    return label_of(p, rank, sample) * sum;
}

/* --- samples ------------------------------------------------------------------------------ */

static void draw_rank(struct logistic *p, int rank, const float *truth, double difference,
                      uint64_t seed)
{
    float own[MOST_FEATURES];
    struct draw draw = { .seed = seed, .layer = (uint16_t)(1 + rank) };
    float *rows = p->rows + (long)rank * p->samples * p->features;
    draw_normal(&draw, difference / sqrt(p->features), 0, p->features, own);
    draw.op = 1;
    draw_normal(&draw, 1, 0, (long)p->samples * p->features, rows);
    for (int s = 0; s < p->samples; s++) {
        double sum = 0;
        for (int i = 0; i < p->features; i++)
            sum += (double)(rows[s * p->features + i] * (truth[i] + own[i]));
        p->labels[rank * p->samples + s] = sum > 0 ? 1 : -1;
    }
}

/* --- the loss and its gradient ------------------------------------------------------------ */

double logistic_loss(const struct logistic *p, const double *x)
{
    double sum = 0, squares = 0;
    for (int rank = 0; rank < p->num_ranks; rank++)
        for (int s = 0; s < p->samples; s++)
            sum += log1p(exp(-margin(p, rank, s, x)));
    for (int i = 0; i < p->features; i++)
        squares += x[i] * x[i];
    return sum / ((double)p->num_ranks * p->samples) + p->decay / 2 * squares;
}

double logistic_loss_of_floats(const struct logistic *p, const float *x)
{
    double wide[MOST_FEATURES] = { 0 };
    for (int i = 0; i < p->features; i++)
        wide[i] = (double)x[i];
    return logistic_loss(p, wide);
}

static void add_sample(const struct logistic *p, int rank, int sample, double weight,
                       const double *x, double *gradient)
{
    double pull = -label_of(p, rank, sample) / (1 + exp(margin(p, rank, sample, x))) * weight;
    for (int i = 0; i < p->features; i++)
        gradient[i] += pull * (double)row_of(p, rank, sample)[i];
}

static void add_rank_gradient(const struct logistic *p, int rank, const double *x, double *gradient)
{
    for (int s = 0; s < p->samples; s++)
        add_sample(p, rank, s, 1.0 / p->samples, x, gradient);
    for (int i = 0; i < p->features; i++)
        gradient[i] += p->decay * x[i];
}

void logistic_gradient(const struct logistic *p, int rank, const float *x, float *gradient)
{
    double wide[MOST_FEATURES] = { 0 }, sum[MOST_FEATURES] = { 0 };
    for (int i = 0; i < p->features; i++)
        wide[i] = (double)x[i];
    add_rank_gradient(p, rank, wide, sum);
    for (int i = 0; i < p->features; i++)
        gradient[i] = (float)sum[i];
}

void logistic_drawn_gradient(const struct logistic *p, int rank, const float *x, int batch,
                             struct random *rng, float *gradient)
{
    double wide[MOST_FEATURES] = { 0 }, sum[MOST_FEATURES] = { 0 };
    for (int i = 0; i < p->features; i++)
        wide[i] = (double)x[i];
    for (int i = 0; i < batch; i++)
        add_sample(p, rank, random_below(rng, p->samples), 1.0 / batch, wide, sum);
    for (int i = 0; i < p->features; i++)
        gradient[i] = (float)(sum[i] + p->decay * wide[i]);
}

static void whole_gradient(const struct logistic *p, const double *x, double *gradient)
{
    memset(gradient, 0, sizeof *gradient * (size_t)p->features);
    for (int rank = 0; rank < p->num_ranks; rank++)
        add_rank_gradient(p, rank, x, gradient);
    for (int i = 0; i < p->features; i++)
        gradient[i] /= p->num_ranks;
}

double logistic_slope(const struct logistic *p, const double *x)
{
    double gradient[MOST_FEATURES], squares = 0;
    whole_gradient(p, x, gradient);
    for (int i = 0; i < p->features; i++)
        squares += gradient[i] * gradient[i];
    return sqrt(squares);
}

/* --- Newton ------------------------------------------------------------------------------- */

static void curvature(const struct logistic *p, const double *x, double *h)
{
    int d = p->features;
    memset(h, 0, sizeof *h * (size_t)(d * d));
    for (int rank = 0; rank < p->num_ranks; rank++)
        for (int s = 0; s < p->samples; s++) {
            const float *row = row_of(p, rank, s);
            double up = 1 / (1 + exp(-margin(p, rank, s, x)));
            double weight = up * (1 - up) / ((double)p->num_ranks * p->samples);
            for (int i = 0; i < d; i++)
                for (int j = 0; j <= i; j++)
                    h[i * d + j] += weight * (double)row[i] * (double)row[j];
        }
    for (int i = 0; i < d; i++)
        h[i * d + i] += p->decay;
}

/* Solves h x = b with a Cholesky factorization. The factor overwrites the lower half of h, and x
 * overwrites b. */
static void solve(int d, double *h, double *b)
{
    for (int i = 0; i < d; i++)
        for (int j = 0; j <= i; j++) {
            double sum = h[i * d + j];
            for (int k = 0; k < j; k++)
                sum -= h[i * d + k] * h[j * d + k];
            h[i * d + j] = i == j ? sqrt(sum) : sum / h[j * d + j];
        }
    for (int i = 0; i < d; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= h[i * d + k] * b[k];
        b[i] /= h[i * d + i];
    }
    for (int i = d - 1; i >= 0; i--) {
        for (int k = i + 1; k < d; k++)
            b[i] -= h[k * d + i] * b[k];
        b[i] /= h[i * d + i];
    }
}

static void find_optimum(struct logistic *p, struct arena *arena)
{
    double *h = ARENA_ARRAY(arena, double, (size_t)(p->features * p->features));
    double step[MOST_FEATURES];
    p->optimum = ARENA_ARRAY(arena, double, (size_t)p->features);
    memset(p->optimum, 0, sizeof *p->optimum * (size_t)p->features);
    for (int turn = 0; turn < NEWTON_STEPS && logistic_slope(p, p->optimum) > 1e-15; turn++) {
        whole_gradient(p, p->optimum, step);
        curvature(p, p->optimum, h);
        solve(p->features, h, step);
        for (int i = 0; i < p->features; i++)
            p->optimum[i] -= step[i];
    }
    p->least = logistic_loss(p, p->optimum);
}

struct logistic logistic_new(int num_ranks, int samples, int features, double difference,
                             uint64_t seed, struct arena *arena)
{
    struct logistic p = {
        .num_ranks = num_ranks, .samples = samples, .features = features, .decay = 0.01
    };
    size_t count = (size_t)(num_ranks * samples);
    float truth[MOST_FEATURES];
    p.rows = ARENA_ARRAY(arena, float, count *(size_t)features);
    p.labels = ARENA_ARRAY(arena, float, count);
    draw_normal(&(struct draw){ .seed = seed }, 1 / sqrt(features), 0, features, truth);
    for (int rank = 0; rank < num_ranks; rank++)
        draw_rank(&p, rank, truth, difference, seed);
    find_optimum(&p, arena);
    return p;
}
