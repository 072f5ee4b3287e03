#include "cli/textbook_view.h"

#include "base/text.h"
#include "base/units.h"
#include "sim/cost/compute.h"
#include "sim/cost/network.h"

#include <stdio.h>
#include <string.h>

double textbook_value(const struct textbook_estimate *estimate, const struct field *field)
{
    double value;
    memcpy(&value, (const char *)estimate + field->offset, sizeof value);
    return value;
}

const struct field *textbook_field(const char *name)
{
    return fields_find(textbook_estimate_fields, num_textbook_estimate_fields, name);
}

/* The wire that neighbours in the group talk over: inside a node, or a GPU's share of NICs. */
static struct textbook_link link_of(const struct system *system, const struct comm_group *group)
{
    const struct cluster *cluster = &system->cluster;
    const struct level *level = &cluster->levels[0];
    if (group->num_nodes <= 1 || cluster->num_levels < 2)
        return (struct textbook_link){ level->latency_s, level->bytes_per_s };
    level = &cluster->levels[1];
    return (struct textbook_link){ level->latency_s, level->bytes_per_s * level->nics_per_gpu };
}

static enum textbook_keep keep_of(const struct plan *plan, const struct system *system)
{
    bool fused = plan_attention_kernel(plan, system) != ATTENTION_UNFUSED;
    if (plan->recompute >= RECOMPUTE_FULL)
        return plan->sp ? TEXTBOOK_KEEP_SEQUENCE_INPUT : TEXTBOOK_KEEP_INPUT;
    if (plan->recompute == RECOMPUTE_SELECTIVE || fused)
        return plan->sp ? TEXTBOOK_KEEP_SEQUENCE_SELECTIVE : TEXTBOOK_KEEP_SELECTIVE;
    return plan->sp ? TEXTBOOK_KEEP_SEQUENCE : TEXTBOOK_KEEP_ALL;
}

/* fp8 on two copies of the weights, as recipes with one scale a tensor have them on Hopper. */
static const struct textbook_recipe *recipe_of(enum precision precision)
{
    const struct fp8_recipe *fp8 = precision_fp8(precision);
    if (!fp8)
        return textbook_recipe_find(precision_names[precision]);
    return textbook_recipe_find(fp8->needs_blackwell ? "mxfp8" : "fp8-transposed");
}

struct textbook_setup textbook_of(const struct setup *setup, const struct plan *plan)
{
    const struct system *system = &setup->system;
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
    struct comm_group tensor = network_axis_group(system, plan, AXIS_TENSOR);
    struct comm_group pair = network_stage_pair(system, plan);
    struct comm_group data = network_axis_group(system, plan, AXIS_DATA);
    return (struct textbook_setup){
        .model = &setup->model,
        .tensor = plan->tp,
        .pipeline = plan->pp,
        .chunks = plan->vpp,
        .data = plan->dp * plan->cp,
        .microbatch = plan->microbatch,
        .batch = (int)setup->model.batch * plan->cp, /* cp ranks share a sequence */
        .seq = setup->model.seq / plan->cp,
        .zero = plan->zero,
        .recipe = recipe_of((enum precision)plan->precision),
        .keep = keep_of(plan, system),
        .peak_flops_per_s = system->gpu.peak_flops_per_s[dtype],
        .utilization = gemm_efficiency(&system->profile, dtype),
        .tensor_link = link_of(system, &tensor),
        .pipeline_link = link_of(system, &pair),
        .data_link = link_of(system, &data),
    };
}

static json_t *link_json(const struct textbook_link *link)
{
    return json_pack("{s:f, s:f}", "latency_s", link->latency_s, "bytes_per_s", link->bytes_per_s);
}

json_t *textbook_json(const struct textbook_setup *setup, const struct textbook_estimate *estimate)
{
    json_t *object = json_object(), *formulas = json_object();
    for (size_t i = 0; i < num_textbook_estimate_fields; i++) {
        const struct field *field = &textbook_estimate_fields[i];
        json_object_set_new(object, field->name, json_real(textbook_value(estimate, field)));
        json_object_set_new(formulas, field->name, json_string(field->doc));
    }
    json_object_set_new(object, "peak_flops_per_s", json_real(setup->peak_flops_per_s));
    json_object_set_new(object, "utilization", json_real(setup->utilization));
    json_object_set_new(object, "tensor_link", link_json(&setup->tensor_link));
    json_object_set_new(object, "pipeline_link", link_json(&setup->pipeline_link));
    json_object_set_new(object, "data_link", link_json(&setup->data_link));
    json_object_set_new(object, "formulas", formulas);
    return object;
}

static void add_link(struct text *out, const char *name, const struct textbook_link *link)
{
    char latency[32], bandwidth[32];
    units_show(link->latency_s, QUANTITY_SECONDS, latency, sizeof latency);
    units_show(link->bytes_per_s, QUANTITY_BYTES_PER_S, bandwidth, sizeof bandwidth);
    text_add(out, "%s %s and %s", name, latency, bandwidth);
}

void show_textbook_setup(const struct terminal *terminal, const struct textbook_setup *setup)
{
    const char *dot = terminal_dot(terminal);
    struct text line = { 0 };
    char peak[32];
    units_show(setup->peak_flops_per_s, QUANTITY_FLOPS_PER_S, peak, sizeof peak);
    text_add(&line, "N %d GPUs%sF %s%sU %.2f, the profile's rate of long products%s", //
             setup->tensor * setup->pipeline * setup->data, dot, peak, dot, setup->utilization,
             dot);
    text_add(&line, "state in %s\n  alpha and B: ", setup->recipe->name);
    add_link(&line, "tensor", &setup->tensor_link);
    text_add(&line, "%s", dot);
    add_link(&line, "pipeline", &setup->pipeline_link);
    text_add(&line, "%s", dot);
    add_link(&line, "data", &setup->data_link);
    printf("\n  the textbook takes  %s\n", text_get(&line));
    printf("  and that nothing overlaps, all GPUs and stages are alike, and a layer has 12 h^2 "
           "parameters\n");
    text_release(&line);
}
