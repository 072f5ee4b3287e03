/* Bounds the error of predicted memory peaks by runs whose memory was not measured: these runs did
 * not run out of memory. The log of a real peak over the predicted one is S + e; S, with variance
 * `between`, is the same for all runs of a stack, and e, with variance `within`, differs between
 * plans. */
#include "calibration/fit/held_peaks.h"

#include "base/normal.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- variances of measured peaks ---------------------------------------------------------------
 */

static int end_of_stack(const struct width_row *rows, int count, int first)
{
    int end = first + 1;
    while (end < count && strcmp(rows[end].stack, rows[first].stack) == 0)
        end++;
    return end;
}

/* One step of expectation maximisation. Given the n errors of a stack, with the sum `sum`, its S
 * has the variance w = 1 / (1 / between + n / within) and the mean m = w x sum / within. */
static struct peak_variances maximise(const struct width_row *rows, int count,
                                      struct peak_variances now)
{
    double between = 0, within = 0;
    int stacks = 0;
    for (int first = 0, end; first < count; first = end, stacks++) {
        double sum = 0;
        end = end_of_stack(rows, count, first);
        for (int i = first; i < end; i++)
            sum += rows[i].error;
        double w = 1 / (1 / now.between + (end - first) / now.within);
        double m = w * sum / now.within;
        between += m * m + w;
        for (int i = first; i < end; i++)
            within += (rows[i].error - m) * (rows[i].error - m) + w;
    }
    return (struct peak_variances){ between / stacks, within / count };
}

struct peak_variances peak_variances_find(const struct width_row *rows, int count)
{
    enum { STEPS = 500 };
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += rows[i].error * rows[i].error / count;
    struct peak_variances found = { squares / 2, squares / 2 };
    for (int step = 0; step < STEPS && found.between > 0 && found.within > 0; step++)
        found = maximise(rows, count, found);
    return found;
}

/* --- S given bounds ----------------------------------------------------------------------------
 */

static bool is_of_one_kind(const struct held_peak *a, const struct held_peak *b)
{
    return strcmp(a->stack, b->stack) == 0 && strcmp(a->model, b->model) == 0 &&
           strcmp(a->gpu, b->gpu) == 0;
}

/* Whether no other bound of the same model and GPU is smaller; the first of equal bounds counts. */
static bool is_tightest(const struct held_peak *bounds, int count, int i)
{
    for (int k = 0; k < count; k++)
        if (k != i && is_of_one_kind(&bounds[k], &bounds[i]) &&
            (bounds[k].bound < bounds[i].bound || (bounds[k].bound == bounds[i].bound && k < i)))
            return false;
    return true;
}

struct peak_shift peak_shift_find(struct peak_variances variances, const struct held_peak *bounds,
                                  int count)
{
    enum { INTERVALS = 400 };
    const double most = 8; /* the integral over S ends this many standard deviations from 0 */
    double deviation = sqrt(variances.between), scatter = sqrt(variances.within);
    double sum = 0, of_s = 0, of_square = 0;
    if (!(deviation > 0) || !(scatter > 0))
        return (struct peak_shift){ 0, variances.between };
    for (int point = 0; point <= INTERVALS; point++) {
        double s = deviation * most * (2.0 * point / INTERVALS - 1);
        bool is_end = point == 0 || point == INTERVALS;
        double weight = is_end ? 1 : point % 2 == 1 ? 4 : 2;
        double density = weight * normal_density(s / deviation);
        for (int i = 0; i < count; i++)
            if (is_tightest(bounds, count, i))
                density *= normal_cdf((bounds[i].bound - s) / scatter);
        sum += density;
        of_s += density * s;
        of_square += density * s * s;
    }
    double mean = of_s / sum;
    return (struct peak_shift){ mean, of_square / sum - mean * mean };
}

/* --- bounds ------------------------------------------------------------------------------------
 */

/* Whether the GPU's memory is an upper bound of the run's peak and adds information: the row states
 * the layout that ran, but no measured memory. Rows whose layers were traced one by one do not
 * count, as no GPU held the whole model. */
static bool is_bound(const struct run_case *of, const struct run_prediction *predicted)
{
    return *run_skip_reason(of) == '\0' && *of->row->recompute != '\0' &&
           run_measured_bytes(of->row) < 0 && predicted->peak_bytes > 0 &&
           of->system->stack.host.launches_ahead;
}

static double bound_of(const struct system *system, double peak_bytes)
{
    return log(gpu_usable_bytes(&system->gpu) / peak_bytes);
}

static bool add_ran(const struct fit_ran *ran, struct arena *arena, struct held_peak *out,
                    struct err *err)
{
    struct system system;
    struct model model;
    struct plan plan;
    if (!system_load(ran->cluster, ran->stack, ran->gpus, &system, err))
        return false;
    bool ok = model_load(ran->model, &model, err) && plan_parse(ran->layout, arena, &plan, err);
    if (ok) {
        model.seq = ran->seq;
        model.batch = ran->batch;
        ok = plan_derive_data(&plan, ran->gpus, err) &&
             !plan_check(&plan, &model, model.batch, ran->gpus, err) &&
             system_check(&system, &plan, err);
    }
    if (ok) {
        struct evaluator *evaluator = evaluator_new(&system, &model);
        double peak_bytes = evaluate_peak_bytes(evaluator, &plan);
        evaluator_free(evaluator);
        *out = (struct held_peak){ ran->stack, ran->model, arena_text(arena, system.gpu.name),
                                   bound_of(&system, peak_bytes) };
    }
    system_release(&system);
    return ok;
}

static int by_stack(const void *a, const void *b)
{
    const struct held_peak *x = a, *y = b;
    int order = strcmp(x->stack, y->stack);
    order = order ? order : strcmp(x->model, y->model);
    return order ? order : (x->bound > y->bound) - (x->bound < y->bound);
}

bool held_peaks_load(const struct shipped_runs *runs, const struct fit_table *table,
                     struct arena *arena, struct held_peak **out, int *count, struct err *err)
{
    int n = 0;
    *out = ARENA_ARRAY(arena, struct held_peak, (size_t)(runs->rows.count + table->num_ran) + 1);
    for (int i = 0; i < runs->rows.count; i++) {
        const struct run_case *of = &runs->cases[i];
        double peak_bytes = runs->predictions[i].peak_bytes;
        if (is_bound(of, &runs->predictions[i]))
            (*out)[n++] = (struct held_peak){ arena_text(arena, of->memory_stack),
                                              arena_text(arena, of->row->model_name),
                                              arena_text(arena, of->system->gpu.name),
                                              bound_of(of->system, peak_bytes) };
    }
    for (int i = 0; i < table->num_ran; i++)
        if (!add_ran(&table->ran[i], arena, &(*out)[n++], err))
            return err_within_item(err, "ran", (size_t)i);
    qsort(*out, (size_t)n, sizeof **out, by_stack);
    *count = n;
    return true;
}
