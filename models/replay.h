/* models/replay.h - what a selective recompute runs again of a block, and what that frees.
 *
 * Three of Megatron's --recompute-modules, and torchtitan's per-op policy. What a part of the block
 * makes and only itself keeps is freed, and made again by running the part. A norm is run again by
 * its reader, so that what it hands on is freed too (CheckpointWithoutOutput of Megatron Core). The
 * policy per op keeps what enters the block, every other product, fused attention and what has been
 * reduced and scattered, and runs the rest again as far as something reads it; matrices that a list
 * has side by side are products of their own (torchtitan, distributed/activation_checkpoint.py). */
#ifndef MODELS_REPLAY_H
#define MODELS_REPLAY_H

#include "base/arena.h"
#include "models/op.h"

enum replayed { REPLAY_CORE, REPLAY_MLP, REPLAY_NORM, REPLAY_PER_OP, NUM_REPLAYS };
/* Megatron's words, and "op"; NULL-terminated. */
extern const char *const replay_names[NUM_REPLAYS + 1];

/* Bit sets of enum replayed. */
enum {
    REPLAYS_CORE = 1u << REPLAY_CORE,
    REPLAYS_PER_OP = 1u << REPLAY_PER_OP, /* alone */
};

struct replay {
    struct ops ops; /* of the forward list, in its order */
    double freed_bytes;
};

/* `forward`: of a block, marks replaced by collectives. The list is in the arena. */
struct replay ops_replay(const struct ops *forward, unsigned replays, struct arena *arena);

#endif
