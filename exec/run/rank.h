/* exec/run/rank.h - one rank of a run: what it holds, and how it does a step.
 *
 * The instruction list of its stage is the program (sim/schedule/instr.h): every instruction is
 * issued on its lane's stream, behind what it waits for. */
#ifndef EXEC_RUN_RANK_H
#define EXEC_RUN_RANK_H

#include "exec/chunk.h"
#include "exec/divergence.h"
#include "exec/groups.h"
#include "exec/pass_graphs.h"
#include "exec/rate.h"
#include "exec/spike.h"
#include "exec/store.h"
#include "exec/tokens.h"
#include "sim/schedule/timeline.h"

/* What a run is made of: the plan and what its lists are built with. */
struct run_setup {
    const struct plan *plan;
    const struct model *model; /* seq and batch are the run's */
    const struct schedule *schedule;
    struct layer_options options; /* of the op lists; dtype is that of the plan's values */
    bool overlaps_tensor;
    int prefetch;    /* pieces that ZeRO-3 gathers ahead of the one that runs */
    bool has_graphs; /* passes run as graphs, unless plan_capture_refusal has a word against it */
    const struct token_source *tokens;
    struct update update; /* step and, in fp16, loss scale are the run's own; rate is the peak */
    struct rate_course rates; /* zeros: the peak stays */
    double spike;             /* standard deviations that a loss may leap by; 0: any number */
    uint64_t seed;
    struct exchange_ranks data_ranks; /* read where the plan's exchange is not all-reduce */
};

/* The machine that a rank runs on. */
struct rank_device {
    const struct device_api *api;
    struct device *device;
    const struct kernel_api *kernel_api;
    const struct comm_api *comm_api;
    struct comm *comm;
    int rank;
    struct watchdog *watchdog; /* with the lanes of exec/run/whereabouts.h; NULL: none */
};

struct rank;

/* All ranks call it together: groups are made, weights drawn. NULL with err. */
struct rank *rank_new(const struct run_setup *setup, const struct rank_device *device,
                      struct err *err);
void rank_free(struct rank *rank);

struct step_result {
    double loss;          /* summed over the tokens whose loss this rank counts; rank_mean_losses */
    double gradient_norm; /* before clipping; of this rank's copy of the model, where they differ */
    double step_s;
    double loss_scale; /* that it ran under; 1 without one */
    double rate;       /* that weights were updated by */
    bool is_skipped;   /* gradients were not finite, so that nothing was updated; all ranks that sum
                          their gradients say so alike */
    enum divergence_kind divergence; /* that this rank found */
};

/* One training step, `step` from 1; `times`, of this machine's clock, has room for the stage's
 * list, or is NULL. False with err when a rank failed. ERR_DIVERGED, with `out` filled in, when
 * this rank's loss is not finite, when gradients overflow at the smallest loss scale of a run in
 * fp16, or are not finite in another one; the weights are as before that step then. A rank waits
 * for no other than the list says: where replicas differ, some may be steps ahead of others. */
bool rank_step(struct rank *rank, long step, struct interval *times, struct step_result *out,
               struct err *err);

/* Between steps, all ranks together: the losses of steps so far become means over the tokens of the
 * global batch; the largest of each of their values; whether all say yes. After a no err keeps what
 * it was set to; it is ERR_SYSTEM where only others said no. False too when another rank cannot be
 * reached. */
bool rank_mean_losses(struct rank *rank, double *losses, int count, struct err *err);
bool rank_most(struct rank *rank, double *values, int count, struct err *err);
bool rank_agrees(struct rank *rank, bool ok, struct err *err);

/* Whether a step's mean loss is a spike by setup.spike; else it is counted (exec/spike.h). Fills in
 * kind, loss, mean and deviation. */
bool rank_sees_spike(struct rank *rank, double loss, struct divergence *out);

/* All ranks, for calls between steps; NULL: there is one. */
struct group *rank_world(struct rank *rank);

/* Bytes of all steps so far: sent by this rank to its data peers (negative: the communicator does
 * not count), and planned for all of them, which one rank has. */
struct exchanged_bytes {
    double sent, planned;
};
struct exchanged_bytes rank_exchanged_bytes(const struct rank *rank);

/* How passes ran in all steps so far; zeros without graphs. */
struct pass_counts rank_pass_counts(const struct rank *rank);

/* The list that this rank runs. */
const struct instrs *rank_list(const struct rank *rank);

/* Stores of this rank, for checkpoints and tests. */
struct store **rank_stores(struct rank *rank, int *count);
struct machine *rank_machine(struct rank *rank);

#endif
