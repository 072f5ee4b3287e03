/* cli/calibrate_convergence.c - "calibrate --convergence": fits the constants of the convergence
 * theory (sim/campaign/convergence.h) to losses that `run --json` reported. */
#include "cli/calibrate_convergence.h"

#include "base/arena.h"
#include "base/units.h"
#include "calibration/fit/descent_fit.h"
#include "cli/input/command.h"
#include "cli/input/planfile.h"
#include "cli/print/terminal.h"
#include "sim/campaign/convergence_file.h"
#include "sim/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RUNS = 16 };

struct loss_runs {
    struct loss_run at[MOST_RUNS];
    int count;
    double samples; /* samples per rank, the same in all runs */
    struct arena arena;
};

/* --- runs --------------------------------------------------------------------------------- */

static bool read_numbers(const json_t *list, const char *key, struct arena *arena, double **out,
                         int *count, struct err *err)
{
    *count = (int)json_array_size(list);
    *out = ARENA_ARRAY(arena, double, (size_t)*count);
    for (int i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number))
            return err_set(err, ERR_INPUT, key, "expected only numbers");
        (*out)[i] = json_number_value(number);
    }
    return *count > 0 || err_set(err, ERR_INPUT, key, "expected a list of numbers; %s",
                                 list ? "found none" : "it is missing");
}

static bool read_positive(const json_t *object, const char *key, double *out, struct err *err)
{
    *out = json_number_value(json_object_get(object, key));
    return *out > 0 ||
           err_set(
               err, ERR_INPUT, key,
               "expected a number above 0, as under \"training\" in the output of `run --json`");
}

/* Reads [rows, columns, count] for each shape of tensor. */
static bool read_load(const json_t *list, struct arena *arena, struct exchange_load *out,
                      struct err *err)
{
    size_t count = json_array_size(list);
    struct exchange_tensor *tensors = ARENA_ARRAY(arena, struct exchange_tensor, count);
    for (size_t i = 0; i < count; i++) {
        double *sizes;
        int num_sizes;
        if (!read_numbers(json_array_get(list, i), "tensors", arena, &sizes, &num_sizes, err))
            return false;
        if (num_sizes != 3 || !(sizes[0] >= 1 && sizes[1] >= 1 && sizes[2] >= 1))
            return err_set(err, ERR_INPUT, "tensors",
                           "expected [rows, columns, number of such tensors], each 1 or more");
        tensors[i] = (struct exchange_tensor){ sizes[0], sizes[1], sizes[2] };
    }
    *out = (struct exchange_load){ tensors, (int)count, sizeof(float) };
    return count > 0 ||
           err_set(err, ERR_INPUT, "tensors", "expected the tensors that ranks exchange");
}

static bool read_plan(const json_t *root, struct arena *arena, struct plan *out, struct err *err)
{
    const char *layout = json_string_value(json_object_get(root, "layout"));
    struct err wrong = { 0 };
    if (!layout)
        return err_set(err, ERR_INPUT, "layout",
                       "expected the layout of a run, as in the output of `run --json`");
    return plan_parse(layout, arena, out, &wrong) ||
           err_set(err, ERR_INPUT, "layout", "%s", wrong.msg);
}

static bool check_samples(struct loss_runs *runs, double samples, struct err *err)
{
    if (runs->count == 0)
        runs->samples = samples;
    return samples == runs->samples || err_set(err, ERR_INPUT, "samples_per_rank",
                                               "expected %g, as in the earlier runs, found %g: the "
                                               "noise depends on the samples per rank",
                                               runs->samples, samples);
}

static bool read_run(const json_t *root, const struct options *options, const char *name,
                     struct loss_runs *runs, struct err *err)
{
    const json_t *training = json_object_get(root, "training");
    struct arena *arena = &runs->arena;
    struct exchange_load *load = ARENA_ARRAY(arena, struct exchange_load, 1);
    struct plan *plan = ARENA_ARRAY(arena, struct plan, 1);
    double *losses, rate, ranks, samples;
    int steps;
    if (!read_plan(root, arena, plan, err) ||
        !read_numbers(json_object_get(root, "loss"), "loss", arena, &losses, &steps, err) ||
        !read_positive(training, "rate", &rate, err) ||
        !read_positive(training, "data_ranks", &ranks, err) ||
        !read_positive(training, "samples_per_rank", &samples, err) ||
        !check_samples(runs, samples, err) ||
        !read_load(json_object_get(training, "tensors"), arena, load, err))
        return false;
    struct exchange_use use =
        exchange_use_of(&plan->exchange, load, ranks < 1 << 24 ? (int)ranks : 1 << 24);
    runs->at[runs->count++] =
        (struct loss_run){ name, descent_run_of(&use, options->accuracy.heterogeneity, rate, 0),
                           losses, steps };
    return true;
}

static bool load_run(const char *path, const struct options *options, struct loss_runs *runs,
                     struct err *err)
{
    struct json_file file = { 0 };
    if (runs->count == MOST_RUNS)
        return err_set(err, ERR_USAGE, path, "expected at most %d runs", MOST_RUNS);
    bool ok = json_file_load(&file, path, err) &&
              (read_run(file.root, options, path, runs, err) || json_file_blame(&file, err));
    json_file_release(&file);
    return ok;
}

static bool load_runs(const struct options *options, struct loss_runs *runs, struct err *err)
{
    bool ok = load_run(options->accuracy.convergence, options, runs, err);
    for (int i = 0; i < options->num_files && ok; i++)
        ok = load_run(options->files[i], options, runs, err);
    return ok;
}

/* --- fitted constants --------------------------------------------------------------------- */

/* A constant that scales the error of an exchange: its shipped value, and the value fitted on the
 * runs. */
struct scale {
    const char *name;
    double shipped, fitted;
    struct descent_interval interval;
    bool is_fitted;
};

static struct convergence_file file_of(const struct loss_runs *runs, const struct descent_fit *fit,
                                       struct scale *scales)
{
    struct convergence_file file = { .convergence = fit->convergence };
    int steps = 0;
    for (int i = 0; i < runs->count; i++)
        steps += runs->at[i].num_steps;
    scales[0] = (struct scale){ "mixing_scale", convergence_published.mixing_scale,
                                fit->convergence.mixing_scale, fit->mixing_scale,
                                fit->is_fitted[DESCENT_MIXING] };
    scales[1] = (struct scale){ "memory_scale", convergence_published.memory_scale,
                                fit->convergence.memory_scale, fit->memory_scale,
                                fit->is_fitted[DESCENT_MEMORY] };
    if (!scales[0].is_fitted)
        file.convergence.mixing_scale = scales[0].shipped;
    if (!scales[1].is_fitted)
        file.convergence.memory_scale = scales[1].shipped;
    snprintf(
        file.source, sizeof file.source,
        "fitted on %d steps of %d runs with %g samples per rank: mixing_scale %s, memory_scale %s",
        steps, runs->count, runs->samples, scales[0].is_fitted ? "fitted" : "as shipped",
        scales[1].is_fitted ? "fitted" : "as shipped");
    return file;
}

static json_t *pair(struct descent_interval interval)
{
    return json_pack("[f,f]", interval.low, interval.high);
}

static json_t *document(const struct convergence_file *file, const struct descent_fit *fit,
                        const struct scale *scales)
{
    json_t *root = convergence_write(file), *descent = json_object(), *intervals = json_object();
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++) {
        double value = descent_constant_value(&fit->descent, (enum descent_constant)j);
        json_object_set_new(descent, descent_constant_names[j], json_real(value));
        if (fit->is_fitted[j])
            json_object_set_new(intervals, descent_constant_names[j], pair(fit->intervals[j]));
    }
    for (int i = 0; i < 2; i++)
        if (scales[i].is_fitted)
            json_object_set_new(intervals, scales[i].name, pair(scales[i].interval));
    json_object_set_new(root, "descent", descent);
    json_object_set_new(root, "intervals", intervals);
    return root;
}

/* Writes a value; large values get no exponent. */
static void show_value(double value, int digits, char *text, size_t size)
{
    if (fabs(value) >= 0.9995 * pow(10, digits))
        units_show_count(value, text, size);
    else
        snprintf(text, size, "%.*g", digits, value);
}

static void show_constant(const char *name, double value)
{
    char text[32];
    show_value(value, 4, text, sizeof text);
    printf("  %-14s %11s   ", name, text);
}

static void show_row(const char *name, double value, struct descent_interval interval)
{
    char low[32], high[32];
    show_value(interval.low, 3, low, sizeof low);
    show_value(interval.high, 3, high, sizeof high);
    show_constant(name, value);
    printf("%9s to %9s\n", low, high);
}

static void show(const struct convergence_file *file, const struct descent_fit *fit,
                 const struct scale *scales)
{
    printf("%s\nmedian error of the fitted losses: %.2g %%\n\n  %-14s %11s   %s\n", file->source,
           100 * fit->error, "constant", "", "90 % interval");
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        if (fit->is_fitted[j])
            show_row(descent_constant_names[j],
                     descent_constant_value(&fit->descent, (enum descent_constant)j),
                     fit->intervals[j]);
    for (int i = 0; i < 2; i++)
        if (scales[i].is_fitted) {
            show_row(scales[i].name, scales[i].fitted, scales[i].interval);
        } else {
            show_constant(scales[i].name, scales[i].shipped);
            printf("the shipped value, because no run determines it\n");
        }
    show_constant("heterogeneity", file->convergence.heterogeneity);
    printf("as given\n");
}

/* Checks that the fitted noise is above 0. A transient ends when the excess of the loss over its
 * least value has fallen to the noise; without noise it never ends. */
static bool check_noise(const struct descent_fit *fit, struct err *err)
{
    return fit->is_fitted[DESCENT_NOISE] || err_set(err, ERR_INPUT, "noise",
                                                    "these losses show no noise, so the steps that "
                                                    "an exchange adds cannot be fitted; use "
                                                    "longer runs, or a higher --rate");
}

static int tell(const struct options *options, const struct loss_runs *runs,
                const struct descent_fit *fit, struct err *err)
{
    struct scale scales[2];
    struct convergence_file file = file_of(runs, fit, scales);
    json_t *root = document(&file, fit, scales);
    bool ok = !options->output || planfile_write(options->output, root, err);
    if (ok && options->json)
        print_json(root);
    else if (ok && !options->quiet && !options_answer_is_hidden(options))
        show(&file, fit, scales);
    json_decref(root);
    return exit_code_of(err);
}

int calibrate_convergence(const struct options *options, struct err *err)
{
    struct loss_runs runs = { 0 };
    struct descent_fit fit;
    int code = EXIT_INPUT;
    if (load_runs(options, &runs, err)) {
        struct descent_request request = { .runs = runs.at,
                                           .num_runs = runs.count,
                                           .least = options->accuracy.least > 0
                                                        ? options->accuracy.least
                                                        : -1,
                                           .heterogeneity = options->accuracy.heterogeneity };
        if (descent_fit(&request, &fit, err) && check_noise(&fit, err))
            code = tell(options, &runs, &fit, err);
    }
    arena_release(&runs.arena);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}
