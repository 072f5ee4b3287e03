/* sim/plan/pass.h - one pass over a chunk, piece by piece: what runs in which order, and what
 * becomes meanwhile of the state that data ranks share.
 *
 * A piece is the embedding, a layer or the head. ZeRO-3 gathers a piece's parameters while the
 * pieces before it run and drops them behind it; ZeRO-2 and 3 keep a piece's whole gradients from
 * its backward until they are reduced, beside the backward of the next. A pass begins and ends with
 * nothing gathered and nothing on its way, as FSDP's do (Zhao et al. 2023, PyTorch FSDP, section
 * 3.3): its first gather and its last reduction have nothing to hide behind. The executor runs
 * these steps, the memory model counts what they hold, and sim/engine/chunk.c times them in closed
 * form. */
#ifndef SIM_PLAN_PASS_H
#define SIM_PLAN_PASS_H

#include "base/arena.h"
#include "sim/plan/plan.h"
#include "sim/schedule/instr.h"

/* What of a plan its passes depend on. Pieces are counted from the chunk's first. */
struct pass_chunk {
    int layers;
    bool has_embedding, has_head;
    bool is_tied;   /* the head uses the embedding's rows of the vocabulary itself */
    int recomputed; /* layers, the first ones, that the backward runs again */
    int every;      /* of those, the ones between a kept input and the next; at least 1 */
    bool gathers;   /* plan_gathers */
    bool reduces;   /* plan_reduces */
    int prefetch;   /* pieces that are gathered ahead of the one that runs */
};
struct pass_chunk pass_chunk_of(const struct plan *plan, const struct model *model, int chunk,
                                int prefetch);
int pass_pieces(const struct pass_chunk *chunk);

/* Why a chunk's passes cannot be captured as graphs of kernels alone, in words behind "passes are
 * issued op by op: "; NULL: they can. */
const char *plan_capture_refusal(const struct plan *plan);

/* A unit is what is gathered and reduced at once: of each piece its own parameters, and the rows of
 * the vocabulary where it uses them. */
static inline int pass_unit_of(int piece)
{
    return 2 * piece;
}
int pass_vocabulary_unit_of(const struct pass_chunk *chunk, int piece); /* -1: it uses none */
int pass_units(const struct pass_chunk *chunk);

enum step_op {
    STEP_GATHER,   /* unit: parameters, on the data lane, once compute is here */
    STEP_DROP,     /* unit: gathered parameters, which nothing uses any more */
    STEP_OPEN,     /* unit: whole gradients, cleared, unless they still are open */
    STEP_REDUCE,   /* unit: gradients into shards, on the data lane, once compute is here */
    STEP_SETTLE,   /* unit: compute waits for its reduction, the whole gradients are dropped */
    STEP_FORWARD,  /* piece */
    STEP_REPLAY,   /* piece: its forward again; what it keeps lives until its backward */
    STEP_BACKWARD, /* piece: the gradients that the pass is for */
};

struct pass_step {
    enum step_op op;
    int index; /* unit or piece; whoever runs a piece waits for the gathers of its units first */
};
struct pass_steps {
    struct pass_step *at;
    int count;
};

/* `op` is FORWARD, BACKWARD, BACKWARD_INPUT (whose gradients stay open) or BACKWARD_WEIGHT. In the
 * arena. */
struct pass_steps pass_steps(const struct pass_chunk *chunk, enum opcode op, struct arena *arena);

#endif
