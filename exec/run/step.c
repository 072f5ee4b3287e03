/* One training step: every instruction of the stage's list issued on its lane's stream. */
#include "base/clock.h"
#include "exec/run/lane_status.h"
#include "exec/run/rank.h"
#include "exec/run/rank_exchange.h"
#include "exec/run/rank_state.h"
#include "exec/run/rank_store.h"
#include "sim/plan/pass.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <stdio.h>

/* Number of passes that compute may run ahead of a stream that still reads its memory. In a V,
 * whose chunks are placed down the stages and back up, later stages receive a message only after
 * the pipeline has filled in both directions. With fewer buffers a stage would wait for itself. */
enum { PASSES_AHEAD = 2, PASSES_AHEAD_OF_V = 8 };

static int passes_ahead(const struct rank *rank)
{
    const struct plan *plan = rank->setup.plan;
    return plan->placement ? PASSES_AHEAD_OF_V * plan->pp : PASSES_AHEAD;
}

static int slot_of(const struct rank *rank, const struct instr *instr)
{
    return rank_round(rank, instr->chunk) * rank->num_microbatches + instr->microbatch;
}

static struct chunk *chunk_of(const struct rank *rank, const struct instr *instr)
{
    return &rank->chunks[rank_round(rank, instr->chunk)];
}

static struct stream *stream_of(const struct rank *rank, const struct instr *instr)
{
    return rank->streams[instr_lane(instr)];
}

/* --- memory that other streams read ------------------------------------------------------- */

static void lend(struct rank *rank, void **at, int instr)
{
    if (*at)
        rank->borrowed[rank->num_borrowed++] =
            (struct borrowed_buffer){ *at, rank->done[instr], 0 };
    *at = NULL;
}

static void take_back(struct rank *rank, int passes)
{
    const struct device_api *api = rank->on.api;
    int kept = 0;
    for (int i = 0; i < rank->num_borrowed; i++) {
        struct borrowed_buffer *borrowed = &rank->borrowed[i];
        if (borrowed->passes++ < passes) {
            rank->borrowed[kept++] = *borrowed;
            continue;
        }
        api->wait(rank->machine.compute, borrowed->until);
        api->free(rank->on.device, rank->machine.compute, borrowed->at);
    }
    rank->num_borrowed = kept;
}

/* --- compute ------------------------------------------------------------------------------ */

/* Whether no later pass computes gradients of the chunk's weights. */
static bool is_last_of_chunk(const struct rank *rank, const struct instr *instr)
{
    const struct instr *end = rank->list->at + rank->list->count;
    if (!instr_ends_backward(instr->op))
        return false;
    for (const struct instr *later = instr + 1; later < end; later++)
        if (instr_ends_backward(later->op) && later->chunk == instr->chunk)
            return false;
    return true;
}

static void *run_pass(struct rank *rank, const struct instr *instr, void *flow)
{
    take_back(rank, passes_ahead(rank));
    feed_enter(&rank->feed, instr->microbatch);
    struct chunk_call call = { .chunk = chunk_of(rank, instr),
                               .record = &rank->records[slot_of(rank, instr)],
                               .op = instr->op,
                               .is_last = is_last_of_chunk(rank, instr),
                               .data = &rank->data,
                               .flow = flow };
    return rank->graphs ? pass_graphs_run(rank->graphs, &call) : chunk_pass(&rank->machine, &call);
}

/* The messages of the same microbatch for the chunk that comes `chunks_on` chunks later in the
 * model. */
static struct messages *messages_for(struct rank *rank, const struct instr *instr, int chunks_on)
{
    struct instr other = *instr;
    other.chunk += chunks_on;
    return &rank->messages[slot_of(rank, &other)];
}

/* Whether the next chunk is on the same stage, as at the turn of a V schedule. */
static bool stays_behind(const struct rank *rank, int chunk)
{
    struct chunk_place place = placement_of(plan_placement(rank->setup.plan), chunk);
    return place.next_stage == place.stage && rank->setup.plan->placement;
}

static void run_forward(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    struct messages *at = &rank->messages[slot_of(rank, instr)];
    at->output = run_pass(rank, instr, at->input);
    at->input = NULL;
    if (!stays_behind(rank, instr->chunk))
        return;
    messages_for(rank, instr, 1)->input = at->output;
    at->output = NULL;
}

static void run_backward(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    struct messages *at = &rank->messages[slot_of(rank, instr)];
    at->input_gradient = run_pass(rank, instr, at->output_gradient);
    at->output_gradient = NULL;
    if (instr->chunk == 0 || !stays_behind(rank, instr->chunk - 1))
        return;
    messages_for(rank, instr, -1)->output_gradient = at->input_gradient;
    at->input_gradient = NULL;
}

/* Runs the weight half of a split backward. The pass's result is unused, as the other half computed
 * the gradient of the input. */
static void run_backward_weight(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    run_pass(rank, instr, NULL);
}

/* The RECOMPUTE instruction does nothing, as the backward recomputes layer by layer. */
static void run_nothing(struct rank *rank, const struct instr *instr, int i)
{
    (void)rank, (void)instr, (void)i;
}

/* --- messages ----------------------------------------------------------------------------- */

static void issue_message(struct rank *rank, const struct instr *instr, void *at)
{
    bool sends = !instr_is_receive(instr->op);
    const struct layer_dims *dims = &rank->machine.dims;
    struct comm_call call = { .kind = sends ? COMM_SEND : COMM_RECV,
                              .group = rank->groups.of[rank_link(instr)],
                              .stream = stream_of(rank, instr),
                              .in = sends ? at : NULL,
                              .out = sends ? NULL : at,
                              .count = (size_t)(dims->norm_tokens * dims->hidden),
                              .element = machine_element(&rank->machine),
                              .peer = sends };
    rank->on.comm_api->issue(&call);
}

static void run_send_act(struct rank *rank, const struct instr *instr, int i)
{
    void **at = &rank->messages[slot_of(rank, instr)].output;
    issue_message(rank, instr, *at);
    lend(rank, at, i);
}

static void run_send_grad(struct rank *rank, const struct instr *instr, int i)
{
    void **at = &rank->messages[slot_of(rank, instr)].input_gradient;
    issue_message(rank, instr, *at);
    lend(rank, at, i);
}

/* A message is stored with the chunk that consumes it; the instruction names the chunk that
 * produces it. */
static void run_recv_act(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    struct messages *at = messages_for(rank, instr, 1);
    at->input = machine_take(&rank->machine, machine_stream_bytes(&rank->machine));
    machine_follow(&rank->machine, stream_of(rank, instr));
    issue_message(rank, instr, at->input);
}

static void run_recv_grad(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    struct messages *at = messages_for(rank, instr, -1);
    at->output_gradient = machine_take(&rank->machine, machine_stream_bytes(&rank->machine));
    machine_follow(&rank->machine, stream_of(rank, instr));
    issue_message(rank, instr, at->output_gradient);
}

/* --- data ranks --------------------------------------------------------------------------- */

/* Gathers parameters after the update: in place or, with ZeRO-3, into the memory that holds them
 * during the next step's passes. */
static void run_gather_param(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    struct chunk *chunk = chunk_of(rank, instr);
    for (int s = 0; s < chunk->num_stores; s++)
        if (store_cuts(chunk->stores[s], STATE_PARAMETERS))
            data_lane_gather(&rank->data, &rank->machine, chunk->stores[s]);
        else
            store_gather(&rank->machine, chunk->stores[s], rank_group(rank, GROUP_DATA),
                         stream_of(rank, instr));
}

/* Gathers weights that no update has gathered: before the first step, and after weights were
 * loaded. */
static void gather_missing(struct rank *rank)
{
    for (int s = 0; s < rank->num_stores; s++)
        if (plan_keeps_gathered(rank->setup.plan) && !rank->stores[s].values)
            data_lane_gather(&rank->data, &rank->machine, &rank->stores[s]);
}

static bool has_store(const struct chunk *chunk, const struct store *store)
{
    for (int s = 0; s < chunk->num_stores; s++)
        if (chunk->stores[s] == store)
            return true;
    return false;
}

/* Whether another chunk adds to the same gradients and is reduced after instruction i. A stage with
 * both ends of the model stores a tied embedding once, for embedding and head. */
static bool is_reduced_later(const struct rank *rank, const struct store *store, int i)
{
    for (int later = i + 1; rank->setup.plan->placement && later < rank->list->count; later++)
        if (rank->list->at[later].op == INSTR_REDUCE_GRAD &&
            has_store(chunk_of(rank, &rank->list->at[later]), store))
            return true;
    return false;
}

/* Sums partial gradients over tensor ranks. It runs on the stream of tensor collectives, before
 * instruction i, which waits for it. */
static void sum_partial(struct rank *rank, struct store **stores, int count, int i)
{
    struct machine *m = &rank->machine;
    if (!m->tensor)
        return;
    const struct instr *instr = &rank->list->at[i];
    if (instr->after != NO_INSTR)
        rank->on.api->wait(m->tensor_stream, rank->done[instr->after]);
    for (int s = 0; s < count; s++)
        if (!is_reduced_later(rank, stores[s], i))
            store_sum_partial(m, stores[s], m->tensor, m->tensor_stream);
    rank->on.api->record(m->tensor_stream, m->transferred[0]);
    rank->on.api->wait(stream_of(rank, instr), m->transferred[0]);
}

/* Replaces the gradients of a hostile data rank by false gradients, on all ranks of that copy of
 * the model. */
static void falsify_gradients(struct rank *rank, const struct chunk *chunk, struct stream *stream)
{
    const struct hostility *hostility = &rank->setup.hostility;
    enum { FALSE_OPS = 0xC000 };
    if (!hostility_includes(hostility, rank->setup.seed, rank->setup.plan->dp,
                            rank->at.at[AXIS_DATA]))
        return;
    for (int s = 0; s < chunk->num_stores; s++) {
        struct store *store = chunk->stores[s];
        struct draw draw = { .seed = rank->setup.seed + (uint64_t)rank->at.at[AXIS_DATA],
                             .step = (uint32_t)rank->steps_begun,
                             .layer = store->weights[0].layer,
                             .op = (uint16_t)(FALSE_OPS + store->weights[0].number) };
        hostility_issue(hostility, rank->on.kernel_api, rank->machine.kernels, stream, &draw,
                        store->gradients, store->elements);
    }
}

/* After the last backward, frees whole gradients if ZeRO-2 or 3 keeps only their shards, and drops
 * whole values if ZeRO-3 does. */
static void drop_whole(struct rank *rank, struct store *store, int i)
{
    if (store_cuts(store, STATE_GRADIENTS))
        lend(rank, (void **)&store->gradients, i);
    if (store_cuts(store, STATE_PARAMETERS) && store->values)
        store_drop_values(&rank->machine, store);
}

static void run_reduce_grad(struct rank *rank, const struct instr *instr, int i)
{
    struct chunk *chunk = chunk_of(rank, instr);
    if (rank_reduces_pieces(rank))
        return; /* earlier instructions on the data lane were these reductions */
    sum_partial(rank, chunk->stores, chunk->num_stores, i);
    falsify_gradients(rank, chunk, stream_of(rank, instr));
    if (rank->exchanges) {
        rank_exchange_gradients(rank, chunk);
        return;
    }
    for (int s = 0; s < chunk->num_stores; s++) {
        if (is_reduced_later(rank, chunk->stores[s], i))
            continue;
        store_reduce(&rank->machine, chunk->stores[s], rank_group(rank, GROUP_DATA),
                     stream_of(rank, instr));
        drop_whole(rank, chunk->stores[s], i);
    }
}

static void run_mix_param(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    rank_exchange_weights(rank, chunk_of(rank, instr));
}

/* The first and last stage sum their gradients of the tied embedding table. */
static void run_reduce_tied(struct rank *rank, const struct instr *instr, int i)
{
    (void)i;
    for (int s = 0; s < rank->num_stores; s++) {
        struct store *store = &rank->stores[s];
        if (store->weights[0].weight->of->is_vocabulary)
            store_sum_tied(&rank->machine, store, rank_group(rank, GROUP_EMBEDDING),
                           stream_of(rank, instr));
    }
}

static void all_reduce_double(struct rank *rank, enum group_kind kind, struct stream *stream,
                              double *at)
{
    struct group *group = rank_group(rank, kind);
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = group,
                              .stream = stream,
                              .in = at,
                              .out = at,
                              .count = 1,
                              .element = ELEMENT_FP64,
                              .reduction = REDUCTION_SUM };
    if (group)
        rank->on.comm_api->issue(&call);
}

/* Whether the gradients have been summed before the norm is computed: by REDUCE_GRAD instructions
 * or, with ZeRO-2 and 3, within the passes (plan_reduces). */
static bool sums_gradients(const struct rank *rank)
{
    bool sums = plan_reduces(rank->setup.plan);
    for (int i = 0; i < rank->list->count; i++)
        sums = sums || rank->list->at[i].op == INSTR_REDUCE_GRAD;
    return sums;
}

/* Sums the squares of gradients. Every element of the model is counted on exactly one rank, or once
 * per copy if copies differ. */
static void run_norm_grad(struct rank *rank, const struct instr *instr, int i)
{
    struct machine *m = &rank->machine;
    struct stream *stream = stream_of(rank, instr);
    bool is_shared = exchange_keeps_replicas_equal(&rank->setup.plan->exchange);
    if (!sums_gradients(rank))
        sum_partial(rank, rank->all_stores, rank->num_stores, i);
    m->device_api->fill(stream, rank->squares, 0, sizeof *rank->squares);
    for (int s = 0; s < rank->num_stores; s++)
        store_add_squares(m, &rank->stores[s], rank->squares, stream);
    m->device_api->copy(stream, rank->squares + 1, rank->squares, sizeof *rank->squares);
    all_reduce_double(rank, is_shared ? GROUP_WORLD : GROUP_MODEL, stream, rank->squares);
    struct clip clip = { rank->squares, rank->setup.update.clip, rank->setup.update.loss_scale,
                         rank->scale };
    m->kernel_api->clip(m->kernels, stream, &clip);
}

static void run_optimizer(struct rank *rank, const struct instr *instr, int i)
{
    (void)instr, (void)i;
    take_back(rank, 0);
    rank_exchange_before_update(rank);
    for (int s = 0; s < rank->num_stores; s++)
        store_update(&rank->machine, &rank->stores[s], &rank->setup.update, rank->scale);
}

/* --- the list ----------------------------------------------------------------------------- */

static void (*const handlers[NUM_OPCODES])(struct rank *rank, const struct instr *instr, int i) = {
    [INSTR_FORWARD] = run_forward,         [INSTR_BACKWARD] = run_backward,
    [INSTR_BACKWARD_INPUT] = run_backward, [INSTR_BACKWARD_WEIGHT] = run_backward_weight,
    [INSTR_RECOMPUTE] = run_nothing,       [INSTR_SEND_ACT] = run_send_act,
    [INSTR_RECV_ACT] = run_recv_act,       [INSTR_SEND_GRAD] = run_send_grad,
    [INSTR_RECV_GRAD] = run_recv_grad,     [INSTR_GATHER_PARAM] = run_gather_param,
    [INSTR_REDUCE_GRAD] = run_reduce_grad, [INSTR_MIX_PARAM] = run_mix_param,
    [INSTR_REDUCE_TIED] = run_reduce_tied, [INSTR_NORM_GRAD] = run_norm_grad,
    [INSTR_OPTIMIZER] = run_optimizer,
};

static void issue(struct rank *rank, int i, struct interval *times)
{
    const struct instr *instr = &rank->list->at[i];
    struct stream *stream = stream_of(rank, instr);
    if (instr->after != NO_INSTR)
        rank->on.api->wait(stream, rank->done[instr->after]);
    if (times)
        rank->on.api->note(stream, &times[i].start_s, NULL);
    lane_status_begin(rank, stream, i);
    handlers[instr->op](rank, instr, i);
    lane_status_end(rank, stream, i);
    if (times)
        rank->on.api->note(stream, &times[i].end_s, NULL);
    rank->on.api->record(stream, rank->done[i]);
}

static void begin_step(struct rank *rank, long step)
{
    struct machine *m = &rank->machine;
    const struct model *model = rank->setup.model;
    double tokens = model->batch * model->seq;
    rank->steps_begun++;
    rank->setup.update.step = step - rank->skipped;
    rank->setup.update.rate = (float)rate_at(&rank->setup.rates, (double)rank->peak_rate, step);
    if (m->storage == DTYPE_FP16)
        rank->setup.update.loss_scale = rank->loss_scale.scale;
    rank_exchange_begin_step(rank, (int)(step - 1));
    rank->loss_gradient_scale =
        (float)(rank->setup.update.loss_scale / tokens * rank_exchange_gradient_scale(rank));
    m->device_api->copy(m->compute, m->loss_gradient_scale, &rank->loss_gradient_scale,
                        sizeof rank->loss_gradient_scale);
    feed_make(&rank->feed, (uint32_t)step);
    feed_begin_step(&rank->feed, (uint32_t)step);
    m->device_api->fill(m->compute, rank->loss, 0, sizeof *rank->loss);
    gather_missing(rank);
}

static void read_back(struct rank *rank)
{
    const struct device_api *api = rank->on.api;
    struct stream *stream = rank->streams[LANE_DATA];
    machine_follow(&rank->machine, stream);
    api->copy(stream, &rank->readback->loss, rank->loss, sizeof *rank->loss);
    api->copy(stream, rank->readback->squares, rank->squares, sizeof rank->readback->squares);
}

static bool has_head(const struct rank *rank)
{
    return rank->stage == placement_head_stage(plan_placement(rank->setup.plan));
}

/* The loss that this rank counts. All tensor ranks with the head have the same loss, so only the
 * first counts it. */
static double counted_loss(const struct rank *rank)
{
    return has_head(rank) && rank->at.at[AXIS_TENSOR] == 0 ? rank->readback->loss : 0;
}

static bool sync(struct rank *rank, struct err *err)
{
    bool ok = true;
    for (int lane = 0; lane < NUM_ALL_LANES && ok; lane++)
        ok = !rank->streams[lane] || rank->on.api->stream_sync(rank->streams[lane], err);
    ok = ok && rank->on.api->stream_sync(rank->machine.tensor_stream, err);
    if (rank->machine.err.code != ERR_NONE)
        *err = rank->machine.err;
    return ok && rank->machine.err.code == ERR_NONE && rank->on.comm_api->poll(rank->on.comm, err);
}

/* A loss that is not finite takes precedence over gradients that are not finite; ranks without the
 * head have a loss of 0. Gradients that overflow only because of their loss scale are no
 * divergence. */
static enum divergence_kind divergence_of(const struct rank *rank, bool scale_helps)
{
    if (!isfinite(rank->readback->loss))
        return DIVERGENCE_LOSS;
    if (isfinite(rank->readback->squares[0]) ||
        (rank->machine.storage == DTYPE_FP16 && scale_helps))
        return DIVERGENCE_NONE;
    if (rank->machine.storage == DTYPE_FP16)
        return DIVERGENCE_SCALE;
    return isfinite(rank->readback->squares[1]) ? DIVERGENCE_NORM : DIVERGENCE_GRADIENTS;
}

/* All ranks that hold the same weights or sum their gradients have the same norm, so they make the
 * same decision and have the same loss scale. Differing replicas decide independently: a replica
 * that skips its update still averages its weights, so no agreement is needed. */
static bool take_norm(struct rank *rank, long step, struct step_result *out, struct err *err)
{
    bool is_finite = isfinite(rank->readback->squares[0]), scale_helps = true;
    out->gradient_norm = sqrt(rank->readback->squares[0]) / rank->setup.update.loss_scale;
    out->loss_scale = rank->setup.update.loss_scale;
    out->rate = (double)rank->setup.update.rate;
    out->is_skipped = !is_finite;
    rank->skipped += !is_finite;
    if (rank->machine.storage == DTYPE_FP16)
        scale_helps = loss_scale_update(&rank->loss_scale, is_finite);
    out->divergence = divergence_of(rank, scale_helps);
    struct divergence found = { .kind = out->divergence, .step = step, .rank = rank->on.rank };
    return found.kind == DIVERGENCE_NONE || divergence_tell(&found, err);
}

bool rank_step(struct rank *rank, long step, struct interval *times, struct step_result *out,
               struct err *err)
{
    double start_s = clock_now_s();
    lane_status_wait(rank->on.watchdog, "for the end of a step");
    begin_step(rank, step);
    for (int i = 0; i < rank->list->count && rank->machine.err.code == ERR_NONE; i++)
        issue(rank, i, times);
    take_back(rank, 0);
    feed_make(&rank->feed, (uint32_t)step + 1);
    read_back(rank);
    if (!sync(rank, err))
        return false;
    out->step_s = clock_now_s() - start_s;
    lane_status_wait(rank->on.watchdog, NULL);
    out->loss = counted_loss(rank);
    return rank_exchange_end_step(rank, out->loss, err) && take_norm(rank, step, out, err);
}

bool rank_sees_spike(struct rank *rank, double loss, struct divergence *out)
{
    struct spike_watch *watch = &rank->spikes;
    out->loss = loss;
    out->mean = watch->mean;
    out->deviation = spike_deviation(watch);
    bool is_spike = spike_seen(watch, rank->setup.spike, loss);
    if (is_spike)
        out->kind = DIVERGENCE_SPIKE;
    return is_spike;
}
