/* sim/plan/pass.h - one pass over a chunk, piece by piece: what runs in which order, and when
 * sharded state is gathered, dropped and reduced.
 *
 * A piece is the embedding, a layer or the head. ZeRO-3 gathers a piece's parameters while the
 * pieces before it run and drops them after it; ZeRO-2 and 3 keep a piece's whole gradients from
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

/* All that a chunk's passes depend on. Pieces are counted from the chunk's first. */
struct pass_chunk {
    int layers;
    bool has_embedding, has_head;
    bool is_tied;   /* the head uses the chunk's own embedding table */
    int recomputed; /* the first layers, which the backward recomputes */
    int every;      /* recomputed layers per kept input; at least 1 */
    bool gathers;   /* plan_gathers */
    bool reduces;   /* plan_reduces */
    int prefetch;   /* pieces that are gathered ahead of the one that runs */
    bool keeps; /* plan_keeps_sums: whole gradients are opened, and reduced after the last pass */
};
struct pass_chunk pass_chunk_of(const struct plan *plan, const struct model *model, int chunk,
                                int prefetch);
int pass_pieces(const struct pass_chunk *chunk);

/* Why a chunk's passes cannot be captured as graphs of kernels alone; it completes "passes are
 * issued op by op: ". NULL: they can. */
const char *plan_capture_refusal(const struct plan *plan);

/* A unit is gathered and reduced at once: a piece's own parameters, or the vocabulary rows that a
 * piece uses. */
static inline int pass_unit_of(int piece)
{
    return 2 * piece;
}
int pass_vocabulary_unit_of(const struct pass_chunk *chunk, int piece); /* -1: it uses none */
int pass_units(const struct pass_chunk *chunk);

enum step_op {
    STEP_GATHER,   /* unit: gather parameters on the data lane, once compute gets here */
    STEP_DROP,     /* unit: drop gathered parameters that nothing uses any more */
    STEP_OPEN,     /* unit: allocate and clear whole gradients, unless still open */
    STEP_REDUCE,   /* unit: reduce gradients into shards on the data lane, once compute gets here */
    STEP_SETTLE,   /* unit: compute waits for its reduction; whole gradients are dropped */
    STEP_FORWARD,  /* piece */
    STEP_REPLAY,   /* piece: recompute its forward; what it keeps lives until its backward */
    STEP_BACKWARD, /* piece: compute the gradients that the pass is for */
};

struct pass_step {
    enum step_op op;
    int index; /* unit or piece; a piece waits for the gathers of its units */
};
struct pass_steps {
    struct pass_step *at;
    int count;
};

/* `op` is FORWARD, BACKWARD, BACKWARD_INPUT (whose gradients stay open) or BACKWARD_WEIGHT. In the
 * arena. */
struct pass_steps pass_steps(const struct pass_chunk *chunk, enum opcode op, struct arena *arena);

#endif
