/* Interval widths of stacks. A row is one measured run, a source the publication that it comes
 * from. Rows are divided into folds; a row's coverage is also counted with widths that are fitted
 * without its fold. */
#include "calibration/fit/stack_widths.h"

#include "base/file.h"
#include "base/normal.h"
#include "calibration/fit/held_peaks.h"
#include "calibration/fit/shipped_runs.h"
#include "sim/engine/interval.h"
#include "sim/engine/tier.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_FOLDS = 5, DIGITS = 3 };

/* --- rows ---------------------------------------------------------------------------------- */

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

/* Sorts by stack; rows keep the file's order. */
static int compare_cases(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    int by_stack = strcmp(x->system->stack.name, y->system->stack.name);
    return by_stack ? by_stack : (x > y) - (x < y);
}

/* Whether the row is held out and its stack and GPU were measured. Errors of other rows include a
 * shift (an error that all rows of a source share), which calibration/fit/source_shifts.h treats.
 */
static bool counts(const struct run_case *of, const char *without, const struct fit_result *results,
                   int num_results)
{
    return !of->is_fitted && system_tier(of->system, &of->model) == TIER_SEEN &&
           !is_in_results(results, num_results, of->row->id) &&
           !(without && strcmp(of->row->source_key, without) == 0);
}

/* Loads the rows of all sources except `without` (NULL: of all). */
static bool load_samples(const struct fit_result *results, int num_results, const char *without,
                         int jobs, struct arena *arena, struct samples *out, struct err *err)
{
    struct shipped_runs runs;
    if (!shipped_runs_predict(NULL, results, num_results, jobs, arena, &runs, err)) {
        shipped_runs_release(&runs);
        return false;
    }
    const struct run_case **chosen =
        ARENA_ARRAY(arena, const struct run_case *, (size_t)runs.rows.count);
    int n = 0;
    for (int i = 0; i < runs.scores.num_scored; i++) {
        const struct run_case *of = &runs.cases[runs.scores.worst[i]];
        if (counts(of, without, results, num_results))
            chosen[n++] = of;
    }
    qsort(chosen, (size_t)n, sizeof(void *), compare_cases);
    out->at = ARENA_ARRAY(arena, struct width_row, (size_t)n);
    out->count = n;
    for (int i = 0; i < n; i++) {
        const struct run_prediction *predicted = &runs.predictions[chosen[i] - runs.cases];
        out->at[i].stack = arena_text(arena, chosen[i]->system->stack.name);
        out->at[i].error = run_error(chosen[i], predicted);
        interval_shares(&predicted->time, out->at[i].shares);
    }
    shipped_runs_release(&runs);
    return true;
}

/* --- coverage ------------------------------------------------------------------------------ */

/* The index of a stack's widths; if it has none, that of the pooled widths, the last. */
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

/* Counts, per stack and in total, the rows that lie within widths fitted on the other folds. */
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

static double rounded_to_digits(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return strtod(text, NULL);
}

static void round_widths(struct family_widths *family)
{
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        error_width_set(&family->widths, k, rounded_to_digits(error_width(&family->widths, k)));
}

/* --- all shipped stacks -------------------------------------------------------------------- */

/* Whether a stack's file states errors. A stack without them and without rows uses those of its
 * profile. */
static bool states_errors(const char *name, bool *out, struct err *err)
{
    struct stack stack;
    if (!stack_load(name, &stack, err))
        return false;
    *out = stack.errors.log > 0 || stack.errors.widths.common > 0;
    stack_release(&stack);
    return true;
}

static void add_family(const char *name, const struct family_widths *found, struct families *out)
{
    struct family_widths *family = &out->at[out->count++];
    *family = *found;
    family->stack = arena_text(&out->arena, name);
    if (family->rows == 0)
        family->covered = family->left_out = (double)NAN;
}

static bool list_stacks(const struct family_widths *found, int num_found, struct families *out,
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
            add_family(names[i], of, out);
        free(names[i]);
    }
    free(names);
    return ok;
}

/* --- memory -------------------------------------------------------------------------------- */

static int compare_memory(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    int by_stack = strcmp(x->memory_stack, y->memory_stack);
    return by_stack ? by_stack : (x > y) - (x < y);
}

/* Loads the errors of all measured memory peaks, also of rows whose time is not scored. For
 * widths_find each error belongs to the whole run and to no class of time. */
static void memory_samples(const struct shipped_runs *runs, struct arena *arena,
                           struct samples *out)
{
    const struct run_case **chosen =
        ARENA_ARRAY(arena, const struct run_case *, (size_t)runs->rows.count + 1);
    *out = (struct samples){ 0 };
    for (int i = 0; i < runs->rows.count; i++)
        if (*runs->cases[i].skip == '\0' && runs->predictions[i].memory_bytes > 0 &&
            run_measured_bytes(&runs->rows.at[i]) > 0)
            chosen[out->count++] = &runs->cases[i];
    qsort(chosen, (size_t)out->count, sizeof(void *), compare_memory);
    out->at = ARENA_ARRAY(arena, struct width_row, (size_t)out->count + 1);
    for (int i = 0; i < out->count; i++) {
        double predicted = runs->predictions[chosen[i] - runs->cases].memory_bytes;
        out->at[i] = (struct width_row){
            .stack = arena_text(arena, chosen[i]->memory_stack),
            .error = log(predicted / run_measured_bytes(chosen[i]->row)),
            .shares = { 1 },
        };
    }
}

/* Narrows and shifts the memory interval of a stack without measured peaks by its runs' upper
 * bounds. The variances pooled over all stacks are scaled first, so that their sum fits the stack's
 * interval. */
static void apply_bounds(struct peak_variances pooled, const struct held_peak *bounds, int count,
                         struct family_widths *family)
{
    double all = pow(family->memory / normal_90, 2), sum = pooled.between + pooled.within;
    struct peak_variances own = { all * pooled.between / sum, all * pooled.within / sum };
    int first = 0, n = 0;
    while (first < count && strcmp(bounds[first].stack, family->stack) != 0)
        first++;
    while (first + n < count && strcmp(bounds[first + n].stack, family->stack) == 0)
        n++;
    if (n == 0 || !(sum > 0))
        return;
    struct peak_shift shift = peak_shift_find(own, &bounds[first], n);
    family->memory = rounded_to_digits(normal_90 * sqrt(shift.variance + own.within));
    family->memory_shift = round(1e3 * shift.mean) / 1e3;
}

static bool find_memory(const struct fit_table *table, const struct fit_result *results,
                        int num_results, int jobs, struct families *out, struct err *err)
{
    struct arena *arena = &out->arena;
    struct shipped_runs runs;
    struct samples samples;
    struct held_peak *bounds;
    int num_bounds;
    if (!shipped_runs_predict(NULL, results, num_results, jobs, arena, &runs, err) ||
        !held_peaks_load(&runs, table, arena, &bounds, &num_bounds, err)) {
        shipped_runs_release(&runs);
        return false;
    }
    memory_samples(&runs, arena, &samples);
    shipped_runs_release(&runs);
    struct family_widths *found =
        ARENA_ARRAY(arena, struct family_widths, (size_t)samples.count + 1);
    int count = widths_find(&table->intervals, samples.at, samples.count, arena, found);
    struct peak_variances variances = peak_variances_find(samples.at, samples.count);
    for (int i = 0; i < count; i++)
        round_widths(&found[i]);
    for (int i = 0; i < out->count; i++) {
        int of = index_of(found, count, out->at[i].stack);
        out->at[i].memory = found[of].widths.common;
        if (of == count - 1)
            apply_bounds(variances, bounds, num_bounds, &out->at[i]);
    }
    return true;
}

bool families_find(const struct fit_table *table, const struct fit_result *results, int num_results,
                   int jobs, struct families *out, struct err *err)
{
    struct samples samples;
    const struct width_rules *rules = &table->intervals;
    *out = (struct families){ 0 };
    if (!load_samples(results, num_results, NULL, jobs, &out->arena, &samples, err))
        return false;
    struct family_widths *found =
        ARENA_ARRAY(&out->arena, struct family_widths, (size_t)samples.count + 1);
    int count = widths_find(rules, samples.at, samples.count, &out->arena, found);
    for (int fold = 0; fold < NUM_FOLDS; fold++)
        leave_out_fold(rules, &samples, fold, found, count, &out->arena);
    for (int f = 0; f < count; f++)
        round_widths(&found[f]);
    cover(&samples, found, count, out);
    return list_stacks(found, count, out, err) &&
           find_memory(table, results, num_results, jobs, out, err);
}

bool families_pooled(const struct fit_table *table, const char *without, int jobs,
                     struct family_widths *out, struct err *err)
{
    struct arena arena = { 0 };
    struct samples samples;
    bool ok = load_samples(NULL, 0, without, jobs, &arena, &samples, err);
    if (ok) {
        struct family_widths *found =
            ARENA_ARRAY(&arena, struct family_widths, (size_t)samples.count + 1);
        int count = widths_find(&table->intervals, samples.at, samples.count, &arena, found);
        *out = found[count - 1];
    }
    arena_release(&arena);
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
