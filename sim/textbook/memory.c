/* Bytes of training state and of activations by the formulas of lectures (docs/lecture.md) and
 * papers. A recipe of training states which values are stored for each parameter, and their
 * types. */
#include "sim/textbook/memory.h"

#include "base/length.h"
#include "sim/plan/state_share.h"

#include <assert.h>
#include <math.h>

/* Rows of Megatron-LM docs/user-guide/features/dist_optimizer.md; "deepspeed" is Rajbhandari et al.
 * 2020, section 3.1 (K = 12), and "bf16-pure" MosaicML's setting of that name. Momentum (Polyak
 * 1964) has one moment, Adam two. */
// clang-format off
const struct textbook_recipe textbook_recipes[] = {
    { "fp32", "all in fp32: parameter, gradient, two moments", 4, 4, 8 },
    { "fp32-momentum", "all in fp32: parameter, gradient, one moment", 4, 4, 4 },
    { "fp16", "fp16 parameter and gradient; fp32 gradient, master and moments", 2, 2, 16 },
    { "bf16", "bf16 parameter; fp32 gradient, master and moments", 2, 4, 12 },
    { "deepspeed", "half-precision parameter and gradient; fp32 master and moments", 2, 2, 12 },
    { "bf16-pure", "all in bf16: parameter, gradient, two moments", 2, 2, 4 },
    { "bf16-pure-momentum", "all in bf16: parameter, gradient, one moment", 2, 2, 2 },
    { "fp8", "fp8 parameter; fp32 gradient, master and moments", 1, 4, 12 },
    { "fp8-transposed", "as fp8, with a transposed copy of the parameter (Hopper)", 2, 4, 12 },
    { "mxfp8", "as fp8, with copies along rows and columns, a scale per 32 values", 2.0625, 4, 12 },
    { "precision-aware", "bf16 parameter and moments; fp32 gradient and master", 2, 4, 8 },
};
// clang-format on
const int num_textbook_recipes = LENGTH(textbook_recipes);

/* Each ZeRO stage shards one more part of the state over the ranks: optimizer state, then
 * gradients, then weights. Rajbhandari et al. 2020, figure 1. */
struct textbook_state textbook_state(const struct textbook_recipe *recipe, double parameters,
                                     int zero, int num_ranks)
{
    int parameter_ranks = zero_cuts(zero, STATE_PARAMETERS) ? num_ranks : 1;
    int gradient_ranks = zero_cuts(zero, STATE_GRADIENTS) ? num_ranks : 1;
    int optimizer_ranks = zero_cuts(zero, STATE_OPTIMIZER) ? num_ranks : 1;
    return (struct textbook_state){
        .weights_bytes = parameters * recipe->parameter_bytes / parameter_ranks,
        .gradients_bytes = parameters * recipe->gradient_bytes / gradient_ranks,
        .optimizer_bytes = parameters * recipe->optimizer_bytes / optimizer_ranks,
    };
}

double textbook_state_bytes(const struct textbook_state *state)
{
    return state->weights_bytes + state->gradients_bytes + state->optimizer_bytes;
}

double textbook_largest_model(double memory_bytes, double bytes_per_parameter)
{
    return memory_bytes / bytes_per_parameter;
}

/* b l (2 s^2 a + 14 s h) for batch b, l layers, sequence s, a heads, width h: scores and
 * probabilities of each head, and 14 values per token and channel. The lecture states only the sum
 * 14. We count it as input 1, query-key-value 3, context 1, feed-forward input 1, and 8 for two
 * tensors of the inner width. */
double textbook_activation_values(const struct model *model, struct textbook_batch batch)
{
    double s = batch.seq;
    double attention = 2 * s * s * model->heads;
    double linear = 14 * s * model->hidden;
    return (double)batch.sequences * model->layers * (attention + linear);
}

/* (48 l h^2 + b l (2 s^2 a + 14 s h)) x 4 bytes. Each of the layers' 12 l h^2 parameters has four
 * values: parameter, gradient and two moments. The rest are the activations above. */
double textbook_training_bytes(const struct model *model, struct textbook_batch batch)
{
    double fp32_bytes = 4;
    double state_values = 4 * model->layers * textbook_layer_parameters(model);
    return (state_values + textbook_activation_values(model, batch)) * fp32_bytes;
}

/* 2 [4 Phi + (b/N) Theta]: every rank keeps, at 2 bytes each, four values for each of the Phi
 * parameters and the activations of its b/N sequences, Theta per sequence. Only the activations
 * shrink with more ranks N. Rajbhandari et al. 2020, section 3, count the same with K = 12. */
double textbook_data_parallel_bytes(double parameters, double values_per_sequence,
                                    double sequences_per_rank)
{
    double half_bytes = 2;
    return half_bytes * (4 * parameters + sequences_per_rank * values_per_sequence);
}

/* 2 Phi: one gradient per parameter, at 2 bytes. */
double textbook_data_parallel_traffic_bytes(double parameters)
{
    double half_bytes = 2;
    return half_bytes * parameters;
}

/* Number of values and of one-byte masks that a layer keeps, divided by s b h (sequence,
 * microbatch, width). The numbers of attention's values and masks are multiplied by a s / h (a:
 * number of heads). */
struct kept {
    double values, masks;                     /* held whole by every tensor rank */
    double split_values, split_masks;         /* divided over tensor ranks */
    double attention_values, attention_masks; /* of attention, divided over tensor ranks */
};

/* Korthikanti et al. 2022, table 2. In half precision without any parallelism s b h (34 + 5 a s/h):
 * attention keeps 11 + 5 a s / h (input 2, q k v 6, projection input 2, mask 1; probabilities 2,
 * their mask 1, dropped probabilities 2), feed-forward 19 (input 2, inner 8 + 8, mask 1), norms 4.
 * So the 34 bytes are 16 values and 2 masks, the 5 bytes 2 values and 1 mask. Under tensor
 * parallelism every rank holds the inputs, norms and masks whole: 4 values and 2 masks, 10 of the
 * 34 bytes. */
static const struct kept kepts[NUM_TEXTBOOK_KEEPS] = {
    [TEXTBOOK_KEEP_ALL] = { 4, 2, 12, 0, 2, 1 },
    [TEXTBOOK_KEEP_SEQUENCE] = { 0, 0, 16, 2, 2, 1 },
    [TEXTBOOK_KEEP_SELECTIVE] = { 4, 2, 12, 0, 0, 0 },
    [TEXTBOOK_KEEP_SEQUENCE_SELECTIVE] = { 0, 0, 16, 2, 0, 0 },
    [TEXTBOOK_KEEP_INPUT] = { 1, 0, 0, 0, 0, 0 },
    [TEXTBOOK_KEEP_SEQUENCE_INPUT] = { 0, 0, 1, 0, 0, 0 },
};

enum textbook_keep textbook_keep_input(enum textbook_keep keep)
{
    bool sequence = keep == TEXTBOOK_KEEP_SEQUENCE || keep == TEXTBOOK_KEEP_SEQUENCE_SELECTIVE ||
                    keep == TEXTBOOK_KEEP_SEQUENCE_INPUT;
    return sequence ? TEXTBOOK_KEEP_SEQUENCE_INPUT : TEXTBOOK_KEEP_INPUT;
}

struct textbook_kept textbook_kept(enum textbook_keep keep, double value_bytes)
{
    const struct kept *kept = &kepts[keep];
    return (struct textbook_kept){
        .whole_bytes = kept->values * value_bytes + kept->masks,
        .split_bytes = kept->split_values * value_bytes + kept->split_masks,
        .attention_bytes = kept->attention_values * value_bytes + kept->attention_masks,
    };
}

double textbook_layer_activation_bytes(const struct model *model, enum textbook_keep keep,
                                       int tensor, struct textbook_batch microbatch,
                                       double value_bytes)
{
    struct textbook_kept kept = textbook_kept(keep, value_bytes);
    double h = model->hidden;
    double scores_per_value = (double)model->heads * microbatch.seq / h;
    double sbh = (double)microbatch.sequences * microbatch.seq * h;
    double split = kept.split_bytes + kept.attention_bytes * scores_per_value;
    return sbh * (kept.whole_bytes + split / tensor);
}

/* N/K + K for N layers: N/K kept inputs, and the K layers that are recomputed together. Chen et al.
 * 2016. */
double textbook_checkpointed_layers(double num_layers, double interval)
{
    return num_layers / interval + interval;
}

/* The derivative of N/K + K, 1 - N/K^2, is zero at K = sqrt(N), where 2 sqrt(N) layers are held. */
double textbook_best_interval(double num_layers)
{
    return sqrt(num_layers);
}
