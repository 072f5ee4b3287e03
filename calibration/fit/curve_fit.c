/* Fits a piecewise linear curve of log time by log message size. Its knots are the sizes where its
 * slope may change. */
#include "calibration/fit/curve_fit.h"

#include "calibration/fit/observation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 20000, DIGITS = 4 };

/* Position of a size between two knots: 0 at knot j - 1, 1 at knot j, clamped to [0, 1]. */
static double ramp(const struct curve *curve, int j, double log_bytes)
{
    double low = curve->points[j - 1].log_bytes, high = curve->points[j].log_bytes;
    return fmin(fmax((log_bytes - low) / (high - low), 0), 1);
}

/* Log time is the sum of basis(j) x rise[j]. rise[0] is the log time of the first knot; the others,
 * 0 or more, are the rises from each knot to the next. */
static double basis(const struct curve *curve, int j, double log_bytes)
{
    return j == 0 ? 1 : ramp(curve, j, log_bytes);
}

/* The normal equations of least squares. */
struct normal {
    double matrix[MAX_CURVE_POINTS][MAX_CURVE_POINTS];
    double right[MAX_CURVE_POINTS];
};

static void add_measurement(struct normal *normal, const struct curve *curve, double log_bytes,
                            double log_s)
{
    for (int j = 0; j < curve->num_points; j++) {
        double own = basis(curve, j, log_bytes);
        normal->right[j] += own * log_s;
        for (int k = 0; k < curve->num_points; k++)
            normal->matrix[j][k] += own * basis(curve, k, log_bytes);
    }
}

/* Solves the equations by the Gauss-Seidel method, with each rise clipped to 0 or more. It
 * converges, as the matrix is positive definite (Cryer 1971). The rise to a knot that no
 * measurement determines is 0. */
static void solve(const struct normal *normal, int n, double *rise)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int j = 0; j < n; j++) {
            double rest = normal->right[j];
            for (int k = 0; k < n; k++)
                rest -= k == j ? 0 : normal->matrix[j][k] * rise[k];
            double best = normal->matrix[j][j] > 0 ? rest / normal->matrix[j][j] : 0;
            rise[j] = j == 0 ? best : fmax(best, 0);
        }
}

static double rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return strtod(text, NULL);
}

void curve_fit(struct curve *curve, const double *bytes, const double *time_s, int n)
{
    struct normal normal = { 0 };
    double rise[MAX_CURVE_POINTS] = { 0 };
    for (int j = 0; j < curve->num_points; j++)
        curve->points[j].log_bytes = log(curve->points[j].bytes);
    for (int i = 0; i < n; i++)
        add_measurement(&normal, curve, log(bytes[i]), log(time_s[i]));
    solve(&normal, curve->num_points, rise);
    double log_s = 0;
    for (int j = 0; j < curve->num_points; j++) {
        struct curve_point *point = &curve->points[j];
        log_s += rise[j];
        point->time_s = rounded(exp(log_s) * 1e6) / 1e6;
        point->log_s = log(point->time_s);
    }
}

static bool is_of(const struct fit_curve *curve, const struct micro *micro)
{
    return micro->is_collective && (int)micro->collective == curve->curve.collective &&
           micro->system->num_gpus == curve->curve.num_ranks;
}

static bool fit_one(const struct fit_table *table, const struct fit_curve *of,
                    struct curve_result *out, struct err *err)
{
    struct observations rows;
    bool ok = observations_load(table, &of->job, &rows, err);
    if (ok) {
        double *bytes = ARENA_ARRAY(&rows.arena, double, (size_t)rows.count);
        double *time_s = ARENA_ARRAY(&rows.arena, double, (size_t)rows.count);
        int n = 0;
        for (int i = 0; i < rows.count; i++)
            if (rows.at[i].micro && is_of(of, rows.at[i].micro)) {
                bytes[n] = rows.at[i].micro->bytes;
                time_s[n++] = rows.at[i].measured_s;
            }
        *out = (struct curve_result){ .of = of, .curve = of->curve };
        ok = n > 0 || err_set(err, ERR_INPUT, of->job.rows[0].where,
                              "no row measures this collective over %d GPUs", of->curve.num_ranks);
        if (!ok)
            json_file_blame(&table->file, err);
        curve_fit(&out->curve, bytes, time_s, n);
        for (int i = 0; i < n; i++)
            time_s[i] = log(curve_s(&out->curve, bytes[i]) / time_s[i]);
        out->errors = score_errors(time_s, n);
    }
    observations_release(&rows);
    return ok;
}

bool curves_fit(const struct fit_table *table, struct curve_results *out, struct err *err)
{
    *out = (struct curve_results){ 0 };
    out->at = ARENA_ARRAY(&out->arena, struct curve_result, (size_t)table->num_curves);
    for (int i = 0; i < table->num_curves; i++)
        if (!fit_one(table, &table->curves[i], &out->at[out->count++], err))
            return false;
    return true;
}

void curves_release(struct curve_results *results)
{
    arena_release(&results->arena);
    *results = (struct curve_results){ 0 };
}
