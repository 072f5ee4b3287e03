/* Counts of parameters. All products and sums are of integers, so doubles are exact to 2^53 = 9e15.
 */
#include "models/blocks.h"
#include "models/model.h"

/* LayerNorm has a gain and a bias per channel, RMSNorm only the gain. */
static double norm_parameters(const struct model *model)
{
    return (model->norm == NORM_LAYER ? 2.0 : 1.0) * model->hidden;
}

static double qk_norm_parameters(const struct model *model)
{
    double gains = 0;
    switch ((enum qk_norm_kind)model->qk_norm_kind) {
    case QK_NORM_HEAD:
        gains = 2;
        break;
    case QK_NORM_EACH:
    case QK_NORM_ALL:
        gains = (double)model->heads + model->kv_heads;
        break;
    }
    return model->qk_norm ? gains * model->head_dim : 0;
}

/* The projections to queries, keys and values, and the output projection. */
static double plain_attention(const struct model *model)
{
    double hidden = model->hidden;
    double q_width = (double)model->heads * model->head_dim;
    double qkv_width = q_width + 2.0 * model->kv_heads * model->head_dim;
    double gate = model->attention_gate ? hidden * q_width : 0;
    double weights = hidden * qkv_width + q_width * hidden + gate;
    double biases = 0;
    if (model->linear_bias || model->qkv_bias)
        biases += qkv_width;
    if (model->linear_bias || model->out_bias)
        biases += hidden;
    double sinks = model->sinks ? model->heads : 0;
    if (model->positions == POSITION_TRANSFORMER_XL) /* W_k,R: add_relative_keys in attention.c */
        weights += hidden * q_width;
    return weights + biases + qk_norm_parameters(model) + sinks;
}

/* DeepSeek-V2 (arXiv:2405.04434), section 2.1: hidden -> q_lora -> heads of q, with a norm between;
 * hidden -> kv_lora and k's rotary channels; norm; kv_lora -> k's other channels and v. */
static double latent_attention(const struct model *model)
{
    double hidden = model->hidden, heads = model->heads;
    double q_lora = model->q_lora, kv_lora = model->kv_lora;
    double q_width = heads * ((double)model->qk_nope_dim + model->qk_rope_dim);
    double kv_width = heads * ((double)model->qk_nope_dim + model->v_head_dim);
    double q = q_lora > 0 ? hidden * q_lora + q_lora + q_lora * q_width : hidden * q_width;
    double kv = hidden * (kv_lora + model->qk_rope_dim) + kv_lora + kv_lora * kv_width;
    return q + kv + heads * model->v_head_dim * hidden;
}

/* DeepSeek-V3.2's indexer: the rows from which queries are projected -> its heads, hidden -> one
 * key with a LayerNorm, hidden -> a weight for each head. */
static double indexer(const struct model *model)
{
    double heads = model->index_heads, dim = model->index_dim, hidden = model->hidden;
    double query_rows = model->q_lora > 0 ? model->q_lora : hidden;
    return query_rows * heads * dim + hidden * dim + 2 * dim + hidden * heads;
}

/* Qwen3-Next: hidden -> q, k, v and a gate as wide as v; hidden -> two rates per value head; a
 * convolution over q, k and v; the scan's A and bias per head; a norm per head; the output. */
static double delta_rule(const struct model *model)
{
    double hidden = model->hidden, value_heads = model->linear_value_heads;
    double keys = (double)model->linear_key_heads * model->linear_key_dim;
    double values = value_heads * model->linear_value_dim;
    double products = hidden * (2 * keys + 2 * values + 2 * value_heads) + values * hidden;
    double convolution = (2 * keys + values) * model->linear_conv;
    return products + convolution + 2 * value_heads + model->linear_value_dim;
}

/* MiniMax-01 (arXiv:2501.08313): q, k, v, the gate and the output, and a norm over all heads. */
static double lightning_attention(const struct model *model)
{
    double width = (double)model->heads * model->head_dim;
    return 5 * model->hidden * width + width;
}

/* Mamba-2 (arXiv:2405.21060): hidden -> gate, x, B, C and a step size per head; a convolution with
 * bias over x, B and C; A, D and the step size's bias per head; a norm over all heads; the
 * output. */
static double state_space(const struct model *model)
{
    double hidden = model->hidden, heads = model->linear_value_heads;
    double inner = heads * model->linear_value_dim;
    double convolved = inner + 2.0 * model->linear_key_heads * model->linear_key_dim;
    double products = hidden * (inner + convolved + heads) + inner * hidden;
    return products + convolved * (model->linear_conv + 1.0) + 3 * heads + inner;
}

static double softmax_attention(const struct model *model)
{
    return model->kv_lora > 0 ? latent_attention(model) : plain_attention(model);
}

static double attention_parameters(const struct model *model)
{
    switch ((enum attention_kind)model->attention) {
    case ATTENTION_FULL:
    case ATTENTION_WINDOW:
    case ATTENTION_CHUNK:
    case ATTENTION_ENCODER:
    case ATTENTION_BLOCKS:
        return softmax_attention(model);
    case ATTENTION_SPARSE:
        return softmax_attention(model) + indexer(model);
    case ATTENTION_CROSS:
        return 2 * softmax_attention(model);
    case ATTENTION_LOW_RANK:
        return softmax_attention(model) + 2.0 * model->attention_rank * model->seq;
    case ATTENTION_DELTA:
        return delta_rule(model);
    case ATTENTION_LIGHTNING:
        return lightning_attention(model);
    case ATTENTION_MAMBA:
        return state_space(model);
    case ATTENTION_NONE:
        break;
    }
    return 0;
}

/* Attention (or another mixer) and feed-forward have one norm each, or two norms around each. */
static double count_norms(const struct model *model)
{
    bool has_attention = model->attention != ATTENTION_NONE;
    bool has_feed_forward = model->feed_forward != FEED_FORWARD_NONE;
    bool shares_one = model->parallel == PARALLEL_ONE_NORM && has_attention && has_feed_forward;
    int parts = has_attention + (model->attention == ATTENTION_CROSS) + has_feed_forward;
    int norms = shares_one ? parts - 1 : parts;
    return model->norm_place == NORMS_AROUND ? 2 * norms : norms;
}

/* A feed-forward of `width`: up and down projections, and a gate projection if it is gated. */
static double ffn_parameters(const struct model *model, double width, bool has_bias)
{
    double inputs = model_is_gated(model) ? 2 : 1;
    double weights = (inputs + 1) * model->hidden * width;
    return weights + (has_bias ? inputs * width + model->hidden : 0);
}

/* Parameters of `experts` experts, the whole router and all shared experts. */
static double expert_parameters(const struct model *model, double experts)
{
    double one = ffn_parameters(model, model->expert_ffn, model->expert_bias);
    double shared = model->shared_ffn > 0 ? ffn_parameters(model, model->shared_ffn, false) : 0;
    double router = (double)model->hidden * model->experts;
    double biases =
        (model->router_bias ? model->experts : 0.0) + (model->score_bias ? model->experts : 0.0);
    double gate = model->shared_gate ? model->hidden : 0;
    return experts * one + shared + router + biases + gate;
}

/* Parameters of a block with `experts` experts. */
static double layer_parameters(const struct model *model, double experts)
{
    double feed_forward = 0;
    switch ((enum feed_forward_kind)model->feed_forward) {
    case FEED_FORWARD_DENSE:
        feed_forward = ffn_parameters(model, model->ffn, model->linear_bias || model->ffn_bias);
        break;
    case FEED_FORWARD_EXPERTS:
        feed_forward = expert_parameters(model, experts);
        break;
    case FEED_FORWARD_NONE:
        break;
    }
    return attention_parameters(model) + feed_forward + count_norms(model) * norm_parameters(model);
}

double model_layer_parameters(const struct model *model)
{
    return layer_parameters(model, model->experts);
}

double model_layer_active_parameters(const struct model *model)
{
    return layer_parameters(model, model->topk);
}

/* Number of stacks of blocks: 2 for an encoder and a decoder, else 1. */
static int num_stacks(const struct model *model)
{
    return model_has_attention(model, ATTENTION_CROSS) ? 2 : 1;
}

double model_embedding_parameters(const struct model *model)
{
    double rows = model->vocab;
    if (model->positions == POSITION_LEARNED)
        rows += model->max_positions;
    rows += model->token_types;
    double norm = model->embedding_norm ? norm_parameters(model) : 0;
    double biases = (double)model->relative_buckets * model->heads * num_stacks(model);
    return rows * model->hidden + norm + biases;
}

double model_head_parameters(const struct model *model)
{
    double output = model->tied ? 0 : (double)model->vocab * model->hidden;
    double bias = model->head_bias ? model->vocab : 0;
    double hidden = model->hidden, transform = model->head_transform ? hidden * hidden + hidden : 0;
    return num_stacks(model) * norm_parameters(model) + output + bias + transform;
}

/* The sum of `of_layer` over all blocks. */
static double sum_blocks(const struct model *model, double (*of_layer)(const struct model *of_kind))
{
    int counts[MAX_BLOCK_KINDS];
    double parameters = 0;
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        parameters += counts[kind] * of_layer(&of);
    }
    return parameters;
}

double model_blocks_parameters(const struct model *model)
{
    return sum_blocks(model, model_layer_parameters);
}

double model_parameters(const struct model *model)
{
    return model_embedding_parameters(model) + model_blocks_parameters(model) +
           model_head_parameters(model);
}

double model_active_parameters(const struct model *model)
{
    return model_embedding_parameters(model) + sum_blocks(model, model_layer_active_parameters) +
           model_head_parameters(model);
}

static double layer_score_biases(const struct model *of_kind)
{
    return of_kind->score_bias ? of_kind->experts : 0;
}

double model_untrained_parameters(const struct model *model)
{
    return sum_blocks(model, layer_score_biases);
}

/* Source: DeepSeek-V3 (arXiv:2412.19437), section 2.2. */
double model_mtp_parameters(const struct model *model)
{
    struct model last = model_of_later(model);
    double projection = 2.0 * model->hidden * model->hidden;
    double module = 3 * norm_parameters(model) + projection + model_layer_parameters(&last);
    return model->mtp * module;
}
