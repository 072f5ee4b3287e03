#include "exec/store.h"

#include <math.h>

static size_t shard_elements(const struct store *store)
{
    return store->padded / (size_t)store->shards;
}

size_t store_updated(const struct store *store)
{
    return store->zero >= 1 ? shard_elements(store) : store->padded;
}

size_t store_first_updated(const struct store *store)
{
    return store->zero >= 1 ? shard_elements(store) * (size_t)store->shard : 0;
}

struct range store_updated_range(const struct store *store)
{
    size_t first = store_first_updated(store);
    return (struct range){ first, first + store_updated(store) };
}

/* Without shards the first data rank counts for all. */
struct range store_counted_range(const struct store *store, const struct stored_weight *stored)
{
    struct range held = { stored->offset, stored->offset + weight_elements(stored->weight) };
    bool is_counted = stored->is_counted && !(store->zero == 0 && store->shard > 0);
    return is_counted ? range_overlap(held, store_updated_range(store)) : (struct range){ 0 };
}

int store_num_moments(const struct store *store)
{
    return (store->moments[0] != NULL) + (store->moments[1] != NULL);
}

/* --- memory ------------------------------------------------------------------------------- */

static float *take(struct machine *m, size_t elements)
{
    return machine_take(m, sizeof(float) * elements);
}

static float *take_zeroed(struct machine *m, size_t elements)
{
    float *at = take(m, elements);
    if (at)
        m->device_api->fill(m->compute, at, 0, sizeof(float) * elements);
    return at;
}

static void give_back(struct machine *m, float **at)
{
    machine_give_back(m, *at);
    *at = NULL;
}

/* --- first values ------------------------------------------------------------------------- */

/* Runs on the stream's thread. */
struct first_values {
    const struct stored_weight *weight;
    float *values;
    uint64_t seed;
    size_t real_rows; /* of the whole; padding of the vocabulary is 0 */
};

static void draw_row(const struct first_values *first, size_t row, float *out)
{
    const struct stored_weight *stored = first->weight;
    const struct weight *weight = stored->weight;
    struct draw draw = { .seed = first->seed, .layer = stored->layer, .op = stored->number };
    size_t index = weight_whole_index(weight, row * weight->columns);
    if (weight->is_vocabulary && weight->first_row + row >= first->real_rows)
        for (size_t i = 0; i < weight->columns; i++)
            out[i] = 0;
    else
        draw_normal(&draw, stored->deviation, index, (long)weight->columns, out);
}

static void draw_values(void *args)
{
    const struct first_values *first = args;
    const struct weight *weight = first->weight->weight;
    for (size_t row = 0; row < weight->rows; row++) {
        float *out = first->values + row * weight->columns;
        if (first->weight->deviation > 0)
            draw_row(first, row, out);
        else
            for (size_t i = 0; i < weight->columns; i++)
                out[i] = first->weight->constant;
    }
}

static void draw_store(struct machine *m, struct store *store, float *values)
{
    m->device_api->fill(m->compute, values, 0, sizeof(float) * store->padded);
    for (int i = 0; i < store->num_weights; i++) {
        struct first_values first = { &store->weights[i], values + store->weights[i].offset,
                                      m->seed, (size_t)m->model->vocab };
        m->device_api->call(m->compute, draw_values, &first, sizeof first);
    }
}

static void round_values(struct machine *m, float *values, size_t elements)
{
    struct round_args args = { (long)elements, (int)m->rounded, values };
    if (m->rounded != DTYPE_FP32)
        m->kernel_api->round(m->kernels, m->compute, &args);
}

/* The fp32 values are where they are when nothing is rounded. */
static void keep_master(struct machine *m, struct store *store, const float *values)
{
    if (m->rounded == DTYPE_FP32)
        return;
    size_t updated = store_updated(store);
    store->master = take(m, updated);
    if (store->master)
        m->device_api->copy(m->compute, store->master, values + store_first_updated(store),
                            sizeof(float) * updated);
}

static int num_moments(int optimizer)
{
    return optimizer == OPTIMIZER_SGD ? 0 : optimizer == OPTIMIZER_MOMENTUM ? 1 : 2;
}

bool store_new(struct machine *m, struct store *store, int optimizer)
{
    float *values = take(m, store->padded);
    if (!values)
        return false;
    draw_store(m, store, values);
    keep_master(m, store, values);
    round_values(m, values, store->padded);
    store->values = values;
    if (store->zero == 3) {
        store->value_shard = take(m, shard_elements(store));
        m->device_api->copy(m->compute, store->value_shard, values + store_first_updated(store),
                            sizeof(float) * shard_elements(store));
        give_back(m, &store->values);
    }
    if (store->zero >= 2)
        store->gradient_shard = take_zeroed(m, shard_elements(store));
    else
        store->gradients = take_zeroed(m, store->padded);
    for (int i = 0; i < num_moments(optimizer); i++)
        store->moments[i] = take_zeroed(m, store_updated(store));
    return m->err.code == ERR_NONE;
}

static void set(struct machine *m, float *to, const float *from, size_t elements)
{
    if (to)
        m->device_api->copy(m->compute, to, from, sizeof *to * elements);
}

bool store_set(struct machine *m, struct store *store, const float *values, float *const moments[2],
               struct err *err)
{
    bool is_shard = store->zero == 3;
    float *to = is_shard ? store->value_shard : store->values;
    size_t updated = store_updated(store), count = is_shard ? updated : store->padded;
    set(m, to, values, count);
    set(m, store->master, values + (is_shard ? 0 : store_first_updated(store)), updated);
    round_values(m, to, count);
    for (int i = 0; i < 2; i++)
        set(m, store->moments[i], moments[i], updated);
    return m->device_api->stream_sync(m->compute, err);
}

void store_free(struct machine *m, struct store *store)
{
    float **all[] = { &store->values,     &store->next_values,    &store->value_shard,
                      &store->gradients,  &store->gradient_shard, &store->master,
                      &store->moments[0], &store->moments[1] };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give_back(m, all[i]);
}

/* --- gradients ---------------------------------------------------------------------------- */

void store_open_gradients(struct machine *m, struct store *store)
{
    if (!store->gradients)
        store->gradients = take_zeroed(m, store->padded);
}

static void collective(struct machine *m, enum comm_kind kind, struct group *group,
                       struct stream *stream, const float *in, float *out, size_t count)
{
    struct comm_call call = { .kind = kind,
                              .group = group,
                              .stream = stream,
                              .in = in,
                              .out = out,
                              .count = count,
                              .element = ELEMENT_FP32,
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
            collective(m, COMM_ALL_REDUCE, tensor, stream, at, at, weight_elements(stored->weight));
    }
}

/* A microbatch's share of the sum is added to those of the microbatches before. */
static void add_to_shard(struct machine *m, struct store *store, struct group *data,
                         struct stream *stream)
{
    size_t count = shard_elements(store);
    float *own = store->gradients + store_first_updated(store);
    if (data)
        collective(m, COMM_REDUCE_SCATTER, data, stream, store->gradients, own, count);
    m->kernel_api->sum_into(m->kernels, stream,
                            &(struct sum_into){ (long)count, own, store->gradient_shard });
}

void store_reduce(struct machine *m, struct store *store, struct group *data, struct stream *stream)
{
    float *all = store->gradients;
    if (store->zero >= 2)
        add_to_shard(m, store, data, stream);
    else if (data && store->zero == 1)
        collective(m, COMM_REDUCE_SCATTER, data, stream, all, all + store_first_updated(store),
                   shard_elements(store));
    else if (data)
        collective(m, COMM_ALL_REDUCE, data, stream, all, all, store->padded);
}

static float *reduced_gradients(const struct store *store)
{
    return store->zero >= 2 ? store->gradient_shard : store->gradients + store_first_updated(store);
}

void store_sum_tied(struct machine *m, struct store *store, struct group *holders,
                    struct stream *stream)
{
    float *at = reduced_gradients(store);
    if (holders)
        collective(m, COMM_ALL_REDUCE, holders, stream, at, at, store_updated(store));
}

/* --- values ------------------------------------------------------------------------------- */

void store_open_values(struct machine *m, struct store *store)
{
    if (store->zero < 3)
        return;
    float **to = store->values ? &store->next_values : &store->values;
    *to = take(m, store->padded);
}

void store_gather(struct machine *m, struct store *store, struct group *data, struct stream *stream)
{
    size_t count = shard_elements(store);
    float *to = store->next_values ? store->next_values : store->values;
    const float *own =
        store->zero == 3 ? store->value_shard : store->values + store_first_updated(store);
    if (data)
        collective(m, COMM_ALL_GATHER, data, stream, own, to, count);
}

void store_drop_values(struct machine *m, struct store *store)
{
    if (store->zero < 3)
        return;
    give_back(m, &store->values);
    store->values = store->next_values;
    store->next_values = NULL;
}

/* --- the update --------------------------------------------------------------------------- */

static void add_weight_squares(struct machine *m, const struct store *store,
                               const struct stored_weight *stored, double *squares,
                               struct stream *stream)
{
    struct range range = store_counted_range(store, stored);
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
    for (int i = 0; i < store->num_weights; i++)
        add_weight_squares(m, store, &store->weights[i], squares, stream);
}

static void run_update(struct machine *m, struct store *store, const struct update *u,
                       const float *scale, float *weights)
{
    long n = (long)store_updated(store);
    const float *gradients = reduced_gradients(store);
    if (u->optimizer == OPTIMIZER_SGD)
        m->kernel_api->sgd(
            m->kernels, m->compute,
            &(struct sgd_args){ { u->rate, u->decay, 1 }, n, gradients, scale, weights });
    else if (u->optimizer == OPTIMIZER_MOMENTUM)
        m->kernel_api->momentum(m->kernels, m->compute,
                                &(struct momentum_args){ { u->rate, u->decay, 1, u->momentum },
                                                         n,
                                                         gradients,
                                                         scale,
                                                         store->moments[0],
                                                         weights });
    else
        m->kernel_api->adamw(
            m->kernels, m->compute,
            &(struct adamw_args){ { u->rate, u->decay, 1, u->beta1, u->beta2, u->epsilon, u->step },
                                  n,
                                  gradients,
                                  scale,
                                  store->moments[0],
                                  store->moments[1],
                                  weights });
}

static void clear_gradients(struct machine *m, struct store *store)
{
    float *at = store->zero >= 2 ? store->gradient_shard : store->gradients;
    size_t elements = store->zero >= 2 ? shard_elements(store) : store->padded;
    m->device_api->fill(m->compute, at, 0, sizeof(float) * elements);
}

void store_update(struct machine *m, struct store *store, const struct update *update,
                  const float *scale)
{
    float *own = store->zero == 3 ? store->value_shard : store->values + store_first_updated(store);
    run_update(m, store, update, scale, store->master ? store->master : own);
    if (store->master) {
        size_t elements = store_updated(store);
        m->device_api->copy(m->compute, own, store->master, sizeof(float) * elements);
        round_values(m, own, elements);
    }
    clear_gradients(m, store);
}
