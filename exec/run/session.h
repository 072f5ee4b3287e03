/* exec/run/session.h - a run, as one of its ranks sees it: opens device and communicator, trains,
 * and tells what was measured. */
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
    int steps;              /* whose loss is told, at least 1 */
    int warmups;            /* of those, the first that are not timed */
    double watchdog_s;      /* without progress, after which the run ends */
    bool is_traced;         /* one step more for the instructions' times, one for the ops' */
    const char *checkpoint; /* folder, where ranks leave their last word too; NULL: none */
    int checkpoint_every;   /* steps; 0: after the last alone */
    bool resumes;           /* goes on from the newest in that folder */
};

/* The same on all ranks, except where a member says otherwise. */
struct session_result {
    /* It failed because it stood still or was asked to end, or because another rank was lost: what
     * was trained so far can be gone on with. All ranks have said where they were. */
    bool is_interrupted;
    long first_step;   /* 1, or the one after the checkpoint's */
    struct err damage; /* of a newer checkpoint that was passed over, as this rank saw it */
    int copies;        /* of the checkpoint's, as struct checkpoint_state; 1 */
    int num_steps;     /* that were done */
    double *losses, *gradient_norms; /* of each step */
    double *loss_scales, *rates;     /* likewise; 1 without a scale */
    bool *is_skipped;                /* likewise: by this rank */
    /* Kind none: all steps were done. Else the run ended, in order, with step num_steps at the
     * latest: those that sum their gradients stop at once, replicas that differ when they next
     * tell each other. */
    struct divergence divergence;
    double *step_s; /* of each timed step: the slowest rank's */
    int num_timed;
    double core_share; /* of base/core_share.h in those steps: the least of any rank's; negative:
                          not known */
    double peak_bytes; /* of the rank that held most at once, by the arena's own count */
    struct pass_counts passes; /* of this rank, in the steps that count; zeros without graphs */
    /* In a step, all ranks together: what passed between data ranks (negative: the communicator
     * does not tell), and what was to. */
    struct exchanged_bytes exchanged;
    /* Times of a traced step on one rank of each pipeline stage, by the clock of its machine, from
     * the stage's first instruction. NULL: not traced, or training diverged before. */
    struct timeline *timeline;
    double op_seconds[NUM_OP_KINDS], op_counts[NUM_OP_KINDS]; /* a step's, all ranks together */
};

/* Every rank calls it. Arrays in the arena. False with err when this rank failed, or another. */
bool session_run(const struct session_options *options, struct arena *arena,
                 struct session_result *out, struct err *err);

#endif
