/* The time and memory of a training step by textbook formulas. Only pipeline transfers overlap
 * compute, and all GPUs and stages are equal. */
#include "sim/textbook/estimate.h"
#include "base/length.h"
#include "sim/plan/state_share.h"
#include "sim/textbook/pipeline.h"

#include <assert.h>

#define F(member) #member, .offset = offsetof(struct textbook_estimate, member)
#define NUMBER    .kind = FIELD_NUMBER
#define SECONDS   .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS
#define BYTES     .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES
// clang-format off
const struct field textbook_estimate_fields[] = {
    { F(parameters), NUMBER, .doc = "P = 12 l h^2 + 2 v h" },
    { F(tokens), NUMBER, .doc = "T = batch x seq" },
    { F(flops), NUMBER, .doc = "6 T P for T tokens and P parameters, 8 T P with full recompute; "
                               "(6 + 2 r) T P if a share r of the layers is recomputed" },
    { F(microbatches), NUMBER, .doc = "m = batch / (dp x microbatch)" },
    { F(compute_s), SECONDS, .doc = "flops / (N F U)" },
    { F(bubble_s), SECONDS,
      .doc = "compute (p-1) / (v m); naive: compute (p-1); ZB-H1: a third; ZB-H2: none" },
    { F(tensor_comm_s), SECONDS,
      .doc = "m l/p x (4 + 2 r) all-reduces of 2 (t-1) (alpha + w s b h/(t B)), w bytes a value" },
    { F(data_comm_s), SECONDS,
      .doc = "ring 2 (n-1) (alpha + S/(n B)), a pass (n-1) (alpha + S/(n B)); ZeRO 1-2: gradients, "
             "weights; ZeRO 3: gradients, weights twice; K servers 2 (n-1) S/(K B); d neighbours "
             "d (alpha + S/B); every H steps: 1/H" },
    { F(pipeline_comm_low_s), SECONDS,
      .doc = "2 (p v - 1) (alpha + w s b h/B), of one microbatch; naive: times m" },
    { F(pipeline_comm_high_s), SECONDS,
      .doc = "2 (p v - 1 + v (m-1)) (alpha + w s b h/B): the full batch" },
    { F(step_s), SECONDS, .doc = "compute + bubble + tensor + data + pipeline, one microbatch" },
    { F(step_high_s), SECONDS, .doc = "compute + bubble + tensor + data + pipeline, full batch" },
    { F(tokens_per_s), NUMBER, .doc = "T / step" },
    { F(weights_bytes), BYTES, .doc = "P/(t p) x bytes of a weight; / dp with ZeRO 3" },
    { F(gradients_bytes), BYTES, .doc = "P/(t p) x bytes of a gradient; / dp from ZeRO 2" },
    { F(optimizer_bytes), BYTES,
      .doc = "P/(t p) x bytes of master copy and moments; / dp from ZeRO 1" },
    { F(activations_bytes), BYTES,
      .doc = "l (v > 1: l (1 + (p-1)/(p v)); GPipe: l m/p; naive: l/p) x s b h (10 + 24/t + 5 a "
             "s/(h t)), or its variant; full:K keeps w s b h of every K-th" },
    { F(working_set_bytes), BYTES, .doc = "activations of the K layers that are recomputed at once" },
    { F(memory_bytes), BYTES,
      .doc = "weights + gradients + optimizer + activations + working set" },
};
// clang-format on
#undef F
#undef NUMBER
#undef SECONDS
#undef BYTES
const size_t num_textbook_estimate_fields = LENGTH(textbook_estimate_fields);

struct textbook_pipeline textbook_pipeline_of(const struct textbook_setup *setup)
{
    int per_round = setup->data * setup->microbatch;
    assert(per_round > 0 && setup->batch % per_round == 0);
    return (struct textbook_pipeline){
        .stages = setup->pipeline,
        .chunks = setup->chunks,
        .microbatches = setup->batch / per_round,
        .schedule = setup->schedule,
    };
}

struct textbook_batch textbook_microbatch_of(const struct textbook_setup *setup)
{
    return (struct textbook_batch){ .sequences = setup->microbatch, .seq = setup->seq };
}

/* The activations of one microbatch between two layers: s b h values, for sequence length,
 * microbatch size and hidden width. */
double textbook_boundary_bytes(const struct textbook_setup *setup)
{
    return setup->value_bytes * setup->seq * setup->microbatch * setup->model->hidden;
}

/* A layer has four matrices: query-key-value with 3 h outputs, projection with h, feed-forward with
 * 4 h and with h, together 12 h^2 parameters. Embedding and head have one row per word of the
 * vocabulary. Tensor ranks divide the rows. */
void textbook_fill_load(const struct textbook_setup *setup, struct textbook_load *out)
{
    double h = setup->model->hidden, rows = h / setup->tensor;
    double layers = (double)setup->model->layers / setup->pipeline;
    double vocab_rows = (double)setup->model->vocab / setup->tensor;
    *out = (struct textbook_load){
        .load = { out->tensors, 4, setup->reduce_bytes },
        .tensors = { { 3 * rows, h, layers },
                     { rows, h, layers },
                     { 4 * rows, h, 2 * layers },
                     { vocab_rows, h, 2.0 / setup->pipeline } },
    };
}

/* Attention and feed-forward each all-reduce their output in the forward and their input's gradient
 * in the backward; full recompute repeats the forward. Sequence parallelism splits each all-reduce
 * into a reduce-scatter and an all-gather of the same time. Shoeybi et al. 2019, section 3. */
static double tensor_comm_s(const struct textbook_setup *setup, double microbatches)
{
    double all_reduces = 4 + 2 * setup->recomputed;
    double layers = (double)setup->model->layers / setup->pipeline;
    double each_s = textbook_ring_all_reduce_s(&setup->tensor_link, setup->tensor,
                                               textbook_boundary_bytes(setup));
    return microbatches * layers * all_reduces * each_s;
}

static int num_shards(const struct textbook_setup *setup)
{
    return setup->shards > 0 ? setup->shards : setup->data;
}

struct textbook_link textbook_shard_link(const struct textbook_setup *setup)
{
    int shards = num_shards(setup);
    return shards == setup->data ? setup->data_link : textbook_ring_link(&setup->wires, shards, 1);
}

/* Communication of ZeRO, once per step. ZeRO 1 and 2 move as many bytes as an all-reduce in the
 * same precision. ZeRO 3 gathers the weights twice, for forward and backward, and so moves 1.5
 * times as much. Rajbhandari et al. 2020, section 7. Ranks that hold the same shard all-reduce its
 * gradients. Zhao et al. 2023, section 3.2.2. */
static double zero_comm_s(const struct textbook_setup *setup, double parameters)
{
    int shards = num_shards(setup);
    double gradients_bytes = parameters * setup->reduce_bytes;
    double weights_bytes = parameters * setup->recipe.parameter_bytes;
    struct textbook_link shard = textbook_shard_link(setup);
    double gathers = zero_cuts(setup->zero, STATE_PARAMETERS) ? 2 : 1;
    double shards_s = textbook_ring_reduce_scatter_s(&shard, shards, gradients_bytes) +
                      gathers * textbook_ring_all_gather_s(&shard, shards, weights_bytes);
    int replicas = setup->data / shards;
    if (replicas == 1)
        return shards_s;
    struct textbook_link replica = textbook_ring_link(&setup->wires, replicas, shards);
    return shards_s + textbook_ring_all_reduce_s(&replica, replicas, gradients_bytes / shards);
}

static double data_comm_s(const struct textbook_setup *setup, double parameters)
{
    if (zero_cuts(setup->zero, STATE_OPTIMIZER))
        return zero_comm_s(setup, parameters);
    if (exchange_is_default(&setup->exchange))
        return textbook_ring_all_reduce_s(&setup->data_link, setup->data,
                                          parameters * setup->reduce_bytes);
    struct textbook_load load;
    textbook_fill_load(setup, &load);
    return textbook_exchange_s(&setup->wires, &setup->exchange, &load.load);
}

static void estimate_time(const struct textbook_setup *setup, struct textbook_estimate *out)
{
    struct textbook_pipeline pipeline = textbook_pipeline_of(setup);
    struct textbook_gpus gpus = {
        .count = setup->tensor * setup->pipeline * setup->data,
        .peak_flops_per_s = setup->peak_flops_per_s,
    };
    double shard_parameters = out->parameters / (setup->tensor * setup->pipeline);
    double message_s = textbook_message_s(&setup->pipeline_link, textbook_boundary_bytes(setup));

    out->compute_s = textbook_compute_s(gpus, out->flops, setup->utilization);
    out->bubble_s = out->compute_s * textbook_bubble_of_useful(pipeline);
    out->tensor_comm_s = tensor_comm_s(setup, out->microbatches);
    out->data_comm_s = data_comm_s(setup, shard_parameters);
    out->pipeline_comm_low_s = textbook_pipeline_low_s(pipeline, message_s);
    out->pipeline_comm_high_s = textbook_pipeline_high_s(pipeline, message_s);

    double others_s = out->compute_s + out->bubble_s + out->tensor_comm_s + out->data_comm_s;
    out->step_s = others_s + out->pipeline_comm_low_s;
    out->step_high_s = others_s + out->pipeline_comm_high_s;
    out->tokens_per_s = out->tokens / out->step_s;
}

static double layer_bytes(const struct textbook_setup *setup, enum textbook_keep keep)
{
    return textbook_layer_activation_bytes(setup->model, keep, setup->tensor,
                                           textbook_microbatch_of(setup), setup->value_bytes);
}

/* Recompute with one kept input per K layers holds N/K inputs and, during the backward, the K
 * layers that are recomputed together (Chen et al. 2016). */
static void estimate_memory(const struct textbook_setup *setup, struct textbook_estimate *out)
{
    double shard_parameters = out->parameters / (setup->tensor * setup->pipeline);
    struct textbook_state state =
        textbook_state(&setup->recipe, shard_parameters, setup->zero, num_shards(setup));
    double layers = textbook_layers_in_flight(textbook_pipeline_of(setup), setup->model->layers);
    double interval = setup->interval > 0 ? setup->interval : 1;
    double whole_bytes = layer_bytes(setup, setup->keep);
    double input_bytes = layer_bytes(setup, textbook_keep_input(setup->keep));

    out->weights_bytes = state.weights_bytes;
    out->gradients_bytes = state.gradients_bytes;
    out->optimizer_bytes = state.optimizer_bytes;
    out->activations_bytes = layers * ((1 - setup->recomputed) * whole_bytes +
                                       setup->recomputed / interval * input_bytes);
    out->working_set_bytes = setup->recomputed > 0 ? interval * whole_bytes : 0;
    out->memory_bytes =
        textbook_state_bytes(&state) + out->activations_bytes + out->working_set_bytes;
}

struct textbook_estimate textbook_estimate(const struct textbook_setup *setup)
{
    struct textbook_estimate out = { 0 };
    out.parameters = textbook_parameters(setup->model);
    out.tokens = (double)setup->batch * setup->seq;
    out.flops = textbook_flops(out.parameters, out.tokens, setup->recomputed);
    out.microbatches = textbook_pipeline_of(setup).microbatches;
    estimate_time(setup, &out);
    estimate_memory(setup, &out);
    return out;
}
