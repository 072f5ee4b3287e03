/* Writes predictions as JSON. */
#include "cli/views/answer.h"

#include "base/units.h"
#include "cli/input/command.h"
#include "cli/input/planfile.h"
#include "cli/views/goodput_view.h"
#include "cli/views/idle_view.h"
#include "sim/engine/tier.h"

#include <math.h>

static void set_number(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, number_json(value));
}

static void set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

/* { "compute_s": ... } */
static json_t *time_parts_json(const struct time_parts *time)
{
    json_t *object = json_object();
    for (int i = 0; i < num_time_parts; i++)
        set_real(object, time_part_table[i].name, time_part_s(time, i));
    return object;
}

/* All values are whole bytes. The first five sum to total_bytes: workspace_bytes is the total minus
 * the other four. It contains logits or recomputed values, buckets, libraries, the allocator's
 * slack, network buffers and the CUDA context. */
static json_t *stage_json(const struct stage_memory *stage)
{
    json_t *object = json_object();
    double weights = round(stage->weights_bytes);
    double gradients = round(stage->gradients_bytes);
    double optimizer = round(stage->optimizer_bytes);
    double activations = round(stage->activations_bytes);
    double total = round(stage->total_bytes);
    set_number(object, "weights_bytes", weights);
    set_number(object, "gradients_bytes", gradients);
    set_number(object, "optimizer_bytes", optimizer);
    set_number(object, "activations_bytes", activations);
    set_number(object, "workspace_bytes", total - weights - gradients - optimizer - activations);
    set_number(object, "total_bytes", total);
    set_number(object, "logits_bytes", round(stage->logits_bytes));
    set_number(object, "recompute_bytes", round(stage->recompute_bytes));
    set_number(object, "buckets_bytes", round(stage->buckets_bytes));
    set_number(object, "library_bytes", round(stage->library_bytes));
    set_number(object, "allocated_bytes", round(stage->allocated_bytes));
    set_number(object, "slack_bytes", round(stage->slack_bytes));
    set_number(object, "network_bytes", round(stage->network_bytes));
    set_number(object, "context_bytes", round(stage->context_bytes));
    return object;
}

static json_t *stages_json(const struct prediction *prediction)
{
    json_t *stages = json_array();
    for (int i = 0; i < prediction->num_stages; i++)
        json_array_append_new(stages, stage_json(&prediction->stages[i]));
    return stages;
}

/* The part of a prediction that is stored in a plan file. */
static json_t *summary_json(const struct setup *setup, const struct prediction *prediction)
{
    json_t *object = json_object();
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(object, "gpus", json_integer(setup->system.num_gpus));
    json_object_set_new(object, "fits", json_boolean(prediction->fits));
    set_real(object, "step_s", prediction->step_s);
    set_real(object, "step_s_low", prediction->step_low_s);
    set_real(object, "step_s_high", prediction->step_high_s);
    set_real(object, "tokens_per_s", prediction->tokens_per_s);
    set_real(object, "mfu", prediction->mfu);
    set_number(object, "peak_memory_bytes", round(prediction->peak_memory_bytes));
    json_object_set_new(object, "time", time_parts_json(&prediction->time));
    return object;
}

static json_t *plan_json(const struct setup *setup, const struct plan *plan,
                         const struct prediction *prediction)
{
    return planfile_json(&setup->system, &setup->model, plan, summary_json(setup, prediction));
}

json_t *prediction_json(const struct setup *setup, const struct plan *plan,
                        const struct prediction *prediction, bool with_plan)
{
    struct text layout = { 0 };
    plan_write(plan, &layout);
    json_t *object = json_object();
    json_object_set_new(object, "layout", json_string(text_get(&layout)));
    json_object_set_new(object, "fits", json_boolean(prediction->fits));
    set_real(object, "step_s", prediction->step_s);
    set_real(object, "step_s_low", prediction->step_low_s);
    set_real(object, "step_s_high", prediction->step_high_s);
    json_object_set_new(object, "tier",
                        json_string(tier_names[system_tier(&setup->system, &setup->model)]));
    set_real(object, "tokens_per_s", prediction->tokens_per_s);
    set_real(object, "tokens_per_s_per_gpu", prediction->tokens_per_s / setup->system.num_gpus);
    set_real(object, "mfu", prediction->mfu);
    set_real(object, "hfu", prediction->hfu);
    set_number(object, "peak_memory_bytes", round(prediction->peak_memory_bytes));
    set_number(object, "memory_low_bytes", round(prediction->memory_low_bytes));
    set_number(object, "memory_high_bytes", round(prediction->memory_high_bytes));
    set_real(object, "p_oom", prediction->p_oom);
    json_object_set_new(object, "peak_stage", json_integer(prediction->peak_stage));
    json_object_set_new(object, "memory_by_stage", stages_json(prediction));
    json_object_set_new(object, "time", time_parts_json(&prediction->time));
    json_object_set_new(object, "busiest_stage", json_integer(prediction->busiest_stage));
    idle_set_json(object, setup, plan, prediction->step_s);
    json_object_set_new(object, "microbatches", json_integer(prediction->num_microbatches));
    set_real(object, "days_to_train", days_to_train(setup, prediction));
    set_real(object, "dollars", dollars_to_train(setup, prediction));
    add_run_json(object, setup, plan, prediction);
    if (with_plan)
        json_object_set_new(object, "plan", plan_json(setup, plan, prediction));
    text_release(&layout);
    return object;
}

bool write_plan(const char *path, const struct setup *setup, const struct plan *plan,
                const struct prediction *prediction, struct err *err)
{
    json_t *json = plan_json(setup, plan, prediction);
    bool ok = planfile_write(path, json, err);
    json_decref(json);
    return ok;
}
