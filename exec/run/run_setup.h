/* exec/run/run_setup.h - the definition of a run, and the device of one rank. */
#ifndef EXEC_RUN_RUN_SETUP_H
#define EXEC_RUN_RUN_SETUP_H

#include "exec/comm/comm.h"
#include "exec/device/kernels.h"
#include "exec/exchange/hostile.h"
#include "exec/learning_rate.h"
#include "exec/tokens.h"
#include "sim/schedule/schedule.h"

struct watchdog;

/* The definition of a run: the plan, and the options of its op lists (the sequences of operations
 * of a layer). */
struct run_setup {
    const struct plan *plan;
    const struct model *model; /* its seq and batch are those of the run */
    const struct schedule *schedule;
    /* options of the op lists; dtype is the type of the plan's values */
    struct layer_options options;
    bool overlaps_tensor;
    bool overlaps_gradients; /* whether reductions of gradients overlap the last backward
                                (plan_reduces_pieces) */
    int prefetch;            /* number of pieces (layers, ...) that ZeRO-3 gathers ahead */
    bool has_graphs; /* whether passes run as graphs, unless plan_capture_refusal gives a reason
                      * against it */
    const struct token_source *tokens;
    struct update update; /* rate is the peak; the run sets the step and, in fp16, the loss scale */
    struct rate_course rates; /* zeros: the rate stays at the peak */
    double spike; /* limit of a loss in standard deviations above the mean; 0: no limit */
    uint64_t seed;
    struct exchange_ranks data_ranks; /* used if the plan's exchange is not all-reduce */
    struct hostility hostility;       /* data ranks that send false gradients */
};

/* The device that a rank runs on. */
struct rank_device {
    const struct device_api *api;
    struct device *device;
    const struct kernel_api *kernel_api;
    const struct comm_api *comm_api;
    struct comm *comm;
    int rank;
    struct watchdog *watchdog; /* watches the lanes of exec/run/lane_status.h; NULL: no watchdog */
};

#endif
