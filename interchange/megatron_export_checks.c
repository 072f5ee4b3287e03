/* Checks of the rules X: plans and models that Megatron-LM has no arguments for. */
#include "interchange/megatron_checks.h"

#include "base/length.h"
#include "models/blocks.h"

#include <limits.h>
#include <math.h>
#include <string.h>

bool megatron_schedule_exists(const struct rule_case *of, struct err *err)
{
    const char *name = plan_schedule(&of->job->plan);
    return strcmp(name, "1f1b") == 0 || strcmp(name, "interleaved") == 0 ||
           BROKEN("schedule", "%s is not in Megatron-LM", name);
}

void megatron_mend_schedule(struct job *job, struct arena *arena)
{
    (void)arena;
    plan_set_schedule(&job->plan, "");
    if (job->plan.pp == 1)
        job->plan.vpp = 1;
}

bool megatron_order_exists(const struct rule_case *of, struct err *err)
{
    static const int other[MAX_AXES] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_PIPELINE, AXIS_EXPERT,
                                         AXIS_DATA };
    const struct plan usual = plan_default(), *plan = &of->job->plan;
    if (!job_has_named_axes(of->job, err))
        return false;
    return memcmp(plan->order, usual.order, sizeof usual.order) == 0 ||
           memcmp(plan->order, other, sizeof other) == 0 ||
           BROKEN("order", "ranks can only be in the order tp-cp-dp-pp or tp-cp-pp-dp");
}

void megatron_mend_order(struct job *job, struct arena *arena)
{
    struct plan usual = plan_default();
    (void)arena;
    memcpy(job->plan.order, usual.order, sizeof usual.order);
}

bool megatron_exchange_exists(const struct rule_case *of, struct err *err)
{
    return exchange_is_default(&of->job->plan.exchange) ||
           BROKEN("exchange", "is not supported: Megatron-LM reduces gradients exactly");
}

void megatron_mend_exchange(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.exchange = (struct exchange){ 0 };
}

bool megatron_optimizer_exists(const struct rule_case *of, struct err *err)
{
    int optimizer = of->job->plan.optimizer;
    bool is_written = optimizer != OPTIMIZER_ADAM_8BIT && optimizer != OPTIMIZER_ADAFACTOR &&
                      optimizer != OPTIMIZER_MUON;
    return is_written || BROKEN("optimizer", "the export does not support optimizer=%s",
                                optimizer_names[optimizer]);
}

void megatron_mend_optimizer(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.optimizer = OPTIMIZER_ADAM;
}

bool megatron_precision_exists(const struct rule_case *of, struct err *err)
{
    int precision = of->job->plan.precision;
    return (precision != PRECISION_BF16_PURE && precision != PRECISION_FP8_ROWWISE) ||
           BROKEN("dtype", "%s is not in Megatron-LM", precision_names[precision]);
}

void megatron_mend_precision(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    plan->precision =
        plan->precision == PRECISION_FP8_ROWWISE ? PRECISION_FP8_CURRENT : PRECISION_BF16;
}

bool megatron_gradients_are_one_type(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    return plan->gradient_dtype == plan->reduce_dtype ||
           BROKEN("reduce",
                  "gradients are kept in %s and reduced in %s; Megatron-LM reduces them in the "
                  "type in which it keeps them",
                  dtype_names[plan->gradient_dtype], dtype_names[plan->reduce_dtype]);
}

void megatron_mend_gradients(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.reduce_dtype = job->plan.gradient_dtype;
}

static bool stages_repeat_alike(const struct plan *plan, struct err *err)
{
    for (int i = 1; i < plan->num_stage_replays; i++)
        if (plan->stage_replays[i] != plan->stage_replays[0])
            return BROKEN("recompute",
                          "stages 0 and %d recompute different modules; --recompute-modules is one "
                          "list for all ranks",
                          i);
    return true;
}

bool megatron_recompute_exists(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    if (plan->recompute == RECOMPUTE_SELECTIVE && (plan_replays(plan) & REPLAYS_PER_OP) != 0)
        return BROKEN("recompute", "op-selective is not in Megatron-LM");
    if (plan_mixes_parts(plan))
        return stages_repeat_alike(plan, err);
    if (plan->recompute == RECOMPUTE_SHARE)
        return BROKEN("recompute", "block-share is not in Megatron-LM; use block:N");
    if (plan->recompute != RECOMPUTE_BLOCK)
        return true;
    for (int i = 1; i < plan->num_recompute_layers; i++)
        if (plan->recompute_layers[i] != plan->recompute_layers[0])
            return BROKEN("recompute",
                          "chunk %d recomputes %d layers, but chunk 0 recomputes %d; "
                          "--recompute-num-layers is the same for all chunks",
                          i, plan->recompute_layers[i], plan->recompute_layers[0]);
    return plan->num_recompute_layers == 0 || plan->recompute_layers[0] > 0 ||
           BROKEN("recompute", "block:0 recomputes no layer");
}

/* Makes all chunks recompute as many layers as the chunk that recomputes most, or makes all stages
 * recompute every module that any stage recomputes. Memory does not rise. */
void megatron_mend_recompute(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    int *most = ARENA_NEW(arena, int);
    if (plan->recompute == RECOMPUTE_SELECTIVE) {
        unsigned modules =
            plan_mixes_parts(plan) ? replays_outermost(plan_replays(plan)) : REPLAYS_CORE;
        plan_set_recompute(plan, RECOMPUTE_SELECTIVE);
        plan->replays = modules == REPLAYS_CORE ? 0 : modules;
        return;
    }
    bool is_share = plan->recompute == RECOMPUTE_SHARE;
    int count = is_share ? plan_chunks(plan) : plan->num_recompute_layers;
    for (int i = 0; i < count; i++) {
        int asked = is_share
                        ? plan_recomputed_layers(plan, i, plan_chunk_layers(plan, &job->model, i))
                        : plan->recompute_layers[i];
        *most = asked > *most ? asked : *most;
    }
    plan->recompute = *most > 0 ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    plan->recompute_layers = most;
    plan->num_recompute_layers = 1;
}

bool megatron_batch_is_whole(const struct rule_case *of, struct err *err)
{
    double batch = of->job->model.batch;
    return (batch >= 1 && batch <= INT_MAX && batch >= floor(batch) && batch <= floor(batch)) ||
           BROKEN("--global-batch-size", "expected 1 to %d sequences, found %g", INT_MAX, batch);
}

/* --- models ---------------------------------------------------------------------------------- */

static bool has_other_blocks(const struct model *model)
{
    for (int i = 0; i < model_num_kinds(model); i++) {
        struct block_kind kind = model_kind(model, i), own = model_own_kind(model);
        kind.feed_forward = own.feed_forward;
        if (!block_kinds_are_equal(&kind, &own))
            return true;
    }
    return model_num_kinds(model) > 1 && model->experts == 0;
}

static bool has_other_attention(const struct model *model)
{
    return model_kind(model, 0).attention != ATTENTION_FULL;
}

#define HAS(name, condition)                    \
    static bool name(const struct model *model) \
    {                                           \
        return condition;                       \
    }
// clang-format off
HAS(has_gain_norm, model->norm == NORM_GAIN)
HAS(has_other_activation, model->activation == ACTIVATION_RELU || model->activation == ACTIVATION_GEGLU)
HAS(has_other_positions, model->positions != POSITION_LEARNED && model->positions != POSITION_ROTARY && model->positions != POSITION_NONE)
HAS(has_embedding_norm, model->embedding_norm)
HAS(has_other_qk_norm, model->qk_norm && (model->qk_norm_kind != QK_NORM_HEAD || model->kv_lora > 0))
HAS(has_other_bias, (model->out_bias || model->ffn_bias) && !model->linear_bias)
HAS(has_head_extras, model->head_bias || model->head_transform || model->token_types > 0)
HAS(has_sinks, model->sinks)
HAS(has_gate, model->attention_gate)
HAS(has_other_places, model->norm_place != NORMS_BEFORE)
HAS(is_parallel, model->parallel != PARALLEL_NO)
HAS(has_router_bias, model->router_bias)
HAS(has_other_expert_bias, model->experts > 0 && model->expert_bias != model->linear_bias)
HAS(has_indexer, model->index_heads > 0)
// clang-format on

/* Features of models, with names for messages. */
static const struct {
    const char *name;
    bool (*is_there)(const struct model *model);
} features[] = {
    { "a LayerNorm without bias", has_gain_norm },
    { "an activation other than gelu, swiglu and squared relu", has_other_activation },
    { "positions other than learned, rotary and none", has_other_positions },
    { "a norm after the embedding", has_embedding_norm },
    { "a norm of q and k that is not per head", has_other_qk_norm },
    { "biases on some projections only", has_other_bias },
    { "a head with a bias or a transform, or token types", has_head_extras },
    { "attention sinks", has_sinks },
    { "gated attention", has_gate },
    { "norms after attention and feed-forward", has_other_places },
    { "attention and feed-forward side by side", is_parallel },
    { "a router with a bias", has_router_bias },
    { "experts with biases in a model without biases, or the reverse", has_other_expert_bias },
    { "an attention indexer (sparse attention)", has_indexer },
    { "attention that is not full", has_other_attention },
    { "blocks of several widths", has_other_blocks },
};

bool megatron_model_exists(const struct rule_case *of, struct err *err)
{
    for (int i = 0; i < LENGTH(features); i++)
        if (features[i].is_there(&of->job->model))
            return BROKEN("--model", "%s has %s, which Megatron-LM's arguments cannot state",
                          of->job->model.name, features[i].name);
    return true;
}
