/* sim/plan/pass.h - the steps of one pass over a chunk: compute steps in order, and the steps that
 * gather, drop and reduce sharded state.
 *
 * A piece is the embedding, a layer or the head. ZeRO-3 gathers a piece's parameters while the
 * pieces before it run and drops them after it; ZeRO-2 and 3 keep a piece's whole gradients from
 * its backward until they are reduced, during the backward of the next piece. At the beginning and
 * the end of a pass nothing is gathered and no message is in flight, as in FSDP (Zhao et al. 2023,
 * PyTorch FSDP, section 3.3). So the first gather and the last reduction of a pass are exposed. The
 * executor runs these steps, and the memory model counts what they hold. sim/engine/chunk.c
 * computes their time in closed form, and sim/engine/piece_buckets.c that of the reductions of
 * whole gradients. */
#ifndef SIM_PLAN_PASS_H
#define SIM_PLAN_PASS_H

#include "base/arena.h"
#include "sim/plan/plan.h"
#include "sim/schedule/instr.h"

/* Everything that a chunk's passes depend on. Pieces are numbered from the chunk's first. */
struct pass_chunk {
    int layers;
    bool has_embedding, has_head;
    bool is_tied;   /* the head uses the chunk's own embedding table */
    int recomputed; /* number of first layers that the backward recomputes */
    int every;      /* recomputed layers per kept input; at least 1 */
    bool gathers;   /* parameters are gathered in each pass (plan_gathers) */
    bool reduces;   /* gradients are reduced in each pass (plan_reduces) */
    int prefetch;   /* pieces that are gathered ahead of the one that runs */
    /* gradients stay whole until they are reduced after the last pass (plan_keeps_sums) */
    bool keeps;
    /* whole gradients are reduced in this pass, a step's last over the chunk, and are kept for the
     * optimizer (plan_reduces_pieces) */
    bool reduces_whole;
};
struct pass_chunk pass_chunk_of(const struct plan *plan, const struct model *model, int chunk,
                                int prefetch);
int pass_pieces(const struct pass_chunk *chunk);

/* The reason why a chunk's passes cannot be captured as CUDA graphs; it completes the sentence
 * "passes are issued op by op, because ". NULL if they can. */
const char *plan_capture_refusal(const struct plan *plan);

/* A unit is gathered and reduced as a whole. It is a piece's own parameters, or the vocabulary rows
 * that a piece uses. */
static inline int pass_unit_of(int piece)
{
    return 2 * piece;
}
/* -1: the piece uses no vocabulary rows */
int pass_vocabulary_unit_of(const struct pass_chunk *chunk, int piece);
int pass_units(const struct pass_chunk *chunk);

enum step_op {
    STEP_GATHER, /* unit: gather parameters on the data lane (the stream of data ranks'
                    collectives), once compute reaches this step */
    STEP_DROP,   /* unit: drop gathered parameters that nothing uses any more */
    /* unit: allocate whole gradients and set them to 0, unless they are still allocated */
    STEP_OPEN,
    /* unit: reduce gradients (ZeRO-2 and 3: into shards) on the data lane, once compute reaches
     * this step */
    STEP_REDUCE,
    STEP_SETTLE,  /* unit: compute waits for its reduction; whole gradients are then dropped */
    STEP_FORWARD, /* piece */
    STEP_REPLAY,  /* piece: recompute its forward; what it keeps lives until its backward */
    /* piece: compute the gradients (of inputs, weights or both) that this pass computes */
    STEP_BACKWARD,
};

struct pass_step {
    enum step_op op;
    int index; /* unit or piece; a piece waits for the gathers of its units */
};
struct pass_steps {
    struct pass_step *at;
    int count;
};

/* `op` is FORWARD, BACKWARD, BACKWARD_INPUT (gradients then stay allocated) or BACKWARD_WEIGHT. The
 * steps are in the arena. */
struct pass_steps pass_steps(const struct pass_chunk *chunk, enum opcode op, struct arena *arena);

#endif
