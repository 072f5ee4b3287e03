/* The problem of splitting one transformer layer over its tensor ranks, op by op, for the least
 * time within the memory. */
#include "search/partition/layer_part.h"

#include "sim/cost/group_links.h"
#include "sim/cost/piece.h"
#include "sim/memory/memory.h"
#include "sim/plan/lowering.h"
#include "sim/plan/state_share.h"

#include <math.h>

/* --- memory ----------------------------------------------------------------------------------- */

static double state_bytes_of(const struct layer_partition *of)
{
    const struct plan *plan = of->plan;
    struct state_bytes state = plan_state_bytes(plan, of->model);
    double optimizer = plan_offloads(plan, OFFLOAD_OPTIMIZER) ? 0 : state.matrix_optimizer;
    return state.weights / state_ranks(plan, STATE_PARAMETERS) +
           state.gradients / state_ranks(plan, STATE_GRADIENTS) +
           optimizer / state_ranks(plan, STATE_OPTIMIZER);
}

/* Microbatches in flight on the first stage, averaged over its chunks. */
static double in_flight_of(const struct layer_partition *of)
{
    const struct plan *plan = of->plan;
    struct schedule_shape shape = plan_shape(plan, of->model->batch);
    const struct generator *generator = generator_find(plan_schedule(plan));
    double held = 0;
    for (int chunk = 0; chunk < plan->vpp; chunk++)
        held += chunk_in_flight(generator, &shape, 0, chunk);
    return held / plan->vpp;
}

/* The memory budget of one layer: GPU memory minus the bytes of the first stage that belong to no
 * layer, divided by the stage's layers. */
static double budget_of(const struct layer_partition *of, const struct scorer *scorer)
{
    struct pieces pieces = pieces_cost(of->system, of->model, of->plan, scorer->arena);
    struct memory_input input = {
        .system = of->system,
        .model = of->model,
        .plan = of->plan,
        .pieces = &pieces,
        .generator = generator_find(plan_schedule(of->plan)),
        .num_microbatches = (int)scorer->num_microbatches,
    };
    struct stage_memory stage = stage_memory(&input, 0);
    double layers = stage_holding(of->plan, of->model, 0).layers;
    double of_layers = layers * pieces.at[0].parameters * scorer->state_bytes +
                       stage.activations_bytes -
                       scorer->in_flight * pieces.at[PIECE_EMBEDDING].saved_bytes;
    double slack = 1 + of->system->stack.memory.allocator_slack;
    double left = of->system->gpu.memory_bytes - (stage.total_bytes - slack * of_layers);
    return fmax(0, left / slack / layers);
}

/* --- the problem ------------------------------------------------------------------------------ */

static struct scorer scorer_new(const struct layer_partition *of, struct arena *arena)
{
    enum dtype dtype = precision_value_dtype(of->plan->precision);
    struct scorer scorer = {
        .of = of,
        .arena = arena,
        .attention = plan_attention_kernel(of->plan, of->system),
        .tensor = network_plan_group(of->system, of->plan, TENSOR_RANKS),
        .overlaps = plan_overlaps(of->plan, &of->system->stack, OVERLAP_TP),
        .element_bytes = dtype_bytes(dtype),
        .state_bytes = state_bytes_of(of),
        .in_flight = in_flight_of(of),
        .num_microbatches = plan_microbatches(of->plan, of->model->batch),
    };
    scorer.options = (struct layer_options){
        .flash_attention = scorer.attention != ATTENTION_UNFUSED,
        .fusions = of->system->stack.fusions &
                   ~(unsigned)FOLDING_FUSIONS, /* each op is sharded separately, so no op is folded
                                                  into another */
        .unfused = &of->system->stack.unfused,
        .dtype = dtype,
        .gradient_bytes = dtype_bytes((enum dtype)of->plan->gradient_dtype),
    };
    layer_find_operators(&scorer);
    return scorer;
}

/* A recomputed layer keeps its input, which is counted at the layer's last operator. */
static void keep_entrance(const struct scorer *scorer, struct partition_operator *last)
{
    double bytes = scorer->hidden_bytes * scorer->in_flight;
    if (scorer->of->plan->recompute != RECOMPUTE_FULL)
        return;
    last->score[SHARDING_REPLICATED].bytes += bytes;
    last->score[SHARDING_SEQUENCE].bytes += bytes / scorer->of->plan->tp;
}

struct partition_problem layer_partition_problem(const struct layer_partition *of,
                                                 struct arena *arena)
{
    struct scorer scorer = scorer_new(of, arena);
    struct partition_problem problem = {
        .operators = ARENA_ARRAY(arena, struct partition_operator, MAX_OPERATORS),
        .num_operators = scorer.num_stretches,
        .edges = ARENA_ARRAY(arena, struct partition_edge, 2 * MAX_OPERATORS),
        .budget_bytes = budget_of(of, &scorer),
    };
    for (int i = 0; i < scorer.num_stretches; i++)
        layer_add_operator(&scorer, i, &problem.operators[i]);
    layer_add_edges(&scorer, &problem);
    keep_entrance(&scorer, &problem.operators[problem.num_operators - 1]);
    return problem;
}
