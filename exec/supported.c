/* Refuses plans and models that the executor cannot run, with the reason. */
#include "exec/supported.h"

#include "base/length.h"
#include "models/blocks.h"
#include "models/trained_weights.h"
#include "sim/plan/axis.h"
#include "sim/plan/fold.h"
#include "sim/plan/state_share.h"

static bool splits_context(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan->cp > 1;
}

static bool splits_experts(const struct plan *plan, const struct model *model)
{
    return plan->ep > 1 || plan->etp > 1 || model->experts > 0;
}

static bool attends_otherwise(const struct plan *plan, const struct model *model)
{
    (void)plan;
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).attention != ATTENTION_FULL ||
            model_kind(model, kind).feed_forward == FEED_FORWARD_NONE)
            return true;
    return model->kv_lora > 0 || model->attention_gate || model->sinks || model->out_bias ||
           model->ffn_bias || model->norm == NORM_GAIN || model->norm_place != NORMS_BEFORE ||
           model->parallel != PARALLEL_NO || model->head_bias || model->head_transform ||
           model->token_types > 0 || model->activation == ACTIVATION_RELU2 ||
           (model->qk_norm && model->qk_norm_kind != QK_NORM_HEAD);
}

static bool shards_in_part(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan_repeats_shares(plan);
}

static bool offloads(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan->offloads != 0;
}

static bool replays_other_parts(const struct plan *plan, const struct model *model)
{
    (void)model;
    unsigned replays = plan_replays(plan); /* on any stage; the core without selective recompute */
    return replays != REPLAYS_CORE && replays != REPLAYS_PER_OP;
}

static bool copies_keys(const struct plan *plan, const struct model *model)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).kv_heads % plan->tp != 0)
            return true;
    return false;
}

static bool has_another_precision(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan->precision != PRECISION_FP32 && plan->precision != PRECISION_BF16 &&
           plan->precision != PRECISION_FP16;
}

static bool keeps_gradients_in_16_bits(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan->gradient_dtype != DTYPE_FP32 || plan->reduce_dtype != DTYPE_FP32;
}

static bool has_another_optimizer(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan->optimizer != OPTIMIZER_ADAM && plan->optimizer != OPTIMIZER_SGD &&
           plan->optimizer != OPTIMIZER_MOMENTUM;
}

static bool has_two_copies(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan_is_mirrored(plan);
}

/* Whether an exchange would send one table twice: in a schedule whose chunks go down the stages and
 * back up (a V), the first stage has embedding and head, and with tied weights both add to the
 * gradients of one table. */
static bool exchanges_one_table_twice(const struct plan *plan, const struct model *model)
{
    return model->tied && plan->placement && !exchange_is_default(&plan->exchange);
}

static bool trains_in_part(const struct plan *plan, const struct model *model)
{
    (void)plan;
    return !model_trains_all(model) || model->reference;
}

static bool has_alibi(const struct plan *plan, const struct model *model)
{
    (void)plan;
    return model->positions == POSITION_ALIBI;
}

static bool has_relative_positions(const struct plan *plan, const struct model *model)
{
    (void)plan;
    return model->positions == POSITION_TRANSFORMER_XL || model->positions == POSITION_RELATIVE;
}

static bool predicts_later(const struct plan *plan, const struct model *model)
{
    (void)plan;
    return model->mtp > 0;
}

/* Whether compression or a robust rule hides an overflow from the gradient norm, which is computed
 * after the exchange. */
static bool hides_overflow(const struct plan *plan, const struct model *model)
{
    (void)model;
    const struct exchange_method *method = exchange_method_of(&plan->exchange);
    return (method->compressor || method->rule || exchange_is_late(&plan->exchange)) &&
           plan->precision == PRECISION_FP16;
}

static bool shards_along_a_v(const struct plan *plan, const struct model *model)
{
    (void)model;
    return plan_cuts(plan, STATE_GRADIENTS) && plan->placement;
}

const struct refusal run_refusals[] = {
    { "zero", "ZeRO-2 and 3 can't be run yet with chunks that go down the stages and back up (a V)",
      shards_along_a_v },
    { "cp", "context parallelism can't be run yet", splits_context },
    { "ep", "experts can't be run yet", splits_experts },
    { "model", "multi-token-prediction (MTP) modules can't be run yet", predicts_later },
    { "shard", "ZeRO shards over only some of the data ranks (shard=) can't be run yet",
      shards_in_part },
    { "offload", "offloading can't be run yet", offloads },
    { "recompute",
      "selective recompute can't be run yet, except of core attention or with op-selective",
      replays_other_parts },
    { "tp", "more tensor ranks than key-value heads can't be run yet", copies_keys },
    { "schedule", "schedules with two copies of each stage can't be run yet", has_two_copies },
    { "exchange",
      "compressed or sparse exchanges of a tied embedding can't be run yet with chunks that go "
      "down the stages and back up (a V)",
      exchanges_one_table_twice },
    { "dtype", "so far only the precisions fp32, bf16 and fp16 can be run", has_another_precision },
    { "grad", "so far gradients can be kept and reduced only in fp32", keeps_gradients_in_16_bits },
    { "optimizer", "only the optimizers adam, momentum and sgd can be run", has_another_optimizer },
    { "exchange",
      "compressed, robust and late gradients can't be run in fp16: they could hide an overflow, or "
      "apply it late",
      hides_overflow },
    { "model", "frozen weights, adapters and reference models can't be run yet", trains_in_part },
    { "model", "ALiBi positions can't be run yet", has_alibi },
    { "model", "relative positions can't be run yet", has_relative_positions },
    { "model",
      "latent attention, sliding windows, attention sinks, and some norms, biases and feed-forward "
      "layers can't be run yet",
      attends_otherwise },
};
const int num_run_refusals = LENGTH(run_refusals);

bool run_supported(const struct plan *plan, const struct model *model, struct err *err)
{
    for (int i = NUM_NAMED_AXES; i < num_axes; i++)
        if (plan->degree[i] > 1)
            return err_set(err, ERR_UNAVAILABLE, axes[i]->name, "%s can't be run yet",
                           axes[i]->name);
    for (int i = 0; i < num_run_refusals; i++)
        if (run_refusals[i].asks(plan, model))
            return err_set(err, ERR_UNAVAILABLE, run_refusals[i].where, "%s",
                           run_refusals[i].sentence);
    return true;
}
