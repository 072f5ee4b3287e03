/* models/recompute.h - the ops of a block that selective recompute replays (recomputes in the
 * backward), and the memory that this frees.
 *
 * It models Megatron's --recompute-modules and torchtitan's per-op policy. A part is what selective
 * recompute handles as a whole: one of Megatron's modules. Values that only the replayed parts make
 * and keep are freed, and the backward recomputes them. Norms, the experts' activation and latent
 * attention's heads are recomputed just before their reader's backward, so that their output is
 * freed too (CheckpointWithoutOutput of Megatron Core). The per-op policy keeps the block's input,
 * every second product, fused attention and reduce-scattered values, and recomputes the other
 * values that some op reads; matrices fused side by side count as separate products (torchtitan,
 * distributed/activation_checkpoint.py).
 *
 * The project's executor takes its kept values and its replayed ops from here. In three ways,
 * together called "in place", it differs from the frameworks. It runs matrices side by side as one
 * product. It does not repeat an op that has overwritten a kept value: the result is kept in the
 * value's memory. It keeps only values that are read again, while PyTorch keeps all outputs of a
 * kept op. */
#ifndef MODELS_RECOMPUTE_H
#define MODELS_RECOMPUTE_H

#include "base/arena.h"
#include "models/op.h"

enum replayed {
    REPLAY_CORE,
    REPLAY_MLP,
    REPLAY_NORM,
    REPLAY_EXPERTS, /* the block's whole second half, with the shared expert */
    REPLAY_EXPERT_ACTIVATION,
    REPLAY_SHARED_EXPERT,
    REPLAY_LATENT_UP,
    REPLAY_PER_OP, /* torchtitan's policy; the others are Megatron's modules */
    NUM_REPLAYS
};
/* Megatron's words, and "op"; NULL-terminated. */
extern const char *const replay_names[NUM_REPLAYS + 1];

/* Bit sets of enum replayed. */
enum {
    REPLAYS_CORE = 1u << REPLAY_CORE,
    REPLAYS_PER_OP = 1u << REPLAY_PER_OP, /* cannot be combined with other members */
    /* in the costs of pieces: the least memory that any set of the model's parts needs */
    REPLAYS_LEANEST = 1u << NUM_REPLAYS,
};

struct replay {
    struct ops ops;        /* the forward ops to recompute, in list order */
    const bool *is_again;  /* by op of the forward: whether it, or a part of it, is in `ops` */
    const double *kept_of; /* by value: the share of its bytes that is kept for the backward */
    double freed_bytes;
    double freed_of[NUM_OP_REGIONS]; /* freed_bytes per region. A region's bytes are allocated again
                                        when its backward begins; with REPLAY_PER_OP, those of all
                                        regions when the block's backward begins */
};

/* `forward`: a block's list, in which collectives have replaced the marks. The result is in the
 * arena. */
struct replay ops_replay(const struct ops *forward, unsigned replays, bool in_place,
                         struct arena *arena);

/* The ops of a block that full recompute must repeat: those that make a value which some op keeps
 * for the backward, and what these read. The list is in the arena. */
struct ops ops_read_again(const struct ops *forward, struct arena *arena);

/* From a ledger, ledger_freed finds the bytes that a set of parts frees in one op list. The list
 * may be released once the ledger is made. Not for REPLAYS_PER_OP. */
struct ledger {
    const struct ledger_op *ops;
    const struct entry *entries; /* of all ops, in order */
    int num_ops, num_entries;
};
struct ledger ops_ledger(const struct ops *forward, struct arena *arena);
struct ledger ledger_copy(const struct ledger *ledger, struct arena *arena);
/* Returns freed_bytes of struct replay and fills freed_of. */
double ledger_freed(const struct ledger *ledger, unsigned replays, double freed_of[NUM_OP_REGIONS]);
/* The next larger set of which every part is in `all`; 0 after the largest. Start from 0. */
static inline unsigned replays_next(unsigned set, unsigned all)
{
    return (set - all) & all;
}
/* replays_overlap: whether a part of the set lies within another part of it, as moe_act lies within
 * moe. replays_outermost: the set without such inner parts, which repeats and frees the same. */
bool replays_overlap(unsigned replays);
unsigned replays_outermost(unsigned replays);
/* All sets of the parts in `all` without such an overlap, by rising number of parts. */
struct replay_sets {
    unsigned at[1u << REPLAY_PER_OP];
    int count;
};
void replays_list(unsigned all, struct replay_sets *out);
/* The ops that a set of parts replays: all ops of the regions in `has`, and the ops that quantise
 * an output of the regions in `drops`. */
struct replayed_regions {
    bool has[NUM_OP_REGIONS], drops[NUM_OP_REGIONS];
};
struct replayed_regions replayed_regions(unsigned replays);

#endif
