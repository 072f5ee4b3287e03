/* Makes one rank of a run: its streams, its memory, its pieces of the model (layers, embedding,
 * head) and its groups. */
#include "exec/run/rank.h"

#include "exec/run/lane_status.h"
#include "exec/run/rank_exchange.h"
#include "exec/run/rank_state.h"
#include "exec/run/rank_store.h"
#include "kernels/host/rotary.h"
#include "sim/plan/pass.h"

#include <assert.h>
#include <stdlib.h>

const struct instrs *rank_list(const struct rank *rank)
{
    return rank->list;
}

struct pass_counts rank_pass_counts(const struct rank *rank)
{
    return rank->graphs ? pass_graphs_counts(rank->graphs) : (struct pass_counts){ 0 };
}

struct store **rank_stores(struct rank *rank, int *count)
{
    *count = rank->num_stores;
    return rank->all_stores;
}

struct machine *rank_machine(struct rank *rank)
{
    return &rank->machine;
}

/* --- streams and events ------------------------------------------------------------------- */

static const char *const lane_names[NUM_ALL_LANES] = {
    "compute", "send_down",        "recv_down",        "send_up",        "recv_up",
    "data",    "turned_send_down", "turned_recv_down", "turned_send_up", "turned_recv_up"
};

/* Number of the plan's lanes (in-order queues of instructions). */
static int num_lanes(const struct rank *rank)
{
    return rank->setup.plan->placement ? NUM_ALL_LANES : NUM_LANES;
}

static bool open_streams(struct rank *rank, struct err *err)
{
    const struct device_api *api = rank->on.api;
    struct device *device = rank->on.device;
    struct machine *m = &rank->machine;
    bool ok = true;
    for (int lane = 0; lane < num_lanes(rank) && ok; lane++)
        ok = (rank->streams[lane] = api->stream_new(device, lane_names[lane], err)) != NULL;
    m->compute = rank->streams[LANE_COMPUTE];
    m->tensor_stream = m->compute; /* without overlap a separate stream would not help */
    if (ok && rank->setup.overlaps_tensor)
        ok = (m->tensor_stream = api->stream_new(device, "tensor", err)) != NULL;
    ok = ok && (m->computed = api->event_new(device, err));
    for (int i = 0; i < MAX_PIECE_OPS && ok; i++)
        ok = (m->transferred[i] = api->event_new(device, err)) != NULL;
    rank->done = ARENA_ARRAY(&rank->arena, struct event *, (size_t)rank->list->count);
    for (int i = 0; i < rank->list->count && ok; i++)
        ok = (rank->done[i] = api->event_new(device, err)) != NULL;
    return ok;
}

static void close_streams(struct rank *rank)
{
    const struct device_api *api = rank->on.api;
    if (rank->machine.tensor_stream != rank->machine.compute)
        api->stream_free(rank->machine.tensor_stream);
    for (int lane = 0; lane < num_lanes(rank); lane++)
        api->stream_free(rank->streams[lane]);
    for (int i = 0; rank->done && i < rank->list->count; i++)
        api->event_free(rank->done[i]);
    for (int i = 0; i < MAX_PIECE_OPS; i++)
        api->event_free(rank->machine.transferred[i]);
    api->event_free(rank->machine.computed);
}

/* --- memory of a step --------------------------------------------------------------------- */

static int most_pieces(const struct rank *rank)
{
    int most = 0;
    for (int v = 0; v < rank->setup.plan->vpp; v++)
        most = rank->chunks[v].num_pieces > most ? rank->chunks[v].num_pieces : most;
    return most;
}

static void *take(struct rank *rank, size_t bytes, struct err *err)
{
    struct machine *m = &rank->machine;
    return m->device_api->alloc(m->device, m->compute, bytes, err);
}

static bool open_feed(struct rank *rank, struct err *err)
{
    const struct plan *plan = rank->setup.plan;
    struct feed_setup setup = { .source = rank->setup.tokens,
                                .api = rank->on.api,
                                .device = rank->on.device,
                                .compute = rank->machine.compute,
                                .num_microbatches = rank->num_microbatches,
                                .sequences = plan->microbatch,
                                .first = rank->at.at[AXIS_DATA] * plan->microbatch,
                                .stride = plan->dp * plan->microbatch };
    return feed_open(&rank->feed, &setup, err);
}

static void place_records(struct rank *rank)
{
    size_t count = (size_t)rank->setup.plan->vpp * (size_t)rank->num_microbatches;
    size_t pieces = (size_t)most_pieces(rank);
    rank->records = ARENA_ARRAY(&rank->arena, struct chunk_record, count);
    rank->messages = ARENA_ARRAY(&rank->arena, struct messages, count);
    size_t most_borrowed = (size_t)rank->list->count + (size_t)rank->num_stores;
    rank->borrowed = ARENA_ARRAY(&rank->arena, struct borrowed_buffer, most_borrowed);
    for (size_t i = 0; i < count; i++) {
        rank->records[i].pieces = ARENA_ARRAY(&rank->arena, struct record, pieces);
        rank->records[i].microbatch = &rank->feed.now;
    }
}

static bool place_scalars(struct rank *rank, struct err *err)
{
    return (rank->loss = take(rank, sizeof *rank->loss, err)) &&
           (rank->squares = take(rank, 2 * sizeof *rank->squares, err)) &&
           (rank->scale = take(rank, sizeof *rank->scale, err)) &&
           (rank->readback =
                rank->on.api->pinned_alloc(rank->on.device, sizeof *rank->readback, err)) &&
           (rank->machine.loss_gradient_scale =
                take(rank, sizeof *rank->machine.loss_gradient_scale, err));
}

static bool place_turns(struct rank *rank, struct err *err)
{
    const struct model *model = rank->setup.model;
    if (model->positions != POSITION_ROTARY)
        return true;
    size_t elements = (size_t)model->seq * (size_t)model->head_dim;
    float *table = ARENA_ARRAY(&rank->arena, float, elements);
    float *rope_cos_sin = take(rank, sizeof *rope_cos_sin * elements, err);
    if (!rope_cos_sin)
        return false;
    rotary_table(model->seq, model->head_dim, model->rope_theta, table);
    rank->machine.device_api->copy(rank->machine.compute, rope_cos_sin, table,
                                   sizeof *rope_cos_sin * elements);
    rank->machine.rope_cos_sin = rope_cos_sin;
    return true;
}

/* --- creating a rank ---------------------------------------------------------------------- */

static void set_machine(struct rank *rank)
{
    const struct run_setup *setup = &rank->setup;
    const struct rank_device *on = &rank->on;
    rank->machine = (struct machine){
        .plan = setup->plan,
        .model = setup->model,
        .dims = local_dims(rank_share_of(setup->plan), setup->model, setup->model->seq),
        .device_api = on->api,
        .device = on->device,
        .kernel_api = on->kernel_api,
        .comm_api = on->comm_api,
        .tensor_rank = rank->at.at[AXIS_TENSOR],
        .storage = setup->options.dtype,
        .norm_epsilon = (float)setup->model->norm_epsilon,
        .seed = setup->seed,
    };
}

static bool build(struct rank *rank, struct err *err)
{
    const struct run_setup *setup = &rank->setup;
    set_machine(rank);
    if (!(rank->machine.kernels =
              rank->on.kernel_api->open(rank->on.device, rank->machine.storage, err)) ||
        !open_streams(rank, err))
        return false;
    lane_status_wait(rank->on.watchdog, "for the members of its groups");
    if (!groups_new(rank->on.comm_api, rank->on.comm, setup->plan, rank->on.rank, &rank->groups,
                    err))
        return false;
    lane_status_wait(rank->on.watchdog, NULL);
    rank->machine.tensor = rank_group(rank, GROUP_TENSOR);
    rank->data = (struct data_lane){ rank_group(rank, GROUP_DATA), rank->streams[LANE_DATA] };
    if (!lane_status_open(rank, err))
        return false;
    rank_place_stores(rank);
    if (setup->has_graphs && !plan_capture_refusal(setup->plan))
        rank->graphs = pass_graphs_new(&rank->machine, rank->chunks, setup->plan->vpp);
    place_records(rank);
    if (!open_feed(rank, err) || !place_scalars(rank, err) || !place_turns(rank, err))
        return false;
    rank->machine.loss = rank->loss;
    for (int i = 0; i < rank->num_stores; i++)
        if (!store_new(&rank->machine, &rank->stores[i], setup->update.optimizer)) {
            *err = rank->machine.err;
            return false;
        }
    if (!rank_exchange_new(rank, err))
        return false;
    return rank->on.api->stream_sync(rank->machine.compute, err);
}

struct rank *rank_new(const struct run_setup *setup, const struct rank_device *device,
                      struct err *err)
{
    struct rank *rank = arena_grow(NULL, sizeof *rank);
    *rank = (struct rank){ .setup = *setup,
                           .on = *device,
                           .loss_scale = loss_scale_new(),
                           .peak_rate = setup->update.rate };
    assert(setup->options.dtype == precision_value_dtype(setup->plan->precision));
    rank->at = layout_coordinates_of(setup->plan, device->rank);
    rank->stage = rank->at.at[AXIS_PIPELINE];
    rank->list = &setup->schedule->ranks[rank->stage];
    rank->num_microbatches = plan_microbatches(setup->plan, setup->model->batch);
    if (build(rank, err))
        return rank;
    rank_free(rank);
    return NULL;
}

void rank_free(struct rank *rank)
{
    if (!rank)
        return;
    for (int i = 0; i < rank->num_stores; i++)
        store_free(&rank->machine, &rank->stores[i]);
    feed_close(&rank->feed);
    close_streams(rank);
    lane_status_close(rank);
    pass_graphs_free(rank->graphs);
    rank_exchange_free(rank);
    rank->on.api->pinned_free(rank->on.device, rank->readback);
    groups_free(&rank->groups);
    if (rank->machine.kernels)
        rank->on.kernel_api->close(rank->machine.kernels);
    arena_release(&rank->arena);
    free(rank);
}
