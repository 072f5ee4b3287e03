/* Features of models whose parameters are counted, but whose time and memory are not modelled, as
 * no op list has their ops yet. Delete a row when models/layer.c makes the ops. */
#include "models/model.h"

#include "base/length.h"
#include "base/units.h"
#include "models/blocks.h"

static bool has_other_mixers(const struct model *model)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        switch ((enum attention_kind)model_kind(model, kind).attention) {
        case ATTENTION_FULL:
        case ATTENTION_WINDOW:
        case ATTENTION_CHUNK:
        case ATTENTION_DELTA:
        case ATTENTION_LIGHTNING:
        case ATTENTION_MAMBA:
        case ATTENTION_NONE:
            break;
        default:
            return true;
        }
    return false;
}

static bool has_head_bias(const struct model *model)
{
    return model->head_bias || model->head_transform;
}

/* The op that adds a product's partial sums over tensor ranks also adds the bias; with these norm
 * places a norm would come before that op. */
static bool has_bias_before_norm(const struct model *model)
{
    return model->norm_place != NORMS_BEFORE &&
           (model->linear_bias || model->out_bias || model->ffn_bias);
}

static bool is_parallel(const struct model *model)
{
    return model->parallel != PARALLEL_NO;
}

static bool has_relative_positions(const struct model *model)
{
    return model->positions == POSITION_RELATIVE;
}

static const struct {
    const char *what;
    bool (*has)(const struct model *model);
} features[] = {
    { "attention to other tokens than all earlier ones or the most recent ones", has_other_mixers },
    { "bias or first product of the output head", has_head_bias },
    { "biases before a norm", has_bias_before_norm },
    { "attention and feed-forward in parallel", is_parallel },
    { "relative positions", has_relative_positions },
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
