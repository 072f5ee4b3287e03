/* exec/ops/store.h - a flat array of parameters with its gradients and optimizer state.
 *
 * ZeRO divides the array into one shard per data rank: the optimizer state from stage 1 on, summed
 * gradients from 2 on, values from 3 on. Arrays are padded to whole shards. */
#ifndef EXEC_OPS_STORE_H
#define EXEC_OPS_STORE_H

#include "exec/ops/machine.h"
#include "exec/ops/range.h"
#include "sim/plan/state_share.h"
#include "sim/plan/weights.h"

/* A weight of a store, and whether this rank counts it in the gradient norm: exactly one of the
 * ranks that hold the same elements does. */
struct stored_weight {
    const struct weight *weight;
    size_t offset;
    uint16_t layer, number; /* key of the random draw that initialises it */
    double deviation;       /* standard deviation of its initial values; 0: constant */
    float constant;
    bool is_counted;
    bool is_partial; /* its gradient must be summed over tensor ranks */
};

struct store {
    struct stored_weight *weights;
    int num_weights;
    size_t elements, padded; /* padded: a multiple of the shards */
    int shards,
        shard; /* number of data ranks that hold the same array, and this rank's index among them */
    int zero;  /* ZeRO stage; see store_cuts */
    void *values;      /* padded, in the storage type; NULL while ZeRO-3 has dropped them */
    void *value_shard; /* ZeRO-3 */
    float *gradients;  /* padded; with ZeRO-2 and 3 non-NULL only while a backward adds to them */
    float *gradient_shard; /* ZeRO-2 and 3 */
    float *master;     /* fp32 copy of the values that this rank updates, if values are stored in 16
                          bits */
    float *moments[2]; /* moments of the values that this rank updates; NULL if the optimizer has
                          none */
    struct event *gathered, *reduced; /* latest gather and reduction on the data lane */
};

/* Whether each data rank keeps only its shard of `what`. */
static inline bool store_cuts(const struct store *store, enum state what)
{
    return zero_cuts(store->zero, what);
}

/* How parameters are updated. */
struct update {
    int optimizer; /* enum optimizer: sgd, momentum or adam */
    float rate, decay, momentum, beta1, beta2, epsilon;
    double clip;       /* limit of the global norm; 0: none */
    double loss_scale; /* 1 without loss scaling */
    long step;         /* number of the step, from 1 */
};

/* Takes memory from the machine's device and draws the initial values; without moments if
 * `optimizer` has none. */
bool store_new(struct machine *machine, struct store *store, int optimizer);
void store_free(struct machine *machine, struct store *store);

/* Sets this rank's values and moments. `values` has the fp32 values of all elements, or with ZeRO-3
 * only of the elements that this rank updates. `moments` has the moments of the elements that it
 * updates; only as many arrays are read as the optimizer has moments. Returns when the values are
 * set. */
bool store_set(struct machine *machine, struct store *store, const float *values,
               float *const moments[2], struct err *err);

/* The range of elements that this rank updates, their number, and the first of them. */
struct range store_updated_range(const struct store *store);
size_t store_updated(const struct store *store);
size_t store_first_updated(const struct store *store);

/* The range of a weight's elements that this rank updates, counts in the norm and saves. */
struct range store_counted_range(const struct store *store, const struct stored_weight *stored);

int store_num_moments(const struct store *store);

/* store_open_gradients: allocates zeroed gradients if ZeRO-2 or 3 has dropped them.
 * store_drop_gradients: drops them. */
void store_open_gradients(struct machine *machine, struct store *store);
void store_drop_gradients(struct machine *machine, struct store *store);
/* store_sum_partial sums partial gradients over the group `tensor`. store_reduce sums gradients
 * over the group `data` into the memory that the optimizer reads; ZeRO-2 and 3 can then drop the
 * whole gradients. Both run on `stream`. A NULL group means one rank. */
void store_sum_partial(struct machine *machine, struct store *store, struct group *tensor,
                       struct stream *stream);
void store_reduce(struct machine *machine, struct store *store, struct group *data,
                  struct stream *stream);

/* Sums the reduced gradients of a tied embedding over the two ranks that hold copies of it. */
void store_sum_tied(struct machine *machine, struct store *store, struct group *holders,
                    struct stream *stream);

/* ZeRO-3's whole values: store_open_values allocates them, store_gather fills them,
 * store_drop_values drops them. ZeRO-1 and 2 gather in place after the update. */
void store_open_values(struct machine *machine, struct store *store);
void store_gather(struct machine *machine, struct store *store, struct group *data,
                  struct stream *stream);
void store_drop_values(struct machine *machine, struct store *store);

/* Adds to *squares the sum of squares of the gradients that this rank counts. */
void store_add_squares(struct machine *machine, const struct store *store, double *squares,
                       struct stream *stream);
/* Updates this rank's part with gradients times *scale, and clears the gradients. */
void store_update(struct machine *machine, struct store *store, const struct update *update,
                  const float *scale);

#endif
