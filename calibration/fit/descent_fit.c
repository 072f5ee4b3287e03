/* Fits the constants of the convergence theory (sim/campaign/convergence.h) to the losses of short
 * runs. Each constant determines one term of the loss, such as the remaining initial error or the
 * gradient noise. */
#include "calibration/fit/descent_fit.h"

#include "base/arena.h"
#include "base/length.h"
#include "base/statistics.h"
#include "calibration/fit/least_squares.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const double stretch =
    0.1; /* length of an interval of steps, relative to the number of steps before it */
static const double surest = 0.75; /* largest accepted standard error of a constant's logarithm; the
                                      90 % interval then spans a factor of 3.4 to each side */
/* a term that is a smaller share of every fitted loss is not fitted */
static const double seen = 5e-3;
/* weight of a weak prior, without which undetermined constants would have infinite errors */
static const double prior_weight = 1e-4;
static const double normal_90 = 1.645;

#define AT(member) offsetof(struct descent, member)
static const size_t offsets[NUM_DESCENT_CONSTANTS] = {
    AT(least), AT(gap), AT(reach), AT(power), AT(noise), AT(mixing), AT(memory),
};
const char *const descent_constant_names[NUM_DESCENT_CONSTANTS] = { "least", "gap",   "reach",
                                                                    "power", "noise", "mixing",
                                                                    "memory" };

static double *member(struct descent *descent, int constant)
{
    return (double *)((char *)descent + offsets[constant]);
}

double descent_constant_value(const struct descent *descent, enum descent_constant constant)
{
    struct descent copy = *descent;
    return *member(&copy, (int)constant);
}

/* The mean loss over an interval of steps. */
struct stretch {
    const struct loss_run *of;
    double middle; /* step */
    double loss;
};

struct fitting {
    const struct descent_request *request;
    struct arena arena;
    struct stretch *at;
    int count;
    struct descent start;
    double min[NUM_DESCENT_CONSTANTS], max[NUM_DESCENT_CONSTANTS]; /* logarithms */
    double prior[NUM_DESCENT_CONSTANTS];
    bool is_held[NUM_DESCENT_CONSTANTS]; /* the constant is absent or known and is not fitted */
    double *weight, *residual;
    struct least_squares problem;
};

double loss_run_mean(const struct loss_run *run, int first, int end)
{
    double sum = 0;
    for (int i = first; i < end; i++)
        sum += run->losses[i];
    return sum / (end - first);
}

/* --- the problem --------------------------------------------------------------------------- */

static void add_stretches(struct fitting *f, const struct loss_run *run)
{
    for (int first = 0; first < run->num_steps;) {
        int end = first + 1 + (int)(stretch * first);
        end = end < run->num_steps ? end : run->num_steps;
        f->at[f->count++] =
            (struct stretch){ run, (first + end - 1) / 2.0, loss_run_mean(run, first, end) };
        first = end;
    }
}

/* The least loss if it is known, else 0. It is subtracted before losses are compared. */
static double base_of(const struct fitting *f)
{
    return fmax(0, f->request->least);
}

static struct descent descent_at(const struct fitting *f, const double *x)
{
    struct descent descent = { 0 };
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        *member(&descent, j) = f->is_held[j] ? 0 : exp(x[j]);
    if (f->request->least >= 0)
        descent.least = f->request->least;
    return descent;
}

static void find_residuals(void *context, const double *x, double *out)
{
    struct fitting *f = context;
    struct descent descent = descent_at(f, x);
    for (int i = 0; i < f->count; i++) {
        double fitted = descent_loss(&descent, &f->at[i].of->run, f->at[i].middle) - base_of(f);
        double measured = f->at[i].loss - base_of(f);
        out[i] = f->weight[i] > 0 ? log(fitted / measured) : 0;
    }
}

/* Starting values from the run with the lowest loss: its initial loss minus the least loss (the
 * gap), the steps until half of this gap is left, and half of its final loss for each of the two
 * terms that do not vanish with more steps. */
static void guess(struct fitting *f)
{
    const struct loss_run *best = &f->request->runs[0];
    double lowest = HUGE_VAL, first = best->losses[0];
    for (int i = 0; i < f->request->num_runs; i++) {
        const struct loss_run *run = &f->request->runs[i];
        double end = loss_run_mean(run, run->num_steps * 9 / 10, run->num_steps);
        best = end < lowest ? run : best;
        lowest = fmin(lowest, end);
    }
    f->start.least = f->request->least >= 0 ? f->request->least : 0.9 * lowest;
    f->start.gap = first - f->start.least;
    int half = 1;
    while (half < best->num_steps - 1 && best->losses[half] - f->start.least > f->start.gap / 2)
        half++;
    f->start.reach = best->run.rate * half;
    f->start.power = 1;
    double floor = fmax(lowest - f->start.least, 1e-6 * f->start.gap) / 2;
    f->start.noise = floor * best->run.num_ranks / best->run.rate;
    for (int i = 0; i < f->request->num_runs; i++) {
        const struct loss_run *run = &f->request->runs[i];
        double apart = run->run.apart * run->run.rate * run->run.rate;
        if (apart > 0)
            *(run->run.is_memory ? &f->start.memory : &f->start.mixing) = floor / apart;
    }
}

static void bound(struct fitting *f, int constant, double below, double above)
{
    double value = *member(&f->start, constant);
    f->prior[constant] = value > 0 ? log(value) : 0;
    f->min[constant] = f->prior[constant] - log(below);
    f->max[constant] = f->prior[constant] + log(above);
}

static void hold(struct fitting *f, int constant)
{
    f->is_held[constant] = true;
    f->prior[constant] = f->min[constant] = f->max[constant] = 0;
}

static void set_problem(struct fitting *f)
{
    size_t most = 0;
    for (int i = 0; i < f->request->num_runs; i++)
        most += (size_t)f->request->runs[i].num_steps;
    f->at = ARENA_ARRAY(&f->arena, struct stretch, most);
    for (int i = 0; i < f->request->num_runs; i++)
        add_stretches(f, &f->request->runs[i]);
    f->weight = ARENA_ARRAY(&f->arena, double, (size_t)f->count);
    f->residual = ARENA_ARRAY(&f->arena, double, (size_t)f->count);
    for (int i = 0; i < f->count; i++)
        f->weight[i] = f->at[i].loss > base_of(f);
    guess(f);
    bound(f, DESCENT_LEAST, 1e3, 1.2);
    bound(f, DESCENT_GAP, 30, 30);
    bound(f, DESCENT_REACH, 1e3, 1e3);
    bound(f, DESCENT_POWER, 20, 30);
    bound(f, DESCENT_NOISE, 1e6, 1e4);
    bound(f, DESCENT_MIXING, 1e6, 1e4);
    bound(f, DESCENT_MEMORY, 1e6, 1e4);
    f->problem = (struct least_squares){ .num_parameters = NUM_DESCENT_CONSTANTS,
                                         .num_residuals = f->count,
                                         .min = f->min,
                                         .max = f->max,
                                         .prior = f->prior,
                                         .prior_weight = prior_weight,
                                         .weight = f->weight,
                                         .scale = 1,
                                         .cutoff = HUGE_VAL,
                                         .residuals = find_residuals,
                                         .context = f };
}

/* Solves from four starting exponents and keeps the result of least cost. */
static void solve(struct fitting *f, double *x)
{
    static const double powers[] = { 0.5, 1, 4, 16 };
    double least_cost = HUGE_VAL;
    for (size_t i = 0; i < LENGTH(powers); i++) {
        double from[NUM_DESCENT_CONSTANTS];
        memcpy(from, f->prior, sizeof from);
        from[DESCENT_POWER] = log(powers[i]);
        double cost = least_squares_solve(&f->problem, from).cost;
        if (cost < least_cost)
            memcpy(x, from, sizeof from);
        least_cost = fmin(least_cost, cost);
    }
}

/* --- results ------------------------------------------------------------------------------- */

/* The largest share that a constant's term has in the excess loss (loss minus least loss) of any
 * fitted interval. */
static double largest_share(const struct fitting *f, const struct descent *descent, int constant)
{
    struct descent without = *descent;
    double share = 0;
    *member(&without, constant) = 0;
    for (int i = 0; i < f->count; i++) {
        double all = descent_loss(descent, &f->at[i].of->run, f->at[i].middle) - descent->least;
        double rest = descent_loss(&without, &f->at[i].of->run, f->at[i].middle) - descent->least;
        share = fmax(share, 1 - rest / all);
    }
    return share;
}

/* Removes constants whose term is too small in all losses, and solves again without them. */
static void leave_out_unseen(struct fitting *f, double *x)
{
    static const int parts[] = { DESCENT_NOISE, DESCENT_MIXING, DESCENT_MEMORY };
    struct descent descent = descent_at(f, x);
    bool is_left_out = false;
    for (size_t i = 0; i < LENGTH(parts); i++)
        if (!f->is_held[parts[i]] && largest_share(f, &descent, parts[i]) < seen) {
            hold(f, parts[i]);
            is_left_out = true;
        }
    if (is_left_out)
        solve(f, x);
}

/* Standard deviation of a weighted sum of the constants' logarithms. */
static double deviation(const double *covariance, const double *times)
{
    double variance = 0;
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        for (int k = 0; k < NUM_DESCENT_CONSTANTS; k++)
            variance += times[j] * times[k] * covariance[j * NUM_DESCENT_CONSTANTS + k];
    return sqrt(fmax(0, variance));
}

static struct descent_interval around(double value, double log_deviation)
{
    double factor = exp(normal_90 * log_deviation);
    return (struct descent_interval){ value / factor, value * factor };
}

static struct descent_interval scale_interval(const double *covariance, double scale,
                                              enum descent_constant apart)
{
    double times[NUM_DESCENT_CONSTANTS] = {
        [DESCENT_GAP] = 1, [DESCENT_REACH] = 1, [DESCENT_NOISE] = -3
    };
    times[apart] = 2;
    return around(scale, deviation(covariance, times));
}

static bool keep_constants(const struct fitting *f, const double *covariance,
                           struct descent_fit *out, struct err *err)
{
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++) {
        double value = *member(&out->descent, j);
        double log_deviation = sqrt(covariance[j * NUM_DESCENT_CONSTANTS + j]);
        out->is_fitted[j] = !f->is_held[j];
        out->intervals[j] = around(value, out->is_fitted[j] ? log_deviation : 0);
        if (out->is_fitted[j] && j != DESCENT_POWER && log_deviation > surest)
            return err_set(err, ERR_INPUT, descent_constant_names[j],
                           "is not determined by these runs: its 90 %% interval is %.2g to %.2g; "
                           "give more runs, or longer ones",
                           out->intervals[j].low, out->intervals[j].high);
    }
    return true;
}

static double median_error(struct fitting *f, const double *x)
{
    int used = 0;
    find_residuals(f, x, f->residual);
    for (int i = 0; i < f->count; i++)
        if (f->weight[i] > 0)
            f->residual[used++] = fabs(f->residual[i]);
    numbers_sort(f->residual, (size_t)used);
    return used > 0 ? sorted_quantile(f->residual, used, 0.5) : 0;
}

/* Corrects the covariance for the degrees of freedom, which the mean square of residuals
 * ignores. */
static void find_covariance(const struct fitting *f, const double *x, double *covariance)
{
    int free = 0;
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        free += !f->is_held[j];
    least_squares_covariance(&f->problem, x, covariance);
    double grown = f->count > free ? (double)f->count / (f->count - free) : 1;
    for (int i = 0; i < NUM_DESCENT_CONSTANTS * NUM_DESCENT_CONSTANTS; i++)
        covariance[i] *= grown;
}

static bool fit(struct fitting *f, struct descent_fit *out, struct err *err)
{
    double x[NUM_DESCENT_CONSTANTS], covariance[NUM_DESCENT_CONSTANTS * NUM_DESCENT_CONSTANTS];
    set_problem(f);
    if (f->request->least >= 0)
        hold(f, DESCENT_LEAST);
    if (f->request->is_exact)
        hold(f, DESCENT_NOISE);
    if (f->start.mixing <= 0)
        hold(f, DESCENT_MIXING);
    if (f->start.memory <= 0)
        hold(f, DESCENT_MEMORY);
    solve(f, x);
    leave_out_unseen(f, x);
    find_covariance(f, x, covariance);
    out->descent = descent_at(f, x);
    out->convergence = descent_convergence(&out->descent, f->request->heterogeneity);
    out->mixing_scale = scale_interval(covariance, out->convergence.mixing_scale, DESCENT_MIXING);
    out->memory_scale = scale_interval(covariance, out->convergence.memory_scale, DESCENT_MEMORY);
    out->error = median_error(f, x);
    return keep_constants(f, covariance, out, err);
}

bool descent_fit(const struct descent_request *request, struct descent_fit *out, struct err *err)
{
    struct fitting f = { .request = request };
    *out = (struct descent_fit){ 0 };
    bool ok = descent_request_check(request, err) && fit(&f, out, err);
    arena_release(&f.arena);
    return ok;
}
