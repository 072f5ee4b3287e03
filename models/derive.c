/* Fills in values that a model's file omits; reads and writes such files. */
#include "models/blocks.h"
#include "models/trained_weights.h"

#include <assert.h>

/* The nearest divisor of `whole` at or beyond `start` in steps of `step`; 0: none. */
static int nearest_divisor(int whole, int start, int step)
{
    for (int i = start; i >= 1 && i <= whole; i += step)
        if (whole % i == 0)
            return i;
    return 0;
}

static bool refuse_heads(const struct model *model, struct err *err)
{
    int below = nearest_divisor(model->hidden, model->heads, -1);
    int above = nearest_divisor(model->hidden, model->heads, 1);
    if (above == 0) /* with more heads than channels, the search downwards starts at hidden */
        return err_set(err, ERR_INPUT, "heads", "%d heads are more than the %d channels of hidden",
                       model->heads, model->hidden);
    bool above_first = above - model->heads <= model->heads - below;
    return err_set(err, ERR_INPUT, "heads",
                   "heads %d does not divide hidden %d; the nearest divisors are %d and %d",
                   model->heads, model->hidden, above_first ? above : below,
                   above_first ? below : above);
}

const double usual_rope_theta = 10000;  /* Su et al. 2021 */
const double usual_norm_epsilon = 1e-5; /* PyTorch's LayerNorm, Megatron-LM, Llama 2 and 3 */

bool model_derive_widths(struct model *model, struct err *err)
{
    if (model->kv_heads == 0)
        model->kv_heads = model->heads;
    if (model->head_dim == 0 && model->kv_lora > 0)
        model->head_dim = model->qk_nope_dim + model->qk_rope_dim;
    if (model->head_dim == 0 && model->heads > 0) {
        if (model->hidden % model->heads != 0)
            return refuse_heads(model, err);
        model->head_dim = model->hidden / model->heads;
    }
    if (model->ffn == 0)
        model->ffn = model->expert_ffn > 0 ? model->expert_ffn : 4 * model->hidden;
    if (model->experts > 0 && model->expert_ffn == 0)
        model->expert_ffn = model->ffn;
    model->feed_forward = model->experts > 0 ? FEED_FORWARD_EXPERTS : FEED_FORWARD_DENSE;
    return true;
}

static bool derive_blocks(struct model *model, struct err *err)
{
    return !blocks_follow_experts(model) || model->blocks.num_runs > 0 ||
           blocks_of_experts(model, err);
}

bool model_derive(struct model *model, struct err *err)
{
    if (!model_derive_widths(model, err) || !derive_blocks(model, err) ||
        !blocks_of_training(model, err))
        return false;
    if (model->positions == POSITION_LEARNED && model->max_positions == 0)
        model->max_positions = model->seq;
    if (model->positions == POSITION_ROTARY && model->rope_theta == 0)
        model->rope_theta = usual_rope_theta;
    if (model->norm_epsilon == 0)
        model->norm_epsilon = usual_norm_epsilon;
    return model_check(model, err);
}

bool models_are_equal(const struct model *a, const struct model *b)
{
    const struct field *first = fields_find(model_fields, num_model_fields, "layers");
    size_t count = (size_t)(model_fields + num_model_fields - first);
    return fields_are_equal(first, count, a, b) && blocks_are_equal(&a->blocks, &b->blocks);
}

bool model_set_layers(struct model *model, int layers, struct err *err)
{
    bool were_alike = !model_trains_all(model) && !blocks_follow_experts(model) &&
                      blocks_have_one_width(&model->blocks);
    model->layers = layers;
    if (were_alike)
        model->blocks = (struct blocks){ 0 };
    return (!blocks_follow_experts(model) || blocks_of_experts(model, err)) &&
           blocks_of_training(model, err);
}

static bool check_format(const json_t *object, struct err *err)
{
    const json_t *format = json_object_get(object, "format");
    if (format && !(json_is_integer(format) && json_integer_value(format) == 1))
        return err_set(err, ERR_INPUT, "format", "expected 1, the only version of this form");
    return true;
}

/* `sources` gives the source of other keys, so each of its keys must be the name of a field. */
static bool check_sources(const json_t *object, struct err *err)
{
    json_t *sources = json_object_get(object, "sources");
    if (!sources)
        return true;
    if (!json_is_object(sources))
        return err_set(err, ERR_INPUT, "sources", "expected an object whose values are texts");
    const char *key;
    json_t *text;
    json_object_foreach (sources, key, text) {
        bool is_known = fields_find(model_fields, num_model_fields, key) != NULL;
        if (is_known && json_is_string(text))
            continue;
        err_set(err, ERR_INPUT, key, "%s",
                is_known ? "expected text" : "not a key of a model, so it can't have a source");
        err_prefix(err, "sources.");
        return false;
    }
    return true;
}

bool model_read(const json_t *object, struct model *out, struct err *err)
{
    *out = (struct model){ 0 };
    return check_format(object, err) &&
           fields_read(model_fields, num_model_fields, object, out, err) &&
           check_sources(object, err) && model_derive_widths(out, err) &&
           blocks_read(json_object_get(object, "blocks"), out, err) && model_derive(out, err);
}

/* Removes keys that have the fallback value, from the key "attention" on, because most models do
 * not use these features. */
static void leave_out_fallbacks(json_t *object)
{
    struct model plain = { 0 };
    json_t *fallbacks = fields_write(model_fields, num_model_fields, &plain);
    const struct field *first = fields_find(model_fields, num_model_fields, "attention");
    for (const struct field *field = first; field < model_fields + num_model_fields; field++)
        if (json_equal(json_object_get(object, field->name),
                       json_object_get(fallbacks, field->name)))
            json_object_del(object, field->name);
    json_decref(fallbacks);
}

json_t *model_write(const struct model *model)
{
    json_t *object = fields_write(model_fields, num_model_fields, model);
    double parameters = model_parameters(model), active = model_active_parameters(model);
    json_t *blocks = blocks_write(model);
    assert(parameters <= 1e18);
    leave_out_fallbacks(object);
    if (blocks)
        json_object_set_new(object, "blocks", blocks);
    json_object_set_new(object, "params", json_integer((json_int_t)parameters));
    json_object_set_new(object, "active_params", json_integer((json_int_t)active));
    if (model->mtp > 0)
        json_object_set_new(object, "mtp_params",
                            json_integer((json_int_t)model_mtp_parameters(model)));
    return object;
}
