/* Runs gradient exchanges other than all-reduce. Each chunk has an exchanger, which works on the
 * chunk's weights or gradients in one array. The data lane is the stream of communication between
 * data ranks. */
#include "exec/run/rank_exchange.h"

#include "exec/run/between_steps.h"
#include "exec/run/data_bytes.h"
#include "exec/run/exchanged_bytes.h"

/* A chunk's weights or gradients in one array, as exchange methods need them. */
struct chunk_exchange {
    struct exchanger *exchanger;
    float *flat, *averaged; /* `averaged` is NULL for methods that exchange gradients */
};

static const struct exchange *exchange_of(const struct rank *rank)
{
    return &rank->setup.plan->exchange;
}

static struct chunk_exchange *at_chunk(const struct rank *rank, const struct chunk *chunk)
{
    return &rank->exchanges[chunk - rank->chunks];
}

/* --- opening and closing ------------------------------------------------------------------ */

static int count_weights(const struct chunk *chunk)
{
    int count = 0;
    for (int s = 0; s < chunk->num_stores; s++)
        count += chunk->stores[s]->num_weights;
    return count;
}

/* The chunk's tensors, in the order of the stores. */
static struct exchange_tensor *tensors_of(struct rank *rank, const struct chunk *chunk)
{
    struct exchange_tensor *tensors =
        ARENA_ARRAY(&rank->arena, struct exchange_tensor, (size_t)count_weights(chunk));
    int count = 0;
    for (int s = 0; s < chunk->num_stores; s++)
        for (int i = 0; i < chunk->stores[s]->num_weights; i++) {
            const struct weight *weight = chunk->stores[s]->weights[i].weight;
            tensors[count++] =
                (struct exchange_tensor){ (double)weight->rows, (double)weight->columns, 1 };
        }
    return tensors;
}

/* The random draw of a chunk's exchange. It uses the key of the chunk's first weight with an op
 * number above all forward ops. */
static struct draw draw_of(const struct rank *rank, const struct chunk *chunk)
{
    enum { EXCHANGE_OPS = 0x8000 };
    const struct stored_weight *first = &chunk->stores[0]->weights[0];
    return (struct draw){ .seed = rank->setup.seed,
                          .layer = first->layer,
                          .op = (uint16_t)(EXCHANGE_OPS + first->number) };
}

static float *take_zeroed(struct rank *rank, size_t elements, struct err *err)
{
    struct stream *stream = rank->streams[LANE_DATA];
    size_t bytes = sizeof(float) * elements;
    float *at = rank->on.api->alloc(rank->on.device, stream, bytes, err);
    if (at)
        rank->on.api->fill(stream, at, 0, bytes);
    return at;
}

static bool open_chunk(struct rank *rank, const struct chunk *chunk, struct err *err)
{
    struct chunk_exchange *at = at_chunk(rank, chunk);
    struct exchanger_setup setup = { .exchange = exchange_of(rank),
                                     .groups = &rank->exchange_groups,
                                     .ranks = rank->setup.data_ranks,
                                     .tensors = tensors_of(rank, chunk),
                                     .num_tensors = count_weights(chunk),
                                     .device_api = rank->on.api,
                                     .device = rank->on.device,
                                     .kernel_api = rank->on.kernel_api,
                                     .kernels = rank->exchange_kernels,
                                     .stream = rank->streams[LANE_DATA],
                                     .draw = draw_of(rank, chunk) };
    at->exchanger = exchanger_new(&setup, err);
    if (!at->exchanger)
        return false;
    size_t elements = exchanger_elements(at->exchanger);
    bool averages = !exchange_keeps_replicas_equal(exchange_of(rank));
    return (at->flat = take_zeroed(rank, elements, err)) &&
           (!averages || (at->averaged = take_zeroed(rank, elements, err)));
}

bool rank_exchange_new(struct rank *rank, struct err *err)
{
    const struct exchange *exchange = exchange_of(rank);
    const struct group *data = rank->groups.of[GROUP_DATA];
    int num_chunks = rank->setup.plan->vpp;
    if (exchange_is_default(exchange))
        return true;
    if (!exchanger_can_run(exchange, rank->on.kernel_api, err) ||
        !exchange_groups_new(rank->on.comm_api, rank->on.comm, exchange, &rank->setup.data_ranks,
                             data->ranks, data->index, &rank->exchange_groups, err))
        return false;
    rank->exchange_kernels = rank->on.kernel_api->open(rank->on.device, DTYPE_FP32, err);
    if (!rank->exchange_kernels ||
        !(rank->exchanged = rank->on.api->event_new(rank->on.device, err)))
        return false;
    rank->exchanges = ARENA_ARRAY(&rank->arena, struct chunk_exchange, (size_t)num_chunks);
    for (int v = 0; v < num_chunks; v++)
        rank->exchanges[v] = (struct chunk_exchange){ 0 };
    for (int v = 0; v < num_chunks; v++)
        if (!open_chunk(rank, &rank->chunks[v], err))
            return false;
    return rank->on.api->stream_sync(rank->streams[LANE_DATA], err);
}

void rank_exchange_free(struct rank *rank)
{
    for (int v = 0; rank->exchanges && v < rank->setup.plan->vpp; v++)
        exchanger_free(rank->exchanges[v].exchanger);
    if (rank->exchange_kernels)
        rank->on.kernel_api->close(rank->exchange_kernels);
    rank->on.api->event_free(rank->exchanged);
    exchange_groups_free(&rank->exchange_groups);
}

/* --- a step ------------------------------------------------------------------------------- */

void rank_exchange_begin_step(struct rank *rank, int step)
{
    for (int v = 0; rank->exchanges && v < rank->setup.plan->vpp; v++)
        exchanger_begin_step(rank->exchanges[v].exchanger, step);
}

double rank_exchange_gradient_scale(const struct rank *rank)
{
    if (!rank->exchanges)
        return 1;
    return (double)rank->setup.plan->dp / exchanger_num_summed(rank->exchanges[0].exchanger);
}

static void copy(struct rank *rank, struct stream *stream, float *to, const float *from,
                 size_t elements)
{
    rank->on.api->copy(stream, to, from, sizeof *to * elements);
}

/* Whether tensor ranks compress the gradients of replicated weights each on their own. A rank
 * compresses all its elements together, so weights that all tensor ranks hold get different
 * results. The ranks then take the mean; its compression error is the mean of their error-feedback
 * buffers. */
static bool is_compressed_apart(const struct rank *rank)
{
    return rank->machine.tensor && exchange_method_of(exchange_of(rank))->compressor;
}

static void average_over_tensor(struct rank *rank, const struct stored_weight *stored,
                                float *gradients)
{
    struct machine *m = &rank->machine;
    size_t count = stored->weight->rows * stored->weight->columns;
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = m->tensor,
                              .stream = m->tensor_stream,
                              .in = gradients,
                              .out = gradients,
                              .count = count,
                              .element = ELEMENT_FP32,
                              .reduction = REDUCTION_SUM };
    float share = 1 / (float)m->tensor->size;
    m->comm_api->issue(&call);
    m->kernel_api->combine(
        rank->exchange_kernels, m->tensor_stream,
        &(struct combine_args){ (long)count, share, gradients, 0, gradients, gradients });
}

/* Averages, over the tensor ranks, the gradients of weights that every tensor rank holds. It runs
 * on the stream of tensor collectives. The data lane's earlier work comes before it, and the data
 * lane's later work waits for it. */
static void make_alike(struct rank *rank, const struct chunk *chunk)
{
    struct machine *m = &rank->machine;
    rank->on.api->record(rank->streams[LANE_DATA], rank->exchanged);
    rank->on.api->wait(m->tensor_stream, rank->exchanged);
    for (int s = 0; s < chunk->num_stores; s++)
        for (int i = 0; i < chunk->stores[s]->num_weights; i++) {
            const struct stored_weight *stored = &chunk->stores[s]->weights[i];
            if (!stored->weight->is_split)
                average_over_tensor(rank, stored, chunk->stores[s]->gradients + stored->offset);
        }
    rank->on.api->record(m->tensor_stream, m->transferred[0]);
    rank->on.api->wait(rank->streams[LANE_DATA], m->transferred[0]);
}

void rank_exchange_gradients(struct rank *rank, const struct chunk *chunk)
{
    struct chunk_exchange *at = at_chunk(rank, chunk);
    struct stream *stream = rank->streams[LANE_DATA];
    if (exchanger_num_summed(at->exchanger) == 1)
        return;
    float *flat = at->flat;
    for (int s = 0; s < chunk->num_stores; flat += chunk->stores[s++]->elements)
        copy(rank, stream, flat, chunk->stores[s]->gradients, chunk->stores[s]->elements);
    exchanger_sum(at->exchanger, at->flat);
    flat = at->flat;
    for (int s = 0; s < chunk->num_stores; flat += chunk->stores[s++]->elements)
        copy(rank, stream, chunk->stores[s]->gradients, flat, chunk->stores[s]->elements);
    if (is_compressed_apart(rank))
        make_alike(rank, chunk);
}

/* The fp32 weights of a store: the masters if values are stored in 16 bits. */
static float *weights_of_store(const struct store *store)
{
    return store->master ? store->master : store->values;
}

static void put_store(struct rank *rank, struct store *store, struct stream *stream,
                      const float *averaged)
{
    struct machine *m = &rank->machine;
    struct pack pack = { (long)store->elements, averaged, store->values };
    copy(rank, stream, weights_of_store(store), averaged, store->elements);
    if (store->master)
        m->kernel_api->pack(m->kernels, stream, &pack);
}

static void put_weights(struct rank *rank, const struct chunk *chunk, struct stream *stream)
{
    const float *averaged = at_chunk(rank, chunk)->averaged;
    for (int s = 0; s < chunk->num_stores; averaged += chunk->stores[s++]->elements)
        put_store(rank, chunk->stores[s], stream, averaged);
}

static bool is_beside(const struct rank *rank)
{
    return exchange_start(exchange_of(rank)) == START_STEP;
}

void rank_exchange_weights(struct rank *rank, const struct chunk *chunk)
{
    struct chunk_exchange *at = at_chunk(rank, chunk);
    struct stream *stream = rank->streams[LANE_DATA];
    float *flat = at->flat;
    if (exchanger_begins_early(at->exchanger))
        exchanger_begin(at->exchanger);
    if (!exchanger_averages(at->exchanger))
        return;
    for (int s = 0; s < chunk->num_stores; flat += chunk->stores[s++]->elements)
        copy(rank, stream, flat, weights_of_store(chunk->stores[s]), chunk->stores[s]->elements);
    exchanger_average(at->exchanger, at->flat, at->averaged);
    if (!is_beside(rank))
        put_weights(rank, chunk, stream);
}

void rank_exchange_before_update(struct rank *rank)
{
    if (!rank->exchanges || !is_beside(rank))
        return;
    for (int v = 0; v < rank->setup.plan->vpp; v++)
        if (exchanger_averages(rank->exchanges[v].exchanger))
            put_weights(rank, &rank->chunks[v], rank->machine.compute);
}

bool rank_exchange_end_step(struct rank *rank, double loss, struct err *err)
{
    if (!rank->exchanges)
        return true;
    if (exchanger_wants_loss(rank->exchanges[0].exchanger) &&
        !rank_mean_losses(rank, &loss, 1, err))
        return false;
    for (int v = 0; v < rank->setup.plan->vpp; v++)
        exchanger_end_step(rank->exchanges[v].exchanger, loss);
    return true;
}

/* --- checkpoints -------------------------------------------------------------------------- */

int rank_exchange_kept(const struct rank *rank, int chunk, struct kept kept[MAX_KEPT])
{
    return rank->exchanges ? exchanger_kept(rank->exchanges[chunk].exchanger, kept) : 0;
}

struct exchange_period rank_exchange_period(const struct rank *rank)
{
    return rank->exchanges ? exchanger_period(rank->exchanges[0].exchanger)
                           : (struct exchange_period){ 0 };
}

void rank_exchange_set_period(struct rank *rank, struct exchange_period period)
{
    for (int v = 0; rank->exchanges && v < rank->setup.plan->vpp; v++)
        exchanger_set_period(rank->exchanges[v].exchanger, period);
}

/* --- bytes -------------------------------------------------------------------------------- */

static double sent_bytes(const struct rank *rank)
{
    const struct comm_api *api = rank->on.comm_api;
    const struct group *data = rank_group(rank, GROUP_DATA);
    if (rank->exchanges)
        return exchange_groups_sent_bytes(&rank->exchange_groups);
    return !data ? 0 : api->sent_bytes ? api->sent_bytes(data) : -1;
}

static double planned_bytes(const struct rank *rank)
{
    double bytes = 0;
    if (!rank->exchanges)
        return (double)rank->steps_begun * data_step_bytes(rank);
    for (int v = 0; v < rank->setup.plan->vpp; v++)
        bytes += exchanger_planned_bytes(rank->exchanges[v].exchanger);
    return bytes;
}

/* The first data rank reports the planned bytes of all. */
struct exchanged_bytes rank_exchanged_bytes(const struct rank *rank)
{
    bool tells = rank->groups.of[GROUP_DATA]->index == 0;
    return (struct exchanged_bytes){ sent_bytes(rank), tells ? planned_bytes(rank) : 0 };
}
