/* Features of models whose parameters are counted, but whose time and memory are not modelled, as
 * no op list has their ops yet. Delete a row when models/layer.c makes the ops. */
#include "models/model.h"

#include "base/length.h"
#include "base/units.h"

/* The op that adds a product's partial sums over tensor ranks also adds the bias; with these norm
 * places a norm would come before that op. */
static bool has_bias_before_norm(const struct model *model)
{
    return (model->norm_place == NORMS_AFTER || model->norm_place == NORMS_AROUND) &&
           (model->linear_bias || model->out_bias || model->ffn_bias);
}

static const struct {
    const char *what;
    bool (*has)(const struct model *model);
} features[] = {
    { "biases before a norm", has_bias_before_norm },
};

bool model_has_costs(const struct model *model, struct err *err)
{
    char parameters[32], active[32];
    units_show_count(model_parameters(model), parameters, sizeof parameters);
    units_show_count(model_active_parameters(model), active, sizeof active);
    for (int i = 0; i < LENGTH(features); i++)
        if (features[i].has(model))
            return err_set(err, ERR_UNAVAILABLE, model->name,
                           "has %s parameters, %s active; models with %s cannot yet be predicted, "
                           "searched or run",
                           parameters, active, features[i].what);
    return true;
}
