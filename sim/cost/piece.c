/* The costs of a piece (a layer, the embedding or the head) on one rank, from its op lists
 * (sequences of operations). */
#include "sim/cost/piece.h"

#include "models/blocks.h"
#include "models/trainable.h"
#include "sim/collective/generation.h"
#include "sim/cost/compute.h"
#include "sim/cost/group_links.h"
#include "sim/cost/runtime.h"
#include "sim/cost/straggler.h"
#include "sim/plan/context_axis.h"
#include "sim/plan/layout.h"
#include "sim/plan/ranks.h"
#include "sim/plan/weights.h"
#include "sim/schedule/schedule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
 * of the number of arriving rows, unless experts are padded to their capacity. The router's weights
 * of the rows are sent in a message of their own, without operands in the list; by then the host
 * knows the number. */
static double expert_rows_s(const struct timer *timer, const struct op *op)
{
    double row_bytes = op->n * dtype_bytes(op->dtype);
    struct dispatch dispatch = {
        .row_bytes = row_bytes,
        .rows = op->comm_bytes / row_bytes,
        .choice = op->choice,
        .is_combine = op->is_combine,
        .waits = !op->is_combine && op->pass == PASS_FORWARD && op->in.count > 0 &&
                 timer->question->share.capacity == 0,
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

/* Factor on a product's rate by the stack's libraries and by the recipe. */
static double product_efficiency(const struct system *system, const struct recipe *recipe,
                                 const struct op *op)
{
    double efficiency = system->stack.product_efficiency;
    if (op->region == REGION_EXPERTS)
        efficiency *= system->stack.expert_efficiency;
    if (!dtype_is_quantized(op->dtype))
        return efficiency;
    bool is_weight = op->pass == PASS_BACKWARD_WEIGHT;
    return efficiency * recipe->product_efficiency *
           (is_weight ? recipe->weight_efficiency : system->stack.quantized_efficiency);
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
    return alone_s / product_efficiency(system, timer->recipe, op);
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

/* A list's ops with the times that they take when each runs alone. */
static struct timed_op *timed_ops(const struct timer *timer, const struct ops *ops,
                                  struct arena *arena)
{
    struct timed_op *timed = ARENA_ARRAY(arena, struct timed_op, (size_t)ops->count + 1);
    for (int i = 0; i < ops->count; i++) {
        const struct op *op = &ops->at[i];
        timed[i] = (struct timed_op){
            .alone_s = time_alone_s(timer, op),
            .kernels = op->kernels,
            .flops = op->flops,
            .stream = op->stream,
            .after = op->after,
            .num_ranks = op_is_collective(op->kind) ? group_of(timer, op)->num_ranks : 0,
            .kind = op->kind,
            .pass = op->pass,
            .in = op->in,
            .made = (short)(op->out.count > 0 ? op->out.at[0] : NO_ID),
            .region = op->region,
            .source_region = op->source_region,
        };
        memcpy(timed[i].sum, op->sum, sizeof op->sum);
    }
    return timed;
}

/* Transformer Engine's user buffers need sequence parallelism, a tensor group within one NVLink
 * domain, and one hardware queue, so that copies start before products fill the multiprocessors. */
static bool uses_user_buffers(const struct system *system, const struct piece_question *question)
{
    return system->stack.user_buffers && system->stack.host.launches_ahead &&
           generations[system->gpu.arch].shares_queue && question->overlaps_tensor &&
           question->share.sp && question->share.tp <= cluster_node_size(&system->cluster);
}

static struct list_timer list_timer_of(const struct system *system,
                                       const struct piece_question *question)
{
    return (struct list_timer){
        .profile = &system->profile,
        .num_sms = system->gpu.num_sms,
        .buffer_ranks = uses_user_buffers(system, question) ? question->share.tp : 0,
    };
}

static struct list_cost list_cost(const struct timer *timer, struct ops ops, struct arena *arena)
{
    struct list_timer list = list_timer_of(timer->system, timer->question);
    return timed_list_cost(&list, timed_ops(timer, &ops, arena), ops.count);
}

static bool is_input_half(const struct op *op)
{
    return op->pass == PASS_BACKWARD_INPUT;
}

static bool is_weight_half(const struct op *op)
{
    return op->pass == PASS_BACKWARD_WEIGHT;
}

/* Some of a list's ops as a separate list. Each op waits for its original `after` or, if that was
 * removed, for the last op of the new list that stood before the removed one. Ops that overlapped
 * removed ops now overlap nothing. */
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
    return fmax(dtype_bytes(op->dtype), 2); /* quantised products write gradients in 16 bits */
}

/* Bytes of a weight gradient's second operand: the gradient of its op's output. A quantised product
 * reads a quantised gradient. */
static double output_gradient_bytes(const struct timer *timer, const struct op *weight_gradient)
{
    const struct op *op = weight_gradient;
    if (op->kind == OP_GEMM)
        return op->batch * op->k * op->m *
               (dtype_is_quantized(op->dtype) ? quantized_bytes(timer->recipe) : element_bytes(op));
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

/* Gradients and re-gathered inputs are counted from the op that computes them to the last op that
 * reads them; kept values that no later op reads are subtracted. */
static void list_moments(const struct timer *timer, const struct local_ops *local,
                         struct replay_source *out, struct arena *arena)
{
    const struct ops *backward = &local->backward;
    const struct op_value *values = local->forward.operands->values;
    struct moment *moments = ARENA_ARRAY(arena, struct moment, (size_t)backward->count + 1);
    struct lives lives;
    begin_lives(&lives, local);
    out->input_bytes = backward->input == NO_ID ? 0 : lives.bytes[backward->input];
    for (int i = 0; i < backward->count; i++) {
        const struct op *op = &backward->at[i];
        moments[i].made_bytes = made_bytes(&lives, values, op);
        moments[i].gradient_bytes = matrix_gradient_bytes(timer, op);
        moments[i].gone_bytes = gone_bytes(&lives, op, i);
        moments[i].region = op->region;
        moments[i].is_collective = op_is_collective(op->kind);
    }
    out->moments = moments;
    out->num_moments = backward->count;
}

static struct replay_source replay_source_of(const struct timer *timer,
                                             const struct local_ops *local, struct arena *arena)
{
    struct replay_source source = {
        .forward = timed_ops(timer, &local->forward, arena),
        .num_forward = local->forward.count,
        .has_backward = local->backward.count > 0,
        .ledger = ops_ledger(&local->forward, arena),
    };
    source.again = source.forward;
    source.num_again = source.num_forward;
    if (!timer->system->stack.recomputes_unread) {
        struct ops again = ops_read_again(&local->forward, arena);
        source.again = timed_ops(timer, &again, arena);
        source.num_again = again.count;
    }
    list_moments(timer, local, &source, arena);
    return source;
}

/* The per-op policy repeats single ops instead of modules, so it needs an op list of its own. */
static struct replay_cost per_op_cost(const struct timer *timer, const struct local_ops *local,
                                      const struct replay_source *source, struct arena *arena)
{
    bool in_place = stack_runtime(&timer->system->stack)->runs_in_place;
    struct replay replay = ops_replay(&local->forward, REPLAYS_PER_OP, in_place, arena);
    struct replay_cost cost = { .freed_bytes = replay.freed_bytes,
                                .moment_bytes = most_moment_bytes(source, replay.freed_of) };
    if (source->has_backward)
        cost.list = list_cost(timer, replay.ops, arena);
    return cost;
}

static struct piece_cost with_replay(struct piece_cost cost, const struct replay_cost *replay)
{
    cost.replay = replay->list;
    cost.replayed_bytes = replay->freed_bytes;
    cost.replayed_moment_bytes = replay->moment_bytes;
    return cost;
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

/* Sets a piece's tensors. The host handles the experts' weights as `of_experts` tensors. Rows of a
 * tied vocabulary belong to the embedding, and also to the head if it holds a copy. */
static void set_tensors(struct piece_cost *cost, const struct weights *weights, bool has_vocabulary,
                        double of_experts, struct arena *arena)
{
    struct exchange_tensor *tensors =
        ARENA_ARRAY(arena, struct exchange_tensor, (size_t)weights->count + 1);
    assert(weights->count <= MAX_PIECE_TENSORS);
    for (int i = 0; i < weights->count; i++) {
        const struct weight *weight = &weights->at[i];
        if (weight->of->is_frozen || (weight->of->is_vocabulary && !has_vocabulary))
            continue;
        cost->host_tensors += weight->of->is_of_experts ? of_experts : 1;
        tensors[cost->num_tensors++] =
            (struct exchange_tensor){ (double)weight->rows, (double)weight->columns, 1 };
    }
    cost->tensors = tensors;
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
    struct list_timer list = list_timer_of(timer->system, timer->question);
    unsigned replays = (unsigned)timer->question->replays;
    struct replay_source source = replay_source_of(timer, &local, arena);
    struct replay_cost replay = replays == REPLAYS_PER_OP
                                    ? per_op_cost(timer, &local, &source, arena)
                                    : replay_cost_of(&list, &source, replays);
    struct piece_cost cost = {
        .forward = timed_list_cost(&list, source.forward, source.num_forward),
        .parameters = parameters,
        .of_experts = expert_parameters(local.forward.operands),
        .trained = trained_parameters(local.forward.operands, parameters),
        .input_bytes = input_bytes,
        .waiting_bytes = waiting_bytes(timer, &local),
        .moment_bytes = most_moment_bytes(&source, (double[NUM_OP_REGIONS]){ 0 }),
    };
    cost.again = timer->system->stack.recomputes_unread
                     ? cost.forward
                     : timed_list_cost(&list, source.again, source.num_again);
    if (timer->question->splits) {
        cost.backward = list_cost(timer, some_of(local.backward, is_input_half, arena), arena);
        cost.weight = list_cost(timer, some_of(local.backward, is_weight_half, arena), arena);
    } else {
        cost.backward = list_cost(timer, local.backward, arena);
    }
    for (int i = 0; i < local.forward.count; i++) {
        const struct op *op = &local.forward.at[i];
        cost.saved_bytes += op_saved_bytes(&local.forward, op);
        cost.working_bytes = fmax(cost.working_bytes, working_bytes(&local.forward, op));
    }
    return with_replay(cost, &replay);
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

static int layer_copies(const struct system *system, const struct recipe *recipe)
{
    if (!recipe || system->stack.transposes_apart)
        return recipe ? 1 : 0;
    return quantized_copies(&system->gpu, recipe);
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
        .norm_reads_twice = system->stack.norm_reads_twice,
        .pads_rows = system->stack.pads_rows,
        .norms_in_products = system->stack.norms_in_products,
        .leaves_vocab_odd = system->stack.leaves_vocab_odd,
        .logits_rows = logits_rows(question->splits, &system->stack),
        .dtype = precision_value_dtype(precision),
        .recipe = recipe,
        .stores = stack_stores(&system->stack),
        .copies = layer_copies(system, recipe),
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

/* Bytes held while logits are computed in row blocks: the logits of the largest block, the whole
 * gradient into which the blocks write their rows and, under sequence parallelism, the gathered
 * input that they read. */
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

/* The model in which the experts of a rank have the largest load that any rank has in any layer.
 * That rank has the memory peak. */
static struct model model_of_peak(struct rank_share share, const struct model *model)
{
    struct model peak = *model;
    struct layer_dims dims = local_dims(share, model, model->seq);
    struct routed routed = expert_routed(share, model, dims.norm_tokens);
    double factor = routing_peak_factor(&model->routing, &routed, model->layers);
    peak.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = factor };
    return peak;
}

/* A piece with the memory of `cost` and the times of `times`. */
static struct piece_cost with_times(struct piece_cost cost, const struct piece_cost *times)
{
    cost.forward = times->forward;
    cost.backward = times->backward;
    cost.weight = times->weight;
    cost.again = times->again;
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
    set_tensors(&cost, &weights, true, expert_tensors(timer->system, share, model), arena);
    if (timer->question->matrices_apart)
        cost.matrices = list_matrices(timer->system, &layer.forward, options->dtype);
    return cost;
}

/* Whether the busiest expert rank has more rows than the mean, so that its memory differs. */
static bool has_busiest_rank(const struct rank_share *share, const struct model *model)
{
    return model->experts > 0 && !routing_is_even(&model->routing) && share->capacity == 0;
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
    if (!has_busiest_rank(&share, model))
        return cost;
    struct model peak = model_of_peak(share, model);
    struct piece_cost fullest =
        even_block_cost(timer, lists, &peak, options, overlap, input_bytes, arena);
    return with_times(fullest, &cost);
}

static struct replay_source even_block_source(const struct timer *timer, block_lists *lists,
                                              const struct model *model,
                                              const struct layer_options *options, bool overlap,
                                              struct arena *arena)
{
    struct local_ops layer =
        lists(timer->question->share, model, model->seq, options, overlap, arena);
    return replay_source_of(timer, &layer, arena);
}

static struct replay_source block_source(const struct timer *timer, block_lists *lists,
                                         const struct model *model,
                                         const struct layer_options *options, bool overlap,
                                         struct arena *arena)
{
    struct replay_source source = even_block_source(timer, lists, model, options, overlap, arena);
    struct rank_share share = timer->question->share;
    if (!has_busiest_rank(&share, model))
        return source;
    struct model peak = model_of_peak(share, model);
    struct replay_source fullest = even_block_source(timer, lists, &peak, options, overlap, arena);
    fullest.forward = source.forward;
    fullest.num_forward = source.num_forward;
    fullest.again = source.again;
    fullest.num_again = source.num_again;
    return fullest;
}

/* The cost of the embedding or the head of a module that predicts a later token (multi-token
 * prediction). Both use the model's own tables. */
static struct piece_cost later_end(const struct piece_cost *of)
{
    return (struct piece_cost){ .forward = of->forward,
                                .backward = of->backward,
                                .weight = of->weight,
                                .saved_bytes = of->saved_bytes,
                                .waiting_bytes = of->waiting_bytes,
                                .input_bytes = of->input_bytes };
}

/* The inputs from which one rank's pieces are built. */
struct builder {
    struct timer timer;
    const struct model *model;
    struct layer_options options;
    bool overlap;
    double input_bytes; /* bytes of the input of a block or of the head */
    struct arena *arena;
};

static struct builder builder_of(const struct system *system, const struct model *model,
                                 const struct piece_question *question,
                                 const struct piece_wires *wires, struct arena *arena)
{
    struct builder builder = {
        .timer = timer_of(system, question, wires),
        .model = model,
        .options = options_of(question, system),
        .overlap = question->overlaps_tensor && system->stack.host.launches_ahead,
        .arena = arena,
    };
    struct layer_dims dims = local_dims(question->share, model, model->seq);
    builder.input_bytes = dims.norm_tokens * dims.hidden * dtype_bytes(builder.options.dtype);
    return builder;
}

/* The embedding or the head, with its op lists and its weights. */
struct end {
    struct piece_cost cost;
    struct weights weights;
};

static struct end build_embedding(const struct builder *b)
{
    struct rank_share share = b->timer.question->share;
    struct local_ops lists =
        local_embedding(share, b->model, b->model->seq, &b->options, b->overlap, b->arena);
    struct end end = { piece_cost(&b->timer, lists, local_embedding_parameters(share, b->model), 0,
                                  b->arena),
                       weights_of(&lists.forward, share, 0, b->arena) };
    set_tensors(&end.cost, &end.weights, true, 0, b->arena);
    return end;
}

static struct end build_head(const struct builder *b)
{
    struct rank_share share = b->timer.question->share;
    struct local_ops lists =
        local_head(share, b->model, b->model->seq, &b->options, b->overlap, b->arena);
    struct end end = { piece_cost(&b->timer, lists, local_head_parameters(share, b->model),
                                  b->input_bytes, b->arena),
                       weights_of(&lists.forward, share, 0, b->arena) };
    set_tensors(&end.cost, &end.weights, !b->model->tied || !share.ends_meet, 0, b->arena);
    return end;
}

/* If the modules for later tokens are not on the head's stage, their stage holds a copy of the
 * embedding's table; each module counts an equal part of this copy. */
static struct piece_cost later_embedding(const struct builder *b)
{
    const struct model *model = b->model;
    struct rank_share share = b->timer.question->share;
    struct end embedding = build_embedding(b);
    struct piece_cost cost = later_end(&embedding.cost);
    double part = 1.0 / model->mtp;
    if (!share.mtp_apart)
        return cost;
    struct layer_dims dims = local_dims(share, model, model->seq);
    struct exchange_tensor *tensors =
        ARENA_ARRAY(b->arena, struct exchange_tensor, (size_t)embedding.weights.count + 1);
    cost.tensors = tensors;
    cost.parameters = part * (dims.tokens * dims.vocab) / dims.tokens * model->hidden;
    cost.trained.all = model_trains_table(model) ? cost.parameters : 0;
    for (int i = 0; i < embedding.weights.count; i++) {
        const struct weight *table = &embedding.weights.at[i];
        if (table->of->is_vocabulary && !table->of->is_frozen) {
            tensors[cost.num_tensors++] =
                (struct exchange_tensor){ (double)table->rows, (double)table->columns, part };
            cost.host_tensors += part;
        }
    }
    return cost;
}

/* The head of a module for later tokens has its own norm. */
static struct piece_cost later_head(const struct builder *b)
{
    struct end head = build_head(b);
    struct piece_cost cost = later_end(&head.cost);
    cost.parameters = (double)head.weights.elements;
    cost.trained.all = fmin(cost.parameters, head.cost.trained.all);
    set_tensors(&cost, &head.weights, false, 0, b->arena);
    return cost;
}

bool piece_is_there(const struct model *model, int piece)
{
    if (piece_is_layer(piece))
        return piece < model_num_kinds(model);
    return model->mtp > 0 || piece == PIECE_EMBEDDING || piece == PIECE_HEAD;
}

/* The model whose blocks are all like the piece. */
static struct model model_of_piece(const struct model *model, int piece)
{
    return piece_is_layer(piece) ? model_of_kind(model, piece) : model_of_later(model);
}

static struct piece_cost build_piece(const struct builder *b, int piece)
{
    struct model of;
    switch (piece) {
    case PIECE_EMBEDDING:
        return build_embedding(b).cost;
    case PIECE_HEAD:
        return build_head(b).cost;
    case PIECE_LATER_EMBEDDING:
        return later_embedding(b);
    case PIECE_LATER_HEAD:
        return later_head(b);
    default:
        of = model_of_piece(b->model, piece);
        return block_cost(&b->timer, piece == PIECE_LATER ? local_later : local_layer, &of,
                          &b->options, b->overlap, b->input_bytes, b->arena);
    }
}

struct piece_cost piece_answer(const struct system *system, const struct model *model,
                               const struct piece_question *question,
                               const struct piece_wires *wires, int piece, struct arena *arena)
{
    struct arena_mark mark = arena_mark(arena);
    struct builder builder = builder_of(system, model, question, wires, arena);
    struct piece_cost cost = build_piece(&builder, piece);
    struct exchange_tensor tensors[MAX_PIECE_TENSORS];
    size_t bytes = (size_t)cost.num_tensors * sizeof *tensors;
    if (bytes > 0)
        memcpy(tensors, cost.tensors, bytes);
    arena_reset(arena, mark); /* frees everything except the tensors */
    cost.tensors = bytes > 0 ? memcpy(arena_alloc(arena, bytes), tensors, bytes) : NULL;
    return cost;
}

struct piece_question piece_question_narrowed(const struct piece_question *question,
                                              const struct model *model, int piece)
{
    struct piece_question narrow = *question;
    bool is_block = piece_is_layer(piece) || piece == PIECE_LATER;
    if (is_block) /* blocks have no vocabulary */
        narrow.share.ends_meet = narrow.share.mtp_apart = 0;
    if (is_block && model_of_piece(model, piece).experts > 0)
        return narrow;
    narrow.share.ep = narrow.share.etp = 1;
    narrow.share.capacity = narrow.shared_beside = 0;
    return narrow;
}

struct piece_wires piece_wires_narrowed(const struct piece_wires *wires,
                                        const struct piece_question *narrow)
{
    struct piece_wires of = *wires;
    for (int i = 0; i < MAX_AXIS_GROUPS && narrow->share.ep * narrow->share.etp == 1; i++)
        of.group[AXIS_EXPERT][i] = (struct comm_group){ .num_ranks = 1 };
    return of;
}

struct pieces pieces_join(const struct system *system, const struct model *model,
                          const struct piece_question *question,
                          const struct piece_cost costs[NUM_PIECES])
{
    struct rank_share share = question->share;
    struct layer_options options = options_of(question, system);
    struct layer_dims dims = local_dims(share, model, model->seq);
    double element_bytes = dtype_bytes(options.dtype);
    struct pieces pieces = {
        .num_kinds = model_num_kinds(model),
        .tokens = dims.tokens,
        .logits = dims.tokens * dims.vocab,
        .logits_block_bytes = logits_block_bytes(question, &dims, &options, &system->stack),
    };
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (piece_is_there(model, piece))
            pieces.at[piece] = costs[piece];
    for (int kind = 0; kind < pieces.num_kinds; kind++) {
        struct model of = model_of_kind(model, kind);
        struct layer_dims widths = local_dims(share, &of, of.seq);
        pieces.context_buffer_bytes =
            fmax(pieces.context_buffer_bytes, context_buffer_bytes(share, &widths, element_bytes));
    }
    return pieces;
}

struct pieces pieces_answer(const struct system *system, const struct model *model,
                            const struct piece_question *question, const struct piece_wires *wires,
                            struct arena *arena)
{
    struct piece_cost costs[NUM_PIECES];
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (piece_is_there(model, piece))
            costs[piece] = piece_answer(system, model, question, wires, piece, arena);
    return pieces_join(system, model, question, costs);
}

/* Copies to the arena the arrays of a source that replay_cost_of reads. */
static struct replay_source keep_source(const struct replay_source *from, struct arena *arena)
{
    struct replay_source source = *from;
    size_t again_bytes = (size_t)from->num_again * sizeof *from->again;
    size_t moments_bytes = (size_t)from->num_moments * sizeof *from->moments;
    source.forward = NULL;
    source.num_forward = 0;
    source.again = memcpy(arena_alloc(arena, again_bytes), from->again, again_bytes);
    source.moments = memcpy(arena_alloc(arena, moments_bytes), from->moments, moments_bytes);
    source.ledger = ledger_copy(&from->ledger, arena);
    return source;
}

const struct pieces_sources *pieces_sources_of(const struct system *system,
                                               const struct model *model,
                                               const struct piece_question *question,
                                               const struct piece_wires *wires, struct arena *arena)
{
    struct timer timer = timer_of(system, question, wires);
    struct layer_options options = options_of(question, system);
    bool overlap = question->overlaps_tensor && system->stack.host.launches_ahead;
    struct arena scratch = { 0 };
    struct pieces_sources *sources = ARENA_NEW(arena, struct pieces_sources);
    sources->list = list_timer_of(system, question);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        struct replay_source source =
            block_source(&timer, local_layer, &of, &options, overlap, &scratch);
        sources->at[kind] = keep_source(&source, arena);
        sources->is_there[kind] = true;
    }
    if (model->mtp > 0) {
        struct model of = model_of_later(model);
        struct replay_source source =
            block_source(&timer, local_later, &of, &options, overlap, &scratch);
        sources->at[PIECE_LATER] = keep_source(&source, arena);
        sources->is_there[PIECE_LATER] = true;
    }
    arena_release(&scratch);
    return sources;
}

struct pieces pieces_replaying(const struct model *model, const struct pieces *pieces,
                               const struct pieces_sources *sources, unsigned replays)
{
    unsigned possible = plan_possible_replays(model);
    struct pieces of = *pieces;
    for (int piece = 0; piece < NUM_PIECES; piece++) {
        if (!sources->is_there[piece])
            continue;
        const struct replay_source *source = &sources->at[piece];
        struct replay_cost cost = replays == REPLAYS_LEANEST
                                      ? least_replay_cost(source, possible)
                                      : replay_cost_of(&sources->list, source, replays);
        of.at[piece] = with_replay(of.at[piece], &cost);
    }
    return of;
}

const struct pieces_sets *pieces_sets_of(const struct model *model,
                                         const struct pieces_sources *sources, struct arena *arena)
{
    unsigned possible = plan_possible_replays(model);
    struct pieces_sets *sets = ARENA_NEW(arena, struct pieces_sets);
    replays_list(possible, &sets->all);
    for (int piece = 0; piece < NUM_PIECES; piece++) {
        const struct replay_source *source = &sources->at[piece];
        if (!sources->is_there[piece])
            continue;
        struct set_bytes *of = ARENA_ARRAY(arena, struct set_bytes, possible + 1);
        sets->of[piece] = of;
        for (int i = 0; i < sets->all.count; i++) {
            double freed_of[NUM_OP_REGIONS];
            struct set_bytes *bytes = &of[sets->all.at[i]];
            bytes->freed = ledger_freed(&source->ledger, sets->all.at[i], freed_of);
            bytes->moment = most_moment_bytes(source, freed_of);
        }
    }
    return sets;
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
    set_tensors(&cost, &weights, true, 1, arena);
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

/* Adds the ops of `times` layers that the plan recomputes. */
static void add_recomputed(struct kind_totals *totals, const struct timer *timer,
                           const struct plan *plan, struct ops forward, double times,
                           struct arena *arena)
{
    const struct stack *stack = &timer->system->stack;
    bool is_selective = plan->recompute == RECOMPUTE_SELECTIVE;
    if (!stack->recomputes_unread)
        forward = ops_read_again(&forward, arena);
    if (is_selective)
        forward =
            ops_replay(&forward, plan_replays(plan), stack_runtime(stack)->runs_in_place, arena)
                .ops;
    add_ops(totals, timer, forward, times);
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
    for (int stage = 0; stage < (plan_mixes_parts(plan) ? plan->pp : 1); stage++) {
        struct plan own = plan_of_stage(plan, stage);
        struct holding blocks = plan_mixes_parts(plan) ? stage_holding(plan, model, stage) : held;
        for (int kind = 0; kind < model_num_kinds(model); kind++)
            add_recomputed(&totals, &timer, &own, layers[kind].forward,
                           times * (own.recompute == RECOMPUTE_SELECTIVE ? blocks.count[kind]
                                                                         : blocks.recomputed[kind]),
                           &arena);
    }
    arena_release(&arena);
    return totals;
}
