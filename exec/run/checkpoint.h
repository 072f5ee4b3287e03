/* exec/run/checkpoint.h - saves a run and resumes it, on any layout.
 *
 * A checkpoint is a folder, step-000000012, with one file per rank (exec/run/checkpoint_file.h):
 * the fp32 values and moments of each element of the model once (or once per copy, if copies
 * differ); the state that an exchange keeps on each rank (exec/run/checkpoint_exchange.h); and the
 * state of the spike detector. Random numbers, data and the learning rate are functions of seed and
 * step, so nothing else is kept. A checkpoint is written as step-000000012.tmp and renamed when it
 * is completely on disk. The next save removes unfinished folders of a killed run. A run resumed on
 * the same layout continues with the same bits. */
#ifndef EXEC_RUN_CHECKPOINT_H
#define EXEC_RUN_CHECKPOINT_H

#include "exec/run/rank.h"

enum { CHECKPOINTS_KEPT = 2 };

/* The part of a checkpoint that a run needs before its ranks are made. */
struct checkpoint_state {
    long step; /* the last completed step */
    uint64_t seed;
    float rate;
    struct rate_course rates;
    double clip, spike; /* as in struct update and struct run_setup */
    struct err damage;  /* why this rank skipped a newer checkpoint */
    int copies; /* number of differing copies of the model whose mean the run resumes with; else 1
                 */
};

/* Finds the newest checkpoint in `folder` whose first file is intact, and reads no other files.
 * ERR_INPUT when there is none, ERR_SYSTEM when one cannot be read. */
bool checkpoint_newest(const char *folder, struct checkpoint_state *out, struct err *err);

/* Saves after step `step`; all ranks call it together. `folder` is created when it is missing; the
 * newest CHECKPOINTS_KEPT are kept. On failure the older checkpoints are unchanged. */
bool checkpoint_save(struct rank *rank, const char *folder, long step, struct err *err);

/* Loads the newest intact checkpoint; all ranks call it together, before the first step. A damaged
 * checkpoint is renamed to step-000000012.damaged. If a checkpoint cannot be read, it may be
 * intact: it is not renamed, and all ranks return ERR_SYSTEM. If the model, seed or optimizer
 * differs, or the exchange state belongs to another layout, the error is ERR_INPUT, where = the
 * path or the item that differs. Learning rate, clipping and the spike limit stay those of the
 * run. */
bool checkpoint_load(struct rank *rank, const char *folder, struct checkpoint_state *out,
                     struct err *err);

#endif
