/* Features of models that are counted, but whose time and memory no op list has yet. Lift a row
 * when models/layer.c makes the operations. */
#include "models/model.h"

#include "base/length.h"
#include "base/units.h"

static bool has_experts(const struct model *model)
{
    return model->experts > 0;
}

static bool has_latent_attention(const struct model *model)
{
    return model->kv_lora > 0;
}

static bool has_attention_kinds(const struct model *model)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).attention != ATTENTION_FULL)
            return true;
    return false;
}

static bool has_parts_left_out(const struct model *model)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).feed_forward == FEED_FORWARD_NONE)
            return true;
    return false;
}

static bool has_more_attention(const struct model *model)
{
    return model->sinks || model->attention_gate ||
           (model->qk_norm && model->qk_norm_kind != QK_NORM_HEAD);
}

static bool has_some_biases(const struct model *model)
{
    return !model->linear_bias && (model->out_bias || model->ffn_bias);
}

static bool has_head_bias(const struct model *model)
{
    return model->head_bias;
}

static bool has_other_norms(const struct model *model)
{
    return model->norm == NORM_GAIN || model->norm_place != NORMS_BEFORE;
}

static bool is_parallel(const struct model *model)
{
    return model->parallel != PARALLEL_NO;
}

static bool has_relative_positions(const struct model *model)
{
    return model->positions == POSITION_RELATIVE;
}

static bool has_mtp(const struct model *model)
{
    return model->mtp > 0;
}

static const struct {
    const char *what;
    bool (*has)(const struct model *model);
} features[] = {
    { "experts", has_experts },
    { "latent attention", has_latent_attention },
    { "attention to other than all tokens before", has_attention_kinds },
    { "blocks without a feed-forward", has_parts_left_out },
    { "sinks, gates or wide norms of attention", has_more_attention },
    { "biases on a part of the projections", has_some_biases },
    { "bias of the output head", has_head_bias },
    { "norms after attention and feed-forward, or without bias", has_other_norms },
    { "attention and feed-forward beside each other", is_parallel },
    { "relative positions", has_relative_positions },
    { "modules that predict later tokens", has_mtp },
};

bool model_has_costs(const struct model *model, struct err *err)
{
    char parameters[32], active[32];
    units_show_count(model_parameters(model), parameters, sizeof parameters);
    units_show_count(model_active_parameters(model), active, sizeof active);
    for (int i = 0; i < LENGTH(features); i++)
        if (features[i].has(model))
            return err_set(err, ERR_UNAVAILABLE, model->name,
                           "has %s parameters, %s active; its %s can be counted, but not yet "
                           "predicted, searched or run",
                           parameters, active, features[i].what);
    return true;
}
