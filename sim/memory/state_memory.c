/* Memory of weights, gradients and optimizer state. Each ZeRO stage shards one more of them over
 * the data ranks. */
#include "sim/memory/state_memory.h"

#include "sim/cost/runtime.h"
#include "sim/memory/held.h"
#include "sim/plan/state_share.h"

/* --- gradients ----------------------------------------------------------------------------- */

/* Whether the stack (training software) keeps gradients in the weights' type although the plan says
 * fp32, which is the default. */
static bool keeps_own_gradients(const struct memory_input *in)
{
    const struct plan *plan = in->plan;
    return in->system->stack.memory.main_gradients == MAIN_GRADIENTS_OWN &&
           plan->gradient_dtype == DTYPE_FP32 && plan_state_has_master(plan);
}

/* Bytes of gradients per parameter. DeepSpeed's BF16_Optimizer keeps the gradients of a backward in
 * addition to the sums to which they are added. */
static double gradient_bytes(const struct memory_input *in, const struct state_bytes *state)
{
    double own_bytes = precision_bytes(in->plan->precision);
    if (keeps_own_gradients(in))
        return own_bytes;
    bool has_both = in->system->stack.memory.low_gradients && state->gradients > own_bytes;
    return state->gradients + (has_both ? own_bytes : 0);
}

/* Whether the optimizer reads 16-bit gradients without an fp32 copy: Adam with 16-bit moments does
 * (Megatron Core, distrib_optimizer.py, decoupled_grad), unless scales are computed anew for each
 * tensor or the stack's settings prevent it (optimizer_config.py,
 * use_precision_aware_optimizer_no_fp8_or_ds_fp8). */
static bool reads_narrow_gradients(const struct stack *stack, const struct plan *plan)
{
    const struct recipe *recipe = precision_recipe(plan->precision);
    bool widens = recipe ? recipe->requantizes : stack->memory.widens_gradients;
    return plan->optimizer == OPTIMIZER_ADAM_BF16 && !widens;
}

/* Bytes per parameter by which master weights are smaller than in fp32. Transformer Engine's Adam
 * stores only those 16 bits of a master weight that the bf16 weight lacks (fused_adam.py,
 * store_param_remainders). It does so if it manages the master weights, i.e. if it reads 16-bit
 * gradients. */
static double shared_master_bytes(const struct stack *stack, const struct plan *plan)
{
    bool is_bf16 = plan_state_has_master(plan) && !precision_recipe(plan->precision) &&
                   precision_value_dtype(plan->precision) == DTYPE_BF16;
    return stack->memory.stores_remainders && is_bf16 && reads_narrow_gradients(stack, plan) ? 2
                                                                                             : 0;
}

/* Further bytes per parameter while the optimizer runs. It copies 16-bit gradients to fp32, all at
 * once (Megatron's _copy_model_grads_to_main_grads, DeepSpeed's ZeRO step), and frees the copies
 * afterwards. The executor's arena holds room for the copies all the time, so they are not counted
 * here. */
static double widened_bytes(const struct memory_input *in)
{
    const struct plan *plan = in->plan;
    bool has_own = plan->gradient_dtype != DTYPE_FP32 || keeps_own_gradients(in);
    bool is_masters = plan_state_has_master(plan);
    return has_own && is_masters && !reads_narrow_gradients(&in->system->stack, plan) &&
                   !stack_runtime(&in->system->stack)->walks_passes
               ? 4
               : 0;
}

/* Either gradients are kept whole until those of the last microbatch are reduced (no_sync,
 * plan_keeps_sums), or each rank keeps only its share. The executor always allocates its share,
 * also in addition to whole gradients. */
static double gradients_held(const struct memory_input *in, struct stage_weights gradients)
{
    bool no_sync = in->system->stack.shards.accumulate == ACCUMULATE_NO_SYNC;
    bool are_whole = no_sync && in->num_microbatches > 1;
    double share = stage_weights_share(gradients, in->plan, STATE_GRADIENTS);
    if (plan_keeps_sums(in->plan))
        return gradients.all + (stack_runtime(&in->system->stack)->walks_passes ? share : 0);
    return are_whole ? gradients.all : share;
}

double summed_gradients_bytes(const struct memory_input *in, const struct holding *held)
{
    struct stage_weights trained = held_trained(held, in->pieces);
    struct state_bytes state = plan_state_bytes(in->plan, in->model);
    return stage_weights_share(stage_weights_times(trained, gradient_bytes(in, &state)), in->plan,
                               STATE_GRADIENTS);
}

/* Quantised weights of layers are kept for the whole step, in addition to the bf16 weights or
 * instead of them. ZeRO-3 with resharding drops them and quantises again after each gather of a
 * layer. */
static double quantized_weight_bytes(const struct memory_input *in, const struct holding *held)
{
    const struct system *system = in->system;
    const struct recipe *recipe = precision_recipe(in->plan->precision);
    bool drops = in->plan->pp > 1 ? plan_gathers(in->plan) : in->system->stack.shards.reshard;
    if (!recipe || (plan_cuts(in->plan, STATE_PARAMETERS) && drops))
        return 0;
    bool in_place = system->stack.keeps_quantized && recipe->keeps_weights;
    double bytes = quantized_copies(&system->gpu, recipe) * quantized_bytes(recipe);
    return held_layer_parameters(held, in->pieces) *
           (bytes - (in_place ? precision_bytes(in->plan->precision) : 0));
}

/* --- the whole state ------------------------------------------------------------------------- */

/* PyTorch's FSDP shards the fp32 weights and converts them to 16 bits as it gathers them, so it
 * keeps no 16-bit weights. */
static double weight_bytes(const struct memory_input *in, const struct state_bytes *state)
{
    bool is_master = in->system->stack.memory.shards_are_master &&
                     plan_cuts(in->plan, STATE_PARAMETERS) && plan_state_has_master(in->plan);
    return is_master ? 0 : state->weights;
}

/* Adds the bytes that the optimizer keeps for `owned` parameters, and for the `whole` elements of
 * matrices with a separate optimizer. */
static void add_optimizer(struct stage_memory *memory, const struct memory_input *in, double owned,
                          double whole, const struct state_bytes *state)
{
    double widened = widened_bytes(in);
    double widened_in_state = plan_state_widens(in->plan) ? widened : 0;
    double shared = shared_master_bytes(&in->system->stack, in->plan);
    memory->optimizer_bytes = owned * (state->optimizer - widened_in_state - shared);
    memory->optimizer_bytes += whole * (state->matrix_optimizer - widened_in_state);
    memory->step_bytes = (owned + whole) * widened;
    if (plan_offloads(in->plan, OFFLOAD_OPTIMIZER))
        memory->optimizer_bytes = memory->step_bytes = 0;
}

/* A rank's share of the parameters that the usual optimizer updates: `trained` without the matrices
 * that have a separate optimizer. */
static double owned_parameters(const struct plan *plan, struct stage_weights trained,
                               const struct held_matrices *matrices)
{
    double of_experts = matrices->of_experts.elements.all;
    trained.all -= matrices->shared.elements.all + of_experts;
    trained.experts -= of_experts;
    return stage_weights_share(trained, plan, STATE_OPTIMIZER);
}

static void add_weights_and_gradients(struct stage_memory *memory, const struct memory_input *in,
                                      const struct holding *held, const struct state_bytes *state)
{
    const struct plan *plan = in->plan;
    struct stage_weights whole = held_weights(held, in->pieces);
    struct stage_weights trained = held_trained(held, in->pieces);
    memory->weights_bytes = stage_weights_share(stage_weights_times(whole, weight_bytes(in, state)),
                                                plan, STATE_PARAMETERS);
    if (in->model->reference && in->model->lora == 0)
        memory->weights_bytes += stage_weights_share(
            stage_weights_times(whole, precision_bytes(plan->precision)), plan, STATE_PARAMETERS);
    memory->weights_bytes += quantized_weight_bytes(in, held);
    memory->gradients_bytes =
        gradients_held(in, stage_weights_times(trained, gradient_bytes(in, state)));
}

void add_state(struct stage_memory *memory, const struct memory_input *in,
               const struct holding *held)
{
    struct state_bytes state = plan_state_bytes(in->plan, in->model);
    struct held_matrices matrices = held_matrices(in->plan, held, in->pieces);
    double owned = owned_parameters(in->plan, held_trained(held, in->pieces), &matrices);
    add_weights_and_gradients(memory, in, held, &state);
    add_optimizer(memory, in, owned, matrices_owned(&matrices, in->plan), &state);
}

/* The result is a lower bound: a matrix that must be assigned whole to one rank is counted as if
 * ranks could divide it; the rank with the most elements has at least this share. Everything else
 * is proportional to what a stage holds. */
double mean_state_bytes(const struct memory_input *in)
{
    struct stage_memory all = { 0 };
    struct state_bytes state = plan_state_bytes(in->plan, in->model);
    struct holding held = model_counts(in->plan, in->model);
    struct held_matrices none = { 0 };
    if (in->plan->mtp_place ==
        /* modules for later tokens on another stage than the head may share the table of the
           embedding or of the head, so their own copy does not count in a lower bound */
        MTP_APART)
        held.count[PIECE_LATER_EMBEDDING] = 0;
    double owned = owned_parameters(in->plan, held_trained(&held, in->pieces), &none);
    state.optimizer = state.matrix_optimizer; /* matrix_optimizer is never larger */
    add_weights_and_gradients(&all, in, &held, &state);
    add_optimizer(&all, in, owned, 0, &state);
    if (plan_keeps_sums(in->plan))
        all.gradients_bytes = summed_gradients_bytes(in, &held);
    return (all.weights_bytes + all.gradients_bytes + all.optimizer_bytes + all.step_bytes) /
           in->plan->pp;
}

double least_optimizer_bytes(const struct stack *stack, const struct plan *plan,
                             const struct model *model)
{
    struct state_bytes state = plan_state_bytes(plan, model);
    return fmin(state.optimizer - shared_master_bytes(stack, plan), state.matrix_optimizer);
}
