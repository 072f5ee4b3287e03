/* The time that data ranks take to reduce gradients and gather parameters, and how much of it is
 * exposed. */
#include "sim/engine/data_parallel.h"

#include "sim/cost/compute.h"
#include "sim/plan/state_share.h"

#include <math.h>

double overlapped_s(const struct profile *profile, double compute_s, double comm_s)
{
    double x = profile->overlap_compute_slowdown;
    double y = profile->overlap_comm_slowdown;
    if (comm_s * y <= compute_s * x)
        return compute_s + comm_s * y * (1 - 1 / x);
    return compute_s * x + (comm_s - compute_s * x / y);
}

/* With n buckets, bucket j is ready after j/n of the window (window_s). So at least the last bucket
 * is sent after the window, and no transfer overlaps the first n-th of the window. Only the
 * overlapped part is slowed; with many buckets the result agrees with overlapped_s. */
double exposed_s(const struct profile *profile, double comm_s, double window_s, double pieces)
{
    double x = profile->overlap_compute_slowdown;
    double y = profile->overlap_comm_slowdown;
    double hidden_s = fmin(comm_s, window_s * x / y) * (1 - 1 / pieces);
    return comm_s - hidden_s + hidden_s * y * (1 - 1 / x);
}

/* A lane runs the transfers of buckets one after another; its clock counts seconds of undisturbed
 * transfer. While compute and a transfer overlap, compute is x times slower and the transfer y
 * times. So compute of c seconds lasts x c seconds, which are x / y c on this clock. A bucket
 * starts when it is ready and the bucket before it is done. Transfers after the end of compute are
 * exposed; the others slow compute as in exposed_s. */
void bucket_lane_add(struct bucket_lane *lane, double compute_s, double comm_s)
{
    const struct profile *profile = lane->profile;
    lane->ready_s += compute_s * profile->overlap_compute_slowdown / profile->overlap_comm_slowdown;
    lane->done_s = fmax(lane->done_s, lane->ready_s) + comm_s;
    lane->comm_s += comm_s;
}

double bucket_lane_exposed_s(const struct bucket_lane *lane)
{
    double x = lane->profile->overlap_compute_slowdown;
    double y = lane->profile->overlap_comm_slowdown;
    double exposed_s = lane->done_s - lane->ready_s;
    return exposed_s + (lane->comm_s - exposed_s) * y * (1 - 1 / x);
}

static bool keeps_quantized(const struct stack *stack, const struct recipe *recipe)
{
    return recipe && stack->keeps_quantized && recipe->keeps_weights;
}

double gathered_weight_bytes(const struct stack *stack, const struct plan *plan)
{
    const struct recipe *recipe = precision_recipe(plan->precision);
    return keeps_quantized(stack, recipe) ? quantized_bytes(recipe)
                                          : precision_bytes(plan->precision);
}

double reduced_gradient_bytes(const struct stack *stack, const struct plan *plan)
{
    bool is_default = plan->gradient_dtype == DTYPE_FP32 && plan->reduce_dtype == DTYPE_FP32;
    if (is_default && stack->memory.main_gradients == MAIN_GRADIENTS_OWN &&
        plan_state_has_master(plan))
        return precision_bytes(plan->precision);
    return dtype_bytes((enum dtype)plan->reduce_dtype);
}

/* FSDP drops gathered weights after the backward; within no_sync it keeps the weights if it also
 * keeps them after the forward (PyTorch, ShardingStrategy.SHARD_GRAD_OP). */
double weight_gathers(const struct stack *stack, const struct plan *plan, int num_microbatches)
{
    if (!plan_cuts(plan, STATE_PARAMETERS) || plan_keeps_gathered(plan))
        return 1;
    if (stack->shards.reshard || plan->pp > 1)
        return 2.0 * num_microbatches;
    return stack->shards.accumulate == ACCUMULATE_NO_SYNC ? 1 : num_microbatches;
}

double quantize_weights_s(const struct system *system, const struct plan *plan,
                          double layer_parameters, int num_microbatches)
{
    const struct recipe *recipe = precision_recipe(plan->precision);
    if (!recipe)
        return 0;
    int copies = quantized_copies(&system->gpu, recipe);
    double bytes = quantize_traffic_bytes(recipe, copies, layer_parameters);
    if (keeps_quantized(&system->stack, recipe))
        bytes = (copies - 1) * 2 * quantized_bytes(recipe) * layer_parameters;
    double times = weight_gathers(&system->stack, plan, num_microbatches);
    return times * traffic_s(&system->gpu, &system->profile, bytes, 0);
}

/* Muon updates matrices whole. So every rank gets whole gradients, updates the matrices assigned to
 * it and gathers the weights of the others (Megatron Core, layer_wise_optimizer.py, over plain data
 * parallelism). */
static struct data_comm whole_gradients(const struct data_groups *groups, double gradient_bytes,
                                        double weight_bytes)
{
    double replicas_s = groups->replicas.num_ranks > 1
                            ? collective_s(&groups->replicas, COLLECTIVE_ALL_REDUCE, gradient_bytes)
                            : 0;
    return (struct data_comm){
        .reduce_s =
            collective_s(&groups->shard, COLLECTIVE_ALL_REDUCE, gradient_bytes) + replicas_s,
        .gather_s = collective_s(&groups->shard, COLLECTIVE_ALL_GATHER, weight_bytes),
    };
}

/* With repeated shards (shard=N), gradients are reduce-scattered within the group, then each shard
 * is all-reduced with its copies (Zhao et al. 2023, PyTorch FSDP, section 3.2.2); weights are
 * exchanged only within the group. */
struct data_comm data_comm(const struct stack *stack, const struct plan *plan,
                           const struct data_groups *groups, double parameters)
{
    double gradient_bytes = parameters * reduced_gradient_bytes(stack, plan);
    double weight_bytes = parameters * gathered_weight_bytes(stack, plan);
    const struct comm_group *shard = &groups->shard;
    if (!plan_cuts(plan, STATE_OPTIMIZER))
        return (struct data_comm){ .reduce_s =
                                       collective_s(shard, COLLECTIVE_ALL_REDUCE, gradient_bytes) };
    if (plan_matrices_apart(plan))
        return whole_gradients(groups, gradient_bytes, weight_bytes);
    double scatter_s = collective_s(shard, COLLECTIVE_REDUCE_SCATTER, gradient_bytes);
    double replicas_s = 0;
    if (groups->replicas.num_ranks > 1)
        replicas_s = collective_s(&groups->replicas, COLLECTIVE_ALL_REDUCE,
                                  gradient_bytes / shard->num_ranks);
    return (struct data_comm){
        .reduce_s = scatter_s + replicas_s,
        .gather_s = collective_s(shard, COLLECTIVE_ALL_GATHER, weight_bytes),
    };
}

/* An all-reduce over shards and their copies is a reduce-scatter within the shard's group, an
 * all-reduce of each shard among its copies and an all-gather. */
struct data_comm whole_tensors_comm(const struct data_groups *groups, double gradient_bytes,
                                    double weight_bytes, double tensors)
{
    const struct comm_group *shard = &groups->shard;
    double owners = fmax(1, fmin(shard->num_ranks, tensors));
    double reduce_s = collective_s(shard, COLLECTIVE_ALL_REDUCE, gradient_bytes);
    if (groups->replicas.num_ranks > 1)
        reduce_s = collective_s(shard, COLLECTIVE_REDUCE_SCATTER, gradient_bytes) +
                   collective_s(&groups->replicas, COLLECTIVE_ALL_REDUCE,
                                gradient_bytes / shard->num_ranks) +
                   collective_s(shard, COLLECTIVE_ALL_GATHER, gradient_bytes);
    return (struct data_comm){
        .reduce_s = reduce_s,
        .gather_s = owners * collective_s(shard, COLLECTIVE_BROADCAST, weight_bytes / owners),
    };
}

/* FSDP2 (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py): split_with_sizes_copy reads and
 * writes the gathered weights; chunk_cat reads gradients in their type and writes them in the
 * reduction's type. FSDP1 has one flat parameter, which is gathered and reduced in place. */
struct data_comm shard_copies(const struct system *system, const struct plan *plan,
                              double parameters)
{
    if (!system->stack.shards.copies || !plan_cuts(plan, STATE_PARAMETERS) ||
        plan_replicas(plan) == 1)
        return (struct data_comm){ 0 };
    double out_bytes = 2 * gathered_weight_bytes(&system->stack, plan);
    double in_bytes =
        precision_bytes(plan->precision) + reduced_gradient_bytes(&system->stack, plan);
    return (struct data_comm){
        .reduce_s = traffic_s(&system->gpu, &system->profile, parameters * in_bytes, 0),
        .gather_s = traffic_s(&system->gpu, &system->profile, parameters * out_bytes, 0),
    };
}

/* Adam in mixed precision moves 30 bytes per parameter: gradient 4; master, m and v read and
 * written, 8 each; weight written, 2. The norm reads the gradients once more. If the profile has
 * measured the kernel, its time is used instead. */
double optimizer_s(const struct system *system, const struct model *model, const struct plan *plan,
                   struct stage_weights weights)
{
    struct state_bytes state = plan_state_bytes(plan, model);
    double owned = stage_weights_share(weights, plan, STATE_OPTIMIZER);
    const struct profile *profile = &system->profile;
    const struct kernel *kernel =
        kernel_find(profile->kernels, profile->num_kernels, KERNEL_OPTIMIZER, PASS_FORWARD, "");
    if (kernel && !plan_offloads(plan, OFFLOAD_OPTIMIZER))
        return kernel_s(kernel, (double[NUM_KERNEL_SIZES]){ owned, 1, 1, 1 });
    double update_bytes = state.gradients + 2 * state.optimizer + state.weights;
    double passes = system->stack.optimizer_passes;
    if (plan_offloads(plan, OFFLOAD_OPTIMIZER))
        passes = 0;
    double bytes = owned * (update_bytes * passes + state.gradients);
    return traffic_s(&system->gpu, &system->profile, bytes, 4);
}

/* The update of Muon's matrices also writes the input of Newton-Schulz and reads its result, in 16
 * bits. Gradient, master and momentum are read and written as for other parameters. */
double optimizer_with_matrices_s(const struct system *system, const struct model *model,
                                 const struct plan *plan, struct stage_weights weights,
                                 const struct held_matrices *matrices)
{
    if (!plan_matrices_apart(plan))
        return optimizer_s(system, model, plan, weights);
    struct state_bytes state = plan_state_bytes(plan, model);
    double of_experts = matrices->of_experts.elements.all;
    weights.all -= matrices->shared.elements.all + of_experts;
    weights.experts -= of_experts;
    double pass_bytes = state.gradients + 2 * state.matrix_optimizer + state.weights;
    double between_bytes = 2 * precision_bytes(plan->precision);
    double bytes = matrices_owned(matrices, plan) *
                   (pass_bytes * system->stack.optimizer_passes + between_bytes + state.gradients);
    return optimizer_s(system, model, plan, weights) + matrices_newton_schulz_s(matrices, plan) +
           traffic_s(&system->gpu, &system->profile, bytes, 0);
}
