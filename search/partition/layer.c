#include "search/partition/layer.h"

#include "sim/cost/compute.h"
#include "sim/cost/memory.h"
#include "sim/cost/network.h"
#include "sim/cost/piece.h"
#include "sim/engine/data_parallel.h"
#include "sim/plan/local.h"
#include "sim/schedule/schedule.h"

#include <math.h>
#include <string.h>

/* An operator: ops of the layer's list that stand or fall together. */
struct stretch {
    const char *name;
    int first, count;
    bool is_linear;
};

/* What all operators of a layer are scored with. */
struct scorer {
    const struct layer_partition *of;
    struct arena *arena;
    struct layer_options options;
    enum attention_kernel attention;
    struct comm_group tensor;
    bool overlaps;
    double element_bytes;
    double hidden_bytes; /* S: hidden states of a microbatch */
    double state_bytes;  /* of a parameter on one rank */
    double in_flight;    /* microbatches whose activations a layer keeps */
    double num_microbatches;
    /* The layer's list as it is whole, split as Megatron does, and for a part of the tokens: op by
     * op the same ops. */
    struct ops whole, hidden, sequence;
    struct stretch stretches[MAX_OPERATORS];
    int num_stretches;
};

/* --- the layer's operators -------------------------------------------------------------------- */

static struct ops list_of(const struct scorer *scorer, const struct layer_dims *dims)
{
    return layer_forward(scorer->of->model, dims, &scorer->options, scorer->arena);
}

/* Sizes of one rank's tokens, of which context ranks have a part each. */
static void build_lists(struct scorer *scorer)
{
    const struct layer_partition *of = scorer->of;
    struct plan plan = *of->plan;
    plan.sp = false;
    struct layer_dims hidden = local_dims(&plan, of->model, of->model->seq);
    plan.tp = 1;
    struct layer_dims whole = local_dims(&plan, of->model, of->model->seq);
    struct layer_dims sequence = whole;
    sequence.tokens /= of->plan->tp;
    sequence.norm_tokens /= of->plan->tp;
    scorer->whole = list_of(scorer, &whole);
    scorer->hidden = list_of(scorer, &hidden);
    scorer->sequence = list_of(scorer, &sequence);
    scorer->hidden_bytes = whole.tokens * whole.hidden * scorer->element_bytes;
}

static bool is_mark(const struct op *op)
{
    return op->kind == OP_TENSOR_ENTER || op->kind == OP_TENSOR_LEAVE ||
           op->kind == OP_CONTEXT_ENTER || op->kind == OP_CONTEXT_LEAVE;
}

/* What lies between the first product and the projection, and sees whole heads. */
static bool is_core(const struct op *op)
{
    return op->region == REGION_ATTENTION_CORE || op->kind == OP_ROTARY ||
           strcmp(op->name, "qk_norm") == 0;
}

static void find_stretches(struct scorer *scorer)
{
    bool was_core = false;
    for (int i = 0; i < scorer->whole.count; i++) {
        const struct op *op = &scorer->whole.at[i];
        bool core = is_core(op);
        if (is_mark(op) && !core)
            continue;
        if (core && was_core) {
            scorer->stretches[scorer->num_stretches - 1].count++;
            continue;
        }
        was_core = core;
        scorer->stretches[scorer->num_stretches++] =
            (struct stretch){ core ? "attention" : op->name, i, 1, op->kind == OP_GEMM };
    }
}

static unsigned allowed_of(const struct scorer *scorer, const struct stretch *stretch)
{
    enum {
        WHOLE = 1 << SHARDING_REPLICATED,
        TOKENS = 1 << SHARDING_SEQUENCE,
        VALUES = 1 << SHARDING_HIDDEN
    };
    if (stretch->is_linear)
        return 1 << SHARDING_COLUMN | 1 << SHARDING_ROW | WHOLE | TOKENS;
    const struct op *op = &scorer->whole.at[stretch->first];
    if (is_core(op))
        return WHOLE | VALUES;
    return op->kind == OP_ACTIVATION ? WHOLE | TOKENS | VALUES : WHOLE | TOKENS;
}

/* Values that it hands on, all ranks together; attention's are those that the projection reads. */
static double output_bytes(const struct scorer *scorer, int index)
{
    const struct stretch *stretch = &scorer->stretches[index];
    const struct op *op = &scorer->whole.at[stretch->first];
    if (is_core(op))
        op = &scorer->whole.at[scorer->stretches[index + 1].first];
    return scorer->element_bytes * op->m *
           (is_core(&scorer->whole.at[stretch->first]) ? op->k : op->n);
}

/* --- products --------------------------------------------------------------------------------- */

static void set_size(const struct scorer *scorer, struct op *op, double m, double n, double k)
{
    op->m = m;
    op->n = n;
    op->k = k;
    op->flops = op->model_flops = 2 * m * n * k;
    op->bytes = scorer->element_bytes * (m * k + k * n + m * n);
}

/* Megatron's split where it splits the same side, as it knows how many heads have keys of their
 * own; else an equal part. */
static struct op product_of(const struct scorer *scorer, int index, enum sharding sharding)
{
    int at = scorer->stretches[index].first;
    double ranks = scorer->of->plan->tp;
    const struct op *whole = &scorer->whole.at[at];
    const struct op *split = &scorer->hidden.at[at];
    struct op op = *whole;
    if (sharding == SHARDING_SEQUENCE)
        set_size(scorer, &op, whole->m / ranks, whole->n, whole->k);
    if (sharding == SHARDING_COLUMN)
        set_size(scorer, &op, whole->m, split->n < whole->n ? split->n : whole->n / ranks,
                 whole->k);
    if (sharding == SHARDING_ROW)
        set_size(scorer, &op, whole->m, whole->n,
                 split->k < whole->k ? split->k : whole->k / ranks);
    op.column_parallel = sharding == SHARDING_COLUMN;
    return op;
}

static double alone_s(const struct scorer *scorer, const struct op *op)
{
    const struct system *system = scorer->of->system;
    double seconds = op_s(&system->gpu, &system->profile, scorer->attention, op);
    return op->kind == OP_GEMM ? seconds / system->stack.product_efficiency : seconds;
}

static double pass_s(const struct scorer *scorer, struct ops ops, enum op_pass pass)
{
    double seconds = 0;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].pass == pass)
            seconds += alone_s(scorer, &ops.at[i]);
    return seconds;
}

static struct ops backward_of(const struct scorer *scorer, struct op *op)
{
    return ops_backward((struct ops){ op, 1 }, &scorer->options, scorer->arena);
}

/* --- operators -------------------------------------------------------------------------------- */

static bool reruns(const struct scorer *scorer, const struct op *op)
{
    int recompute = scorer->of->plan->recompute;
    return recompute == RECOMPUTE_FULL ||
           (recompute == RECOMPUTE_SELECTIVE && op->region == REGION_ATTENTION_CORE);
}

static double kept_bytes(const struct scorer *scorer, const struct op *op)
{
    if (scorer->of->plan->recompute == RECOMPUTE_FULL)
        return 0;
    return op->saved_input_bytes + (reruns(scorer, op) ? 0 : op->saved_bytes);
}

static double compute_s(const struct scorer *scorer, struct op *op)
{
    struct ops backward = backward_of(scorer, op);
    double forward_s = alone_s(scorer, op);
    return (reruns(scorer, op) ? 2 : 1) * forward_s +
           pass_s(scorer, backward, PASS_BACKWARD_INPUT) +
           pass_s(scorer, backward, PASS_BACKWARD_WEIGHT);
}

/* Ranks that have all weights for some tokens sum their gradients, once a step. */
static double weight_reduce_s(const struct scorer *scorer, double parameters)
{
    double bytes = parameters * scorer->options.gradient_bytes;
    return collective_s(&scorer->tensor, COLLECTIVE_ALL_REDUCE, bytes) / scorer->num_microbatches;
}

static struct partition_score linear_score(const struct scorer *scorer, int index,
                                           enum sharding sharding)
{
    struct op op = product_of(scorer, index, sharding);
    double parameters = op.n * op.k + (op.has_bias ? op.n : 0);
    struct partition_score score = { .bytes = parameters * scorer->state_bytes };
    if (sharding == SHARDING_SEQUENCE) {
        score.comm = weight_reduce_s(scorer, parameters);
        score.units = 2 * parameters * scorer->options.gradient_bytes / scorer->num_microbatches /
                      scorer->hidden_bytes;
    }
    score.cost = score.comm + compute_s(scorer, &op);
    return score;
}

/* Every rank has them, whatever tokens it sees. */
static double norm_parameters(const struct scorer *scorer, const struct op *op)
{
    if (op->kind != OP_NORM)
        return 0;
    bool of_queries_and_keys = is_core(op);
    bool has_bias = !of_queries_and_keys && scorer->of->model->norm == NORM_LAYER;
    return op->n * (of_queries_and_keys || has_bias ? 2 : 1);
}

static struct partition_score other_score(const struct scorer *scorer, int index,
                                          enum sharding sharding)
{
    const struct stretch *stretch = &scorer->stretches[index];
    struct ops list = sharding == SHARDING_HIDDEN     ? scorer->hidden
                      : sharding == SHARDING_SEQUENCE ? scorer->sequence
                                                      : scorer->whole;
    struct partition_score score = { 0 };
    for (int i = stretch->first; i < stretch->first + stretch->count; i++)
        if (!is_mark(&list.at[i])) {
            score.cost += compute_s(scorer, &list.at[i]);
            score.bytes += kept_bytes(scorer, &list.at[i]) * scorer->in_flight +
                           norm_parameters(scorer, &list.at[i]) * scorer->state_bytes;
        }
    return score;
}

static void add_operator(const struct scorer *scorer, int index, struct partition_operator *out)
{
    const struct stretch *stretch = &scorer->stretches[index];
    *out = (struct partition_operator){ .name = stretch->name,
                                        .allowed = allowed_of(scorer, stretch) };
    for (int i = 0; i < NUM_SHARDINGS; i++)
        if (out->allowed >> i & 1)
            out->score[i] = stretch->is_linear ? linear_score(scorer, index, (enum sharding)i)
                                               : other_score(scorer, index, (enum sharding)i);
}

/* --- edges ------------------------------------------------------------------------------------ */

/* A tensor on its way from one operator to another. */
struct passage {
    double bytes;
    struct reshard seconds, units;
};

static struct passage passage_of(const struct scorer *scorer, double bytes)
{
    const struct comm_group *group = &scorer->tensor;
    int ranks = scorer->of->plan->tp;
    return (struct passage){
        .bytes = bytes,
        .seconds = { collective_s(group, COLLECTIVE_ALL_REDUCE, bytes),
                     collective_s(group, COLLECTIVE_ALL_GATHER, bytes),
                     collective_s(group, COLLECTIVE_REDUCE_SCATTER, bytes),
                     all_to_all_s(group, bytes / ranks) },
        .units = reshard_units(bytes / scorer->hidden_bytes, ranks),
    };
}

/* On the way there, again when a recomputed layer runs again. */
static double sent_forward(const struct scorer *scorer, const struct reshard *reshard,
                           enum sharding from, enum sharding to)
{
    int runs = scorer->of->plan->recompute == RECOMPUTE_FULL ? 2 : 1;
    return runs * reshard_cost(reshard, shardings[from].output, shardings[to].input);
}

static double sent_back(const struct reshard *reshard, enum sharding from, enum sharding to)
{
    return reshard_cost(reshard, shardings[to].input_gradient, shardings[from].output_gradient);
}

static double beside_s(const struct scorer *scorer, double compute, double comm)
{
    if (!scorer->overlaps || comm == 0)
        return comm;
    return overlapped_s(&scorer->of->system->profile, compute, comm) - compute;
}

/* The backward of a linear layer: its gathered input comes again beside the product that makes the
 * input's gradient, which, as partial sums, is reduced beside the product that makes the weights'.
 */
static double backward_comm_s(const struct scorer *scorer, int index, enum sharding from,
                              enum sharding to, const struct reshard *seconds)
{
    struct op op = product_of(scorer, index, to);
    struct ops backward = backward_of(scorer, &op);
    double gather_s =
        reshard_gathers(shardings[from].output, shardings[to].input) ? seconds->all_gather : 0;
    double reduce_s = sent_back(seconds, from, to);
    if (shardings[to].input_gradient != PLACED_PARTIAL)
        return gather_s + reduce_s;
    double weight_s = 0;
    for (int i = 0; i < backward.count; i++)
        if (backward.at[i].kind == OP_GEMM && backward.at[i].pass == PASS_BACKWARD_WEIGHT)
            weight_s = alone_s(scorer, &backward.at[i]);
    return beside_s(scorer, pass_s(scorer, backward, PASS_BACKWARD_INPUT), gather_s) +
           beside_s(scorer, weight_s, reduce_s);
}

/* What a linear layer keeps of its input: all it reads, or the part that it gathers from. */
static double input_bytes(const struct scorer *scorer, double bytes, enum sharding from,
                          enum sharding to)
{
    bool is_part = reshard_gathers(shardings[from].output, shardings[to].input) ||
                   shardings[to].input != PLACED_WHOLE;
    return (is_part ? bytes / scorer->of->plan->tp : bytes) * scorer->in_flight;
}

static struct partition_score linear_edge(const struct scorer *scorer, int index,
                                          const struct passage *passage, enum sharding from,
                                          enum sharding to)
{
    bool gathers = reshard_gathers(shardings[from].output, shardings[to].input);
    struct partition_score score = {
        .units = sent_forward(scorer, &passage->units, from, to) +
                 sent_back(&passage->units, from, to) + (gathers ? passage->units.all_gather : 0),
        .comm = sent_forward(scorer, &passage->seconds, from, to) +
                backward_comm_s(scorer, index, from, to, &passage->seconds),
    };
    score.cost = score.comm;
    if (scorer->of->plan->recompute != RECOMPUTE_FULL)
        score.bytes = input_bytes(scorer, passage->bytes, from, to);
    return score;
}

static struct partition_score other_edge(const struct scorer *scorer, const struct passage *passage,
                                         enum sharding from, enum sharding to)
{
    double seconds =
        sent_forward(scorer, &passage->seconds, from, to) + sent_back(&passage->seconds, from, to);
    double units =
        sent_forward(scorer, &passage->units, from, to) + sent_back(&passage->units, from, to);
    return (struct partition_score){ .cost = seconds, .comm = seconds, .units = units };
}

static void add_edge(const struct scorer *scorer, struct partition_problem *problem, int from,
                     int to)
{
    struct partition_edge *edge = &problem->edges[problem->num_edges++];
    struct passage passage = passage_of(scorer, output_bytes(scorer, from));
    edge->from = from;
    edge->to = to;
    for (int i = 0; i < NUM_SHARDINGS; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            if (!partition_allows(problem, from, (enum sharding)i) ||
                !partition_allows(problem, to, (enum sharding)j))
                continue;
            edge->score[i][j] =
                scorer->stretches[to].is_linear
                    ? linear_edge(scorer, to, &passage, (enum sharding)i, (enum sharding)j)
                    : other_edge(scorer, &passage, (enum sharding)i, (enum sharding)j);
        }
}

/* From each operator to the next and, as the next layer is alike, from the last to the first; and
 * beside them from one residual to the one after. */
static void add_edges(const struct scorer *scorer, struct partition_problem *problem)
{
    int count = scorer->num_stretches;
    int residual = count - 1;
    for (int i = 0; i < count; i++) {
        add_edge(scorer, problem, i, (i + 1) % count);
        if (scorer->whole.at[scorer->stretches[i].first].kind == OP_RESIDUAL) {
            add_edge(scorer, problem, residual, i);
            residual = i;
        }
    }
}

/* A recomputed layer keeps what it begins with. */
static void keep_entrance(const struct scorer *scorer, struct partition_operator *last)
{
    double bytes = scorer->hidden_bytes * scorer->in_flight;
    if (scorer->of->plan->recompute != RECOMPUTE_FULL)
        return;
    last->score[SHARDING_REPLICATED].bytes += bytes;
    last->score[SHARDING_SEQUENCE].bytes += bytes / scorer->of->plan->tp;
}

/* --- memory ----------------------------------------------------------------------------------- */

static double state_bytes_of(const struct layer_partition *of)
{
    const struct plan *plan = of->plan;
    struct state_bytes state = plan_state_bytes(plan, of->model);
    double shards = plan_shards(plan);
    double optimizer = plan_offloads(plan, OFFLOAD_OPTIMIZER) ? 0 : state.optimizer;
    return state.weights / (plan->zero >= 3 ? shards : 1) +
           state.gradients / (plan->zero >= 2 ? shards : 1) +
           optimizer / (plan->zero >= 1 ? shards : 1);
}

/* On the first stage, on average over its chunks. */
static double in_flight_of(const struct layer_partition *of)
{
    const struct plan *plan = of->plan;
    struct schedule_shape shape = { plan->pp, plan->vpp,
                                    plan_microbatches(plan, of->model->batch) };
    const struct generator *generator = generator_find(plan_schedule(plan));
    double held = 0;
    for (int chunk = 0; chunk < plan->vpp; chunk++)
        held += chunk_in_flight(generator, &shape, 0, chunk);
    return held / plan->vpp;
}

/* The plan's own first stage without what its layers keep, spread over them. */
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
    double layers = 0;
    for (int chunk = 0; chunk < plan_chunks(of->plan); chunk += of->plan->pp)
        layers += plan_chunk_layers(of->plan, of->model, chunk);
    double of_layers = layers * pieces.layer.parameters * scorer->state_bytes +
                       stage.activations_bytes - scorer->in_flight * pieces.embedding.saved_bytes;
    double slack = 1 + of->system->stack.allocator_slack;
    double left = of->system->gpu.memory_bytes - (stage.total_bytes - slack * of_layers);
    return fmax(0, left / slack / layers);
}

/* --- the problem ------------------------------------------------------------------------------ */

static struct scorer scorer_new(const struct layer_partition *of, struct arena *arena)
{
    enum dtype dtype = precision_value_dtype((enum precision)of->plan->precision);
    struct scorer scorer = {
        .of = of,
        .arena = arena,
        .attention = plan_attention_kernel(of->plan, of->system),
        .tensor = network_axis_group(of->system, of->plan, AXIS_TENSOR),
        .overlaps = plan_overlaps(of->plan, &of->system->stack, OVERLAP_TP),
        .element_bytes = dtype == DTYPE_FP32 ? 4 : 2,
        .state_bytes = state_bytes_of(of),
        .in_flight = in_flight_of(of),
        .num_microbatches = plan_microbatches(of->plan, of->model->batch),
    };
    scorer.options = (struct layer_options){
        .flash_attention = scorer.attention != ATTENTION_UNFUSED,
        .fusions =
            of->system->stack.fusions & ~(unsigned)FOLDING_FUSIONS, /* each op is split by itself */
        .dtype = dtype,
        .gradient_bytes = dtype_bytes((enum dtype)of->plan->gradient_dtype),
    };
    build_lists(&scorer);
    find_stretches(&scorer);
    return scorer;
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
        add_operator(&scorer, i, &problem.operators[i]);
    add_edges(&scorer, &problem);
    keep_entrance(&scorer, &problem.operators[problem.num_operators - 1]);
    return problem;
}
