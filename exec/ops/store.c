/* A store holds parameters with their gradients and optimizer state. ZeRO divides its arrays into
 * one shard per data rank. */
#include "exec/ops/store.h"

#include "base/arena.h"
#include "base/length.h"
#include "base/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t shard_elements(const struct store *store)
{
    return store->padded / (size_t)store->shards;
}

size_t store_updated(const struct store *store)
{
    return store_cuts(store, STATE_OPTIMIZER) ? shard_elements(store) : store->padded;
}

size_t store_first_updated(const struct store *store)
{
    return store_cuts(store, STATE_OPTIMIZER) ? shard_elements(store) * (size_t)store->shard : 0;
}

struct range store_updated_range(const struct store *store)
{
    size_t first = store_first_updated(store);
    return (struct range){ first, first + store_updated(store) };
}

/* The elements that this rank counts. Without shards, the first data rank counts all elements. */
struct range store_counted_range(const struct store *store, const struct stored_weight *stored)
{
    struct range held = { stored->offset, stored->offset + weight_elements(stored->weight) };
    bool is_counted =
        stored->is_counted && (store_cuts(store, STATE_OPTIMIZER) || store->shard == 0);
    return is_counted ? range_overlap(held, store_updated_range(store)) : (struct range){ 0 };
}

int store_num_moments(const struct store *store)
{
    return (store->moments[0] != NULL) + (store->moments[1] != NULL);
}

/* --- memory ------------------------------------------------------------------------------- */

static void *take(struct machine *m, size_t elements)
{
    return machine_take(m, machine_bytes(m, (double)elements));
}

static float *take_zeroed(struct machine *m, size_t elements)
{
    float *at = machine_take(m, sizeof *at * elements);
    if (at)
        m->device_api->fill(m->compute, at, 0, sizeof *at * elements);
    return at;
}

/* The address of an element in an array of values. */
static void *element_at(const struct machine *m, void *values, size_t element)
{
    return (char *)values + machine_bytes(m, (double)element);
}

/* --- first values ------------------------------------------------------------------------- */

struct first_values {
    const struct stored_weight *weight;
    float *values; /* values of the weight on the host */
    uint64_t seed;
    size_t real_rows; /* rows of the whole weight without padding of the vocabulary, which is 0 */
};

static void draw_row(const struct first_values *first, size_t row, float *out)
{
    const struct stored_weight *stored = first->weight;
    const struct weight *weight = stored->weight;
    struct draw draw = { .seed = first->seed, .layer = stored->layer, .op = stored->number };
    size_t index = weight_whole_index(weight, row * weight->columns);
    if (weight->of->is_vocabulary && weight->first_row + row >= first->real_rows)
        for (size_t i = 0; i < weight->columns; i++)
            out[i] = 0;
    else
        draw_normal(&draw, stored->deviation, index, (long)weight->columns, out);
}

static void draw_or_fill_row(void *context, size_t row, int worker)
{
    (void)worker;
    const struct first_values *first = context;
    const struct weight *weight = first->weight->weight;
    float *out = first->values + row * weight->columns;
    if (first->weight->deviation > 0)
        draw_row(first, row, out);
    else
        for (size_t i = 0; i < weight->columns; i++)
            out[i] = first->weight->constant;
}

/* The initial values of all elements; the caller frees them. A draw takes tens of nanoseconds, so
 * large weights use threads. */
static float *first_values(const struct machine *m, const struct store *store)
{
    enum { WORTH_THREADS = 1 << 20, ROWS_AT_ONCE = 64 };
    float *values = arena_grow(NULL, sizeof *values * store->padded);
    memset(values, 0, sizeof *values * store->padded);
    for (int i = 0; i < store->num_weights; i++) {
        const struct stored_weight *stored = &store->weights[i];
        size_t rows = stored->weight->rows;
        struct first_values first = { stored, values + stored->offset, m->seed,
                                      (size_t)m->model->vocab };
        bool is_large = rows * stored->weight->columns >= WORTH_THREADS;
        parallel_for(is_large ? parallel_cores() : 1, rows, ROWS_AT_ONCE, draw_or_fill_row, &first);
    }
    return values;
}

/* --- setting ------------------------------------------------------------------------------ */

static void copy_fp32(struct machine *m, float *to, const float *from, size_t elements)
{
    if (to)
        m->device_api->copy(m->compute, to, from, sizeof *to * elements);
}

/* Sets values, and masters if values have 16 bits, from fp32 values on the host. */
static void set_values(struct machine *m, struct store *store, const float *values)
{
    bool is_shard = store_cuts(store, STATE_PARAMETERS);
    void *to = is_shard ? store->value_shard : store->values;
    size_t count = is_shard ? store_updated(store) : store->padded;
    if (m->storage == DTYPE_FP32) {
        copy_fp32(m, to, values, count);
        return;
    }
    float *wide = machine_take(m, sizeof *wide * count);
    if (!wide)
        return;
    copy_fp32(m, wide, values, count);
    copy_fp32(m, store->master, wide + (is_shard ? 0 : store_first_updated(store)),
              store_updated(store));
    m->kernel_api->pack(m->kernels, m->compute, &(struct pack){ (long)count, wide, to });
    machine_give_back(m, wide);
}

/* Allocates masters and values before gradients and moments, so that the temporary memory of
 * set_values does not raise the peak. */
static bool draw_values(struct machine *m, struct store *store)
{
    size_t updated = store_updated(store);
    float *values = first_values(m, store);
    if (store_cuts(store, STATE_PARAMETERS))
        store->value_shard = take(m, updated);
    else
        store->values = take(m, store->padded);
    if (m->storage != DTYPE_FP32)
        store->master = machine_take(m, sizeof *store->master * updated);
    if (m->err.code == ERR_NONE)
        set_values(m, store,
                   values + (store_cuts(store, STATE_PARAMETERS) ? store_first_updated(store) : 0));
    bool ok = m->err.code == ERR_NONE && m->device_api->stream_sync(m->compute, &m->err);
    free(values);
    return ok;
}

static int num_moments(int optimizer)
{
    return optimizer == OPTIMIZER_SGD ? 0 : optimizer == OPTIMIZER_MOMENTUM ? 1 : 2;
}

static bool open_events(struct machine *m, struct store *store)
{
    return (store->gathered = m->device_api->event_new(m->device, &m->err)) &&
           (store->reduced = m->device_api->event_new(m->device, &m->err));
}

bool store_new(struct machine *m, struct store *store, int optimizer)
{
    if (!open_events(m, store) || !draw_values(m, store))
        return false;
    if (store_cuts(store, STATE_GRADIENTS))
        store->gradient_shard = take_zeroed(m, shard_elements(store));
    else
        store->gradients = take_zeroed(m, store->padded);
    for (int i = 0; i < num_moments(optimizer); i++)
        store->moments[i] = take_zeroed(m, store_updated(store));
    return m->err.code == ERR_NONE;
}

bool store_set(struct machine *m, struct store *store, const float *values, float *const moments[2],
               struct err *err)
{
    if (store_cuts(store, STATE_PARAMETERS) && store->values) /* values that were gathered before */
        store_drop_values(m, store);
    set_values(m, store, values);
    for (int i = 0; i < 2; i++)
        copy_fp32(m, store->moments[i], moments[i], store_updated(store));
    if (m->err.code != ERR_NONE) {
        *err = m->err;
        return false;
    }
    return m->device_api->stream_sync(m->compute, err);
}

void store_free(struct machine *m, struct store *store)
{
    void *all[] = { store->values, store->value_shard, store->gradients, store->gradient_shard,
                    store->master, store->moments[0],  store->moments[1] };
    for (size_t i = 0; i < LENGTH(all); i++)
        machine_give_back(m, all[i]);
    m->device_api->event_free(store->gathered);
    m->device_api->event_free(store->reduced);
    store->values = store->value_shard = NULL;
    store->gradients = store->gradient_shard = store->master = NULL;
    store->moments[0] = store->moments[1] = NULL;
    store->gathered = store->reduced = NULL;
}

/* --- gradients ---------------------------------------------------------------------------- */

void store_open_gradients(struct machine *m, struct store *store)
{
    if (!store->gradients)
        store->gradients = take_zeroed(m, store->padded);
}

void store_drop_gradients(struct machine *m, struct store *store)
{
    machine_give_back(m, store->gradients);
    store->gradients = NULL;
}

static void collective(struct machine *m, enum comm_kind kind, struct group *group,
                       struct stream *stream, enum element element, const void *in, void *out,
                       size_t count)
{
    struct comm_call call = { .kind = kind,
                              .group = group,
                              .stream = stream,
                              .in = in,
                              .out = out,
                              .count = count,
                              .element = element,
                              .reduction = REDUCTION_SUM };
    m->comm_api->issue(&call);
}

void store_sum_partial(struct machine *m, struct store *store, struct group *tensor,
                       struct stream *stream)
{
    if (!tensor)
        return;
    for (int i = 0; i < store->num_weights; i++) {
        const struct stored_weight *stored = &store->weights[i];
        float *at = store->gradients + stored->offset;
        if (stored->is_partial)
            collective(m, COMM_ALL_REDUCE, tensor, stream, ELEMENT_FP32, at, at,
                       weight_elements(stored->weight));
    }
}

/* Adds a microbatch's part of the sum to the shard. */
static void add_to_shard(struct machine *m, struct store *store, struct group *data,
                         struct stream *stream)
{
    size_t count = shard_elements(store);
    float *own = store->gradients + store_first_updated(store);
    if (data)
        collective(m, COMM_REDUCE_SCATTER, data, stream, ELEMENT_FP32, store->gradients, own,
                   count);
    m->kernel_api->gradient_sum(m->kernels, stream,
                                &(struct gradient_sum){ (long)count, own, store->gradient_shard });
}

void store_reduce(struct machine *m, struct store *store, struct group *data, struct stream *stream)
{
    float *all = store->gradients;
    if (store_cuts(store, STATE_GRADIENTS))
        add_to_shard(m, store, data, stream);
    else if (data && store_cuts(store, STATE_OPTIMIZER))
        collective(m, COMM_REDUCE_SCATTER, data, stream, ELEMENT_FP32, all,
                   all + store_first_updated(store), shard_elements(store));
    else if (data)
        collective(m, COMM_ALL_REDUCE, data, stream, ELEMENT_FP32, all, all, store->padded);
}

static float *reduced_gradients(const struct store *store)
{
    return store_cuts(store, STATE_GRADIENTS) ? store->gradient_shard
                                              : store->gradients + store_first_updated(store);
}

void store_sum_tied(struct machine *m, struct store *store, struct group *holders,
                    struct stream *stream)
{
    float *at = reduced_gradients(store);
    if (holders)
        collective(m, COMM_ALL_REDUCE, holders, stream, ELEMENT_FP32, at, at, store_updated(store));
}

/* --- values ------------------------------------------------------------------------------- */

/* Address of the values that this rank updates. */
static void *own_values(const struct machine *m, const struct store *store)
{
    return store_cuts(store, STATE_PARAMETERS)
               ? store->value_shard
               : element_at(m, store->values, store_first_updated(store));
}

void store_open_values(struct machine *m, struct store *store)
{
    store->values = take(m, store->padded);
}

void store_gather(struct machine *m, struct store *store, struct group *data, struct stream *stream)
{
    size_t count = shard_elements(store);
    const void *own = own_values(m, store);
    if (data)
        collective(m, COMM_ALL_GATHER, data, stream, machine_element(m), own, store->values, count);
}

void store_drop_values(struct machine *m, struct store *store)
{
    machine_give_back(m, store->values);
    store->values = NULL;
}

/* --- the update --------------------------------------------------------------------------- */

static void add_range_squares(struct machine *m, const struct store *store, struct range range,
                              double *squares, struct stream *stream)
{
    long count = (long)range_count(range);
    if (count == 0)
        return;
    const float *gradients = reduced_gradients(store) + (range.from - store_first_updated(store));
    m->kernel_api->square_sum(m->kernels, stream,
                              &(struct square_sum){ count, gradients, squares });
}

void store_add_squares(struct machine *m, const struct store *store, double *squares,
                       struct stream *stream)
{
    struct range run = { 0 }; /* weights that lie side by side are summed at once, as a launch takes
                                 longer than most sums */
    for (int i = 0; i < store->num_weights; i++) {
        struct range range = store_counted_range(store, &store->weights[i]);
        if (range_count(range) == 0)
            continue;
        if (range.from != run.to) {
            add_range_squares(m, store, run, squares, stream);
            run.from = range.from;
        }
        run.to = range.to;
    }
    add_range_squares(m, store, run, squares, stream);
}

static void run_update(struct machine *m, struct store *store, const struct update *u,
                       const float *scale)
{
    long n = (long)store_updated(store);
    const float *gradients = reduced_gradients(store);
    void *own = own_values(m, store), *values = store->master ? own : NULL;
    float *weights = store->master ? store->master : own;
    if (u->optimizer == OPTIMIZER_SGD)
        m->kernel_api->sgd(
            m->kernels, m->compute,
            &(struct sgd_args){ { u->rate, u->decay, 1 }, n, gradients, scale, weights, values });
    else if (u->optimizer == OPTIMIZER_MOMENTUM)
        m->kernel_api->momentum(m->kernels, m->compute,
                                &(struct momentum_args){ { u->rate, u->decay, 1, u->momentum },
                                                         n,
                                                         gradients,
                                                         scale,
                                                         store->moments[0],
                                                         weights,
                                                         values });
    else
        m->kernel_api->adamw(
            m->kernels, m->compute,
            &(struct adamw_args){ { u->rate, u->decay, 1, u->beta1, u->beta2, u->epsilon, u->step },
                                  n,
                                  gradients,
                                  scale,
                                  store->moments[0],
                                  store->moments[1],
                                  weights,
                                  values });
}

static void clear_gradients(struct machine *m, struct store *store)
{
    float *at = store_cuts(store, STATE_GRADIENTS) ? store->gradient_shard : store->gradients;
    size_t elements = store_cuts(store, STATE_GRADIENTS) ? shard_elements(store) : store->padded;
    m->device_api->fill(m->compute, at, 0, sizeof(float) * elements);
}

void store_update(struct machine *m, struct store *store, const struct update *update,
                  const float *scale)
{
    run_update(m, store, update, scale);
    clear_gradients(m, store);
}
