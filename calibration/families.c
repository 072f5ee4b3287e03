#include "calibration/families.h"

#include "base/file.h"
#include "sim/engine/interval.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_FOLDS = 5, DIGITS = 3 };

/* --- rows ------------------------------------------------------------------------------------ */

struct samples {
    struct width_row *at;
    int count;
};

static bool is_in_results(const struct fit_result *results, int num_results, const char *id)
{
    for (int r = 0; r < num_results; r++)
        for (int i = 0; i < results[r].rows.count; i++)
            if (strcmp(results[r].rows.at[i].id, id) == 0)
                return true;
    return false;
}

/* By stack; rows keep the order of the file. */
static int compare_cases(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    int by_stack = strcmp(x->system->stack.name, y->system->stack.name);
    return by_stack ? by_stack : (x > y) - (x < y);
}

static void use_results(const struct fit_result *results, int num_results,
                        const struct run_case *cases, int count)
{
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values; j++)
            for (int i = 0; i < count; i++) {
                const struct constant *constant = &results[r].values[j].of->constant;
                if (!*cases[i].skip && constant_is_of(constant, cases[i].system))
                    constant_set(constant, cases[i].system, results[r].values[j].value);
            }
}

static bool shipped_runs(struct arena *arena, struct run_rows *rows, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    if (!file_data_folder("calibration/measured", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/measured",
                       "no such data folder; is SIMSEARCH_DATA right?");
    snprintf(path, sizeof path, "%s/runs.csv", folder);
    return runs_load(path, arena, rows, err);
}

/* A held-out row on a measured profile. */
static bool counts(const struct run_case *of, const struct width_rules *rules,
                   const struct fit_result *results, int num_results)
{
    return !of->is_fitted && of->system->profile.measured &&
           !is_in_results(results, num_results, of->row->id) &&
           !match_text(rules->without, of->row->source_key);
}

static bool load_samples(struct run_systems *systems, const struct width_rules *rules,
                         const struct fit_result *results, int num_results, int jobs,
                         struct arena *arena, struct samples *out, struct err *err)
{
    struct run_rows rows = { 0 };
    if (!shipped_runs(arena, &rows, err))
        return false;
    size_t room = (size_t)rows.count;
    struct run_case *cases = ARENA_ARRAY(arena, struct run_case, room);
    struct run_prediction *predictions = ARENA_ARRAY(arena, struct run_prediction, room);
    const struct run_case **chosen = ARENA_ARRAY(arena, const struct run_case *, room);
    for (int i = 0; i < rows.count; i++)
        if (!run_convert(systems, &rows.at[i], &cases[i], err))
            return false;
    use_results(results, num_results, cases, rows.count);
    runs_predict(cases, rows.count, jobs, predictions);
    struct scores scores = runs_score(cases, predictions, rows.count, arena);
    int n = 0;
    for (int i = 0; i < scores.num_scored; i++) {
        const struct run_case *of = &cases[scores.worst[i]];
        if (counts(of, rules, results, num_results))
            chosen[n++] = of;
    }
    qsort(chosen, (size_t)n, sizeof(void *), compare_cases);
    out->at = ARENA_ARRAY(arena, struct width_row, (size_t)n);
    out->count = n;
    for (int i = 0; i < n; i++) {
        const struct run_prediction *predicted = &predictions[chosen[i] - cases];
        out->at[i].stack = chosen[i]->system->stack.name;
        out->at[i].error = run_error(chosen[i], predicted);
        interval_shares(&predicted->time, out->at[i].shares);
    }
    return true;
}

/* --- coverage -------------------------------------------------------------------------------- */

/* The pooled widths, which stand last, where the family has none. */
static int index_of(const struct family_widths *families, int count, const char *stack)
{
    int f = 0;
    while (f < count - 1 && strcmp(families[f].stack, stack) != 0)
        f++;
    return f;
}

static bool is_within(const struct width_row *row, const struct family_widths *family)
{
    return fabs(row->error) <= interval_of_widths(&family->widths, row->shares);
}

/* Adds to each family, and to all, the rows that widths from other folds hold. */
static void leave_out_fold(const struct width_rules *rules, const struct samples *samples, int fold,
                           struct family_widths *families, int count, struct arena *arena)
{
    struct width_row *kept = ARENA_ARRAY(arena, struct width_row, (size_t)samples->count);
    struct family_widths *found =
        ARENA_ARRAY(arena, struct family_widths, (size_t)samples->count + 1);
    int n = 0;
    for (int i = 0; i < samples->count; i++)
        if (i % NUM_FOLDS != fold)
            kept[n++] = samples->at[i];
    int num_found = widths_find(rules, kept, n, arena, found);
    for (int i = fold; i < samples->count; i += NUM_FOLDS) {
        const char *stack = samples->at[i].stack;
        families[index_of(families, count, stack)].left_out +=
            is_within(&samples->at[i], &found[index_of(found, num_found, stack)]);
    }
}

static void cover(const struct samples *samples, struct family_widths *families, int count,
                  struct families *out)
{
    for (int i = 0; i < samples->count; i++)
        for (int f = 0; f < count - 1; f++)
            if (strcmp(families[f].stack, samples->at[i].stack) == 0)
                families[f].covered += is_within(&samples->at[i], &families[f]);
    out->rows = samples->count;
    for (int f = 0; f < count - 1; f++) {
        out->covered += families[f].covered / samples->count;
        out->left_out += families[f].left_out / samples->count;
        families[f].covered /= families[f].rows;
        families[f].left_out /= families[f].rows;
    }
}

static void round_widths(struct family_widths *family)
{
    for (int k = 0; k < NUM_ERROR_PARTS; k++) {
        char text[32];
        snprintf(text, sizeof text, "%.*g", DIGITS, error_width(&family->widths, k));
        error_width_set(&family->widths, k, strtod(text, NULL));
    }
}

/* --- families that no constant was fitted for ------------------------------------------------ */

static const char telling_key[] = "product_efficiency";

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

static bool value_of(const struct constant *constant, const struct fit_result *results,
                     int num_results, double *out, struct err *err)
{
    for (int r = 0; r < num_results; r++)
        for (int j = 0; j < results[r].num_values; j++)
            if (&results[r].values[j].of->constant == constant) {
                *out = results[r].values[j].value;
                return true;
            }
    return shipped_value(constant, out, err);
}

/* Mean square of log(fitted / prior) of what families' libraries reach: how far off a family is
 * that nothing was fitted for. */
static bool family_variance(const struct fit_table *table, const struct fit_result *results,
                            int num_results, double *out, struct err *err)
{
    int n = 0;
    *out = 0;
    for (int k = 0; k < table->num_jobs; k++)
        for (int j = 0; j < table->jobs[k].num_constants; j++) {
            const struct fit_constant *of = &table->jobs[k].constants[j];
            double value;
            if (!of->constant.is_of_stack || strcmp(of->constant.key, telling_key) != 0)
                continue;
            if (!value_of(&of->constant, results, num_results, &value, err))
                return false;
            *out += pow(log(value / of->prior), 2);
            n++;
        }
    *out /= n > 0 ? n : 1;
    return true;
}

static bool is_fitted(const struct fit_table *table, const char *stack)
{
    char file[128];
    snprintf(file, sizeof file, "stacks/%s", stack);
    for (int k = 0; k < table->num_jobs; k++)
        for (int j = 0; j < table->jobs[k].num_constants; j++)
            if (constant_is_in(&table->jobs[k].constants[j].constant, file))
                return true;
    return false;
}

/* --- all shipped stacks ---------------------------------------------------------------------- */

/* A stack that states no error has its profile's, unless it has rows. */
static bool states_errors(const char *name, bool *out, struct err *err)
{
    struct stack stack;
    if (!stack_load(name, &stack, err))
        return false;
    *out = stack.error_log > 0 || stack.widths.common > 0;
    stack_release(&stack);
    return true;
}

static void add_family(const struct fit_table *table, double variance, const char *name,
                       const struct family_widths *found, struct families *out)
{
    struct family_widths *family = &out->at[out->count++];
    *family = *found;
    family->stack = arena_text(&out->arena, name);
    if (family->rows < FEWEST_TO_SCALE && !is_fitted(table, name)) {
        widths_widen(family, variance);
        round_widths(family);
    }
    if (family->rows == 0)
        family->covered = family->left_out = (double)NAN;
}

static bool list_stacks(const struct fit_table *table, double variance,
                        const struct family_widths *found, int num_found, struct families *out,
                        struct err *err)
{
    char folder[PATH_MAX];
    size_t count;
    bool ok = true;
    if (!file_data_folder("calibration/stacks", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/stacks",
                       "no such data folder; is SIMSEARCH_DATA right?");
    char **names = file_list_json(folder, &count);
    out->at = ARENA_ARRAY(&out->arena, struct family_widths, count);
    for (size_t i = 0; i < count; i++) {
        const struct family_widths *of = &found[index_of(found, num_found, names[i])];
        bool wanted = of->rows > 0;
        ok = ok && (wanted || states_errors(names[i], &wanted, err));
        if (ok && wanted)
            add_family(table, variance, names[i], of, out);
        free(names[i]);
    }
    free(names);
    return ok;
}

bool families_find(const struct fit_table *table, const struct fit_result *results, int num_results,
                   int jobs, struct families *out, struct err *err)
{
    struct samples samples;
    const struct width_rules *rules = &table->intervals;
    *out = (struct families){ 0 };
    struct run_systems *systems = run_systems_new(NULL, NULL, err);
    bool ok = systems &&
              load_samples(systems, rules, results, num_results, jobs, &out->arena, &samples, err);
    if (ok) {
        struct family_widths *found =
            ARENA_ARRAY(&out->arena, struct family_widths, (size_t)samples.count + 1);
        int count = widths_find(rules, samples.at, samples.count, &out->arena, found);
        for (int fold = 0; fold < NUM_FOLDS; fold++)
            leave_out_fold(rules, &samples, fold, found, count, &out->arena);
        for (int f = 0; f < count; f++)
            round_widths(&found[f]);
        cover(&samples, found, count, out);
        double variance;
        ok = family_variance(table, results, num_results, &variance, err) &&
             list_stacks(table, variance, found, count, out, err);
    }
    run_systems_free(systems);
    return ok;
}

void families_release(struct families *families)
{
    arena_release(&families->arena);
    *families = (struct families){ 0 };
}

const struct family_widths *families_of(const struct families *families, const char *stack)
{
    for (int i = 0; i < families->count; i++)
        if (strcmp(families->at[i].stack, stack) == 0)
            return &families->at[i];
    return NULL;
}
