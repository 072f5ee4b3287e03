#include "models/model.h"

#include "base/plain.h"
#include "models/training.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

const char *const norm_names[] = { "layernorm", "rmsnorm", "layernorm_gain", NULL };
const char *const activation_names[] = { "gelu", "relu", "swiglu", "geglu", "relu2", NULL };
const char *const qk_norm_names[] = { "head", "each", "all", NULL };
const char *const position_names[] = { "learned",  "rotary",         "alibi", "none",
                                       "relative", "transformer_xl", NULL };
const char *const norm_place_names[] = { "before", "after", "around", NULL };
const char *const parallel_names[] = { "no", "own_norms", "one_norm", NULL };

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
      .doc =
          "How a token's position enters; transformer_xl: every block projects the distances, and "
          "queries are multiplied by them." },
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
    /* Rows from here on are written only where they differ from their fallback, which is 0. */
    { F(attention), .kind = FIELD_NAME, .names = attention_kind_names, .fallback = "full",
      .doc = "What mixes the tokens of a block." },
    { F(attention_chunk), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Tokens of a chunk that attention of kind chunk stays within; 0: no chunks." },
    { F(sinks), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A learned score per query head that takes weight from all others." },
    { F(attention_gate), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A product as wide as q gates the output of attention." },
    { F(out_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Bias on the output of attention even without linear_bias." },
    { F(ffn_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases of a dense feed-forward even without linear_bias." },
    { F(head_bias), .kind = FIELD_BOOL, .fallback = "no", .doc = "Bias of the output head." },
    { F(head_transform), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A product hidden -> hidden with bias before the last norm." },
    { F(token_types), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Rows of a table of kinds of tokens that is added to the embedding." },
    { F(norm_place), .kind = FIELD_NAME, .names = norm_place_names, .fallback = "before",
      .doc = "Norms of attention and of the feed-forward: before each, after it, or both." },
    { F(parallel), .kind = FIELD_NAME, .names = parallel_names, .fallback = "no",
      .doc = "Attention and feed-forward read the same input: with a norm each, or one for both." },
    { F(relative_buckets), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Ranges of distances with a bias per head, of relative positions." },
    { F(qk_norm_kind), .kind = FIELD_NAME, .names = qk_norm_names, .fallback = "head",
      .doc = "Gains of qk_norm: shared by all heads, each head's own, or of one norm over all." },
    { F(experts), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Experts of a block; 0: a dense feed-forward." },
    { F(topk), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Experts that a token goes to." },
    { F(expert_ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of an expert; 0 or absent: ffn." },
    { F(shared_ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of all experts together that every token goes to; 0: none." },
    { F(first_dense), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "First blocks with a dense feed-forward in place of experts." },
    { F(moe_step), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "Experts in every so many blocks, the last of each; 0 or 1: in all." },
    { F(expert_groups), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Groups of experts that the router chooses first; 0: none." },
    { F(topk_groups), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Groups that a token's experts are in; 0: any." },
    { F(shared_gate), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A product hidden -> 1 scales the shared experts' output." },
    { F(router_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Trained biases of the router." },
    { "routing", .offset = offsetof(struct model, routing.kind), .kind = FIELD_NAME,
      .names = routing_names, .fallback = "balanced",
      .doc = "How tokens spread over experts: equally, at random, by a popularity with deviation "
             "routing_cv, or so that the fullest rank has routing_factor times the mean. Written "
             "by --routing, as are the next two." },
    { "routing_cv", .offset = offsetof(struct model, routing.cv), .kind = FIELD_NUMBER, .min = 0,
      .max = 10, .fallback = "0",
      .doc = "Standard deviation of experts' popularity over its mean." },
    { "routing_factor", .offset = offsetof(struct model, routing.factor), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e6, .fallback = "0", .doc = "Largest load of a rank over the mean." },
    { F(score_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases of the choice of experts, without gradient or optimizer state." },
    { F(expert_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases on the projections of experts." },
    { F(q_lora), .kind = FIELD_INT, .min = 0, .max = 1e7, .fallback = "0",
      .doc = "Latent attention: channels that q is made of; 0: hidden." },
    { F(kv_lora), .kind = FIELD_INT, .min = 0, .max = 1e7, .fallback = "0",
      .doc = "Latent attention: channels that k and v are made of; 0: plain attention." },
    { F(qk_nope_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Latent attention: channels of a head of q and k without rotary angles." },
    { F(qk_rope_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Latent attention: channels of a head with rotary angles; k's are shared by heads." },
    { F(v_head_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Latent attention: channels of a head of v." },
    { F(index_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Sparse attention: heads of the indexer that chooses keys." },
    { F(index_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Sparse attention: width of one of its heads." },
    { F(index_topk), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Sparse attention: keys that a token attends to." },
    { F(linear_key_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Heads of keys of a delta rule; of Mamba, groups of B and C." },
    { F(linear_value_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Heads of values of a delta rule; of Mamba, its heads." },
    { F(linear_key_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Width of a key; of Mamba, the size of the state." },
    { F(linear_value_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Width of a value; of Mamba, of a head." },
    { F(linear_conv), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Tokens that the convolution before them sees." },
    { F(mtp), .kind = FIELD_INT, .min = 0, .max = 1000, .fallback = "0",
      .doc = "Modules that predict later tokens; counted apart from the model." },
    { F(lora), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Rank of adapters beside linear layers, which alone are trained; 0: none. Written by "
             "--train, as are the next two." },
    { F(trained_layers), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "Last blocks that are trained, with the head; 0: all." },
    { TEXT(trained), .kind = FIELD_TEXT, .fallback = "",
      .doc =
          "Names of the weights that are trained, or with lora of the layers that have adapters, "
          "with commas between and * for anything; empty: all." },
    { F(reference), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A model that is not trained runs forward over each batch beside this one." },
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
    { .name = "mtp_params",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Of the mtp modules, which params leaves out; written, ignored when read." },
};
const size_t num_model_fields = sizeof model_fields / sizeof model_fields[0];
#undef TEXT
#undef F

bool model_is_gated(const struct model *model)
{
    return model->activation == ACTIVATION_SWIGLU || model->activation == ACTIVATION_GEGLU;
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
           check_sources(object, err) && model_derive_widths(out, err) &&
           blocks_read(json_object_get(object, "blocks"), out, err) && model_derive(out, err);
}

/* Removes rows from "attention" on whose value is the fallback: most models have none of them. */
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
