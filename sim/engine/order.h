/* sim/engine/order.h - the passes of all pipeline stages, sorted so that one loop computes all
 * their times.
 *
 * The sorted order does not depend on durations. So each pipeline shape (schedule, stages, chunks,
 * microbatches) is sorted once and used for every plan that has it. */
#ifndef SIM_ENGINE_ORDER_H
#define SIM_ENGINE_ORDER_H

#include "base/arena.h"
#include "sim/schedule/schedule.h"

/* The passes of a chunk for one microbatch. CHUNK_BACKWARD is the whole backward or, if the
 * schedule splits it, the input gradients, for which the previous chunk waits. CHUNK_WEIGHT is then
 * the weight gradients. */
enum chunk_pass { CHUNK_FORWARD, CHUNK_BACKWARD, CHUNK_WEIGHT, CHUNK_PASSES };

/* A pass of one chunk and one microbatch. */
struct order_op {
    int stage;
    int slot;     /* CHUNK_PASSES x chunk + pass: index of its duration */
    int from;     /* earlier op on another stage whose result it needs, or -1 */
    int boundary; /* index of the result's lag: the boundary that it crosses
                     (sim/schedule/placement.h), order_turn or order_last */
};

/* Further indices for schedules that run a forward and a backward as a pair. The first three are
 * indices of durations, behind those of all chunks. order_whole_slot: the whole backward of a
 * chunk, if other backwards are split. order_pair_slot: the backward of a pair, with the time of
 * both passes. order_empty_slot: the forward of a pair, with time 0. order_turn and
 * order_last are indices of lags, behind those of all boundaries. order_turn: for a result that
 * stays on its stage, where the chunks of a V turn back up the stages. order_last: between the last
 * two chunks, if a stage has several chunks. */
static inline int order_whole_slot(const struct schedule_shape *shape, int chunk)
{
    return CHUNK_PASSES * shape->num_stages * shape->chunks_per_stage + chunk;
}

static inline int order_pair_slot(const struct schedule_shape *shape, int chunk)
{
    return order_whole_slot(shape, chunk) + shape->num_stages * shape->chunks_per_stage;
}

static inline int order_empty_slot(const struct schedule_shape *shape)
{
    return order_pair_slot(shape, shape->num_stages * shape->chunks_per_stage);
}

static inline int order_turn(const struct schedule_shape *shape)
{
    return shape->num_stages;
}

static inline int order_last(const struct schedule_shape *shape)
{
    return shape->num_stages + 1;
}

struct order {
    struct schedule_shape shape;
    int count;
    struct order_op *ops; /* in topological order */
    /* In the steady state, round r of stage s has forward warmup[s] + r, backward r and, if the
     * backward is split, weight pass r - put_off[s]. at[pass][s * per_stage + k] is the index in
     * `ops` of the k-th such pass of stage s. */
    int per_stage; /* forwards of a stage: vpp x microbatches */
    int *warmup, *put_off;
    int *at[CHUNK_PASSES];
    bool is_split;
};

/* The order is in the arena; NULL if the generator refuses the shape. */
struct order *order_new(const struct generator *generator, const struct schedule_shape *shape,
                        struct arena *arena);

/* Computes the end of every op from durations (by slot) and lags (by order_op's `boundary`).
 * `done_s` is scratch memory for order->count ends of ops; end_s[stage] becomes the end of the
 * stage's last op. Returns the end of the last op of all stages. */
double order_time(const struct order *order, const double *duration_s, const double *lag_s,
                  double *done_s, double *end_s);

#endif
