/* exec/run/checkpoint.h - a run that can go on where it stood, on any layout.
 *
 * A checkpoint is a folder, step-000000012, with a file of each rank (exec/run/checkpoint_file.h):
 * fp32 values and moments, each element of the model once, or once of every copy that differs, and
 * what an exchange keeps on each rank (exec/run/checkpoint_exchange.h), and what spikes are told
 * by. Random numbers, data and the learning rate are functions of seed and step, so nothing else is
 * kept. It is written as step-000000012.tmp and renamed when all of it is on the disk; what a
 * killed run left is removed by the next save. The same layout goes on with the same bits. */
#ifndef EXEC_RUN_CHECKPOINT_H
#define EXEC_RUN_CHECKPOINT_H

#include "exec/run/rank.h"

enum { CHECKPOINTS_KEPT = 2 };

/* What a run needs to know before its ranks are made. */
struct checkpoint_state {
    long step; /* the last one done */
    uint64_t seed;
    float rate;
    struct rate_course rates;
    double clip, spike; /* as in struct update and struct run_setup */
    struct err damage;  /* of a newer checkpoint that was passed over, as this rank saw it */
    int copies; /* of the model that differed and of which the run goes on with the mean; 1 */
};

/* The newest one in `folder`, by its first file alone. ERR_INPUT when there is none, ERR_SYSTEM
 * when one cannot be read. */
bool checkpoint_newest(const char *folder, struct checkpoint_state *out, struct err *err);

/* All ranks together, after `step`. `folder` is made when it is missing; the newest
 * CHECKPOINTS_KEPT stay. On failure the older ones are as they were. */
bool checkpoint_save(struct rank *rank, const char *folder, long step, struct err *err);

/* All ranks together, before the first step: the newest whole checkpoint. Damaged ones are renamed
 * to step-000000012.damaged; one that cannot be read stays, and is ERR_SYSTEM on all ranks, as it
 * may be whole. ERR_INPUT, where = the path or what does not fit: another model, seed
 * or optimizer, or what an exchange keeps on another layout. Learning rate, clipping and the limit
 * of spikes stay those of the run. */
bool checkpoint_load(struct rank *rank, const char *folder, struct checkpoint_state *out,
                     struct err *err);

#endif
