/* sim/engine/pipeline.h - the exact time of a step's pipelined part, without simulating all
 * microbatches.
 *
 * The time is defined by a recurrence over the passes of all microbatches (order_time). Its steady
 * state repeats: once two consecutive cycles of microbatches shift every pass by the same time,
 * each further cycle adds exactly this time (max-plus linearity). So only a few cycles are
 * computed; tests check that the result agrees with all microbatches to 1e-9. If no repetition is
 * found, all microbatches are computed. */
#ifndef SIM_ENGINE_PIPELINE_H
#define SIM_ENGINE_PIPELINE_H

#include "base/arena.h"
#include "sim/engine/order.h"

/* Sorted shapes and scratch space, one per worker. `{ 0 }` is empty. */
struct pipeline_cache {
    struct arena arena;
    struct pipeline_shape *shapes;
    /* the last shape that is too large to be kept with the others, with its generator; NULL:
     * none */
    struct arena large;
    const struct order *last_large;
    const struct generator *last_generator;
    double *done_s;
    int done_capacity;
    double *table_s; /* durations and lags of an order with pairs */
    int table_capacity;
};
void pipeline_cache_release(struct pipeline_cache *cache);

struct pipeline {
    const struct generator *generator;
    struct schedule_shape shape;
    const double *duration_s; /* [CHUNK_PASSES x chunk + pass], chunk < pp x vpp */
    /* [stage]: time from the end of a pass on this stage until its result reaches the next stage,
     * or from there to this stage; the last entry is for the last stage and the first. */
    const double *lag_s;
    /* With several chunks per stage: further lag between the last two chunks. */
    double last_more_s;
    /* If the schedule has pairs: for each chunk the time of the pair that its backward belongs to,
     * and the lag between the two chunks of the last stage of a V. */
    const double *pair_s;
    double turn_s;
};

/* Seconds from the first forward to the end of the last backward; end_s[stage] (room for
 * num_stages) becomes the end of each stage's last pass. The generator must accept the shape. */
double pipeline_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s);

/* The time of pipeline_s, computed from every microbatch. */
double pipeline_full_s(struct pipeline_cache *cache, const struct pipeline *pipeline,
                       double *end_s);

#endif
