/* A stage's tail: the time that it adds once per step after its passes. It consists of exposed
 * reductions and gathers of data ranks, and of the optimizer. */
#include "sim/engine/evaluation.h"

#include "models/trained_weights.h"

#include "sim/cost/exchange.h"
#include "sim/cost/group_links.h"
#include "sim/cost/runtime.h"
#include "sim/cost/stage_load.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/offload.h"
#include "sim/exchange/averaging.h"
#include "sim/exchange/robust.h"
#include "sim/memory/held.h"
#include "sim/plan/state_share.h"

#include <math.h>

/* Whether the gradients of a chunk are reduced in buckets. PyTorch's pipelines let DDP and FSDP
 * reduce their buckets in the last microbatch's backward, on every stage
 * (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync); Megatron's pipelines use
 * buckets on no stage, or on the first. */
static bool has_buckets(const struct evaluation *w, int stage)
{
    if (plan_keeps_sums(w->plan)) /* FSDP reduces after the last backward */
        return false;
    switch ((enum pipeline_buckets)w->system->stack.shards.pipeline_buckets) {
    case PIPELINE_BUCKETS_NONE:
        return w->plan->pp == 1;
    case PIPELINE_BUCKETS_FIRST:
        return stage == placement_embedding_stage(plan_placement(w->plan));
    case PIPELINE_BUCKETS_ALL:
        break;
    }
    return true;
}

/* Buckets of one chunk of `bytes`. */
static double num_chunk_buckets(const struct evaluation *w, double bytes, int stage)
{
    double bucket_bytes = w->system->stack.shards.bucket_bytes;
    bool is_cut = has_buckets(w, stage) && bucket_bytes > 0 && bytes > bucket_bytes;
    return is_cut ? ceil(bytes / bucket_bytes) : 1;
}

static double num_buckets(const struct evaluation *w, double bytes, int stage)
{
    int chunks = w->plan->vpp;
    return chunks * num_chunk_buckets(w, bytes / chunks, stage);
}

static double chunk_window_s(const struct evaluation *w, int stage, bool backward)
{
    enum chunk_pass last = generator_splits(w->generator) ? CHUNK_WEIGHT : CHUNK_BACKWARD;
    int chunk = evaluation_chunk(w, stage, 0);
    return w->duration_s[CHUNK_PASSES * chunk + (int)(backward ? last : CHUNK_FORWARD)];
}

/* Time of the compute that can overlap reductions (a stage's last backwards) or gathers (its first
 * forwards). Chunks of an interleaved schedule are pp microbatches apart. */
static double window_s(const struct evaluation *w, int stage, bool backward)
{
    const struct plan *plan = w->plan;
    double chunk_s = chunk_window_s(w, stage, backward);
    return plan->vpp == 1 ? chunk_s : (double)plan->vpp * plan->pp * chunk_s;
}

static double visible_s(const struct evaluation *w, enum overlap overlap, double comm_s,
                        double bytes, int stage)
{
    if (comm_s <= 0 || !plan_overlaps(w->plan, &w->system->stack, overlap))
        return comm_s;
    return exposed_s(&w->system->profile, comm_s, window_s(w, stage, overlap == OVERLAP_GRAD),
                     num_buckets(w, bytes, stage));
}

/* Exposed time of reductions if each chunk's reduction overlaps the chunk's last backward. All of
 * it is exposed if a chunk is at most one bucket. */
static double after_chunks_s(const struct evaluation *w, double reduce_s, double bytes, int stage)
{
    int chunks = w->plan->vpp;
    double buckets = num_chunk_buckets(w, bytes / chunks, stage);
    if (buckets <= 1 || !plan_overlaps(w->plan, &w->system->stack, OVERLAP_GRAD))
        return reduce_s;
    return chunks * exposed_s(&w->system->profile, reduce_s / chunks,
                              chunk_window_s(w, stage, true), buckets);
}

/* Whether the stage holds the embedding table and another stage does too: the stages of tied
 * embedding and head, and the stage of modules that embed later tokens. */
static bool shares_table(const struct evaluation *w, int stage)
{
    const struct plan *plan = w->plan;
    struct placement placement = plan_placement(plan);
    bool has_copies =
        (w->model->tied && !placement_ends_meet(placement)) ||
        (w->model->mtp > 0 && plan_later_stage(plan) != placement_embedding_stage(placement));
    return has_copies && (stage == placement_embedding_stage(placement) ||
                          (w->model->tied && stage == placement_head_stage(placement)) ||
                          (w->model->mtp > 0 && stage == plan_later_stage(plan)));
}

/* Time to all-reduce the gradients of tables that several stages hold. */
static double tied_reduce_s(const struct evaluation *w, int stage)
{
    const struct plan *plan = w->plan;
    struct placement placement = plan_placement(plan);
    if (!shares_table(w, stage) || !model_trains_table(w->model) ||
        !w->system->stack.pipeline.tied_reduce)
        return 0;
    struct rank_group stages = plan_group(plan, PIPELINE_RANKS);
    int boundary = placement_last_boundary(placement);
    struct comm_group pair =
        network_pair(w->system, &stages, network_boundary_crosses(w->system, &stages, boundary));
    double rows = w->pieces->logits / w->pieces->tokens;
    return collective_s(&pair, COLLECTIVE_ALL_REDUCE,
                        rows * w->model->hidden * dtype_bytes((enum dtype)plan->gradient_dtype));
}

/* Gradients are copied out bucket by bucket if they are reduced in buckets. A bucket is copied
 * after its own reduction, during the reduction of the next one. The exposed time is that of the
 * last copy or, if longer, the part of all copies that backward and reductions do not overlap. The
 * update waits for the global norm. `reduction_s` is the time of all reductions, overlapped or
 * exposed. */
static void add_host_optimizer(const struct evaluation *w, struct stage_tail *tail, int stage,
                               struct stage_weights weights, double reduction_s)
{
    if (!plan_offloads(w->plan, OFFLOAD_OPTIMIZER))
        return;
    struct host_optimizer host = host_optimizer(w->system, w->model, w->plan, weights);
    double down_s = host.down_s;
    if (plan_overlaps(w->plan, &w->system->stack, OVERLAP_GRAD)) {
        double buckets =
            num_buckets(w, weights.all * reduced_gradient_bytes(&w->system->stack, w->plan), stage);
        double hidden_s = window_s(w, stage, true) * (1 - 1 / buckets) + tail->visible_reduce_s;
        down_s = fmax(down_s / buckets, reduction_s / buckets + down_s - hidden_s);
    }
    tail->optimizer_s += host.update_s;
    tail->offload_s = down_s + fmax(0, host.up_s - host.update_s);
}

/* --- exchanges other than all-reduce ------------------------------------------------------- */

double evaluation_passes_s(const struct evaluation *w, int stage)
{
    double sum_s = 0;
    for (int round = 0; round < w->plan->vpp; round++)
        for (int pass = 0; pass < CHUNK_PASSES; pass++)
            sum_s += w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, round) + pass];
    return sum_s * w->num_microbatches - evaluation_spared_by_pairs_s(w, stage);
}

/* Exposed time of averaging with other data ranks. Averages of the step's initial weights and sums
 * of the last step's gradients can overlap all passes of the step; other averages are exposed. */
static double visible_mix_s(const struct evaluation *w, int stage, double mix_s)
{
    if (exchange_start(&w->plan->exchange) != START_STEP)
        return mix_s;
    return exposed_s(&w->system->profile, mix_s, evaluation_passes_s(w, stage), HUGE_VAL);
}

/* Whether parts of a gradient can be combined before the rest is computed. A robust rule that
 * weighs whole gradients does not allow it. */
static bool can_begin_early(const struct evaluation *w)
{
    const struct robust_rule *rule = exchange_method_of(&w->plan->exchange)->rule;
    return !rule || !rule->weighs_ranks;
}

/* Gradients are sent in the buckets of an overlapped reduction, each with its own messages;
 * compression is fully exposed. Returns the time of the messages with gradients, overlapped or
 * exposed. */
static double add_exchange(const struct evaluation *w, struct stage_tail *tail, int stage,
                           double parameters)
{
    double bytes = parameters * plan_exchange_bytes(w->plan);
    bool overlaps = can_begin_early(w) && !exchange_is_late(&w->plan->exchange) &&
                    plan_overlaps(w->plan, &w->system->stack, OVERLAP_GRAD);
    double buckets = overlaps ? num_buckets(w, bytes, stage) : 1;
    struct stage_load part, whole;
    fill_stage_load(w->model, w->plan, w->pieces, stage, 1 / buckets, &part);
    fill_stage_load(w->model, w->plan, w->pieces, stage, 1, &whole);
    double averaging = averaging_share(&w->plan->exchange, w->model);
    struct exchange_cost bucket = exchange_cost(w->system, w->plan, &part.load, averaging);
    double reduce_s = buckets * bucket.gradients_s;
    double memory_s = buckets * bucket.memory_s;
    tail->mix_s = exchange_cost(w->system, w->plan, &whole.load, averaging).weights_s;
    if (exchange_is_late(&w->plan->exchange)) {
        tail->mix_s = reduce_s;
        tail->visible_mix_s = visible_mix_s(w, stage, reduce_s);
        tail->reduce_s = tail->visible_reduce_s = memory_s;
    } else if (!can_begin_early(w)) {
        tail->reduce_s = tail->visible_reduce_s = reduce_s + memory_s;
    } else if (exchange_keeps_replicas_equal(&w->plan->exchange)) {
        tail->reduce_s = after_chunks_s(w, reduce_s, bytes, stage) + memory_s;
        tail->visible_reduce_s = visible_s(w, OVERLAP_GRAD, reduce_s, bytes, stage) + memory_s;
    } else {
        tail->reduce_s = after_chunks_s(w, reduce_s, bytes, stage);
        tail->visible_reduce_s = visible_s(w, OVERLAP_GRAD, reduce_s, bytes, stage);
        tail->visible_mix_s = visible_mix_s(w, stage, tail->mix_s) + memory_s;
        tail->mix_s += memory_s;
    }
    tail->data_comm_s += tail->visible_reduce_s + tail->visible_mix_s;
    return reduce_s;
}

struct data_comm evaluation_data_comm(const struct evaluation *w, struct stage_weights weights)
{
    const struct stack *stack = &w->system->stack;
    struct data_comm comm = data_comm(stack, w->plan, &w->data, weights.all - weights.experts);
    if (weights.experts == 0)
        return comm;
    struct data_comm of_experts = data_comm(stack, w->plan, &w->expert_data, weights.experts);
    return (struct data_comm){ comm.reduce_s + of_experts.reduce_s,
                               comm.gather_s + of_experts.gather_s };
}

/* The exchanges of a step with all-reduce. Only ZeRO-1 can have whole tensors, because ZeRO-2 and 3
 * shard gradients or weights. */
static struct data_comm step_comm(const struct evaluation *w, int stage,
                                  struct stage_weights weights, double gradient_bytes,
                                  double weight_bytes)
{
    const struct plan *plan = w->plan;
    if (!w->system->stack.shards.whole_tensors || weights.experts > 0 ||
        !plan_cuts(plan, STATE_OPTIMIZER) || plan_cuts(plan, STATE_GRADIENTS))
        return evaluation_data_comm(w, weights);
    struct holding held = stage_holding(plan, w->model, stage);
    return whole_tensors_comm(&w->data, gradient_bytes, weight_bytes,
                              held_tensors(&held, w->pieces));
}

/* Exposed time of gathers. If ZeRO-3 gathers once per step, it gathers each layer during the
 * forward of the layer before, in the step's first forwards. */
static double visible_gather_s(const struct evaluation *w, double gather_s, double bytes, int stage)
{
    if (!plan_keeps_gathered(w->plan))
        return visible_s(w, OVERLAP_PARAM, gather_s, bytes, stage);
    if (!plan_overlaps(w->plan, &w->system->stack, OVERLAP_PARAM))
        return gather_s;
    struct holding held = stage_holding(w->plan, w->model, stage);
    return exposed_s(&w->system->profile, gather_s, window_s(w, stage, false),
                     fmax(1, held.layers));
}

/* Time of the copies of sharded state that is gathered or reduced once per step and not in each
 * pass. */
static struct data_comm copies_once(const struct evaluation *w, struct stage_weights weights)
{
    const struct plan *plan = w->plan;
    struct data_comm copies = shard_copies(w->system, plan, weights.all);
    if (!plan_keeps_gathered(plan))
        copies.gather_s = 0;
    if (!plan_keeps_sums(plan))
        copies.reduce_s = 0;
    else if (stack_runtime(&w->system->stack)->adds_whole_gradients)
        copies.reduce_s += evaluation_whole_gradients_s(w, weights.all);
    return copies;
}

/* Adds the reductions and gathers that a plan with all-reduce runs once per step. Returns the time
 * of the reductions, overlapped or exposed. */
static double add_all_reduce(const struct evaluation *w, struct stage_tail *tail, int stage,
                             struct stage_weights weights)
{
    const struct plan *plan = w->plan;
    double gradient_bytes = weights.all * reduced_gradient_bytes(&w->system->stack, plan);
    double weight_bytes = weights.all * gathered_weight_bytes(&w->system->stack, plan);
    struct data_comm comm = step_comm(w, stage, weights, gradient_bytes, weight_bytes);
    struct data_comm copies = copies_once(w, weights);
    double reduce_s = plan_reduces(plan) ? 0 : comm.reduce_s;
    double gather_s = plan_gathers(plan) ? 0 : comm.gather_s;
    tail->reduce_s = after_chunks_s(w, reduce_s, gradient_bytes, stage) + copies.reduce_s;
    tail->visible_reduce_s =
        visible_s(w, OVERLAP_GRAD, reduce_s, gradient_bytes, stage) + copies.reduce_s;
    if (evaluation_reduces_pieces(w))
        tail->reduce_s = tail->visible_reduce_s =
            evaluation_piece_buckets_s(w, window_s(w, stage, true)) + evaluation_op_by_op_s(w, 0);
    tail->visible_gather_s = visible_gather_s(w, gather_s, weight_bytes, stage) + copies.gather_s;
    tail->data_comm_s += tail->visible_reduce_s;
    tail->data_comm_s += tail->visible_gather_s;
    return reduce_s;
}

/* The host processes the stage's weight tensors one by one, once per step. */
static double tensors_s(const struct evaluation *w, const struct holding *held)
{
    const struct stack_host *host = &w->system->stack.host;
    return held_tensors(held, w->pieces) * host->tensor_launches * host->issue_s;
}

struct stage_tail stage_tail(const struct evaluation *w, int stage)
{
    const struct plan *plan = w->plan;
    struct holding held = stage_holding(plan, w->model, stage);
    struct stage_weights weights = held_trained(&held, w->pieces);
    struct held_matrices matrices = held_matrices(plan, &held, w->pieces);
    struct stage_tail tail = {
        .tied_s = tied_reduce_s(w, stage),
        .optimizer_s = optimizer_with_matrices_s(w->system, w->model, plan, weights, &matrices),
    };
    tail.data_comm_s = tail.tied_s;
    tail.optimizer_s += tensors_s(w, &held);
    double layer_parameters = held_layer_parameters(&held, w->pieces);
    tail.optimizer_s += quantize_weights_s(w->system, plan, layer_parameters, w->num_microbatches);
    double reduction_s = 0;
    bool has_peers =
        plan_replicas(plan) > 1 || (weights.experts > 0 && plan_expert_replicas(plan) > 1);
    if (has_peers && !(plan_gathers(plan) && plan_reduces(plan)))
        reduction_s = exchange_is_default(&plan->exchange)
                          ? add_all_reduce(w, &tail, stage, weights)
                          : add_exchange(w, &tail, stage, weights.all);
    add_host_optimizer(w, &tail, stage, weights, reduction_s);
    return tail;
}
