/* Times whole steps on which no constant was fitted, and compares them with the predictions of the
 * finished cluster file. */
#include "calibration/measure/held_out.h"

#include "base/arena.h"
#include "base/core_share.h"
#include "base/length.h"
#include "base/statistics.h"
#include "calibration/measure/budget.h"
#include "sim/engine/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 2, LEAST_STEPS = 3, MOST_STEPS = 25 };

// clang-format off
/* Shapes between those of the grids in host_shapes.c, all with several microbatches, some with
 * recompute. */
static const struct held_out_row core_rows[] = {
    { 384,  64,  192, 2, 4, 1024,  false, true,  "mb2" },
    { 320,  64,  160, 2, 4, 768,   true,  false, "mb2 recompute=full" },
};
static const struct held_out_row gpu_rows[] = {
    { 1536, 128, 1536, 2, 4, 50304, false, true,  "mb2" },
    { 3072, 128, 3072, 1, 2, 32000, true,  false, "mb1" },
    { 2560, 64,  1536, 1, 8, 50304, false, false, "mb4 recompute=full" },
};
static const struct {
    const struct held_out_row *rows;
    int count;
} grids[] = {
    [GRID_CORE] = { core_rows, LENGTH(core_rows) },
    [GRID_GPU] = { gpu_rows, LENGTH(gpu_rows) },
};
// clang-format on

static struct model *model_of(const struct held_out_row *row, struct arena *arena)
{
    struct model *model = ARENA_NEW(arena, struct model);
    *model = host_shapes_model(row->is_llama, row->hidden, row->head_dim, row->seq);
    model->layers = row->layers;
    model->vocab = row->vocab;
    model->batch = row->batch;
    snprintf(model->name, sizeof model->name, "h%d-s%d", row->hidden, row->seq);
    return model;
}

static struct model with_layers(const struct model *model, int layers)
{
    struct model deeper = *model;
    deeper.layers = layers;
    return deeper;
}

/* --- measuring ----------------------------------------------------------------------------- */

/* Bytes of weights, gradients, masters and moments, and of the values that every layer keeps per
 * microbatch. */
static size_t arena_bytes_of(const struct model *model)
{
    double tokens = model->batch * model->seq;
    double kept = 34.0 * model->hidden + 8.0 * model->ffn;
    double bytes =
        20 * model_parameters(model) + 4 * tokens * (model->layers * kept + 3.0 * model->vocab);
    return (size_t)bytes + (64 << 20);
}

/* Time of a step that this rank runs by itself, minus the time stolen by other processes. */
static bool quiet_step(struct host_rank *host, struct host_run *run, long step, double *step_s,
                       struct err *err)
{
    struct step_result result;
    struct core_time before = core_time_now();
    if (!rank_step(run->rank, step, NULL, &result, err))
        return false;
    struct core_time after = core_time_now();
    bool is_core = host->load->grid == GRID_CORE && before.is_known && after.is_known;
    *step_s = is_core ? core_quiet_s(result.step_s, &before, &after) : result.step_s;
    return true;
}

/* Measures the median time of a step, so that single disturbed steps have no effect. */
static bool time_steps(struct host_rank *host, struct host_run *run, double seconds,
                       double *typical_s, struct err *err)
{
    double times_s[MOST_STEPS], last_s = 0;
    struct step_result result;
    long step = 1;
    for (int i = 0; i < WARM_UPS; i++) {
        if (!rank_step(run->rank, step++, NULL, &result, err))
            return false;
        last_s = result.step_s;
    }
    if (!host_rank_average(host, &last_s, 1, err))
        return false;
    int least = host_rank_least(host, LEAST_STEPS);
    int steps = budget_repeats(seconds / (last_s + 1e-9), least, MOST_STEPS);
    for (int i = 0; i < steps; i++)
        if (!quiet_step(host, run, step++, &times_s[i], err))
            return false;
    *typical_s = numbers_median(times_s, steps);
    return true;
}

static bool measure_model(struct host_rank *host, const struct model *model, const char *layout,
                          const struct stack *stack, double seconds, double *step_s,
                          struct err *err)
{
    struct host_run_options options = {
        .layout = layout, .stack = stack, .arena_bytes = arena_bytes_of(model), .is_alone = true
    };
    struct host_run run;
    if (!host_run_open(host, model, &options, &run, err))
        return false;
    bool ok = time_steps(host, &run, seconds, step_s, err);
    host_run_close(&run);
    return ok && host_rank_average(host, step_s, 1, err);
}

static bool measure_row(struct host_rank *host, const struct held_out_row *row,
                        const struct stack *stack, double seconds, struct arena *arena,
                        struct held_out *out, struct err *err)
{
    double deep_s;
    *out = (struct held_out){ .model = model_of(row, arena), .layout = row->layout };
    struct model deeper = with_layers(out->model, 2 * row->layers);
    if (!measure_model(host, out->model, row->layout, stack, seconds / 3, &out->step_s, err) ||
        !measure_model(host, &deeper, row->layout, stack, 2 * seconds / 3, &deep_s, err))
        return false;
    out->layer_s = (deep_s - out->step_s) / row->layers;
    return true;
}

int held_out_rows(enum host_grid grid, bool is_quick, struct held_out_row *rows)
{
    int count = 0;
    for (int i = 0; i < grids[grid].count; i++)
        if (grids[grid].rows[i].is_quick || !is_quick)
            rows[count++] = grids[grid].rows[i];
    return count;
}

bool held_out_measure(struct host_rank *host, const struct stack *stack,
                      const struct held_out_row *rows, int count, double seconds,
                      struct arena *arena, struct held_out_steps *out, struct err *err)
{
    out->count = 0;
    for (int i = 0; i < count; i++)
        if (!measure_row(host, &rows[i], stack, seconds / count, arena, &out->at[out->count++],
                         err))
            return false;
    return true;
}

/* --- comparison with the file's predictions ------------------------------------------------ */

/* Reads the cluster file as a system of one device. */
static bool read_system(const json_t *cluster, struct system *out, struct err *err)
{
    const json_t *group = json_array_get(json_object_get(cluster, "groups"), 0);
    memset(out, 0, sizeof *out);
    out->num_gpus = 1;
    return cluster_read(cluster, &out->cluster, err) &&
           gpu_read(json_object_get(group, "gpu"), &out->gpu, err) &&
           profile_read(json_object_get(group, "profile"), &out->profile, err) &&
           stack_read(json_object_get(cluster, "stack"), &out->stack, err);
}

static bool predict(const struct system *system, const struct model *model, const char *layout,
                    enum precision precision, double *step_s, struct err *err)
{
    struct arena arena = { 0 };
    struct plan plan;
    bool ok = plan_parse(layout, &arena, &plan, err);
    if (ok) {
        plan.dp = 1;
        plan.precision = (int)precision;
        struct evaluator *evaluator = evaluator_new(system, model);
        *step_s = evaluate_step_s(evaluator, &plan);
        evaluator_free(evaluator);
    }
    arena_release(&arena);
    return ok;
}

static json_t *row_json(const struct held_out *at, const struct system *system,
                        enum precision precision, struct err *err)
{
    double step_s, deep_s;
    int layers = at->model->layers;
    struct model deeper = with_layers(at->model, 2 * layers);
    if (!predict(system, at->model, at->layout, precision, &step_s, err) ||
        !predict(system, &deeper, at->layout, precision, &deep_s, err))
        return NULL;
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "model", at->model->name, "layout",
                     at->layout, "step_s", at->step_s, "predicted_step_s", step_s, "layer_s",
                     at->layer_s, "predicted_layer_s", (deep_s - step_s) / layers);
}

json_t *held_out_json(const struct held_out_steps *steps, enum precision precision,
                      const json_t *cluster, struct err *err)
{
    struct system system;
    json_t *rows = read_system(cluster, &system, err) ? json_array() : NULL;
    for (int i = 0; rows && i < steps->count; i++) {
        json_t *row = row_json(&steps->at[i], &system, precision, err);
        if (row) {
            json_array_append_new(rows, row);
            continue;
        }
        json_decref(rows);
        rows = NULL;
    }
    system_release(&system);
    return rows;
}
