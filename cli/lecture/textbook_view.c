/* Converts a plan to the input of the textbook formulas, and shows their results. */
#include "cli/lecture/textbook_view.h"

#include "base/text.h"
#include "base/units.h"
#include "sim/cost/compute.h"
#include "sim/cost/group_links.h"
#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "sim/plan/ranks.h"

#include <math.h>
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

/* The link that limits a ring through the group. Within a node it is the node's link. Across nodes
 * only one rank per node sends to the next node. It can use the NICs of all the group's ranks on
 * the node, up to the bandwidth of the node's link. */
static struct textbook_link link_of(const struct system *system, const struct comm_group *group)
{
    const struct cluster *cluster = &system->cluster;
    const struct level *level = &cluster->levels[0];
    if (group->num_nodes <= 1 || cluster->num_levels < 2)
        return (struct textbook_link){ level->latency_s, level->bytes_per_s };
    const struct level *network = &cluster->levels[1];
    int in_node = group->num_ranks / group->num_nodes;
    double cards_bytes_per_s = network->bytes_per_s * network->nics_per_gpu * in_node;
    return (struct textbook_link){ network->latency_s,
                                   fmin(cards_bytes_per_s, level->bytes_per_s) };
}

/* The activations that a layer keeps unless it is fully recomputed. */
static enum textbook_keep keep_of(const struct plan *plan, const struct system *system)
{
    bool fused = plan_attention_kernel(plan, system) != ATTENTION_UNFUSED;
    if (plan_replays_core(plan) || fused)
        return plan->sp ? TEXTBOOK_KEEP_SEQUENCE_SELECTIVE : TEXTBOOK_KEEP_SELECTIVE;
    return plan->sp ? TEXTBOOK_KEEP_SEQUENCE : TEXTBOOK_KEEP_ALL;
}

static double recomputed_share(const struct plan *plan, const struct model *model)
{
    double recomputed = 0;
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++)
        recomputed += plan_recomputed_layers(plan, chunk, plan_chunk_layers(plan, model, chunk));
    return recomputed / model->layers;
}

static enum textbook_schedule schedule_of(const struct plan *plan)
{
    static const char *const names[NUM_TEXTBOOK_SCHEDULES] = {
        [TEXTBOOK_1F1B] = "1f1b",   [TEXTBOOK_GPIPE] = "gpipe", [TEXTBOOK_NAIVE] = "naive",
        [TEXTBOOK_ZB_H1] = "zb-h1", [TEXTBOOK_ZB_H2] = "zb-h2",
    };
    for (int i = 0; i < NUM_TEXTBOOK_SCHEDULES; i++)
        if (strcmp(plan_schedule(plan), names[i]) == 0)
            return (enum textbook_schedule)i;
    return TEXTBOOK_1F1B; /* also for interleaved schedules */
}

/* Bytes of a weight. Some recipes keep two quantised copies of it, one along rows and one along
 * columns, in addition to the bf16 weight or instead of it. */
static double weight_bytes(const struct setup *setup, const struct plan *plan)
{
    const struct recipe *recipe = precision_recipe(plan->precision);
    double bytes = plan_state_bytes(plan, &setup->model).weights;
    if (!recipe)
        return bytes;
    bool in_place = setup->system.stack.keeps_quantized && recipe->keeps_weights;
    return (in_place ? 0 : bytes) +
           quantized_copies(&setup->system.gpu, recipe) * quantized_bytes(recipe);
}

/* The plan's bytes per parameter, without offloaded state. */
static struct textbook_recipe recipe_of(const struct setup *setup, const struct plan *plan)
{
    struct state_bytes state = plan_state_bytes(plan, &setup->model);
    return (struct textbook_recipe){
        .name = precision_names[plan->precision],
        .summary = "as given by the plan's dtype=, grad= and optimizer=",
        .parameter_bytes = weight_bytes(setup, plan),
        .gradient_bytes = state.gradients,
        .optimizer_bytes = plan_offloads(plan, OFFLOAD_OPTIMIZER) ? 0 : state.matrix_optimizer,
    };
}

struct textbook_setup textbook_of(const struct setup *setup, const struct plan *plan)
{
    const struct system *system = &setup->system;
    enum dtype dtype = precision_dtype(plan->precision);
    struct comm_group tensor = network_plan_group(system, plan, TENSOR_RANKS);
    struct rank_group stages = plan_group(plan, PIPELINE_RANKS);
    struct comm_group pair = network_pair(system, &stages, network_crosses(system, &stages));
    struct comm_group data = network_plan_group(system, plan, replicated_axes());
    const struct level *node = &system->cluster.levels[0];
    bool has_network = system->cluster.num_levels > 1;
    struct comm_group apart = { .num_ranks = 2, .num_nodes = has_network ? 2 : 1 };
    return (struct textbook_setup){
        .model = &setup->model,
        .tensor = plan->tp,
        .pipeline = plan->pp,
        .chunks = plan->vpp,
        .data = plan->dp * plan->cp,
        .schedule = schedule_of(plan),
        .microbatch = plan->microbatch,
        .batch = (int)setup->model.batch * plan->cp, /* cp ranks process one sequence together */
        .seq = setup->model.seq / plan->cp,
        .zero = plan->zero,
        .shards = plan_shards(plan),
        .recipe = recipe_of(setup, plan),
        .value_bytes = precision_bytes(plan->precision),
        .reduce_bytes = plan_exchange_bytes(plan),
        .keep = keep_of(plan, system),
        .recomputed = recomputed_share(plan, &setup->model),
        .interval = plan->recompute == RECOMPUTE_EVERY ? plan->recompute_every : 1,
        .peak_flops_per_s = system->gpu.peak_flops_per_s[dtype],
        .utilization = gemm_efficiency(&system->profile, dtype),
        .tensor_link = link_of(system, &tensor),
        .pipeline_link = link_of(system, &pair),
        .data_link = link_of(system, &data),
        .exchange = plan->exchange,
        .wires = { .node = { node->latency_s, node->bytes_per_s },
                   .network = link_of(system, &apart),
                   .ranks = { plan->dp * plan->cp, data.num_ranks / data.num_nodes } },
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
    text_add(
        &line, "N %d GPUs%sF %s%sU %.2f, the share of peak that large matrix products reach%s", //
        setup->tensor * setup->pipeline * setup->data, dot, peak, dot, setup->utilization, dot);
    text_add(&line, "state in %s\n  alpha and B: ", setup->recipe.name);
    add_link(&line, "tensor", &setup->tensor_link);
    text_add(&line, "%s", dot);
    add_link(&line, "pipeline", &setup->pipeline_link);
    text_add(&line, "%s", dot);
    add_link(&line, "data", &setup->data_link);
    printf("\n  the textbook uses  %s\n", text_get(&line));
    printf("  and assumes that nothing overlaps, all GPUs and stages are equal, and a layer has 12 "
           "h^2 parameters\n");
    printf(
        "  P parameters, T tokens of a step; l layers of width h with a heads; sequences of s "
        "tokens\n"
        "  b sequences per micro-batch, w bytes per value; t, p, d ranks (tensor, pipeline, data)\n"
        "  v chunks per stage, m micro-batches; in the ways to count MFU: batch B, vocabulary v\n");
    text_release(&line);
}
