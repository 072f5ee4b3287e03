/* exec/run/rank.h - one rank of a run: its state, and how it runs a step.
 *
 * The instruction list of its stage is the program (sim/schedule/instr.h): every instruction is
 * issued on its lane's stream, after what it waits for. */
#ifndef EXEC_RUN_RANK_H
#define EXEC_RUN_RANK_H

#include "exec/chunk.h"
#include "exec/comm/groups.h"
#include "exec/divergence.h"
#include "exec/exchange/hostile.h"
#include "exec/ops/store.h"
#include "exec/pass_graphs.h"
#include "exec/rate.h"
#include "exec/spike.h"
#include "exec/tokens.h"
#include "sim/schedule/timeline.h"

/* The definition of a run: the plan, and the options of its op lists. */
struct run_setup {
    const struct plan *plan;
    const struct model *model; /* seq and batch are the run's */
    const struct schedule *schedule;
    struct layer_options options; /* options of the op lists; dtype is that of the plan's values */
    bool overlaps_tensor;
    int prefetch;    /* pieces that ZeRO-3 gathers ahead of the one that runs */
    bool has_graphs; /* passes run as graphs, unless plan_capture_refusal says otherwise */
    const struct token_source *tokens;
    struct update update;     /* the run sets step and, in fp16, loss scale; rate is the peak */
    struct rate_course rates; /* zeros: the peak stays */
    double spike;             /* most standard deviations of a loss above the mean; 0: no limit */
    uint64_t seed;
    struct exchange_ranks data_ranks; /* read when the plan's exchange is not all-reduce */
    struct hostility hostility;       /* data ranks that send something else than their gradients */
};

/* The device that a rank runs on. */
struct rank_device {
    const struct device_api *api;
    struct device *device;
    const struct kernel_api *kernel_api;
    const struct comm_api *comm_api;
    struct comm *comm;
    int rank;
    struct watchdog *watchdog; /* with the lanes of exec/run/lane_status.h; NULL: none */
};

struct rank;

/* All ranks call it together: groups are made, weights drawn. NULL with err. */
struct rank *rank_new(const struct run_setup *setup, const struct rank_device *device,
                      struct err *err);
void rank_free(struct rank *rank);

struct step_result {
    double loss; /* sum over the tokens whose loss this rank counts; see rank_mean_losses */
    double
        gradient_norm; /* before clipping; of this rank's copy of the model, when copies differ */
    double step_s;
    double loss_scale; /* the step's loss scale; 1 without one */
    double rate;       /* learning rate of the update */
    bool is_skipped;   /* gradients were not finite, so nothing was updated; equal on all ranks that
                          sum their gradients */
    enum divergence_kind divergence; /* found by this rank */
};

/* One training step, `step` from 1; `times`, of this machine's clock, has room for the stage's
 * list, or is NULL. False with err when a rank failed. ERR_DIVERGED, with `out` filled in, when
 * this rank's loss is not finite, when gradients overflow at the smallest loss scale of a run in
 * fp16, or are not finite in another one; the weights are as before that step then. A rank waits
 * for others only as its list says: when replicas differ, some may be steps ahead of others. */
bool rank_step(struct rank *rank, long step, struct interval *times, struct step_result *out,
               struct err *err);

/* Between steps, all ranks together. rank_mean_losses: turns the ranks' losses into means over the
 * tokens of the global batch. rank_most: the largest of each value over all ranks. The third:
 * whether all ranks say yes. When a rank says no, its `err` keeps its own cause; on the others it
 * is ERR_SYSTEM. All return false when another rank cannot be reached. */
bool rank_mean_losses(struct rank *rank, double *losses, int count, struct err *err);
bool rank_most(struct rank *rank, double *values, int count, struct err *err);
bool rank_agrees(struct rank *rank, bool ok, struct err *err);

/* Whether a step's mean loss is a spike by setup.spike; if not, it is added to the statistics
 * (exec/spike.h). Fills in kind, loss, mean and deviation. */
bool rank_sees_spike(struct rank *rank, double loss, struct divergence *out);

/* The group of all ranks, for calls between steps; NULL: one rank. */
struct group *rank_world(struct rank *rank);

/* Bytes of all steps so far: sent by this rank to its data peers (negative: the communicator does
 * not count), and planned for the whole data group, which only one of its ranks reports. */
struct exchanged_bytes {
    double sent, planned;
};
struct exchanged_bytes rank_exchanged_bytes(const struct rank *rank);

/* How passes ran in all steps so far; zeros without graphs. */
struct pass_counts rank_pass_counts(const struct rank *rank);

/* The instruction list that this rank runs. */
const struct instrs *rank_list(const struct rank *rank);

/* This rank's stores, for checkpoints and tests. */
struct store **rank_stores(struct rank *rank, int *count);
struct machine *rank_machine(struct rank *rank);

#endif
