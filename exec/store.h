/* exec/store.h - a flat array of parameters with its gradients and the optimizer's state.
 *
 * ZeRO parts the array into as many shards as there are data ranks: the optimizer's state from 1
 * on, sums of gradients from 2 on, values from 3 on. Arrays are padded to whole shards. */
#ifndef EXEC_STORE_H
#define EXEC_STORE_H

#include "exec/machine.h"
#include "exec/range.h"
#include "sim/plan/state_share.h"
#include "sim/plan/weights.h"

/* A weight of a store, and whether this rank counts it in the gradient norm: of those that hold
 * the same elements one does. */
struct stored_weight {
    const struct weight *weight;
    size_t offset;
    uint16_t layer, number; /* of the draw that makes it */
    double deviation;       /* of its first values; 0: constant */
    float constant;
    bool is_counted;
    bool is_partial; /* its gradient is summed over tensor ranks */
};

struct store {
    struct stored_weight *weights;
    int num_weights;
    size_t elements, padded; /* padded: a multiple of the shards */
    int shards, shard;       /* data ranks that hold the same, and which of them this is */
    int zero;                /* stage; see store_cuts */
    void *values;            /* padded, as they are stored; NULL while ZeRO-3 has dropped them */
    void *value_shard;       /* ZeRO-3 */
    float *gradients;        /* padded; ZeRO-2 and 3: NULL but while a backward adds to them */
    float *gradient_shard;   /* ZeRO-2 and 3 */
    float *master;           /* of what this rank updates, where values are stored in 16 bits */
    float *moments[2];       /* of what this rank updates; NULL where the optimizer has none */
    struct event *gathered, *reduced; /* on the data lane, the latest of both */
};

/* Whether each of the data ranks keeps a shard alone. */
static inline bool store_cuts(const struct store *store, enum state what)
{
    return zero_cuts(store->zero, what);
}

/* How parameters are updated. */
struct update {
    int optimizer; /* enum optimizer: sgd, momentum or adam */
    float rate, decay, momentum, beta1, beta2, epsilon;
    double clip;       /* of the global norm; 0: none */
    double loss_scale; /* 1 without one */
    long step;         /* from 1 */
};

/* Takes memory from the machine's device and draws the first values; with `optimizer` none, moments
 * are left out as the optimizer needs none. */
bool store_new(struct machine *machine, struct store *store, int optimizer);
void store_free(struct machine *machine, struct store *store);

/* Replaces what this rank holds by fp32 values of all elements (ZeRO-3: of those that it updates)
 * and moments of those that it updates; `moments` past what the optimizer has are not read. Waits
 * until that is done. */
bool store_set(struct machine *machine, struct store *store, const float *values,
               float *const moments[2], struct err *err);

/* Elements that this rank updates, how many they are, and where they begin. */
struct range store_updated_range(const struct store *store);
size_t store_updated(const struct store *store);
size_t store_first_updated(const struct store *store);

/* The range of the weight's elements that this rank updates, and that it alone counts and saves. */
struct range store_counted_range(const struct store *store, const struct stored_weight *stored);

int store_num_moments(const struct store *store);

/* Gradients that ZeRO-2 and 3 have dropped, zeroed; nothing where they are there. And dropped. */
void store_open_gradients(struct machine *machine, struct store *store);
void store_drop_gradients(struct machine *machine, struct store *store);
/* On `stream`: sums partial gradients over `tensor`; sums gradients over `data` into what the
 * optimizer reads (ZeRO-2 and 3 need their whole gradients no more then). NULL: one rank. */
void store_sum_partial(struct machine *machine, struct store *store, struct group *tensor,
                       struct stream *stream);
void store_reduce(struct machine *machine, struct store *store, struct group *data,
                  struct stream *stream);

/* Adds what the other holder of tied rows has of their gradients, as reduced so far. */
void store_sum_tied(struct machine *machine, struct store *store, struct group *holders,
                    struct stream *stream);

/* ZeRO-3's values: memory for the whole; a gather into it; the whole dropped. ZeRO-1 and 2 gather
 * in place after the update. */
void store_open_values(struct machine *machine, struct store *store);
void store_gather(struct machine *machine, struct store *store, struct group *data,
                  struct stream *stream);
void store_drop_values(struct machine *machine, struct store *store);

/* *squares += those of the gradients that this rank counts. */
void store_add_squares(struct machine *machine, const struct store *store, double *squares,
                       struct stream *stream);
/* Updates what this rank updates with gradients times *scale, and clears the gradients. */
void store_update(struct machine *machine, struct store *store, const struct update *update,
                  const float *scale);

#endif
