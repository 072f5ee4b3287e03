#include "search/milp/joint.h"

#include "sim/cost/piece.h"
#include "sim/plan/layout.h"
#include "sim/plan/local.h"

#include <math.h>
#include <string.h>

/* --- types and recompute ---------------------------------------------------------------------- */

/* A stage's layers and recompute, summed over its chunks. */
struct stage_type {
    int layers, recomputed;
};

static struct stage_type type_of(const struct search *search, const struct plan *plan, int stage)
{
    struct stage_type type = { 0 };
    for (int chunk = stage; chunk < plan_chunks(plan); chunk += plan->pp) {
        int layers = plan_chunk_layers(plan, search->space->model, chunk);
        type.layers += layers;
        type.recomputed += plan_recomputed_layers(plan, chunk, layers);
    }
    return type;
}

static bool is_first_of_type(const struct search *search, const struct plan *plan, int stage)
{
    struct stage_type type = type_of(search, plan, stage);
    for (int i = 0; i < stage; i++) {
        struct stage_type other = type_of(search, plan, i);
        if (other.layers == type.layers && other.recomputed == type.recomputed)
            return false;
    }
    return true;
}

static bool has_few_types(const struct search *search, const struct plan *plan)
{
    int types = 0;
    if (search->request->stage_types == 0 || plan_is_even(plan))
        return true;
    for (int stage = 0; stage < plan->pp; stage++)
        types += is_first_of_type(search, plan, stage);
    return types <= search->request->stage_types;
}

static bool recomputes_alike(const struct search *search, const struct plan *plan)
{
    bool same_number = true;
    bool all = true;
    if (!search->request->same_recompute || plan_is_even(plan))
        return true;
    struct stage_type first = type_of(search, plan, 0);
    for (int stage = 0; stage < plan->pp; stage++) {
        struct stage_type type = type_of(search, plan, stage);
        same_number &= type.recomputed == first.recomputed;
        all &= type.recomputed == type.layers;
    }
    return same_number || all;
}

/* --- hosts ------------------------------------------------------------------------------------ */

static double optimizer_bytes(const struct search *search, const struct plan *plan, int stage,
                              int layers)
{
    const struct model *model = search->space->model;
    struct state_bytes state = plan_state_bytes(plan, model);
    double parameters = layers * local_layer_parameters(plan, model);
    if (!plan_offloads(plan, OFFLOAD_OPTIMIZER))
        return 0;
    if (stage == 0)
        parameters += local_embedding_parameters(plan, model);
    if (stage == plan->pp - 1)
        parameters += local_head_parameters(plan, model);
    return parameters * (state.optimizer + state.gradients) /
           (plan->zero >= 1 ? plan_shards(plan) : 1);
}

/* Without pipeline or recompute, as the rule says: one microbatch is in flight. Two layers' are on
 * the GPU (sim/cost/memory.c). */
static double activation_bytes(const struct search *search, const struct plan *plan, int layers)
{
    if (!plan_offloads(plan, OFFLOAD_ACTIVATIONS) || layers <= 2)
        return 0;
    struct arena arena = { 0 };
    struct pieces pieces = pieces_cost(search->system, search->space->model, plan, &arena);
    arena_release(&arena);
    return (layers - 2) * pieces.blocks[0].saved_bytes;
}

double joint_host_bytes(const struct search *search, const struct plan *plan, int stage, int layers)
{
    return optimizer_bytes(search, plan, stage, layers) + activation_bytes(search, plan, layers);
}

static double *ranks_of_node(const struct search *search, const struct plan *plan, int first,
                             struct arena *arena)
{
    double *ranks = ARENA_ARRAY(arena, double, (size_t)plan->pp);
    int end = first + search->system->cluster.levels[0].size;
    for (int rank = first; rank < end && rank < plan_ranks(plan); rank++)
        ranks[layout_coordinates_of(plan, rank).at[AXIS_PIPELINE]]++;
    return ranks;
}

static bool is_new_node(const struct host_nodes *nodes, const double *ranks, int num_stages)
{
    for (int i = 0; i < nodes->count; i++)
        if (memcmp(nodes->at[i].ranks, ranks, (size_t)num_stages * sizeof *ranks) == 0)
            return false;
    return true;
}

/* Stages follow one another along the ranks, and begin again after all of them: nodes that begin
 * where these do are as the first ones. */
struct host_nodes joint_nodes(const struct search *search, const struct plan *plan,
                              struct arena *arena)
{
    int node_size = search->system->cluster.levels[0].size;
    int total = plan_ranks(plan);
    int period = layout_stride(plan, AXIS_PIPELINE) * plan->pp;
    int end = period % node_size == 0 ? period : total;
    struct host_nodes nodes = { .at = ARENA_ARRAY(arena, struct host_node,
                                                  (size_t)(end / node_size) + 1) };
    for (int first = 0; first < end; first += node_size) {
        double *ranks = ranks_of_node(search, plan, first, arena);
        if (is_new_node(&nodes, ranks, plan->pp))
            nodes.at[nodes.count++].ranks = ranks;
    }
    return nodes;
}

static double node_bytes(const struct search *search, const struct plan *plan,
                         const struct host_node *node)
{
    double bytes = 0;
    for (int stage = 0; stage < plan->pp; stage++)
        if (node->ranks[stage] > 0)
            bytes += node->ranks[stage] *
                     joint_host_bytes(search, plan, stage, type_of(search, plan, stage).layers);
    return bytes;
}

double joint_most_host_bytes(const struct search *search, const struct plan *plan)
{
    struct arena arena = { 0 };
    double most_bytes = 0;
    struct host_nodes nodes = joint_nodes(search, plan, &arena);
    for (int i = 0; i < nodes.count; i++)
        most_bytes = fmax(most_bytes, node_bytes(search, plan, &nodes.at[i]));
    arena_release(&arena);
    return most_bytes;
}

/* Stages differ in layers, embedding and head, and there are as many ranks of each. */
double joint_mean_host_bytes(const struct search *search, const struct plan *plan)
{
    int node_size = search->system->cluster.levels[0].size;
    int ranks = plan_ranks(plan);
    int layers = search->space->model->layers;
    double bytes = joint_host_bytes(search, plan, 0, layers);
    if (plan->pp > 1)
        bytes += joint_host_bytes(search, plan, plan->pp - 1, 0);
    return bytes / plan->pp * (ranks < node_size ? ranks : node_size);
}

static bool hosts_hold(const struct search *search, const struct plan *plan)
{
    double limit_bytes = search->request->host_memory_bytes;
    return limit_bytes <= 0 || plan->offloads == 0 ||
           joint_most_host_bytes(search, plan) <= limit_bytes;
}

bool joint_holds(const struct search *search, const struct plan *plan)
{
    return has_few_types(search, plan) && recomputes_alike(search, plan) &&
           hosts_hold(search, plan);
}
