/* sim/engine/pipeline.h - the exact time of a step's pipelined part, without simulating all of it.
 *
 * The time is defined by the recurrence over the compute order (order_time over every microbatch).
 * The steady state of the recurrence repeats: once two cycles in a row shift every op by the same
 * time, each further cycle of microbatches adds exactly that, so only a few are run (max-plus
 * linearity; tests check that both agree to 1e-9). When nothing repeats, all microbatches are
 * run. */
#ifndef SIM_ENGINE_PIPELINE_H
#define SIM_ENGINE_PIPELINE_H

#include "base/arena.h"
#include "sim/engine/order.h"

/* Sorted shapes and scratch space, one per worker. `{ 0 }` is empty. */
struct pipeline_cache {
    struct arena arena;
    struct pipeline_shape *shapes;
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
    /* [stage]: lag from the end of an op there to its successor on the next stage, or back; the
     * last entry is from the last stage to the first. */
    const double *lag_s;
    /* If the generator has pairs: for each chunk the time of the pair that its backward belongs to,
     * and the lag from the last stage to itself where the pipeline turns around. */
    const double *pair_s;
    double turn_s;
};

/* Seconds from the first forward to the end of the last backward; end_s[stage] (room for
 * num_stages) is when each stage is done. The generator must accept the shape. */
double pipeline_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s);

/* The same, running every microbatch. */
double pipeline_full_s(struct pipeline_cache *cache, const struct pipeline *pipeline,
                       double *end_s);

#endif
