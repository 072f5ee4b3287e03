/* Levenberg-Marquardt for robust least squares with bounds. A parameter is held while it cannot
 * move: it is on a bound beyond which the cost falls, or it has no effect. */
#include "calibration/fit/least_squares.h"

#include "base/arena.h"

#include <math.h>
#include <string.h>

enum { MAX_STEPS = 100, MAX_TRIES = 16 };
/* Half the step of central differences: wide enough to smooth jumps of predictions at the edges of
 * tiles and waves. */
static const double difference = 1e-3;
static const double smallest_move = 1e-8;

/* Work arrays; n parameters, m residuals. */
struct workspace {
    struct arena arena;
    double *residual, *trial_residual; /* m */
    double *jacobian;                  /* column by column, m entries per parameter */
    double *normal, *damped;           /* n x n entries */
    double *gradient, *move, *trial;   /* n */
    bool *is_held;                     /* n */
};

static void workspace_init(struct workspace *w, const struct least_squares *problem)
{
    size_t n = (size_t)problem->num_parameters;
    size_t m = (size_t)problem->num_residuals;
    *w = (struct workspace){ 0 };
    w->residual = ARENA_ARRAY(&w->arena, double, m);
    w->trial_residual = ARENA_ARRAY(&w->arena, double, m);
    w->jacobian = ARENA_ARRAY(&w->arena, double, m *n);
    w->normal = ARENA_ARRAY(&w->arena, double, n *n);
    w->damped = ARENA_ARRAY(&w->arena, double, n *n);
    w->gradient = ARENA_ARRAY(&w->arena, double, n);
    w->move = ARENA_ARRAY(&w->arena, double, n);
    w->trial = ARENA_ARRAY(&w->arena, double, n);
    w->is_held = ARENA_ARRAY(&w->arena, bool, n);
}

static double between(double x, double min, double max)
{
    return fmin(fmax(x, min), max);
}

/* --- cost and its derivatives -------------------------------------------------------------- */

static double prior_distance(const struct least_squares *problem, const double *x, int j)
{
    return problem->prior_weight * (x[j] - problem->prior[j]);
}

/* The loss s^2 rho(r^2 / s^2) of least_squares.h for residual r and scale s, in a form without
 * cancellation when r is much smaller than s. */
static double loss(const struct least_squares *problem, double residual)
{
    double size = fmin(fabs(residual), problem->cutoff);
    double ratio = size / problem->scale;
    return 2 * size * size / (1 + sqrt(1 + ratio * ratio));
}

static double cost_of(const struct least_squares *problem, const double *x, const double *residual)
{
    double cost = 0;
    for (int i = 0; i < problem->num_residuals; i++)
        if (problem->weight[i] > 0)
            cost += problem->weight[i] * loss(problem, residual[i]);
    for (int j = 0; j < problem->num_parameters; j++)
        cost += prior_distance(problem, x, j) * prior_distance(problem, x, j);
    return cost;
}

/* Computes derivatives by central differences, at a bound by one-sided differences. The derivatives
 * of held parameters are 0. */
static void find_jacobian(const struct least_squares *problem, const double *x, struct workspace *w)
{
    int m = problem->num_residuals;
    memcpy(w->trial, x, (size_t)problem->num_parameters * sizeof *x);
    for (int j = 0; j < problem->num_parameters; j++) {
        double *column = w->jacobian + (size_t)j * (size_t)m;
        double above = fmin(x[j] + difference, problem->max[j]);
        double below = fmax(x[j] - difference, problem->min[j]);
        memset(column, 0, (size_t)m * sizeof *column);
        if (above <= below)
            continue;
        w->trial[j] = above;
        problem->residuals(problem->context, w->trial, column);
        w->trial[j] = below;
        problem->residuals(problem->context, w->trial, w->trial_residual);
        w->trial[j] = x[j];
        for (int i = 0; i < m; i++)
            column[i] = (column[i] - w->trial_residual[i]) / (above - below);
    }
}

/* Computes the Gauss-Newton matrix and half the gradient. The weight of a residual is rho'(z) = 1 /
 * sqrt(1 + z), with rho and z as in least_squares.h. */
static void find_normal(const struct least_squares *problem, const double *x, struct workspace *w)
{
    int n = problem->num_parameters;
    int m = problem->num_residuals;
    memset(w->normal, 0, (size_t)n * (size_t)n * sizeof *w->normal);
    memset(w->gradient, 0, (size_t)n * sizeof *w->gradient);
    for (int i = 0; i < m; i++) {
        double z = w->residual[i] * w->residual[i] / (problem->scale * problem->scale);
        bool draws = problem->weight[i] > 0 && fabs(w->residual[i]) < problem->cutoff;
        double weight = draws ? problem->weight[i] / sqrt(1 + z) : 0;
        for (int j = 0; j < n && weight > 0; j++) {
            double slope = weight * w->jacobian[j * m + i];
            w->gradient[j] += slope * w->residual[i];
            for (int k = 0; k <= j; k++)
                w->normal[j * n + k] += slope * w->jacobian[k * m + i];
        }
    }
    for (int j = 0; j < n; j++) {
        w->normal[j * n + j] += problem->prior_weight * problem->prior_weight;
        w->gradient[j] += problem->prior_weight * prior_distance(problem, x, j);
        for (int k = 0; k < j; k++)
            w->normal[k * n + j] = w->normal[j * n + k];
    }
}

/* Marks parameters as held if they are on a bound and the gradient points beyond it, or if they
 * have no effect. */
static void find_held(const struct least_squares *problem, const double *x, struct workspace *w)
{
    int n = problem->num_parameters;
    for (int j = 0; j < n; j++)
        w->is_held[j] = problem->min[j] >= problem->max[j] || w->normal[j * n + j] <= 0 ||
                        (x[j] <= problem->min[j] && w->gradient[j] > 0) ||
                        (x[j] >= problem->max[j] && w->gradient[j] < 0);
}

/* --- linear algebra ------------------------------------------------------------------------ */

/* Computes the Cholesky factor of a symmetric positive matrix in place, in the lower triangle. */
static bool factor(double *matrix, int n)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            for (int i = j; i < n; i++)
                matrix[i * n + j] -= matrix[i * n + k] * matrix[j * n + k];
        if (!(matrix[j * n + j] > 0))
            return false;
        double root = sqrt(matrix[j * n + j]);
        for (int i = j; i < n; i++)
            matrix[i * n + j] /= root;
    }
    return true;
}

static void substitute(const double *lower, int n, double *vector)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            vector[i] -= lower[i * n + k] * vector[k];
        vector[i] /= lower[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            vector[i] -= lower[k * n + i] * vector[k];
        vector[i] /= lower[i * n + i];
    }
}

/* The normal matrix with its diagonal scaled up, and identity rows for held parameters. */
static void damp(const struct least_squares *problem, struct workspace *w, double damping)
{
    int n = problem->num_parameters;
    for (int j = 0; j < n; j++)
        for (int k = 0; k < n; k++) {
            bool is_cut = w->is_held[j] || w->is_held[k];
            double own = j == k ? 1 + damping : 1;
            w->damped[j * n + k] = is_cut ? (double)(j == k) : w->normal[j * n + k] * own;
        }
}

/* --- steps --------------------------------------------------------------------------------- */

/* Computes a step with this damping, clipped to the bounds; returns the largest move of any
 * parameter. */
static double try_step(const struct least_squares *problem, const double *x, struct workspace *w,
                       double damping)
{
    int n = problem->num_parameters;
    double longest = 0;
    damp(problem, w, damping);
    for (int j = 0; j < n; j++)
        w->move[j] = w->is_held[j] ? 0 : -w->gradient[j];
    if (!factor(w->damped, n))
        return 0;
    substitute(w->damped, n, w->move);
    for (int j = 0; j < n; j++) {
        w->trial[j] = between(x[j] + w->move[j], problem->min[j], problem->max[j]);
        longest = fmax(longest, fabs(w->trial[j] - x[j]));
    }
    return longest;
}

/* Moves x to a lower cost, raising the damping until the cost falls. Returns the length of the
 * move, 0 when none was found. */
static double step(const struct least_squares *problem, double *x, double *cost, double *damping,
                   struct workspace *w)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        double length = try_step(problem, x, w, *damping);
        if (length > 0)
            problem->residuals(problem->context, w->trial, w->trial_residual);
        double trial_cost = length > 0 ? cost_of(problem, w->trial, w->trial_residual) : *cost;
        if (trial_cost < *cost) {
            memcpy(x, w->trial, (size_t)problem->num_parameters * sizeof *x);
            memcpy(w->residual, w->trial_residual,
                   (size_t)problem->num_residuals * sizeof *w->residual);
            *cost = trial_cost;
            *damping = fmax(*damping / 5, 1e-9);
            return length;
        }
        *damping = fmin(*damping * 4, 1e9);
    }
    return 0;
}

struct least_squares_end least_squares_solve(const struct least_squares *problem, double *x)
{
    struct workspace w;
    struct least_squares_end end = { 0 };
    double damping = 1e-3;
    workspace_init(&w, problem);
    for (int j = 0; j < problem->num_parameters; j++)
        x[j] = between(x[j], problem->min[j], problem->max[j]);
    problem->residuals(problem->context, x, w.residual);
    end.cost = cost_of(problem, x, w.residual);
    while (end.steps < MAX_STEPS && !end.converged) {
        find_jacobian(problem, x, &w);
        find_normal(problem, x, &w);
        find_held(problem, x, &w);
        end.converged = step(problem, x, &end.cost, &damping, &w) < smallest_move;
        end.steps++;
    }
    arena_release(&w.arena);
    return end;
}

/* --- covariance ---------------------------------------------------------------------------- */

static double mean_square(const struct least_squares *problem, const double *x,
                          const double *residual)
{
    double sum = 0;
    int used = 0;
    for (int i = 0; i < problem->num_residuals; i++)
        if (problem->weight[i] > 0 && fabs(residual[i]) < problem->cutoff) {
            sum += problem->weight[i] * residual[i] * residual[i];
            used++;
        }
    for (int j = 0; j < problem->num_parameters; j++)
        sum += prior_distance(problem, x, j) * prior_distance(problem, x, j);
    return used > 0 ? sum / used : 0;
}

void least_squares_covariance(const struct least_squares *problem, const double *x,
                              double *covariance)
{
    int n = problem->num_parameters;
    struct workspace w;
    workspace_init(&w, problem);
    problem->residuals(problem->context, x, w.residual);
    find_jacobian(problem, x, &w);
    find_normal(problem, x, &w);
    for (int j = 0; j < n; j++)
        w.is_held[j] = x[j] <= problem->min[j] || x[j] >= problem->max[j];
    damp(problem, &w, 0);
    bool ok = factor(w.damped, n);
    double square = mean_square(problem, x, w.residual);
    for (int j = 0; j < n; j++) {
        memset(w.move, 0, (size_t)n * sizeof *w.move);
        w.move[j] = 1;
        if (ok)
            substitute(w.damped, n, w.move);
        for (int k = 0; k < n; k++)
            covariance[j * n + k] = !ok || w.is_held[j] || w.is_held[k] ? 0 : square * w.move[k];
    }
    arena_release(&w.arena);
}
