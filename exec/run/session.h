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
    int steps;              /* steps whose loss is reported, at least 1 */
    int warmups;            /* number of first steps that are not timed */
    double watchdog_s;      /* time without progress after which the run ends */
    bool is_traced;         /* runs one further step to time instructions, and one to time ops */
    const char *checkpoint; /* folder of checkpoints and of the ranks' status files; NULL: none */
    int checkpoint_every;   /* steps between checkpoints; 0: only after the last step */
    bool resumes;           /* resumes from the newest checkpoint in that folder */
};

/* Members are equal on all ranks unless their comments say otherwise. */
struct session_result {
    /* The run failed because it hung, was asked to end, or lost another rank. It can be resumed,
     * and all ranks have reported which instruction they were executing. */
    bool is_interrupted;
    long first_step;                 /* 1, or the step after the checkpoint's */
    struct err damage;               /* the damage for which this rank skipped a newer checkpoint */
    int copies;                      /* as in struct checkpoint_state; else 1 */
    int num_steps;                   /* number of steps done */
    double *losses, *gradient_norms; /* [step] */
    double *loss_scales, *rates;     /* [step]; loss scale 1 without scaling */
    bool *is_skipped;                /* [step] skipped by this rank */
    /* Kind none: all steps were done. Otherwise the run ended in an orderly way with step num_steps
     * at the latest: ranks that sum their gradients stop at once, differing replicas when they next
     * communicate. */
    struct divergence divergence;
    double *step_s; /* [timed step] time of the slowest rank */
    int num_timed;
    double core_share; /* core share (base/core_share.h) in the timed steps, the least of any rank;
                          negative: unknown */
    double peak_bytes; /* highest peak of any rank, as counted by its allocator */
    struct pass_counts passes; /* of this rank, in all reported steps; zeros without graphs */
    /* Per step and over all ranks: bytes sent between data ranks (negative: the communicator does
     * not count), and planned bytes. */
    struct exchanged_bytes exchanged;
    /* Times of a traced step on one rank per pipeline stage, by its machine's clock, relative to
     * the first instruction of any rank. NULL: not traced, or training diverged before. */
    struct timeline *timeline;
    double op_seconds[NUM_OP_KINDS],
        op_counts[NUM_OP_KINDS]; /* of one step, summed over all ranks */
};

/* All ranks call it together. Arrays are in the arena. Returns false with err when this or another
 * rank failed. */
bool session_run(const struct session_options *options, struct arena *arena,
                 struct session_result *out, struct err *err);

#endif
