/* Runs a job: fits its constants on its rows (measured runs or micro-benchmarks). A source is the
 * publication that rows come from. A fold is a part of a source's rows that is predicted by
 * constants fitted without it. */
#include "calibration/fit/fit.h"

#include "calibration/fit/least_squares.h"
#include "calibration/fit/unseen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_FOLDS = 5, DIGITS = 3 };
static const double telling_correlation = 0.5;

/* One running job with n constants and m rows. */
struct fitting {
    const struct fit_job *job;
    const struct observations *rows;
    const char *left_out; /* source whose rows have weight 0; NULL: none */
    int jobs;
    struct least_squares problem;
    double *min, *max, *prior;  /* n entries, logarithms */
    double *weight, *predicted; /* m */
};

/* --- the problem --------------------------------------------------------------------------- */

static void set_constants(const struct fitting *w, const double *x)
{
    for (int j = 0; j < w->job->num_constants; j++)
        observations_set(w->rows, &w->job->constants[j].constant, exp(x[j]));
}

static void find_residuals(void *context, const double *x, double *out)
{
    struct fitting *w = context;
    set_constants(w, x);
    observations_predict(w->rows, w->jobs, w->predicted);
    for (int i = 0; i < w->rows->count; i++)
        out[i] = log(w->predicted[i] / w->rows->at[i].measured_s);
}

static void work_init(struct fitting *w, const struct fit_table *table, struct fit_result *result,
                      int jobs)
{
    const struct fit_job *job = result->job;
    size_t n = (size_t)job->num_constants;
    size_t m = (size_t)result->rows.count;
    *w = (struct fitting){
        .job = job, .rows = &result->rows, .left_out = table->left_out, .jobs = jobs
    };
    w->min = ARENA_ARRAY(&result->arena, double, n);
    w->max = ARENA_ARRAY(&result->arena, double, n);
    w->prior = ARENA_ARRAY(&result->arena, double, n);
    w->weight = ARENA_ARRAY(&result->arena, double, m);
    w->predicted = ARENA_ARRAY(&result->arena, double, m);
    w->problem = (struct least_squares){
        .num_parameters = job->num_constants,
        .num_residuals = result->rows.count,
        .min = w->min,
        .max = w->max,
        .prior = w->prior,
        .prior_weight = job->prior_weight,
        .weight = w->weight,
        .scale = job->loss_scale,
        .cutoff = job->cutoff,
        .residuals = find_residuals,
        .context = w,
    };
}

static double weight_of(const struct fitting *w, const struct observation *of)
{
    return w->left_out && strcmp(of->source, w->left_out) == 0 ? 0 : of->weight;
}

/* Lets the fit vary all constants, and gives all rows their weights. */
static void open_problem(struct fitting *w)
{
    for (int j = 0; j < w->job->num_constants; j++) {
        w->prior[j] = log(w->job->constants[j].prior);
        w->min[j] = log(w->job->constants[j].min);
        w->max[j] = log(w->job->constants[j].max);
    }
    for (int i = 0; i < w->rows->count; i++)
        w->weight[i] = weight_of(w, &w->rows->at[i]);
}

/* --- the result ---------------------------------------------------------------------------- */

/* Rounds to three digits, but not beyond a bound. */
static double rounded(double value, double min, double max)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return fmin(fmax(strtod(text, NULL), min), max);
}

static int compare_correlations(const void *a, const void *b)
{
    const struct fit_correlation *x = a;
    const struct fit_correlation *y = b;
    double difference = fabs(y->value) - fabs(x->value);
    if (difference != 0)
        return difference > 0 ? 1 : -1;
    return x->a != y->a ? x->a - y->a : x->b - y->b;
}

static void keep_correlations(const double *covariance, struct fit_result *out)
{
    size_t n = (size_t)out->num_values;
    out->correlations = ARENA_ARRAY(&out->arena, struct fit_correlation, n * n);
    for (size_t j = 0; j < n; j++)
        for (size_t k = j + 1; k < n; k++) {
            double both = out->values[j].standard_error * out->values[k].standard_error;
            double value = both > 0 ? covariance[j * n + k] / both : 0;
            if (fabs(value) >= telling_correlation)
                out->correlations[out->num_correlations++] =
                    (struct fit_correlation){ (int)j, (int)k, value };
        }
    qsort(out->correlations, (size_t)out->num_correlations, sizeof *out->correlations,
          compare_correlations);
}

static bool is_of_any(const struct constant *constant, const struct observations *rows)
{
    for (int i = 0; i < rows->count; i++)
        if (constant_is_of(constant, rows->at[i].system))
            return true;
    return false;
}

/* Finds whether rows with a weight ran on the constant's profile or stack, and whether some of them
 * are whole runs. If `weight` is NULL, all rows have weight. */
static void find_support(const struct observations *rows, const double *weight,
                         struct fit_value *value)
{
    value->is_informed = value->has_runs = false;
    for (int i = 0; i < rows->count; i++)
        if ((!weight || weight[i] > 0) &&
            constant_is_of(&value->of->constant, rows->at[i].system)) {
            value->is_informed = true;
            value->has_runs |= !rows->at[i].micro;
        }
}

static void keep_values(struct fitting *w, const double *x, struct fit_result *out)
{
    size_t n = (size_t)w->job->num_constants;
    double *covariance = ARENA_ARRAY(&out->arena, double, n *n);
    least_squares_covariance(&w->problem, x, covariance);
    for (size_t j = 0; j < n; j++) {
        const struct fit_constant *of = &w->job->constants[j];
        struct fit_value *value = &out->values[j];
        value->value = rounded(exp(x[j]), of->min, of->max);
        value->is_at_bound = x[j] <= w->min[j] || x[j] >= w->max[j];
        value->standard_error = sqrt(covariance[j * n + j]);
        find_support(w->rows, w->weight, value);
    }
    keep_correlations(covariance, out);
}

static void add_source(struct fit_result *result, const char *name)
{
    for (int i = 0; i < result->num_sources; i++)
        if (strcmp(result->sources[i].name, name) == 0)
            return;
    result->sources[result->num_sources++].name = name;
}

/* Scores the errors of each source separately. */
static void score_sources(struct fit_result *out, const double *errors, bool is_out_of_sample)
{
    double *own = ARENA_ARRAY(&out->arena, double, (size_t)out->rows.count);
    for (int s = 0; s < out->num_sources; s++) {
        struct fit_source *source = &out->sources[s];
        int n = 0;
        for (int i = 0; i < out->rows.count; i++)
            if (strcmp(out->rows.at[i].source, source->name) == 0)
                own[n++] = errors[i];
        *(is_out_of_sample ? &source->out_of_sample : &source->in_sample) = score_errors(own, n);
    }
}

/* --- cross-validation ---------------------------------------------------------------------- */

static bool is_of_source(const struct fitting *w, int row, const char *source)
{
    return strcmp(w->rows->at[row].source, source) == 0;
}

static int first_of_group(const struct fitting *w, int row)
{
    const struct observation *of = &w->rows->at[row];
    for (int i = 0; i < row && *of->group; i++)
        if (is_of_source(w, i, of->source) && strcmp(w->rows->at[i].group, of->group) == 0)
            return i;
    return row;
}

/* Assigns each row of the source to a fold, one configuration after the other; -1 for rows of other
 * sources. */
static void deal_folds(const struct fitting *w, const char *source, int *fold)
{
    int groups = 0;
    for (int i = 0; i < w->rows->count; i++) {
        fold[i] = -1;
        if (!is_of_source(w, i, source))
            continue;
        int first = first_of_group(w, i);
        fold[i] = first < i ? fold[first] : groups++ % NUM_FOLDS;
    }
}

/* Whether a constant belongs to a stack that only this source ran. */
static bool is_own_constant(const struct fitting *w, int constant, const char *source)
{
    const struct constant *of = &w->job->constants[constant].constant;
    for (int i = 0; i < w->rows->count && of->is_of_stack; i++)
        if (is_of_source(w, i, source) && !w->rows->at[i].micro &&
            constant_is_of(of, w->rows->at[i].system))
            return true;
    return false;
}

/* Lets the fit vary only the constants of the source's own stack; false if there are none. */
static bool hold_others(struct fitting *w, const double *x, const char *source)
{
    bool any = false;
    for (int j = 0; j < w->job->num_constants; j++) {
        bool is_own = is_own_constant(w, j, source);
        any = any || is_own;
        if (!is_own)
            w->min[j] = w->max[j] = x[j];
    }
    return any;
}

/* The errors of one fold, with constants fitted on the source's other folds. */
static void predict_fold(struct fitting *w, const double *start, const char *source,
                         const int *fold, int left_out, double *x, double *residual, double *errors)
{
    for (int i = 0; i < w->rows->count; i++)
        w->weight[i] =
            is_of_source(w, i, source) && fold[i] != left_out ? w->rows->at[i].weight : 0;
    bool has_rows = false;
    for (int i = 0; i < w->rows->count; i++)
        has_rows = has_rows || fold[i] == left_out;
    if (!has_rows)
        return;
    memcpy(x, start, (size_t)w->job->num_constants * sizeof *x);
    least_squares_solve(&w->problem, x);
    find_residuals(w, x, residual);
    for (int i = 0; i < w->rows->count; i++)
        if (fold[i] == left_out)
            errors[i] = residual[i];
}

static void predict_source(struct fitting *w, const char *source, bool is_only_source,
                           struct arena *arena, double *errors)
{
    size_t n = (size_t)w->job->num_constants;
    size_t m = (size_t)w->rows->count;
    double *shared = ARENA_ARRAY(arena, double, n), *x = ARENA_ARRAY(arena, double, n);
    double *residual = ARENA_ARRAY(arena, double, m);
    int *fold = ARENA_ARRAY(arena, int, m);
    deal_folds(w, source, fold);
    open_problem(w);
    memcpy(shared, w->prior, n * sizeof *x);
    bool has_own = true;
    if (!is_only_source) {
        for (size_t i = 0; i < m; i++)
            w->weight[i] = is_of_source(w, (int)i, source) ? 0 : w->rows->at[i].weight;
        least_squares_solve(&w->problem, shared);
        has_own = hold_others(w, shared, source);
    }
    find_residuals(w, shared, residual);
    for (size_t i = 0; i < m; i++)
        if (fold[i] >= 0)
            errors[i] = residual[i];
    for (int k = 0; k < NUM_FOLDS && has_own; k++)
        predict_fold(w, shared, source, fold, k, x, residual, errors);
}

static void cross_validate_all(struct fitting *w, struct fit_result *out)
{
    double *errors = ARENA_ARRAY(&out->arena, double, (size_t)out->rows.count);
    for (int s = 0; s < out->num_sources; s++)
        predict_source(w, out->sources[s].name, out->num_sources == 1, &out->arena, errors);
    score_sources(out, errors, true);
}

/* --- a job --------------------------------------------------------------------------------- */

static void use_earlier(const struct fit_result *earlier, int num_earlier,
                        const struct observations *rows)
{
    for (int r = 0; r < num_earlier; r++)
        for (int j = 0; j < earlier[r].num_values; j++)
            observations_set(rows, &earlier[r].values[j].of->constant, earlier[r].values[j].value);
}

/* Reads the shipped values. A constant that no row uses is an error of the table. */
static bool find_before(const struct fit_table *table, struct fit_result *out, struct err *err)
{
    for (int j = 0; j < out->num_values; j++) {
        const struct constant *constant = &out->values[j].of->constant;
        int i = 0;
        while (i < out->rows.count && !constant_is_of(constant, out->rows.at[i].system))
            i++;
        if (i == out->rows.count) {
            char where[200];
            snprintf(where, sizeof where, "jobs[%d].constants.%s.%s", (int)(out->job - table->jobs),
                     constant->file, constant->key);
            err_set(err, ERR_INPUT, where,
                    "none of the job's rows is predicted with this constant's file");
            return json_file_blame(&table->file, err);
        }
        out->values[j].before = constant_get(constant, out->rows.at[i].system);
    }
    return true;
}

static void result_init(const struct fit_job *job, struct fit_result *out)
{
    out->values = ARENA_ARRAY(&out->arena, struct fit_value, (size_t)job->num_constants);
    out->num_values = job->num_constants;
    for (int j = 0; j < job->num_constants; j++)
        out->values[j].of = &job->constants[j];
    out->sources = ARENA_ARRAY(&out->arena, struct fit_source, (size_t)out->rows.count);
    for (int i = 0; i < out->rows.count; i++)
        add_source(out, out->rows.at[i].source);
}

/* Fits the constants from their priors, rounds them and computes their errors. */
static void solve(struct fitting *w, struct fit_result *out)
{
    size_t n = (size_t)w->job->num_constants;
    double *x = ARENA_ARRAY(&out->arena, double, n);
    double *errors = ARENA_ARRAY(&out->arena, double, (size_t)out->rows.count);
    open_problem(w);
    memcpy(x, w->prior, n * sizeof *x);
    out->steps = least_squares_solve(&w->problem, x).steps;
    keep_values(w, x, out);
    for (size_t j = 0; j < n; j++)
        x[j] = log(out->values[j].value);
    find_residuals(w, x, errors);
    score_sources(out, errors, false);
}

/* --- leaving a source out ------------------------------------------------------------------ */

/* Whether the source has rows in the job or influenced a constant of an earlier job. */
static bool depends_on(const char *source, const struct fit_result *earlier, int num_earlier,
                       const struct observations *rows)
{
    for (int i = 0; i < rows->count; i++)
        if (strcmp(rows->at[i].source, source) == 0)
            return true;
    for (int r = 0; r < num_earlier; r++)
        for (int j = 0; j < earlier[r].num_values && !earlier[r].is_kept; j++)
            if (is_of_any(&earlier[r].values[j].of->constant, rows))
                return true;
    return false;
}

/* Takes the shipped constants as the job's result. */
static void keep_shipped(struct fit_result *out)
{
    out->is_kept = true;
    for (int j = 0; j < out->num_values; j++) {
        out->values[j].value = out->values[j].before;
        find_support(&out->rows, NULL, &out->values[j]);
    }
}

bool fit_run(const struct fit_table *table, const struct fit_job *job,
             const struct fit_result *earlier, int num_earlier, int jobs, bool cross_validate,
             struct fit_result *out, struct err *err)
{
    struct fitting w;
    *out = (struct fit_result){ .job = job };
    if (!observations_load(table, job, &out->rows, err))
        return false;
    result_init(job, out);
    if (job->is_middle)
        return unseen_fill(earlier, num_earlier, out, err);
    if (!find_before(table, out, err))
        return false;
    if (table->left_out && !depends_on(table->left_out, earlier, num_earlier, &out->rows)) {
        keep_shipped(out);
        return true;
    }
    use_earlier(earlier, num_earlier, &out->rows);
    work_init(&w, table, out, jobs);
    solve(&w, out);
    if (cross_validate)
        cross_validate_all(&w, out);
    return true;
}

void fit_result_release(struct fit_result *result)
{
    observations_release(&result->rows);
    arena_release(&result->arena);
    *result = (struct fit_result){ 0 };
}
