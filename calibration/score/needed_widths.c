/* Computes the interval widths that stacks and profiles need, from the errors of held-out rows. */
#include "calibration/score/needed_widths.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char new_sources[] = "sources not fitted";

/* An error, and the stack or profile to which it belongs. */
struct sample {
    const char *name;
    bool is_of_stack;
    double size, stated;
};

static int compare_owners(const struct sample *x, const struct sample *y)
{
    if (x->is_of_stack != y->is_of_stack)
        return y->is_of_stack - x->is_of_stack;
    return strcmp(x->name, y->name);
}

static int compare_samples(const void *a, const void *b)
{
    const struct sample *x = a;
    const struct sample *y = b;
    int by_owner = compare_owners(x, y);
    return by_owner ? by_owner : (x->size > y->size) - (x->size < y->size);
}

static double median_stated(const struct sample *samples, int n, double *scratch)
{
    for (int i = 0; i < n; i++)
        scratch[i] = samples[i].stated;
    numbers_sort(scratch, (size_t)n);
    return sorted_quantile(scratch, n, 0.5);
}

static double ratio_at(const struct sample *samples, int n, int rank, double *scratch)
{
    for (int i = 0; i < n; i++)
        scratch[i] = samples[i].size / samples[i].stated;
    numbers_sort(scratch, (size_t)n);
    return rank <= n ? scratch[rank - 1] : (double)NAN;
}

static struct interval_need need_of(const struct sample *sorted, int n, double *scratch)
{
    int rank = (int)ceil(0.9 * (n + 1));
    return (struct interval_need){
        .name = sorted->name,
        .is_of_stack = sorted->is_of_stack,
        .groups = n,
        .needed = rank <= n ? sorted[rank - 1].size : (double)NAN,
        .stated = median_stated(sorted, n, scratch),
        .short_by = ratio_at(sorted, n, rank, scratch),
    };
}

static bool is_new(const struct scores *scores, const char *source)
{
    for (int i = 0; i < scores->num_sources; i++)
        if (strcmp(scores->sources[i].source, source) == 0)
            return scores->sources[i].kind[SCORE_TIME].fitted.groups == 0;
    return false;
}

struct interval_needs runs_need(const struct run_case *cases,
                                const struct run_prediction *predictions,
                                const struct scores *scores, struct arena *arena)
{
    size_t room = 3 * (size_t)scores->num_scored;
    struct sample *samples = ARENA_ARRAY(arena, struct sample, room);
    double *scratch = ARENA_ARRAY(arena, double, room);
    struct interval_needs needs = { .at = ARENA_ARRAY(arena, struct interval_need, room) };
    int n = 0;
    for (int i = 0; i < scores->num_scored; i++) {
        const struct run_case *of = &cases[scores->worst[i]];
        const struct run_prediction *predicted = &predictions[scores->worst[i]];
        double size = fabs(run_error(of, predicted));
        double stated = log(predicted->step_high_s / predicted->step_s);
        const struct system *system = of->system;
        /* models with experts have a width of their own, which is not fitted */
        if (of->is_fitted || of->is_moe)
            continue;
        if (system->profile.measured)
            samples[n++] = (struct sample){ system->stack.name, true, size, stated };
        if (system->profile.measured && is_new(scores, of->row->source_key))
            samples[n++] = (struct sample){ new_sources, true, size, stated };
        samples[n++] = (struct sample){ system->profile.name, false, size, stated };
    }
    qsort(samples, (size_t)n, sizeof *samples, compare_samples);
    int first = 0;
    for (int i = 1; i <= n; i++)
        if (i == n || compare_owners(&samples[first], &samples[i]) != 0) {
            needs.at[needs.count++] = need_of(&samples[first], i - first, scratch);
            first = i;
        }
    return needs;
}
