/* sim/engine/order.h - the compute order of a pipeline shape, sorted so that one loop over it gives
 * all times.
 *
 * Dependencies do not depend on durations, so a shape is sorted once and timed for every plan that
 * has it. */
#ifndef SIM_ENGINE_ORDER_H
#define SIM_ENGINE_ORDER_H

#include "base/arena.h"
#include "sim/schedule/schedule.h"

/* What a chunk does with a microbatch. CHUNK_BACKWARD is the whole backward or, where the schedule
 * splits it, the input gradients, which the chunk before waits for; CHUNK_WEIGHT is then the rest.
 */
enum chunk_pass { CHUNK_FORWARD, CHUNK_BACKWARD, CHUNK_WEIGHT, CHUNK_PASSES };

/* A pass of one chunk and microbatch. */
struct order_op {
    int stage;
    int slot;     /* CHUNK_PASSES x chunk + pass: index of its duration */
    int from;     /* earlier op on another stage whose result it needs, or -1 */
    int boundary; /* the boundary that the result crosses (sim/schedule/placement.h) */
};

/* Further slots of schedules that run a forward and a backward as a pair. Durations, after those of
 * all chunks: order_whole_slot for the whole backward of a chunk, when other backwards are split;
 * order_pair_slot for the backward of a pair, with the time of both its passes; order_empty_slot
 * for the forward of a pair, with time 0. Lags, after those of all boundaries: order_turn for a
 * result that stays on its stage where the pipeline turns around. */
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

struct order {
    struct schedule_shape shape;
    int count;
    struct order_op *ops; /* in topological order */
    /* Steady rounds: after `warmup[s]` forwards, in round r stage s does forward warmup[s] + r,
     * backward r and, when the backward is split, weight pass r - put_off[s]. at[pass][s *
     * per_stage + k] is the index in `ops` of the k-th such pass of stage s. */
    int per_stage; /* forwards of a stage: vpp x microbatches */
    int *warmup, *put_off;
    int *at[CHUNK_PASSES];
    bool is_split;
};

/* In the arena; NULL when the generator refuses the shape. */
struct order *order_new(const struct generator *generator, const struct schedule_shape *shape,
                        struct arena *arena);

/* Times every op: durations by slot, lags by boundary where a result crosses it. `done_s` has room
 * for order->count; end_s[stage] is when the stage's last op ends. Returns the makespan. */
double order_time(const struct order *order, const double *duration_s, const double *lag_s,
                  double *done_s, double *end_s);

#endif
