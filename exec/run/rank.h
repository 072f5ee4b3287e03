/* exec/run/rank.h - one rank of a run: its state, and how it runs a step.
 *
 * A rank executes the instruction list of its stage (sim/schedule/instr.h): every instruction is
 * issued on its lane's stream, after the instructions that it waits for. */
#ifndef EXEC_RUN_RANK_H
#define EXEC_RUN_RANK_H

#include "exec/chunk.h"
#include "exec/comm/groups.h"
#include "exec/divergence.h"
#include "exec/loss_spike.h"
#include "exec/ops/store.h"
#include "exec/pass_graphs.h"
#include "exec/run/between_steps.h"
#include "exec/run/exchanged_bytes.h"
#include "exec/run/run_setup.h"
#include "sim/schedule/timeline.h"

struct rank;

/* Makes the rank's groups and draws its weights. All ranks call it together. Returns NULL with err
 * on failure. */
struct rank *rank_new(const struct run_setup *setup, const struct rank_device *device,
                      struct err *err);
void rank_free(struct rank *rank);

struct step_result {
    double loss; /* sum over the tokens whose loss this rank counts; see rank_mean_losses */
    /* gradient norm before clipping; if copies of the model differ, that of this rank's copy */
    double gradient_norm;
    double step_s;
    double loss_scale; /* the step's loss scale; 1 without one */
    double rate;       /* learning rate of the update */
    bool is_skipped; /* whether gradients were not finite, so that nothing was updated; equal on all
                        ranks that sum their gradients */
    enum divergence_kind divergence; /* divergence found by this rank */
};

/* Runs one training step; `step` counts from 1. `times` gets the instructions' times by this
 * machine's clock, or is NULL. Returns false with err when a rank failed. The error is
 * ERR_DIVERGED, with `out` filled in and unchanged weights, when this rank's loss is not finite,
 * when gradients overflow at the smallest loss scale (fp16), or when they are not finite (other
 * types). A rank waits for other ranks only as its list demands, so differing replicas may be steps
 * apart. */
bool rank_step(struct rank *rank, long step, struct interval *times, struct step_result *out,
               struct err *err);

/* Whether a step's mean loss is a spike by the limit setup.spike. If not, the loss is added to the
 * statistics (exec/loss_spike.h). Fills in kind, loss, mean and deviation. */
bool rank_sees_spike(struct rank *rank, double loss, struct divergence *out);

/* Counts of passes in all steps so far; zeros without graphs. */
struct pass_counts rank_pass_counts(const struct rank *rank);

/* The instruction list that this rank runs. */
const struct instrs *rank_list(const struct rank *rank);

/* This rank's stores, for checkpoints and tests. */
struct store **rank_stores(struct rank *rank, int *count);
struct machine *rank_machine(struct rank *rank);

#endif
