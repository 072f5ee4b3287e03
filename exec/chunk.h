/* exec/chunk.h - runs one chunk of the model for one microbatch: its pieces (embedding, layers,
 * head) in order. In between it recomputes activations, and gathers and frees the weights that ZeRO
 * shards. */
#ifndef EXEC_CHUNK_H
#define EXEC_CHUNK_H

#include "exec/data_lane.h"
#include "exec/ops/piece.h"
#include "sim/plan/pass.h"

enum { NUM_PASSES = INSTR_BACKWARD_WEIGHT + 1 };

/* Consecutive pieces of the model: the first chunk has the embedding, the last has the head. */
struct chunk {
    struct piece *pieces;
    int num_pieces;
    struct store **stores; /* the arrays that hold the pieces' weights, gradients and optimizer
                              state (exec/ops/store.h), each listed once */
    int num_stores;
    struct store **units; /* [unit of sim/plan/pass.h] its store; NULL: it has no weights */
    struct pass_steps passes[NUM_PASSES]; /* [opcode] */
    /* [opcode] like `passes`, for the chunk's last backward in a training step, which also reduces
     * the gradients of each piece when they are complete; .at is NULL if the instruction
     * REDUCE_GRAD reduces all of them */
    struct pass_steps last[NUM_PASSES];
};

/* The values kept for one microbatch between forward and backward, one record per piece. */
struct chunk_record {
    struct record *pieces;
    const struct microbatch *microbatch;
};

/* The arguments of a pass. */
struct chunk_call {
    const struct chunk *chunk;
    const struct chunk_record *record;
    enum opcode op;
    bool is_last; /* whether it is the step's last pass that computes gradients of the chunk's
                     weights */
    const struct data_lane *data;
    void *flow; /* of a forward: the chunk's input, as in machine_forward; of a backward: the
                   gradient of its output, as in machine_backward */
};

/* Whether this pass reduces complete gradients on the data lane (the stream of data ranks'
 * collectives). */
static inline bool chunk_reduces_whole(const struct chunk_call *call)
{
    return call->is_last && call->chunk->last[call->op].at;
}

/* Returns the chunk's output or, for a backward, the gradient of its input. After a weight-gradient
 * pass the record is empty. */
void *chunk_pass(struct machine *machine, const struct chunk_call *call);

#endif
