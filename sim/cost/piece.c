#include "sim/cost/piece.h"

#include "sim/cost/compute.h"
#include "sim/cost/network.h"

#include <assert.h>
#include <math.h>

enum { MAX_LIST_OPS = 128 };

/* What times a list: the machine and the tensor group's wires. */
struct timer {
    const struct system *system;
    enum attention_kernel attention;
    struct comm_group tensor;
};

static enum collective collective_of(enum op_kind kind)
{
    if (kind == OP_ALL_GATHER)
        return COLLECTIVE_ALL_GATHER;
    return kind == OP_REDUCE_SCATTER ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
}

static double time_alone_s(const struct timer *timer, const struct op *op)
{
    if (op_is_collective(op->kind))
        return collective_s(&timer->tensor, collective_of(op->kind), op->comm_bytes);
    const struct system *system = timer->system;
    double alone_s = op_s(&system->gpu, &system->profile, timer->attention, op);
    return op->kind == OP_GEMM ? alone_s / system->stack.product_efficiency : alone_s;
}

/* A list in flight: each stream runs its ops in order, each op after `after`. */
struct flight {
    const struct timer *timer;
    struct ops ops;
    double left_s[MAX_LIST_OPS]; /* time alone that is left */
    bool done[MAX_LIST_OPS];
    int head[NUM_OP_STREAMS];
};

/* The op a stream is at, or -1 when it has none or must wait. */
static int running(struct flight *f, enum op_stream stream)
{
    int *head = &f->head[stream];
    while (*head < f->ops.count && (f->ops.at[*head].stream != stream || f->done[*head]))
        (*head)++;
    if (*head == f->ops.count)
        return -1;
    int after = f->ops.at[*head].after;
    return after < 0 || f->done[after] ? *head : -1;
}

static void advance(struct flight *f, int op, double alone_s)
{
    if (op < 0)
        return;
    f->left_s[op] -= alone_s;
    f->done[op] = f->left_s[op] <= 0;
}

/* Until one of the running ops ends. While both streams are busy each slows the other down. */
static double fly_to_next_end(struct flight *f, int compute, int comm)
{
    const struct profile *profile = &f->timer->system->profile;
    bool both = compute >= 0 && comm >= 0;
    double compute_slowdown = both ? profile->overlap_compute_slowdown : 1;
    double comm_slowdown = both ? profile->overlap_comm_slowdown : 1;
    double compute_end_s = compute >= 0 ? f->left_s[compute] * compute_slowdown : HUGE_VAL;
    double comm_end_s = comm >= 0 ? f->left_s[comm] * comm_slowdown : HUGE_VAL;
    double step_s = fmin(compute_end_s, comm_end_s);
    advance(f, compute, compute_end_s <= step_s ? f->left_s[compute] : step_s / compute_slowdown);
    advance(f, comm, comm_end_s <= step_s ? f->left_s[comm] : step_s / comm_slowdown);
    return step_s;
}

static double makespan_s(struct flight *f)
{
    double now_s = 0;
    for (;;) {
        int compute = running(f, STREAM_COMPUTE);
        int comm = running(f, STREAM_TENSOR);
        if (compute < 0 && comm < 0)
            return now_s;
        now_s += fly_to_next_end(f, compute, comm);
    }
}

static struct list_cost list_cost(const struct timer *timer, struct ops ops)
{
    assert(ops.count <= MAX_LIST_OPS);
    struct flight flight = { .timer = timer, .ops = ops };
    struct list_cost cost = { 0 };
    for (int i = 0; i < ops.count; i++) {
        flight.left_s[i] = time_alone_s(timer, &ops.at[i]);
        if (ops.at[i].stream == STREAM_COMPUTE)
            cost.compute_s += flight.left_s[i];
        cost.issue_s += op_issue_s(&timer->system->stack, &ops.at[i]);
        cost.flops += ops.at[i].flops;
    }
    cost.total_s = makespan_s(&flight);
    cost.comm_s = cost.total_s - cost.compute_s;
    return cost;
}

/* The ops that selective recompute replays, as a list of their own. */
static struct ops core_ops(struct ops forward, struct arena *arena)
{
    struct ops core = { .at = ARENA_ARRAY(arena, struct op, (size_t)forward.count + 1) };
    for (int i = 0; i < forward.count; i++) {
        if (forward.at[i].region != REGION_ATTENTION_CORE)
            continue;
        core.at[core.count] = forward.at[i];
        core.at[core.count].after = core.count - 1;
        core.count++;
    }
    return core;
}

static struct piece_cost piece_cost(const struct timer *timer, struct local_ops local,
                                    double parameters, double input_bytes, struct arena *arena)
{
    struct piece_cost cost = {
        .forward = list_cost(timer, local.forward),
        .backward = list_cost(timer, local.backward),
        .core = list_cost(timer, core_ops(local.forward, arena)),
        .parameters = parameters,
        .input_bytes = input_bytes,
    };
    for (int i = 0; i < local.forward.count; i++) {
        const struct op *op = &local.forward.at[i];
        cost.saved_bytes += op->saved_bytes + op->saved_input_bytes;
        if (op->region == REGION_ATTENTION_CORE)
            cost.core_bytes += op->saved_bytes;
    }
    return cost;
}

bool plan_overlaps(const struct plan *plan, const struct stack *stack, enum overlap overlap)
{
    unsigned set = plan->overlaps_given ? plan->overlaps : stack->overlaps;
    return (set >> overlap & 1) != 0;
}

enum attention_kernel plan_attention_kernel(const struct plan *plan, const struct system *system)
{
    bool flash = plan->attention == PLAN_ATTENTION_FLASH ||
                 (plan->attention == PLAN_ATTENTION_DEFAULT && system->stack.flash_default);
    return flash ? stack_attention(&system->stack, &system->gpu) : ATTENTION_UNFUSED;
}

static struct layer_options options_of(const struct plan *plan, const struct system *system)
{
    return (struct layer_options){
        .flash_attention = plan_attention_kernel(plan, system) != ATTENTION_UNFUSED,
        .fusions = system->stack.fusions,
        .leaves_vocab_odd = system->stack.leaves_vocab_odd,
        .dtype = precision_dtype((enum precision)plan->precision),
        .gradient_bytes = dtype_bytes((enum dtype)plan->gradient_dtype),
    };
}

struct pieces pieces_cost(const struct system *system, const struct model *model,
                          const struct plan *plan, struct arena *arena)
{
    struct timer timer = { .system = system,
                           .attention = plan_attention_kernel(plan, system),
                           .tensor = network_axis_group(system, plan, AXIS_TENSOR) };
    struct layer_options options = options_of(plan, system);
    bool overlap = plan_overlaps(plan, &system->stack, OVERLAP_TP);
    struct arena_mark mark = arena_mark(arena);
    struct layer_dims dims = local_dims(plan, model, model->seq);
    double input_bytes = dims.norm_tokens * dims.hidden * (options.dtype == DTYPE_FP32 ? 4 : 2);
    struct local_ops layer = local_layer(plan, model, model->seq, &options, overlap, arena);
    struct local_ops embedding = local_embedding(plan, model, model->seq, &options, overlap, arena);
    struct local_ops head = local_head(plan, model, model->seq, &options, overlap, arena);
    struct pieces pieces = {
        .layer = piece_cost(&timer, layer, local_layer_parameters(plan, model), input_bytes, arena),
        .embedding =
            piece_cost(&timer, embedding, local_embedding_parameters(plan, model), 0, arena),
        .head = piece_cost(&timer, head, local_head_parameters(plan, model), input_bytes, arena),
        .logits = dims.tokens * dims.vocab,
    };
    arena_reset(arena, mark);
    return pieces;
}
