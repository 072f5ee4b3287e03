/* The costs of a piece (a layer, the embedding or the head) on one rank, from its op lists. */
#include "sim/cost/piece.h"

#include "models/blocks.h"
#include "models/trained.h"
#include "sim/cost/compute.h"
#include "sim/cost/generation.h"
#include "sim/cost/network.h"
#include "sim/cost/runtime.h"
#include "sim/cost/straggler.h"
#include "sim/cost/user_buffers.h"
#include "sim/plan/context.h"
#include "sim/plan/layout.h"
#include "sim/plan/ranks.h"
#include "sim/plan/weights.h"
#include "sim/schedule/schedule.h"

#include <assert.h>
#include <math.h>

enum { MAX_LIST_OPS = 192, MAX_STREAMS = STREAM_COMPUTE + 1 + MAX_AXES };

/* Everything that the time of an op list depends on. */
struct timer {
    const struct system *system;
    const struct piece_question *question;
    const struct piece_wires *wires;
    const struct recipe *recipe;
};

static const struct comm_group *group_of(const struct timer *timer, const struct op *op)
{
    int axis = stream_axis(op->stream);
    int which = axes[axis]->group_of ? axes[axis]->group_of(timer->question->share, op) : 0;
    return &timer->wires->group[axis][which];
}

/* Time to send rows to their experts, or the experts' outputs back. It includes the host's reading
 * of the number of arriving rows, unless experts are padded to their capacity. */
static double expert_rows_s(const struct timer *timer, const struct op *op)
{
    double row_bytes = op->n * dtype_bytes(op->dtype);
    struct dispatch dispatch = {
        .row_bytes = row_bytes,
        .rows = op->comm_bytes / row_bytes,
        .choice = op->choice,
        .is_combine = op->is_combine,
        .waits =
            !op->is_combine && op->pass == PASS_FORWARD && timer->question->share.capacity == 0,
    };
    enum dispatcher_kind kind = (enum dispatcher_kind)timer->system->stack.dispatcher;
    return dispatch_s(kind, &timer->wires->group[AXIS_EXPERT][0], &dispatch);
}

static double comm_alone_s(const struct timer *timer, const struct op *op)
{
    const struct comm_group *group = group_of(timer, op);
    if (op->kind == OP_SEND_RECEIVE) {
        const struct comm_group *pair = &timer->wires->pair[stream_axis(op->stream)];
        return op->batch * point_to_point_s(pair, op->comm_bytes);
    }
    if (op->kind == OP_ALL_TO_ALL && op->stream == STREAM_EXPERT)
        return expert_rows_s(timer, op);
    if (op->kind == OP_ALL_TO_ALL)
        return op->batch * all_to_all_s(group, op->comm_bytes);
    if (op->kind == OP_ALL_GATHER)
        return collective_s(group, COLLECTIVE_ALL_GATHER, op->comm_bytes);
    if (op->kind == OP_REDUCE_SCATTER)
        return collective_s(group, COLLECTIVE_REDUCE_SCATTER, op->comm_bytes);
    return collective_s(group, COLLECTIVE_ALL_REDUCE, op->comm_bytes);
}

/* Factor on attention's rate by the stack's own kernels; 1 if the profile has measured times of the
 * kernel. */
static double attention_efficiency(const struct system *system, const struct op *op)
{
    if (measured_op_s(&system->profile, op) >= 0)
        return 1;
    return op->pass == PASS_FORWARD ? system->stack.attention_forward_efficiency
                                    : system->stack.attention_backward_efficiency;
}

static double run_alone_s(const struct timer *timer, const struct op *op)
{
    if (op_is_collective(op->kind))
        return comm_alone_s(timer, op);
    const struct system *system = timer->system;
    enum attention_kernel attention = (enum attention_kernel)timer->question->attention;
    double alone_s = op_s(&system->gpu, &system->profile, attention, op);
    if (op->kind == OP_FLASH_ATTENTION)
        return alone_s / attention_efficiency(system, op);
    if (op->kind != OP_GEMM)
        return alone_s;
    double efficiency = system->stack.product_efficiency;
    if (dtype_is_quantized(op->dtype))
        efficiency *= timer->recipe->product_efficiency;
    return alone_s / efficiency;
}

static double num_row_blocks(const struct op *op)
{
    return op->row_blocks > 1 ? op->row_blocks : 1;
}

static double time_alone_s(const struct timer *timer, const struct op *op)
{
    struct op run = op_row_block(op);
    return num_row_blocks(op) * run_alone_s(timer, &run);
}

/* State while a list is simulated. Each stream runs its ops in order, and an op starts only when
 * its op of after[] has ended. */
struct flight {
    const struct timer *timer;
    struct ops ops;
    int after[MAX_LIST_OPS];     /* the op that each op waits for, or -1 */
    double left_s[MAX_LIST_OPS]; /* remaining time when run alone */
    bool done[MAX_LIST_OPS];
    bool in_user_buffers; /* the tensor group's collectives */
    int num_streams;      /* index of the last stream with ops, plus 1 */
    int head[MAX_STREAMS];
    double exposed_s[MAX_STREAMS]; /* exposed time of each stream so far */
};

/* The stream's current op; -1 when it has none or must wait. */
static int running(struct flight *f, enum op_stream stream)
{
    int *head = &f->head[stream];
    while (*head < f->ops.count && (f->ops.at[*head].stream != stream || f->done[*head]))
        (*head)++;
    if (*head == f->ops.count)
        return -1;
    int after = f->after[*head];
    return after < 0 || f->done[after] ? *head : -1;
}

static void advance(struct flight *f, int op, double alone_s)
{
    if (op < 0)
        return;
    f->left_s[op] -= alone_s;
    f->done[op] = f->left_s[op] <= 0;
}

/* Factor on compute time while the ops `at` run, of which some communicate. */
static double compute_slowdown(const struct flight *f, const int at[MAX_STREAMS])
{
    const struct system *system = f->timer->system;
    double slowdown = system->profile.overlap_compute_slowdown;
    if (!f->in_user_buffers)
        return slowdown;
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        if (i != STREAM_TENSOR && at[i] >= 0)
            return slowdown;
    return fmin(slowdown, user_buffers_slowdown(system->gpu.num_sms));
}

/* Time until one of the running ops ends. While compute and another stream are both busy, each
 * slows the other. */
static double fly_to_next_end(struct flight *f, const int at[MAX_STREAMS])
{
    const struct profile *profile = &f->timer->system->profile;
    bool communicates = false;
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        communicates |= at[i] >= 0;
    bool both = at[STREAM_COMPUTE] >= 0 && communicates;
    double slowdown[MAX_STREAMS];
    double end_s[MAX_STREAMS];
    double step_s = HUGE_VAL;
    for (int i = 0; i < f->num_streams; i++) {
        slowdown[i] = !both                 ? 1
                      : i == STREAM_COMPUTE ? compute_slowdown(f, at)
                                            : profile->overlap_comm_slowdown;
        end_s[i] = at[i] >= 0 ? f->left_s[at[i]] * slowdown[i] : HUGE_VAL;
        step_s = fmin(step_s, end_s[i]);
    }
    /* The time that compute lost, by waiting or by slowdown, is exposed communication. */
    for (int i = STREAM_COMPUTE + 1; i < f->num_streams; i++)
        if (at[i] >= 0)
            f->exposed_s[i] +=
                at[STREAM_COMPUTE] < 0 ? step_s : step_s - step_s / slowdown[STREAM_COMPUTE];
    for (int i = 0; i < f->num_streams; i++)
        advance(f, at[i], end_s[i] <= step_s ? f->left_s[at[i]] : step_s / slowdown[i]);
    return step_s;
}

static double makespan_s(struct flight *f)
{
    double now_s = 0;
    for (;;) {
        int at[MAX_STREAMS];
        bool is_idle = true;
        for (int i = 0; i < f->num_streams; i++) {
            at[i] = running(f, (enum op_stream)i);
            is_idle &= at[i] < 0;
        }
        if (is_idle)
            return now_s;
        now_s += fly_to_next_end(f, at);
    }
}

/* Time that ranks of a group wait in a collective for the last one of them. */
static double wait_s(const struct timer *timer, const struct op *op, double compute_s)
{
    if (!op_is_collective(op->kind))
        return 0;
    int size = group_of(timer, op)->num_ranks;
    return drift_wait_s(timer->system->profile.drift_s, compute_s, size);
}

/* A stream's part of the exposed time. If no other stream communicates, it is exactly `comm_s`. */
static double exposed_by(const struct flight *flight, const bool has_ops[MAX_STREAMS],
                         enum op_stream stream, double comm_s)
{
    bool has_others = false;
    for (int i = STREAM_COMPUTE + 1; i < flight->num_streams; i++)
        has_others |= i != (int)stream && has_ops[i];
    return has_others || flight->exposed_s[stream] == 0 ? flight->exposed_s[stream] : comm_s;
}

/* Transformer Engine's user buffers need sequence parallelism, a tensor group within one NVLink
 * domain, and one hardware queue, so that copies start before products fill the multiprocessors. */
static bool uses_user_buffers(const struct timer *timer)
{
    const struct piece_question *question = timer->question;
    const struct system *system = timer->system;
    return system->stack.user_buffers && system->stack.host.launches_ahead &&
           generations[system->gpu.arch].shares_queue && question->overlaps_tensor &&
           question->share.sp && question->share.tp <= cluster_node_size(&system->cluster);
}

static struct list_cost list_cost(const struct timer *timer, struct ops ops)
{
    assert(ops.count <= MAX_LIST_OPS);
    struct flight flight = { .timer = timer, .ops = ops };
    struct list_cost cost = { 0 };
    bool has_ops[MAX_STREAMS] = { false };
    double met_s = 0; /* compute time up to the last collective */
    for (int i = 0; i < ops.count; i++) {
        double waits_s = wait_s(timer, &ops.at[i], cost.compute_s - met_s);
        flight.left_s[i] = time_alone_s(timer, &ops.at[i]) + waits_s;
        flight.after[i] = ops.at[i].after;
        if (op_is_collective(ops.at[i].kind))
            met_s = cost.compute_s;
        has_ops[ops.at[i].stream] = true;
        if (flight.num_streams <= (int)ops.at[i].stream)
            flight.num_streams = (int)ops.at[i].stream + 1;
        if (ops.at[i].stream == STREAM_COMPUTE)
            cost.compute_s += flight.left_s[i];
        if (ops.at[i].kind == OP_FLASH_ATTENTION)
            cost.attention_s += flight.left_s[i];
        cost.kernels += ops.at[i].kernels;
        cost.flops += ops.at[i].flops;
    }
    flight.in_user_buffers = uses_user_buffers(timer);
    if (flight.in_user_buffers)
        user_buffers_overlap(&ops, timer->question->share.tp, flight.after, flight.left_s);
    cost.total_s = makespan_s(&flight);
    cost.comm_s = cost.total_s - cost.compute_s;
    cost.context_s = exposed_by(&flight, has_ops, STREAM_CONTEXT, cost.comm_s);
    cost.expert_s = exposed_by(&flight, has_ops, STREAM_EXPERT, cost.comm_s);
    return cost;
}

static bool is_input_half(const struct op *op)
{
    return op->pass == PASS_BACKWARD_INPUT;
}

static bool is_weight_half(const struct op *op)
{
    return op->pass == PASS_BACKWARD_WEIGHT;
}

/* Some of a list's ops as a separate list. Each op waits for the last op of the new list that is
 * not behind its original `after`. Ops that overlapped removed ops now overlap nothing. */
static struct ops some_of(struct ops ops, bool (*is_in)(const struct op *op), struct arena *arena)
{
    struct ops some = { .at = ARENA_ARRAY(arena, struct op, (size_t)ops.count + 1) };
    int *num_up_to = ARENA_ARRAY(arena, int, (size_t)ops.count + 1);
    for (int i = 0; i < ops.count; i++) {
        int after = ops.at[i].after;
        if (is_in(&ops.at[i])) {
            some.at[some.count] = ops.at[i];
            some.at[some.count].after = after < 0 ? -1 : num_up_to[after] - 1;
            some.count++;
        }
        num_up_to[i] = some.count;
    }
    return some;
}

static double element_bytes(const struct op *op)
{
    return fmax(dtype_bytes(op->dtype), 2); /* gradients of quantised products have 16 bits */
}

/* Bytes of a weight gradient's second operand: the gradient of its op's output. A quantised product
 * reads a quantised gradient. */
static double output_gradient_bytes(const struct timer *timer, const struct op *weight_gradient)
{
    const struct op *op = weight_gradient;
    if (op->kind == OP_GEMM && dtype_is_quantized(op->dtype))
        return op->batch * op->k * op->m * quantized_bytes(timer->recipe);
    if (op->kind == OP_GEMM)
        return op->batch * op->k * op->m * element_bytes(op);
    return op->kind == OP_EMBEDDING ? op->m * op->n * element_bytes(op) : 0;
}

static bool is_read_by_weight_half(const struct ops *backward, int value)
{
    for (int i = 0; i < backward->count; i++)
        if (is_weight_half(&backward->at[i]) && ids_have(&backward->at[i].in, value))
            return true;
    return false;
}

/* Bytes kept between the halves of a split backward. The executor's host backend frees a
 * microbatch's activations after its weight gradients. Other runtimes free activations that no
 * weight gradient reads earlier, after the input gradients. */
static double waiting_bytes(const struct timer *timer, const struct local_ops *local)
{
    const struct operands *operands = local->forward.operands;
    bool keeps_all = stack_runtime(&timer->system->stack)->keeps_for_weights;
    bool is_saved[MAX_VALUES] = { false };
    double bytes = 0;
    for (int i = 0; i < local->forward.count; i++)
        for (int j = 0; j < local->forward.at[i].saved.count; j++)
            is_saved[local->forward.at[i].saved.at[j]] = true;
    for (int i = 0; i < operands->num_values; i++)
        if (is_saved[i] && !operands->values[i].is_live &&
            (keeps_all || is_read_by_weight_half(&local->backward, i)))
            bytes += value_kept_bytes(&operands->values[i]);
    for (int i = 0; i < local->backward.count; i++)
        if (is_weight_half(&local->backward.at[i]))
            bytes += output_gradient_bytes(timer, &local->backward.at[i]);
    return bytes;
}

/* The values in a backward's op list: the bytes that each one takes now, and the last op that reads
 * it. */
struct lives {
    double bytes[MAX_VALUES];
    short last[MAX_VALUES];
};

static void read_value(struct lives *lives, int value, int op)
{
    if (value != NO_ID)
        lives->last[value] = (short)op;
}

/* Values kept by the forward and the incoming gradient exist from the start. The output exists
 * until the end. */
static void begin_lives(struct lives *lives, const struct local_ops *local)
{
    const struct op_value *values = local->forward.operands->values;
    const struct ops *backward = &local->backward;
    *lives = (struct lives){ 0 };
    for (int i = 0; i < MAX_VALUES; i++)
        lives->last[i] = NO_ID;
    for (int i = 0; i < local->forward.count; i++)
        for (int j = 0; j < local->forward.at[i].saved.count; j++) {
            int value = local->forward.at[i].saved.at[j];
            lives->bytes[value] = values[value].is_live ? 0 : value_kept_bytes(&values[value]);
        }
    if (backward->input != NO_ID)
        lives->bytes[backward->input] = values[backward->input].bytes;
    for (int i = 0; i < backward->count; i++) {
        for (int j = 0; j < backward->at[i].in.count; j++)
            read_value(lives, backward->at[i].in.at[j], i);
        for (int j = 0; j < MAX_SUMS; j++)
            read_value(lives, backward->at[i].sum[j], i);
    }
    read_value(lives, backward->output, backward->count);
}

/* Bytes of the temporary tensor that a weight gradient's product writes. It is 0 if the product
 * adds directly to the main gradient (a fused kernel). */
static double matrix_gradient_bytes(const struct timer *timer, const struct op *op)
{
    bool adds = (timer->system->stack.fusions >> FUSION_WGRAD_ACCUMULATE & 1) != 0;
    bool is_product = op->kind == OP_GEMM && is_weight_half(op);
    return is_product && !adds ? op->m * op->n * element_bytes(op) : 0;
}

/* The bytes of values that op `i` is the last to read. */
static double ending_bytes(struct lives *lives, const struct op *op, int i)
{
    double bytes = 0;
    for (int j = 0; j < op->in.count + MAX_SUMS; j++) {
        int value = j < op->in.count ? op->in.at[j] : op->sum[j - op->in.count];
        if (value == NO_ID || lives->last[value] != i)
            continue;
        bytes += lives->bytes[value];
        lives->bytes[value] = 0;
    }
    return bytes;
}

/* The bytes that an op allocates for its outputs; an all-reduce works in place. */
static double made_bytes(struct lives *lives, const struct op_value *values, const struct op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->out.count; i++) {
        int value = op->out.at[i];
        if (lives->last[value] == NO_ID)
            continue;
        lives->bytes[value] = values[value].bytes;
        bytes += op->kind == OP_ALL_REDUCE ? 0 : values[value].bytes;
    }
    return bytes;
}

/* The bytes that are freed after an op: values that it is the last to read, and values that the
 * kernels of an unfused forward kept for it. An all-reduce frees nothing, as its input is its
 * output. */
static double gone_bytes(struct lives *lives, const struct op *op, int i)
{
    double bytes = ending_bytes(lives, op, i);
    return op->kind == OP_ALL_REDUCE ? 0 : bytes + op->kept_bytes;
}

/* The largest number of bytes that a backward holds at once beyond what its forward kept. Gradients
 * and re-gathered inputs are counted from the op that computes them to the last op that reads them;
 * kept values that no later op reads are subtracted. A collective other than an all-reduce keeps
 * its input until the next op has run, as frameworks run that op at the same time (Megatron Core,
 * tensor_parallel/layers.py: the weight gradient during the reduce-scatter of the input gradient)
 * or before it. `back` has, for each region of the layer, the bytes that selective recompute
 * computes again when the region's backward begins. */
static double moment_bytes(const struct timer *timer, const struct local_ops *local,
                           const double back[NUM_OP_REGIONS])
{
    const struct ops *backward = &local->backward;
    const struct op_value *values = local->forward.operands->values;
    struct lives lives;
    begin_lives(&lives, local);
    double bytes = backward->input == NO_ID ? 0 : lives.bytes[backward->input];
    double most_bytes = 0;
    double leaving_bytes = 0; /* bytes that are freed after the next op */
    bool is_back[NUM_OP_REGIONS] = { [REGION_REST] = true, [REGION_NORM] = true };
    bytes += back[REGION_REST] + back[REGION_NORM];
    for (int i = 0; i < backward->count; i++) {
        const struct op *op = &backward->at[i];
        bytes += made_bytes(&lives, values, op) + (is_back[op->region] ? 0 : back[op->region]);
        is_back[op->region] = true;
        most_bytes = fmax(most_bytes, bytes + matrix_gradient_bytes(timer, op));
        double gone = gone_bytes(&lives, op, i);
        bytes -= leaving_bytes + (op_is_collective(op->kind) ? 0 : gone);
        leaving_bytes = op_is_collective(op->kind) ? gone : 0;
    }
    return most_bytes;
}

/* Bytes of the incoming and the outgoing gradient in an op's backward. */
static double working_bytes(const struct ops *forward, const struct op *op)
{
    double out_bytes = op->m * op->n * element_bytes(op);
    if (op->kind == OP_GEMM)
        return op->batch * (out_bytes + op->m * op->k * element_bytes(op));
    return op->kind == OP_ACTIVATION ? out_bytes + op_saved_bytes(forward, op) : 0;
}

/* Number of tensors in which the software keeps the weights of a rank's experts. */
static double expert_tensors(const struct system *system, struct rank_share share,
                             const struct model *model)
{
    return system->stack.launches_each_expert ? local_dims(share, model, model->seq).experts : 1;
}

/* Adds a piece's tensors; those of experts are `of_experts` tensors for the host. Rows of a tied
 * vocabulary belong to the embedding, and also to the head if it holds a copy. */
static void add_tensors(struct piece_cost *cost, const struct weights *weights, bool has_vocabulary,
                        double of_experts)
{
    assert(weights->count <= MAX_PIECE_TENSORS);
    for (int i = 0; i < weights->count; i++) {
        const struct weight *weight = &weights->at[i];
        if (weight->of->is_frozen || (weight->of->is_vocabulary && !has_vocabulary))
            continue;
        cost->host_tensors += weight->of->is_of_experts ? of_experts : 1;
        cost->tensors[cost->num_tensors++] =
            (struct exchange_tensor){ (double)weight->rows, (double)weight->columns, 1 };
    }
}

static double all_parameters(const struct operands *operands)
{
    double all = 0;
    for (int i = 0; i < operands->num_weights; i++)
        all += operands->weights[i].rows * operands->weights[i].columns;
    return all;
}

/* The part of the held `parameters` that has gradients. `parameters` does not include a tied table
 * that another piece holds, although the op list uses it. */
static struct stage_weights trained_parameters(const struct operands *operands, double parameters)
{
    struct stage_weights trained = { parameters, 0 };
    bool shares_table = parameters < all_parameters(operands);
    for (int i = 0; i < operands->num_weights; i++) {
        const struct op_weight *weight = &operands->weights[i];
        double elements = weight->rows * weight->columns;
        if (weight->is_frozen && !(weight->is_vocabulary && shares_table))
            trained.all -= elements;
        else if (weight->is_of_experts && !weight->is_frozen)
            trained.experts += elements;
    }
    return trained;
}

static double expert_parameters(const struct operands *operands)
{
    double of_experts = 0;
    for (int i = 0; i < operands->num_weights; i++)
        if (operands->weights[i].is_of_experts)
            of_experts += operands->weights[i].rows * operands->weights[i].columns;
    return of_experts;
}

static struct piece_cost piece_cost(const struct timer *timer, struct local_ops local,
                                    double parameters, double input_bytes, struct arena *arena)
{
    bool in_place = stack_runtime(&timer->system->stack)->runs_in_place;
    struct replay replay =
        ops_replay(&local.forward, (unsigned)timer->question->replays, in_place, arena);
    struct piece_cost cost = {
        .forward = list_cost(timer, local.forward),
        .replay = list_cost(timer, replay.ops),
        .replayed_bytes = replay.freed_bytes,
        .parameters = parameters,
        .of_experts = expert_parameters(local.forward.operands),
        .trained = trained_parameters(local.forward.operands, parameters),
        .input_bytes = input_bytes,
        .waiting_bytes = waiting_bytes(timer, &local),
        .moment_bytes = moment_bytes(timer, &local, (double[NUM_OP_REGIONS]){ 0 }),
        .replayed_moment_bytes = moment_bytes(timer, &local, replay.freed_of),
    };
    if (timer->question->splits) {
        cost.backward = list_cost(timer, some_of(local.backward, is_input_half, arena));
        cost.weight = list_cost(timer, some_of(local.backward, is_weight_half, arena));
    } else {
        cost.backward = list_cost(timer, local.backward);
    }
    for (int i = 0; i < local.forward.count; i++) {
        const struct op *op = &local.forward.at[i];
        cost.saved_bytes += op_saved_bytes(&local.forward, op);
        cost.working_bytes = fmax(cost.working_bytes, working_bytes(&local.forward, op));
    }
    if (local.backward.count == 0)
        cost.replay = (struct list_cost){ 0 };
    return cost;
}

bool plan_overlaps(const struct plan *plan, const struct stack *stack, enum overlap overlap)
{
    unsigned set = plan->overlaps_given ? plan->overlaps : stack->overlaps;
    return (set >> overlap & 1) != 0;
}

enum attention_kernel plan_attention_kernel(const struct plan *plan, const struct system *system)
{
    bool flash =
        plan->attention == PLAN_ATTENTION_FLASH ||
        (plan->attention == PLAN_ATTENTION_DEFAULT && system->stack.unstated.flash_default);
    return flash ? stack_attention(&system->stack, &system->gpu) : ATTENTION_UNFUSED;
}

int quantized_copies(const struct gpu *gpu, const struct recipe *recipe)
{
    return generations[gpu->arch].reads_either_way && recipe->scaling == SCALING_TENSOR ? 1 : 2;
}

/* Rows of logits per block. With a split backward all logits are needed at once (0), as their
 * gradients are read twice. */
static double logits_rows(bool splits, const struct stack *stack)
{
    return splits ? 0 : stack->memory.logits_rows;
}

double plan_logits_rows(const struct plan *plan, const struct stack *stack)
{
    return logits_rows(generator_splits(generator_find(plan_schedule(plan))), stack);
}

static double logit_bytes(int precision, const struct stack *stack)
{
    enum dtype dtype = precision_value_dtype(precision);
    return fmax(stack->memory.logits_bytes, dtype_bytes(dtype));
}

double plan_logit_bytes(const struct plan *plan, const struct stack *stack)
{
    return logit_bytes(plan->precision, stack);
}

/* --- struct piece_question ----------------------------------------------------------------- */

struct piece_question piece_question_of(const struct system *system, const struct plan *plan,
                                        const struct generator *generator)
{
    return (struct piece_question){
        .share = rank_share_of(plan),
        .attention = (int)plan_attention_kernel(plan, system),
        .precision = plan->precision,
        .gradient_dtype = plan->gradient_dtype,
        .overlaps_tensor = plan_overlaps(plan, &system->stack, OVERLAP_TP),
        .shared_beside = plan_overlaps(plan, &system->stack, OVERLAP_SHARED),
        .replays = (int)plan_replays(plan),
        .splits = generator_splits(generator),
        .matrices_apart = plan_matrices_apart(plan),
    };
}

static struct piece_question question_of(const struct system *system, const struct plan *plan)
{
    return piece_question_of(system, plan, generator_find(plan_schedule(plan)));
}

struct piece_places piece_places_of(const struct plan *plan)
{
    struct piece_places places = { .num_ranks = plan_ranks(plan) };
    for (int axis = 0; axis < num_axes; axis++) {
        struct members groups[MAX_AXIS_GROUPS];
        for (int i = axis_groups(plan, axis, groups) - 1; i >= 0; i--)
            places.stride[axis][i] = groups[i].size > 1 ? groups[i].stride : 0;
    }
    return places;
}

struct piece_wires piece_wires_of(const struct system *system, const struct plan *plan)
{
    struct piece_wires wires = { 0 };
    int num_ranks = plan_ranks(plan);
    for (int axis = 0; axis < num_axes; axis++) {
        struct members groups[MAX_AXIS_GROUPS];
        int count = axis_groups(plan, axis, groups);
        for (int i = 0; i < MAX_AXIS_GROUPS; i++) {
            wires.group[axis][i].num_ranks = 1;
            if (i >= count || groups[i].size == 1)
                continue;
            struct rank_group group = group_along(groups[i], num_ranks);
            wires.group[axis][i] = network_group(system, &group);
            if (i == 0 && axes[axis]->sends_messages)
                wires.pair[axis] = network_pair(system, &group, network_crosses(system, &group));
        }
    }
    return wires;
}

bool piece_wires_are_alike(const struct piece_wires *a, const struct piece_wires *b)
{
    for (int axis = 0; axis < num_axes; axis++) {
        for (int i = 0; i < MAX_AXIS_GROUPS; i++)
            if (!comm_groups_are_alike(&a->group[axis][i], &b->group[axis][i]))
                return false;
        if (axes[axis]->sends_messages && !comm_groups_are_alike(&a->pair[axis], &b->pair[axis]))
            return false;
    }
    return true;
}

static struct layer_options options_of(const struct piece_question *question,
                                       const struct system *system)
{
    int precision = question->precision;
    const struct dispatcher *dispatcher = &dispatchers[system->stack.dispatcher];
    const struct recipe *recipe = precision_recipe(precision);
    return (struct layer_options){
        .flash_attention = question->attention != ATTENTION_UNFUSED,
        .fusions = system->stack.fusions,
        .unfused = &system->stack.unfused,
        .keeps_gathered = system->stack.keeps_gathered,
        .sends_tokens = question->share.ep > 1 && dispatcher->sends_tokens,
        .sorts_in_flight = question->share.ep > 1 && dispatcher->sorts,
        .sums_rows_in_dtype = system->stack.sums_rows_in_dtype,
        .launches_each_expert = system->stack.launches_each_expert,
        .shared_beside = question->share.ep > 1 && question->shared_beside,
        .sends_quantized = question->share.ep > 1 && system->stack.sends_quantized,
        .pads_rows = system->stack.pads_rows,
        .leaves_vocab_odd = system->stack.leaves_vocab_odd,
        .logits_rows = logits_rows(question->splits, &system->stack),
        .dtype = precision_value_dtype(precision),
        .recipe = recipe,
        .stores = stack_stores(&system->stack),
        .copies = recipe ? quantized_copies(&system->gpu, recipe) : 0,
        .gradient_bytes = dtype_bytes((enum dtype)question->gradient_dtype),
    };
}

struct layer_options plan_layer_options(const struct plan *plan, const struct system *system)
{
    struct piece_question question = question_of(system, plan);
    return options_of(&question, system);
}

/* --- struct pieces ------------------------------------------------------------------------- */

static struct timer timer_of(const struct system *system, const struct piece_question *question,
                             const struct piece_wires *wires)
{
    return (struct timer){ .system = system,
                           .question = question,
                           .wires = wires,
                           .recipe = precision_recipe(question->precision) };
}

/* Bytes of the logits of the largest row block, of the whole gradient to which the blocks write
 * their rows, and under sequence parallelism of the gathered input that they read. */
static double logits_block_bytes(const struct piece_question *question,
                                 const struct layer_dims *dims, const struct layer_options *options,
                                 const struct stack *stack)
{
    double row_blocks = head_row_blocks(dims, options);
    if (row_blocks == 0)
        return 0;
    double whole_bytes = dims->tokens * dims->hidden * dtype_bytes(options->dtype);
    return ceil(dims->tokens / row_blocks) * dims->vocab * logit_bytes(question->precision, stack) +
           (question->share.sp && question->share.tp > 1 ? 2 : 1) * whole_bytes;
}

/* The model with the expert load of the busiest rank over all layers; this rank has the memory
 * peak. */
static struct model model_of_peak(struct rank_share share, const struct model *model)
{
    struct model peak = *model;
    struct layer_dims dims = local_dims(share, model, model->seq);
    struct routed routed = expert_routed(share, model, dims.norm_tokens);
    double factor = routing_peak_factor(&model->routing, &routed, model->layers);
    peak.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = factor };
    return peak;
}

/* The memory of one piece with the times of another. */
static struct piece_cost with_times(struct piece_cost cost, const struct piece_cost *times)
{
    cost.forward = times->forward;
    cost.backward = times->backward;
    cost.weight = times->weight;
    cost.replay = times->replay;
    return cost;
}

/* A function that makes the op lists of a piece that is a block or contains one. */
typedef struct local_ops block_lists(struct rank_share share, const struct model *model, double seq,
                                     const struct layer_options *options, bool overlap_tp,
                                     struct arena *arena);

/* The cost of a block of a model with one kind of blocks. */
static struct piece_cost even_block_cost(const struct timer *timer, block_lists *lists,
                                         const struct model *model,
                                         const struct layer_options *options, bool overlap,
                                         double input_bytes, struct arena *arena)
{
    struct rank_share share = timer->question->share;
    struct local_ops layer = lists(share, model, model->seq, options, overlap, arena);
    struct weights weights = weights_of(&layer.forward, share, 0, arena);
    struct piece_cost cost = piece_cost(timer, layer, (double)weights.elements, input_bytes, arena);
    add_tensors(&cost, &weights, true, expert_tensors(timer->system, share, model));
    if (timer->question->matrices_apart)
        cost.matrices = list_matrices(timer->system, &layer.forward, options->dtype);
    return cost;
}

/* The cost of a block if experts may be loaded unequally; its memory is that of the busiest
 * rank. */
static struct piece_cost block_cost(const struct timer *timer, block_lists *lists,
                                    const struct model *model, const struct layer_options *options,
                                    bool overlap, double input_bytes, struct arena *arena)
{
    struct piece_cost cost =
        even_block_cost(timer, lists, model, options, overlap, input_bytes, arena);
    struct rank_share share = timer->question->share;
    if (model->experts == 0 || model->routing.kind == ROUTING_BALANCED || share.capacity > 0)
        return cost;
    struct model peak = model_of_peak(share, model);
    struct piece_cost fullest =
        even_block_cost(timer, lists, &peak, options, overlap, input_bytes, arena);
    return with_times(fullest, &cost);
}

/* The cost of embedding or head of a module that predicts a later token. They use the model's
 * tables. */
static struct piece_cost later_end(const struct piece_cost *of)
{
    return (struct piece_cost){ .forward = of->forward,
                                .backward = of->backward,
                                .weight = of->weight,
                                .saved_bytes = of->saved_bytes,
                                .waiting_bytes = of->waiting_bytes,
                                .input_bytes = of->input_bytes };
}

/* The stage of modules apart from the head holds a copy of the embedding's table, of which each
 * module counts an equal part. */
static struct piece_cost later_embedding(const struct pieces *pieces, const struct model *model,
                                         const struct weights *of_embedding, bool has_table)
{
    struct piece_cost cost = later_end(&pieces->at[PIECE_EMBEDDING]);
    double part = 1.0 / model->mtp;
    if (!has_table)
        return cost;
    cost.parameters = part * pieces->logits / pieces->tokens * model->hidden;
    cost.trained.all = model_trains_table(model) ? cost.parameters : 0;
    for (int i = 0; i < of_embedding->count; i++)
        if (of_embedding->at[i].of->is_vocabulary && !of_embedding->at[i].of->is_frozen) {
            const struct weight *table = &of_embedding->at[i];
            cost.tensors[cost.num_tensors++] =
                (struct exchange_tensor){ (double)table->rows, (double)table->columns, part };
            cost.host_tensors += part;
        }
    return cost;
}

/* A module's head has a norm of its own. */
static struct piece_cost later_head(const struct pieces *pieces, const struct weights *of_head)
{
    const struct piece_cost *head = &pieces->at[PIECE_HEAD];
    struct piece_cost cost = later_end(head);
    cost.parameters = (double)of_head->elements;
    cost.trained.all = fmin(cost.parameters, head->trained.all);
    add_tensors(&cost, of_head, false, 0);
    return cost;
}

struct pieces pieces_answer(const struct system *system, const struct model *model,
                            const struct piece_question *question, const struct piece_wires *wires,
                            struct arena *arena)
{
    struct rank_share share = question->share;
    struct timer timer = timer_of(system, question, wires);
    struct layer_options options = options_of(question, system);
    bool overlap = question->overlaps_tensor && system->stack.host.launches_ahead;
    struct arena_mark mark = arena_mark(arena);
    struct layer_dims dims = local_dims(share, model, model->seq);
    double element_bytes = dtype_bytes(options.dtype);
    double input_bytes = dims.norm_tokens * dims.hidden * element_bytes;
    struct local_ops embedding =
        local_embedding(share, model, model->seq, &options, overlap, arena);
    struct local_ops head = local_head(share, model, model->seq, &options, overlap, arena);
    struct pieces pieces = {
        .num_kinds = model_num_kinds(model),
        .tokens = dims.tokens,
        .logits = dims.tokens * dims.vocab,
        .logits_block_bytes = logits_block_bytes(question, &dims, &options, &system->stack),
    };
    pieces.at[PIECE_EMBEDDING] =
        piece_cost(&timer, embedding, local_embedding_parameters(share, model), 0, arena);
    pieces.at[PIECE_HEAD] =
        piece_cost(&timer, head, local_head_parameters(share, model), input_bytes, arena);
    for (int kind = 0; kind < pieces.num_kinds; kind++) {
        struct model of = model_of_kind(model, kind);
        struct layer_dims widths = local_dims(share, &of, of.seq);
        pieces.context_buffer_bytes =
            fmax(pieces.context_buffer_bytes, context_buffer_bytes(share, &widths, element_bytes));
        pieces.at[kind] =
            block_cost(&timer, local_layer, &of, &options, overlap, input_bytes, arena);
    }
    struct weights of_embedding = weights_of(&embedding.forward, share, 0, arena);
    struct weights of_head = weights_of(&head.forward, share, 0, arena);
    add_tensors(&pieces.at[PIECE_EMBEDDING], &of_embedding, true, 0);
    add_tensors(&pieces.at[PIECE_HEAD], &of_head, !model->tied || !share.ends_meet, 0);
    if (model->mtp > 0) {
        struct model of = model_of_later(model);
        pieces.at[PIECE_LATER] =
            block_cost(&timer, local_later, &of, &options, overlap, input_bytes, arena);
        pieces.at[PIECE_LATER_EMBEDDING] =
            later_embedding(&pieces, model, &of_embedding, share.mtp_apart);
        pieces.at[PIECE_LATER_HEAD] = later_head(&pieces, &of_head);
    }
    arena_reset(arena, mark);
    return pieces;
}

struct pieces pieces_cost(const struct system *system, const struct model *model,
                          const struct plan *plan, struct arena *arena)
{
    struct piece_question question = question_of(system, plan);
    struct piece_wires wires = piece_wires_of(system, plan);
    return pieces_answer(system, model, &question, &wires, arena);
}

struct piece_cost lists_cost(const struct system *system, const struct plan *plan,
                             struct local_ops lists, double input_bytes, struct arena *arena)
{
    struct piece_question question = question_of(system, plan);
    struct piece_wires wires = piece_wires_of(system, plan);
    struct timer timer = timer_of(system, &question, &wires);
    struct weights weights = weights_of(&lists.forward, question.share, 0, arena);
    double parameters = (double)(weights.elements + weights.vocabulary_elements);
    struct piece_cost cost = piece_cost(&timer, lists, parameters, input_bytes, arena);
    add_tensors(&cost, &weights, true, 1);
    return cost;
}

/* --- by kind ------------------------------------------------------------------------------- */

static void add_ops(struct kind_totals *totals, const struct timer *timer, struct ops ops,
                    double times)
{
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        totals->count[op->kind] += times * num_row_blocks(op);
        totals->seconds[op->kind] += times * time_alone_s(timer, op);
    }
}

static void add_both(struct kind_totals *totals, const struct timer *timer, struct local_ops local,
                     double times)
{
    add_ops(totals, timer, local.forward, times);
    add_ops(totals, timer, local.backward, times);
}

struct kind_totals plan_kind_totals(const struct system *system, const struct model *model,
                                    const struct plan *plan)
{
    struct kind_totals totals = { 0 };
    struct arena arena = { 0 };
    struct piece_question question = question_of(system, plan);
    struct piece_wires wires = piece_wires_of(system, plan);
    struct rank_share share = question.share;
    struct timer timer = timer_of(system, &question, &wires);
    struct layer_options options = options_of(&question, system);
    bool overlap = question.overlaps_tensor;
    double seq = model->seq;
    double times = (double)plan_microbatches(plan, model->batch) * plan_stage_ranks(plan);
    struct holding held = model_holding(plan, model);
    struct local_ops layers[MAX_BLOCK_KINDS];
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        layers[kind] = local_layer(share, &of, seq, &options, overlap, &arena);
        add_both(&totals, &timer, layers[kind], times * held.count[kind]);
    }
    double ends = times * (1 + model->mtp);
    add_both(&totals, &timer, local_embedding(share, model, seq, &options, overlap, &arena), ends);
    add_both(&totals, &timer, local_head(share, model, seq, &options, overlap, &arena), ends);
    if (model->mtp > 0)
        add_both(&totals, &timer, local_later(share, model, seq, &options, overlap, &arena),
                 times * model->mtp);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        bool is_selective = plan->recompute == RECOMPUTE_SELECTIVE;
        int replayed = is_selective ? held.count[kind] : held.recomputed[kind];
        struct ops forward = layers[kind].forward;
        if (is_selective)
            forward = ops_replay(&forward, plan_replays(plan),
                                 stack_runtime(&system->stack)->runs_in_place, &arena)
                          .ops;
        add_ops(&totals, &timer, forward, times * replayed);
    }
    arena_release(&arena);
    return totals;
}
