/* exec/run/checkpoint.h - saves a run and resumes it, on any layout.
 *
 * A checkpoint is a folder, step-000000012, with a file of each rank (exec/run/checkpoint_file.h):
 * fp32 values and moments, each element of the model once (or once per copy, where copies differ);
 * the state that an exchange keeps on each rank (exec/run/checkpoint_exchange.h); and the state of
 * the spike detector. Random numbers, data and the learning rate are functions of seed and step, so
 * nothing else is kept. It is written as step-000000012.tmp and renamed when it is completely on
 * disk; the next save removes the remains of a killed run. A run resumed on the same layout
 * continues with the same bits. */
#ifndef EXEC_RUN_CHECKPOINT_H
#define EXEC_RUN_CHECKPOINT_H

#include "exec/run/rank.h"

enum { CHECKPOINTS_KEPT = 2 };

/* What a run must know before its ranks are made. */
struct checkpoint_state {
    long step; /* the last one done */
    uint64_t seed;
    float rate;
    struct rate_course rates;
    double clip, spike; /* as in struct update and struct run_setup */
    struct err damage;  /* why a newer checkpoint was skipped, as this rank saw it */
    int copies; /* number of differing copies of the model whose mean the run resumes with; else 1
                 */
};

/* Finds the newest checkpoint in `folder` and reads its first file only. ERR_INPUT when there is
 * none, ERR_SYSTEM when one cannot be read. */
bool checkpoint_newest(const char *folder, struct checkpoint_state *out, struct err *err);

/* All ranks together, after `step`. `folder` is made when it is missing; the newest
 * CHECKPOINTS_KEPT are kept. On failure the older checkpoints are unchanged. */
bool checkpoint_save(struct rank *rank, const char *folder, long step, struct err *err);

/* All ranks together, before the first step: loads the newest intact checkpoint. A damaged one is
 * renamed to step-000000012.damaged. One that cannot be read stays, as it may be intact, and is
 * ERR_SYSTEM on all ranks. ERR_INPUT, where = the path or what does not fit: another model, seed or
 * optimizer, or exchange state of another layout. Learning rate, clipping and the spike limit stay
 * those of the run. */
bool checkpoint_load(struct rank *rank, const char *folder, struct checkpoint_state *out,
                     struct err *err);

#endif
