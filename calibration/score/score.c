/* Scores of predictions. A row is one measured run; a group is the rows of one configuration, of
 * which only the last is scored. */
#include "calibration/score/score.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const score_kind_names[NUM_SCORE_KINDS] = { "sources", "dense", "moe", "memory" };

/* --- statistics of errors ------------------------------------------------------------------ */

static int compare_sizes(const void *a, const void *b)
{
    return numbers_order(fabs(*(const double *)a), fabs(*(const double *)b));
}

struct score score_errors(double *errors, int n)
{
    if (n == 0)
        return (struct score){ 0, NAN, NAN, NAN, NAN, NAN, NAN };
    struct score score = { .groups = n, .coverage = NAN };
    numbers_sort(errors, (size_t)n);
    score.bias = sorted_quantile(errors, n, 0.5);
    qsort(errors, (size_t)n, sizeof *errors, compare_sizes);
    double *sizes = arena_grow(NULL, (size_t)n * sizeof *sizes);
    for (int i = 0; i < n; i++) {
        sizes[i] = fabs(errors[i]);
        score.mean += sizes[i] / n;
    }
    score.median = sorted_quantile(sizes, n, 0.5);
    score.p90 = sorted_quantile(sizes, n, 0.9);
    score.worst = sizes[n - 1];
    free(sizes);
    return score;
}

/* --- rows ---------------------------------------------------------------------------------- */

double run_measured_bytes(const struct run_row *row)
{
    if (!(row->measured_mem_gb > 0))
        return -1;
    return row->measured_mem_gb * (strcmp(row->mem_unit, "GiB") == 0 ? 1024.0 * 1024 * 1024 : 1e9);
}

const char *run_skip_reason(const struct run_case *of)
{
    if (*of->skip)
        return of->skip;
    if (of->row->core && run_measured_s(of->row) <= 0)
        return "no time or throughput was measured";
    return "";
}

double run_error(const struct run_case *of, const struct run_prediction *predicted)
{
    return log(predicted->step_s / run_measured_s(of->row));
}

bool run_is_covered(const struct run_case *of, const struct run_prediction *predicted)
{
    double measured_s = run_measured_s(of->row);
    return predicted->step_low_s <= measured_s && measured_s <= predicted->step_high_s;
}

static double memory_error(const struct run_case *of, const struct run_prediction *predicted)
{
    return log(predicted->memory_bytes / run_measured_bytes(of->row));
}

static bool is_core(const struct run_case *of)
{
    return of->row->core;
}

static bool is_core_with_memory(const struct run_case *of)
{
    return of->row->core && run_measured_bytes(of->row) > 0;
}

/* --- groups -------------------------------------------------------------------------------- */

/* A row without a group is a group of its own. */
static int compare_groups(const struct run_case *x, const struct run_case *y)
{
    int by_source = strcmp(x->row->source_key, y->row->source_key);
    if (by_source)
        return by_source;
    int by_group = strcmp(x->row->config_group, y->row->config_group);
    return by_group || *x->row->config_group ? by_group : (x > y) - (x < y);
}

static int compare_places(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    int by_group = compare_groups(x, y);
    return by_group ? by_group : (x > y) - (x < y);
}

/* Writes to `out`, for each group, the last row in file order for which `counts` is true. Rows of
 * one source become adjacent. Returns the number of rows. */
static int last_of_groups(const struct run_case *cases, int count,
                          bool (*counts)(const struct run_case *), const struct run_case **out)
{
    int n = 0;
    int groups = 0;
    for (int i = 0; i < count; i++)
        if (counts(&cases[i]))
            out[n++] = &cases[i];
    qsort(out, (size_t)n, sizeof(void *), compare_places);
    for (int i = 0; i < n; i++)
        if (i + 1 == n || compare_groups(out[i], out[i + 1]) != 0)
            out[groups++] = out[i];
    return groups;
}

/* --- sources ------------------------------------------------------------------------------- */

/* One scored group. */
struct entry {
    const struct run_case *of;
    double error;
    bool is_covered;
};

static bool is_in_kind(const struct run_case *of, enum score_kind kind)
{
    switch (kind) {
    case SCORE_TIME:
    case SCORE_MEMORY:
        return true;
    case SCORE_DENSE:
        return !of->is_moe;
    case SCORE_MOE:
        return of->is_moe;
    case NUM_SCORE_KINDS:
        break;
    }
    return false;
}

enum { EITHER = -1 };

/* Score of the entries of this kind whose is_fitted equals `fitted`; EITHER: of all entries of the
 * kind. */
static struct score score_part(const struct entry *entries, int n, enum score_kind kind, int fitted,
                               double *scratch)
{
    int count = 0;
    int covered = 0;
    for (int i = 0; i < n; i++)
        if (is_in_kind(entries[i].of, kind) &&
            (fitted == EITHER || fitted == entries[i].of->is_fitted)) {
            scratch[count++] = entries[i].error;
            covered += entries[i].is_covered;
        }
    struct score score = score_errors(scratch, count);
    if (count > 0 && kind != SCORE_MEMORY)
        score.coverage = (double)covered / count;
    return score;
}

static struct split_score score_split(const struct entry *entries, int n, enum score_kind kind,
                                      double *scratch)
{
    return (struct split_score){
        .all = score_part(entries, n, kind, EITHER, scratch),
        .fitted = score_part(entries, n, kind, 1, scratch),
        .not_fitted = score_part(entries, n, kind, 0, scratch),
    };
}

/* The entries of a source, which are adjacent. */
static const struct entry *entries_of(const struct entry *entries, int n, const char *source,
                                      int *count)
{
    int first = 0;
    while (first < n && strcmp(entries[first].of->row->source_key, source) != 0)
        first++;
    int end = first;
    while (end < n && strcmp(entries[end].of->row->source_key, source) == 0)
        end++;
    *count = end - first;
    return entries + first;
}

/* Lists the sources' names in order of appearance; rows of one source are usually adjacent. */
static void list_sources(const struct run_case *cases, int count, struct arena *arena,
                         struct scores *out)
{
    out->sources = ARENA_ARRAY(arena, struct source_score, (size_t)count);
    for (int i = 0; i < count; i++) {
        const char *source = cases[i].row->source_key;
        int k = out->num_sources - 1;
        while (k >= 0 && strcmp(out->sources[k].source, source) != 0)
            k--;
        if (k < 0)
            out->sources[out->num_sources++].source = source;
    }
}

/* --- all ----------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int by_error = compare_sizes(&y->error, &x->error);
    return by_error ? by_error : (x->of > y->of) - (x->of < y->of);
}

/* The groups whose last row was predicted, and their errors. */
static int collect(const struct run_case **groups, int num_groups, const struct run_case *cases,
                   const struct run_prediction *predictions,
                   double (*error)(const struct run_case *, const struct run_prediction *),
                   struct entry *out)
{
    int n = 0;
    for (int i = 0; i < num_groups; i++)
        if (*run_skip_reason(groups[i]) == '\0') {
            const struct run_prediction *predicted = &predictions[groups[i] - cases];
            out[n++] = (struct entry){ groups[i], error(groups[i], predicted),
                                       run_is_covered(groups[i], predicted) };
        }
    return n;
}

static void score_sources(struct scores *scores, const struct entry *times, int num_times,
                          const struct entry *memories, int num_memories, double *scratch)
{
    double sum = 0;
    int num_dense = 0;
    for (int i = 0; i < scores->num_sources; i++) {
        struct source_score *source = &scores->sources[i];
        for (int kind = 0; kind < NUM_SCORE_KINDS; kind++) {
            bool is_memory = kind == SCORE_MEMORY;
            int n;
            const struct entry *own =
                entries_of(is_memory ? memories : times, is_memory ? num_memories : num_times,
                           source->source, &n);
            source->kind[kind] = score_split(own, n, (enum score_kind)kind, scratch);
        }
        if (source->kind[SCORE_DENSE].all.groups > 0) {
            sum += source->kind[SCORE_DENSE].all.median;
            num_dense++;
        }
    }
    scores->mean_of_medians = num_dense > 0 ? sum / num_dense : (double)NAN;
}

static struct score score_tier(const struct entry *entries, int n, enum tier tier, double *scratch)
{
    int count = 0;
    int covered = 0;
    for (int i = 0; i < n; i++)
        if (!entries[i].of->is_fitted &&
            system_tier(entries[i].of->system, &entries[i].of->model) == tier) {
            scratch[count++] = entries[i].error;
            covered += entries[i].is_covered;
        }
    struct score score = score_errors(scratch, count);
    if (count > 0)
        score.coverage = (double)covered / count;
    return score;
}

static const int *list_worst(struct entry *entries, int n, const struct run_case *cases,
                             struct arena *arena)
{
    int *worst = ARENA_ARRAY(arena, int, (size_t)n);
    qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    for (int i = 0; i < n; i++)
        worst[i] = (int)(entries[i].of - cases);
    return worst;
}

struct scores runs_score(const struct run_case *cases, const struct run_prediction *predictions,
                         int count, struct arena *arena)
{
    struct scores scores = { .num_rows = count };
    size_t room = (size_t)count;
    const struct run_case **groups = ARENA_ARRAY(arena, const struct run_case *, room);
    struct entry *times = ARENA_ARRAY(arena, struct entry, room);
    struct entry *memories = ARENA_ARRAY(arena, struct entry, room);
    double *scratch = ARENA_ARRAY(arena, double, room);

    int num_groups = last_of_groups(cases, count, is_core_with_memory, groups);
    int num_memories = collect(groups, num_groups, cases, predictions, memory_error, memories);
    scores.num_core_groups = last_of_groups(cases, count, is_core, groups);
    scores.num_scored =
        collect(groups, scores.num_core_groups, cases, predictions, run_error, times);

    list_sources(cases, count, arena, &scores);
    score_sources(&scores, times, scores.num_scored, memories, num_memories, scratch);
    scores.all = score_split(times, scores.num_scored, SCORE_TIME, scratch);
    for (int tier = 0; tier < NUM_TIERS; tier++)
        scores.tiers[tier] = score_tier(times, scores.num_scored, (enum tier)tier, scratch);
    scores.worst = list_worst(times, scores.num_scored, cases, arena);
    return scores;
}
