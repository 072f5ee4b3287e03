#include "models/model.h"

#include "base/plain.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

const char *const norm_names[] = { "layernorm", "rmsnorm", NULL };
const char *const activation_names[] = { "gelu", "relu", "swiglu", "geglu", NULL };
const char *const position_names[] = { "learned", "rotary", "alibi", "none", NULL };

/* Bounds are far above anything trained, and low enough that widths such as (heads + 2 kv_heads)
 * head_dim stay inside an int (see check_attention_width). A fallback of "0" is filled in by
 * model_derive. */
#define F(member)    #member, .offset = offsetof(struct model, member)
#define TEXT(member) F(member), .size = sizeof(((struct model *)0)->member)
const struct field model_fields[] = {
    { TEXT(name), .kind = FIELD_TEXT, .doc = "Name; for a preset, that of its file." },
    { TEXT(summary), .kind = FIELD_TEXT, .fallback = "", .doc = "What it is, in one sentence." },
    { TEXT(source), .kind = FIELD_TEXT, .fallback = "", .doc = "Where the numbers come from." },
    { F(layers), .kind = FIELD_INT, .min = 1, .max = 100000, .doc = "Transformer blocks." },
    { F(hidden), .kind = FIELD_INT, .min = 1, .max = 1e7, .doc = "Width of the residual stream." },
    { F(heads), .kind = FIELD_INT, .min = 1, .max = 1e6, .doc = "Query heads of a block." },
    { F(kv_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Key and value heads; 0 or absent: as many as heads." },
    { F(head_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Width of one head; 0 or absent: hidden / heads." },
    { F(ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of the feed-forward; 0 or absent: 4 hidden." },
    { F(vocab), .kind = FIELD_INT, .min = 1, .max = 1e8,
      .doc = "Tokens of the vocabulary, before padding for tensor parallelism." },
    { F(seq), .kind = FIELD_INT, .min = 1, .max = 1e8, .doc = "Usual training sequence, tokens." },
    { F(sliding_window), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Tokens that attention looks back in some blocks; 0: all. Longer sequences are "
             "predicted, and run, as if it looked at all, which is said." },
    { F(max_positions), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Rows of the learned position table; 0 or absent: seq." },
    { F(norm), .kind = FIELD_NAME, .names = norm_names, .fallback = "layernorm",
      .doc = "Norm before attention, before the feed-forward and after the last block." },
    { F(activation), .kind = FIELD_NAME, .names = activation_names, .fallback = "gelu",
      .doc = "Activation of the feed-forward; swiglu and geglu are gated." },
    { F(positions), .kind = FIELD_NAME, .names = position_names, .fallback = "learned",
      .doc = "How a token's position enters." },
    { F(rope_theta), .kind = FIELD_NUMBER, .min = 0, .max = 1e12, .fallback = "0",
      .doc = "Base of rotary angles; 0 or absent: 10000. Read by run." },
    { F(norm_epsilon), .kind = FIELD_NUMBER, .min = 0, .max = 1, .fallback = "0",
      .doc =
          "Added to the variance, or the mean square, of a norm; 0 or absent: 1e-5. Read by run." },
    { F(linear_bias), .kind = FIELD_BOOL, .fallback = "yes",
      .doc = "Biases on the projections of attention and feed-forward." },
    { F(qkv_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases on q, k and v even without linear_bias." },
    { F(qk_norm), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "RMSNorm over each head of q and k." },
    { F(embedding_norm), .kind = FIELD_BOOL, .fallback = "no", .doc = "Norm after the embedding." },
    { F(tied), .kind = FIELD_BOOL, .fallback = "yes",
      .doc = "The output head shares the token embedding." },
    { F(dropout), .kind = FIELD_NUMBER, .min = 0, .max = 0.99, .fallback = "0",
      .doc = "Dropout of hidden states and of attention; 0: no masks are kept." },
    { F(batch), .kind = FIELD_COUNT, .min = 0, .max = 1e9, .fallback = "0",
      .doc = "Usual global batch, sequences; 0: not stated." },
    { F(tokens), .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, .min = 0, .max = 1e18,
      .fallback = "0 tok", .doc = "Usual token budget; 0: not stated." },
    { "document_mean", .offset = offsetof(struct model, documents.mean), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Mean length of the documents packed into a sequence, tokens, which see no other; 0: "
             "one a sequence. Written by --documents, as are the next three." },
    { "document_square", .offset = offsetof(struct model, documents.square), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e8, .fallback = "0", .doc = "Mean of their squares over the mean's." },
    { "document_cube", .offset = offsetof(struct model, documents.cube), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e16, .fallback = "0", .doc = "The same of cubes." },
    { "document_fourth", .offset = offsetof(struct model, documents.fourth), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e24, .fallback = "0", .doc = "The same of fourth powers." },
    { .name = "blocks",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Runs of blocks of several kinds, repeated until there are `layers`; absent: all are "
             "alike." },
    { .name = "format", .kind = FIELD_OTHER, .fallback = "1", .doc = "Version of this form: 1." },
    { .name = "aliases", .kind = FIELD_OTHER, .fallback = "", .doc = "Other names of a preset." },
    { .name = "sources",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Where single keys come from, by key, when not from source." },
    { .name = "params", .kind = FIELD_OTHER, .fallback = "", .doc = "Written, ignored when read." },
    { .name = "active_params",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Written, ignored when read." },
};
const size_t num_model_fields = sizeof model_fields / sizeof model_fields[0];
#undef TEXT
#undef F

bool model_is_gated(const struct model *model)
{
    return model->activation == ACTIVATION_SWIGLU || model->activation == ACTIVATION_GEGLU;
}

/* LayerNorm has a gain and a bias per channel, RMSNorm only the gain. */
static double norm_parameters(const struct model *model)
{
    return (model->norm == NORM_LAYER ? 2.0 : 1.0) * model->hidden;
}

/* All products and sums below are integers, so doubles are exact up to 2^53 = 9e15. */
static double attention_parameters(const struct model *model)
{
    double hidden = model->hidden;
    double q_width = (double)model->heads * model->head_dim;
    double qkv_width = q_width + 2.0 * model->kv_heads * model->head_dim;
    double weights = hidden * qkv_width + q_width * hidden;
    double biases = 0;
    if (model->linear_bias || model->qkv_bias)
        biases += qkv_width;
    if (model->linear_bias)
        biases += hidden;
    double norms = model->qk_norm ? 2.0 * model->head_dim : 0;
    return weights + biases + norms;
}

static double ffn_parameters(const struct model *model)
{
    double inputs = model_is_gated(model) ? 2 : 1; /* gate and up, or up alone */
    double weights = (inputs + 1) * model->hidden * model->ffn;
    double biases = model->linear_bias ? inputs * model->ffn + model->hidden : 0;
    return weights + biases;
}

double model_layer_parameters(const struct model *model)
{
    return attention_parameters(model) + ffn_parameters(model) + 2 * norm_parameters(model);
}

double model_embedding_parameters(const struct model *model)
{
    double rows = model->vocab;
    if (model->positions == POSITION_LEARNED)
        rows += model->max_positions;
    double norm = model->embedding_norm ? norm_parameters(model) : 0;
    return rows * model->hidden + norm;
}

double model_head_parameters(const struct model *model)
{
    double output = model->tied ? 0 : (double)model->vocab * model->hidden;
    return norm_parameters(model) + output;
}

double model_blocks_parameters(const struct model *model)
{
    int counts[MAX_BLOCK_KINDS];
    double parameters = 0;
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        parameters += counts[kind] * model_layer_parameters(&of);
    }
    return parameters;
}

double model_parameters(const struct model *model)
{
    return model_embedding_parameters(model) + model_blocks_parameters(model) +
           model_head_parameters(model);
}

/* The nearest divisor of `whole` at or past `start`, walking by `step`; 0 when there is none. */
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
    if (above == 0) /* more heads than channels: the search downwards must start at hidden */
        return err_set(err, ERR_INPUT, "heads", "%d heads are more than the %d channels of hidden",
                       model->heads, model->hidden);
    bool above_first = above - model->heads <= model->heads - below;
    return err_set(err, ERR_INPUT, "heads",
                   "num heads %d does not divide hidden %d; nearest that do: %d, %d", model->heads,
                   model->hidden, above_first ? above : below, above_first ? below : above);
}

const double usual_rope_theta = 10000;  /* Su et al. 2021 */
const double usual_norm_epsilon = 1e-5; /* PyTorch's LayerNorm, Megatron-LM, Llama 2 and 3 */

static bool derive_widths(struct model *model, struct err *err)
{
    if (model->kv_heads == 0)
        model->kv_heads = model->heads;
    if (model->head_dim == 0 && model->heads > 0) {
        if (model->hidden % model->heads != 0)
            return refuse_heads(model, err);
        model->head_dim = model->hidden / model->heads;
    }
    if (model->ffn == 0)
        model->ffn = 4 * model->hidden;
    return true;
}

bool model_derive(struct model *model, struct err *err)
{
    if (!derive_widths(model, err))
        return false;
    if (model->positions == POSITION_LEARNED && model->max_positions == 0)
        model->max_positions = model->seq;
    if (model->positions == POSITION_ROTARY && model->rope_theta == 0)
        model->rope_theta = usual_rope_theta;
    if (model->norm_epsilon == 0)
        model->norm_epsilon = usual_norm_epsilon;
    return model_check(model, err);
}

/* Models may come from elsewhere than fields_read. */
static bool check_texts(const struct model *model, struct err *err)
{
    if (model->name[0] == '\0')
        return err_set(err, ERR_INPUT, "name", "expected a name; found \"\"");
    for (size_t i = 0; i < num_model_fields; i++) {
        const struct field *field = &model_fields[i];
        const char *text = (const char *)model + field->offset;
        if (field->kind != FIELD_TEXT)
            continue;
        if (plain_fault(text))
            return err_set(err, ERR_INPUT, field->name, "expected one line of plain text");
    }
    return true;
}

/* Checks the bounds of integer fields again, for models that did not come through fields_read. */
static bool check_bounds(const struct model *model, struct err *err)
{
    for (size_t i = 0; i < num_model_fields; i++) {
        const struct field *field = &model_fields[i];
        if (field->kind != FIELD_INT)
            continue;
        int value;
        memcpy(&value, (const char *)model + field->offset, sizeof value);
        bool may_be_0 = field->offset == offsetof(struct model, max_positions) ||
                        field->offset == offsetof(struct model, sliding_window);
        double min = may_be_0 ? 0 : 1;
        if (value < min || value > field->max)
            return err_set(err, ERR_INPUT, field->name, "expected %.0f to %.0f; found %d", min,
                           field->max, value);
    }
    return true;
}

static bool check_positions(const struct model *model, struct err *err)
{
    if (model->positions == POSITION_LEARNED && model->max_positions < model->seq)
        return err_set(err, ERR_INPUT, "max_positions",
                       "%d learned positions are fewer than the %d tokens of a sequence",
                       model->max_positions, model->seq);
    if (model->positions != POSITION_LEARNED && model->max_positions != 0)
        return err_set(err, ERR_INPUT, "max_positions",
                       "expected 0 with %s positions, which have no table; found %d",
                       position_names[model->positions], model->max_positions);
    if (model->positions != POSITION_ROTARY && model->rope_theta != 0)
        return err_set(err, ERR_INPUT, "rope_theta",
                       "expected 0 with %s positions, which turn nothing; found %g",
                       position_names[model->positions], model->rope_theta);
    return true;
}

bool model_check(const struct model *model, struct err *err)
{
    if (!check_texts(model, err) || !check_bounds(model, err) || !blocks_check(model, err) ||
        !check_positions(model, err))
        return false;
    double parameters = model_parameters(model);
    if (parameters > 1e18)
        return err_set(err, ERR_INPUT, "layers", "%.3g parameters are more than 1e18", parameters);
    return true;
}

static bool check_format(const json_t *object, struct err *err)
{
    const json_t *format = json_object_get(object, "format");
    if (format && !(json_is_integer(format) && json_integer_value(format) == 1))
        return err_set(err, ERR_INPUT, "format", "expected 1, the only version of this form");
    return true;
}

/* `sources` documents other keys, so a slip in one of its keys is a slip in a file. */
static bool check_sources(const json_t *object, struct err *err)
{
    json_t *sources = json_object_get(object, "sources");
    if (!sources)
        return true;
    if (!json_is_object(sources))
        return err_set(err, ERR_INPUT, "sources", "expected an object of key and text");
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
           check_sources(object, err) && derive_widths(out, err) &&
           blocks_read(json_object_get(object, "blocks"), out, err) && model_derive(out, err);
}

json_t *model_write(const struct model *model)
{
    json_t *object = fields_write(model_fields, num_model_fields, model);
    double parameters = model_parameters(model);
    json_t *blocks = blocks_write(model);
    assert(parameters <= 1e18);
    if (blocks)
        json_object_set_new(object, "blocks", blocks);
    json_object_set_new(object, "params", json_integer((json_int_t)parameters));
    json_object_set_new(object, "active_params", json_integer((json_int_t)parameters));
    return object;
}
