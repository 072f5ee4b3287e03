/* The constants that a stack gets if no run of it was measured: the medians of measured stacks. */
#include "calibration/fit/unseen.h"

#include "base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 3, MOST_STACKS = 64 };

/* Rows are said to determine a constant if the standard error of its logarithm is at most this.
 * With a larger error the fit has hardly moved the constant from its prior. */
static const double determined = 1.0 / 3;

static bool tells(const struct fit_value *value, const struct constant *of)
{
    const struct constant *other = &value->of->constant;
    return other->is_of_stack && value->is_informed && value->standard_error <= determined &&
           strcmp(other->key, of->key) == 0 && strcmp(other->file, of->file) != 0;
}

static double deviation(const double *x, int n)
{
    double mean = 0;
    double squares = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / (n - 1));
}

static double rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return strtod(text, NULL);
}

bool unseen_find(const struct constant *of, const struct fit_result *results, int num_results,
                 struct unseen *out)
{
    double logs[MOST_STACKS];
    int n = 0;
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values && n < MOST_STACKS; j++)
            if (tells(&results[r].values[j], of))
                logs[n++] = log(results[r].values[j].value);
    if (n < FEWEST_STACKS)
        return false;
    numbers_sort(logs, (size_t)n);
    *out = (struct unseen){ rounded(exp(sorted_quantile(logs, n, 0.5))), deviation(logs, n), n };
    return true;
}

static bool shipped_value(const struct constant *constant, double *out, struct err *err)
{
    char file[128];
    struct system system = { 0 };
    constant_file(constant, 0, file, sizeof file);
    if (!stack_load(strchr(file, '/') + 1, &system.stack, err))
        return false;
    *out = constant_get(constant, &system);
    stack_release(&system.stack);
    return true;
}

static void set_middle(struct fit_value *value, const struct fit_result *results, int num_results)
{
    struct unseen middle = { .value = value->of->prior };
    unseen_find(&value->of->constant, results, num_results, &middle);
    value->value = fmin(fmax(middle.value, value->of->min), value->of->max);
    value->standard_error = middle.spread;
    value->is_at_bound = false;
}

bool unseen_fill(const struct fit_result *earlier, int num_earlier, struct fit_result *out,
                 struct err *err)
{
    for (int j = 0; j < out->num_values; j++) {
        if (!shipped_value(&out->values[j].of->constant, &out->values[j].before, err))
            return false;
        set_middle(&out->values[j], earlier, num_earlier);
    }
    return true;
}

static bool is_listed(const struct constant *of, const struct fit_result *results, int num_results)
{
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values && results[r].job->is_middle; j++)
            if (strcmp(results[r].values[j].of->constant.key, of->key) == 0)
                return true;
    return false;
}

void unseen_replace(struct fit_result *results, int num_results)
{
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values; j++) {
            struct fit_value *value = &results[r].values[j];
            if (value->of->constant.is_of_stack && !value->is_informed &&
                !results[r].job->is_middle && is_listed(&value->of->constant, results, num_results))
                set_middle(value, results, num_results);
        }
}
