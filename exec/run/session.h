/* exec/run/session.h - one rank's part of a run: opens device and communicator, trains, and returns
 * the measurements. */
#ifndef EXEC_RUN_SESSION_H
#define EXEC_RUN_SESSION_H

#include "exec/run/checkpoint.h"
#include "exec/run/rank.h"

struct session_options {
    const struct run_setup *setup;
    const struct device_api *device_api;
    const struct kernel_api *kernel_api;
    const struct comm_api *comm_api;
    const struct place *place;
    size_t arena_bytes;
    int steps;         /* steps whose loss is reported, at least 1 */
    int warmups;       /* of those, the first ones, which are not timed */
    double watchdog_s; /* time without progress after which the run ends */
    bool is_traced;    /* runs one further step for the instructions' times, and one for the ops' */
    const char *checkpoint; /* folder, also for the ranks' status files; NULL: none */
    int checkpoint_every;   /* steps; 0: after the last alone */
    bool resumes;           /* resumes from the newest checkpoint in that folder */
};

/* The same on all ranks, except where a member says otherwise. */
struct session_result {
    /* It failed because it hung, was asked to end, or lost another rank: the run can be resumed.
     * All ranks have reported where they were. */
    bool is_interrupted;
    long first_step;   /* 1, or the one after the checkpoint's */
    struct err damage; /* of a newer checkpoint that was passed over, as this rank saw it */
    int copies;        /* as in struct checkpoint_state; else 1 */
    int num_steps;     /* that were done */
    double *losses, *gradient_norms; /* of each step */
    double *loss_scales, *rates;     /* per step too; 1 without a scale */
    bool *is_skipped;                /* per step too: skipped by this rank */
    /* Kind none: all steps were done. Otherwise the run ended in an orderly way with step num_steps
     * at the latest: ranks that sum their gradients stop at once, differing replicas when they next
     * communicate. */
    struct divergence divergence;
    double *step_s; /* per timed step: the slowest rank's time */
    int num_timed;
    double core_share; /* as in base/core_share.h, in those steps: the least of any rank; negative:
                          unknown */
    double peak_bytes; /* of the rank with the highest peak, by the arena's own count */
    struct pass_counts passes; /* of this rank, in the reported steps; zeros without graphs */
    /* Per step, all ranks together: bytes sent between data ranks (negative: the communicator does
     * not count), and bytes planned. */
    struct exchanged_bytes exchanged;
    /* Times of a traced step on one rank per pipeline stage, by its machine's clock, from the
     * stage's first instruction. NULL: not traced, or training diverged before. */
    struct timeline *timeline;
    double op_seconds[NUM_OP_KINDS], op_counts[NUM_OP_KINDS]; /* of one step, all ranks together */
};

/* Every rank calls it. Arrays in the arena. False with err when this or another rank failed. */
bool session_run(const struct session_options *options, struct arena *arena,
                 struct session_result *out, struct err *err);

#endif
