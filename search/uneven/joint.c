/* Constraints that concern all stages of a plan together: types of stages, equal recompute, and the
 * memory of hosts that several ranks share. */
#include "search/uneven/joint.h"

#include "models/blocks.h"
#include "sim/cost/piece.h"
#include "sim/memory/held.h"
#include "sim/plan/layout.h"
#include "sim/plan/local.h"
#include "sim/plan/state_share.h"
#include "sim/schedule/schedule.h"

#include <math.h>
#include <string.h>

/* --- types and recompute ---------------------------------------------------------------------- */

/* The number of recomputed layers of all kinds. */
static int recomputed_of(const struct holding *held)
{
    int recomputed = 0;
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        recomputed += held->recomputed[kind];
    return recomputed;
}

/* Stages of one type have the same layers of each kind, and the same total number of recomputed
 * layers. */
static bool are_of_one_type(const struct holding *a, const struct holding *b)
{
    return memcmp(a->count, b->count, MAX_BLOCK_KINDS * sizeof *a->count) == 0 &&
           recomputed_of(a) == recomputed_of(b);
}

static bool is_first_of_type(const struct search *search, const struct plan *plan, int stage)
{
    struct holding type = stage_holding(plan, search->space->model, stage);
    for (int i = 0; i < stage; i++) {
        struct holding other = stage_holding(plan, search->space->model, i);
        if (are_of_one_type(&type, &other))
            return false;
    }
    return true;
}

/* Whether the plan alone shows that all stages are equal, so that no stage must be checked. */
static bool stages_are_even(const struct search *search, const struct plan *plan)
{
    return plan_is_even(plan) && model_num_kinds(search->space->model) == 1;
}

static bool has_few_types(const struct search *search, const struct plan *plan)
{
    int types = 0;
    if (search->request->stage_types == 0 || stages_are_even(search, plan))
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
    struct holding first = stage_holding(plan, search->space->model, 0);
    for (int stage = 0; stage < plan->pp; stage++) {
        struct holding held = stage_holding(plan, search->space->model, stage);
        same_number &= recomputed_of(&held) == recomputed_of(&first);
        all &= recomputed_of(&held) == held.layers;
    }
    return same_number || all;
}

/* --- hosts ------------------------------------------------------------------------------------ */

static double optimizer_bytes(const struct search *search, const struct plan *plan, int stage,
                              const int of_kind[MAX_BLOCK_KINDS])
{
    const struct model *model = search->space->model;
    struct state_bytes state = plan_state_bytes(plan, model);
    struct rank_share share = rank_share_of(plan);
    double parameters = 0;
    if (!plan_offloads(plan, OFFLOAD_OPTIMIZER))
        return 0;
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        parameters += of_kind[kind] * local_layer_parameters(share, &of);
    }
    struct placement placement = plan_placement(plan);
    if (stage == placement_embedding_stage(placement))
        parameters += local_embedding_parameters(share, model);
    if (stage == placement_head_stage(placement))
        parameters += local_head_parameters(share, model);
    return parameters * (state.optimizer + state.gradients) / state_ranks(plan, STATE_OPTIMIZER);
}

/* Bytes of offloaded activations of a stage, for all its microbatches in flight. With one stage,
 * the activations of the layer in use and of the layer being copied stay on the GPU. */
static double activation_bytes(const struct search *search, const struct plan *plan, int in_flight,
                               const int of_kind[MAX_BLOCK_KINDS])
{
    struct arena arena = { 0 };
    struct pieces pieces = pieces_cost(search->system, search->space->model, plan, &arena);
    arena_release(&arena);
    struct holding held = { 0 };
    for (int kind = 0; kind < pieces.num_kinds; kind++) {
        held.count[kind] = of_kind[kind];
        held.layers += of_kind[kind];
        held.recomputed[kind] = plan->recompute >= RECOMPUTE_FULL ? of_kind[kind] : 0;
    }
    double bytes = held_kept_bytes(plan, &held, &pieces);
    if (plan->pp == 1)
        bytes -= held_offload_bytes(plan, &held, &pieces);
    return fmax(0, bytes) * in_flight / plan->vpp;
}

static int in_flight_of(const struct search *search, const struct plan *plan, int stage)
{
    const struct generator *generator = generator_find(plan_schedule(plan));
    int microbatches = plan_microbatches(plan, search->space->model->batch);
    struct schedule_shape shape = { plan->pp, plan->vpp, microbatches, 0 };
    return generator->in_flight(&shape, stage);
}

static int least_in_flight(const struct search *search, const struct plan *plan)
{
    int least = in_flight_of(search, plan, 0);
    for (int stage = 1; stage < plan->pp; stage++) {
        int held = in_flight_of(search, plan, stage);
        least = held < least ? held : least;
    }
    return least;
}

double joint_host_bytes(const struct search *search, const struct plan *plan, int stage,
                        const int of_kind[MAX_BLOCK_KINDS])
{
    double bytes = optimizer_bytes(search, plan, stage, of_kind);
    struct plan own = plan_of_stage(plan, stage);
    if (plan_offloads(plan, OFFLOAD_ACTIVATIONS))
        bytes += activation_bytes(search, &own, in_flight_of(search, plan, stage), of_kind);
    return bytes;
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

/* The sequence of stages repeats along the ranks. A node that begins at the same position of the
 * sequence as an earlier node has the same number of ranks of each stage. */
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
        if (node->ranks[stage] > 0) {
            struct holding held = stage_holding(plan, search->space->model, stage);
            bytes += node->ranks[stage] * joint_host_bytes(search, plan, stage, held.count);
        }
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

/* The optimizer state of the layers, the embedding and the head, and the activations of all layers,
 * divided by the number of stages, give the mean bytes of a rank, as all stages have the same
 * number of ranks. Of the stages, the fewest microbatches in flight are taken, so the result is a
 * lower bound. */
double joint_mean_host_bytes(const struct search *search, const struct plan *plan)
{
    int node_size = search->system->cluster.levels[0].size;
    int ranks = plan_ranks(plan);
    int layers = search->space->model->layers;
    int all[MAX_BLOCK_KINDS], none[MAX_BLOCK_KINDS] = { 0 };
    model_count_kinds(search->space->model, 0, layers, all);
    struct placement placement = plan_placement(plan);
    int first = placement_embedding_stage(placement), last = placement_head_stage(placement);
    double bytes = optimizer_bytes(search, plan, first, all);
    if (last != first)
        bytes += optimizer_bytes(search, plan, last, none);
    if (plan_offloads(plan, OFFLOAD_ACTIVATIONS))
        bytes += activation_bytes(search, plan, least_in_flight(search, plan), all);
    return bytes / placement.num_stages * (ranks < node_size ? ranks : node_size);
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
