/* Fits all constants without one source (a publication) and predicts its rows (measured runs). */
#include "calibration/fit/leave_out.h"

#include "calibration/fit/shipped_runs.h"
#include "calibration/fit/unseen.h"
#include "sim/engine/interval.h"

#include <math.h>
#include <string.h>

/* --- refits -------------------------------------------------------------------------------- */

static bool refit(const struct fit_table *table, int jobs, struct left_out *out, struct err *err)
{
    struct fit_table without = *table;
    without.left_out = out->source;
    out->results = ARENA_ARRAY(&out->arena, struct fit_result, (size_t)table->num_jobs);
    for (int i = 0; i < table->num_jobs; i++) {
        int earlier = out->num_results++;
        if (!fit_run(&without, &table->jobs[i], out->results, earlier, jobs, false,
                     &out->results[earlier], err))
            return false;
    }
    unseen_replace(out->results, out->num_results);
    return true;
}

/* --- tiers --------------------------------------------------------------------------------- */

/* Whether whole runs on the system's GPU, or with its stack, remain. Micro-benchmarks do not
 * count. */
static bool has_runs(const struct left_out *of, const struct system *system, bool of_stack)
{
    for (int r = 0; r < of->num_results; r++)
        for (int j = 0; j < of->results[r].num_values; j++) {
            const struct fit_value *value = &of->results[r].values[j];
            if (value->has_runs && value->of->constant.is_of_stack == of_stack &&
                constant_is_of(&value->of->constant, system))
                return true;
        }
    return false;
}

static enum tier tier_without(const struct left_out *of, const struct system *system)
{
    if (!system->profile.measured || !has_runs(of, system, false))
        return TIER_NEW_GPU;
    return has_runs(of, system, true) ? TIER_SEEN : TIER_NEW_STACK;
}

enum tier left_out_tier(const struct left_out *of)
{
    int count[NUM_TIERS] = { 0 };
    int most = 0;
    for (int i = 0; i < of->num_rows; i++)
        count[of->rows[i].tier] += of->rows[i].is_dense;
    for (int tier = 1; tier < NUM_TIERS; tier++)
        most = count[tier] > count[most] ? tier : most;
    return (enum tier)most;
}

/* --- rows ---------------------------------------------------------------------------------- */

static double half_width(const struct family_widths *family, const struct run_prediction *predicted)
{
    double shares[NUM_ERROR_PARTS];
    interval_shares(&predicted->time, shares);
    return interval_of_widths(&family->widths, shares);
}

static void keep_rows(const struct shipped_runs *runs, const struct family_widths *pooled,
                      struct left_out *out)
{
    double *errors = ARENA_ARRAY(&out->arena, double, (size_t)runs->rows.count);
    int num_dense = 0;
    out->rows = ARENA_ARRAY(&out->arena, struct left_out_row, (size_t)runs->rows.count);
    for (int i = 0; i < runs->scores.num_scored; i++) {
        const struct run_case *of = &runs->cases[runs->scores.worst[i]];
        const struct run_prediction *predicted = &runs->predictions[runs->scores.worst[i]];
        struct left_out_row *row = &out->rows[out->num_rows++];
        *row = (struct left_out_row){ .id = of->row->id,
                                      .tier = tier_without(out, of->system),
                                      .error = run_error(of, predicted),
                                      .width = half_width(pooled, predicted),
                                      .slice = log(interval_slice(&of->model, of->plan.tp)),
                                      .is_dense = !of->is_moe };
        if (row->is_dense)
            errors[num_dense++] = row->error;
    }
    out->dense = score_errors(errors, num_dense);
}

bool leave_out(const struct fit_table *table, const char *source, int jobs, struct left_out *out,
               struct err *err)
{
    struct shipped_runs runs = { 0 };
    struct family_widths pooled;
    *out = (struct left_out){ .source = source };
    bool ok =
        refit(table, jobs, out, err) && families_pooled(table, source, jobs, &pooled, err) &&
        shipped_runs_predict(source, out->results, out->num_results, jobs, &out->arena, &runs, err);
    if (ok)
        keep_rows(&runs, &pooled, out);
    shipped_runs_release(&runs);
    return ok;
}

void left_out_release(struct left_out *left_out)
{
    for (int r = 0; r < left_out->num_results; r++)
        fit_result_release(&left_out->results[r]);
    arena_release(&left_out->arena);
    *left_out = (struct left_out){ 0 };
}
