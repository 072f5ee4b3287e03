/* sim/cost/recompute_cost.h - what selective recompute of any set of modules (such as attention's
 * core) costs for one block.
 *
 * The sets of modules differ only in which ops of the forward are repeated and which values are
 * freed. So the block's op lists are built and timed once, and each set is a sum over them. */
#ifndef SIM_COST_RECOMPUTE_COST_H
#define SIM_COST_RECOMPUTE_COST_H

#include "models/recompute.h"
#include "sim/cost/list_cost.h"

/* How one op of a backward changes the bytes that the backward holds in addition to those that the
 * forward kept. */
struct moment {
    double made_bytes, gradient_bytes, gone_bytes;
    enum op_region region;
    bool is_collective;
};

struct replay_source {
    const struct timed_op *forward; /* the ops of the forward */
    int num_forward;
    const struct timed_op *again; /* the ops of the forward that full recompute repeats */
    int num_again;
    bool has_backward;
    /* the values that the block keeps, on the expert rank with the most rows, which has the memory
     * peak */
    struct ledger ledger;
    const struct moment *moments;
    int num_moments;
    double input_bytes; /* bytes of the incoming gradient */
};

struct replay_cost {
    struct list_cost list;
    double freed_bytes;  /* replayed_bytes of struct piece_cost */
    double moment_bytes; /* replayed_moment_bytes of struct piece_cost */
};

/* Must not be called for REPLAYS_PER_OP. */
struct replay_cost replay_cost_of(const struct list_timer *timer,
                                  const struct replay_source *source, unsigned replays);

/* The most bytes that any set of these modules frees, and the fewest that the backward of any set
 * holds at once. The op list of the result is empty. */
struct replay_cost least_replay_cost(const struct replay_source *source, unsigned parts);

/* The largest number of bytes that a backward holds at once beyond what its forward kept. `back`
 * has, for each region of the block, the bytes that selective recompute computes again when the
 * region's backward begins. */
double most_moment_bytes(const struct replay_source *source, const double back[NUM_OP_REGIONS]);

#endif
