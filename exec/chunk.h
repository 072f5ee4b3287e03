/* exec/chunk.h - one chunk of the model and one microbatch: the pieces in a row, with what
 * recompute and ZeRO drop in between. */
#ifndef EXEC_CHUNK_H
#define EXEC_CHUNK_H

#include "exec/data_lane.h"
#include "exec/piece.h"
#include "sim/plan/pass.h"

enum { NUM_PASSES = INSTR_BACKWARD_WEIGHT + 1 };

/* A run of pieces: with the embedding at the model's beginning, with the head at its end. */
struct chunk {
    struct piece *pieces;
    int num_pieces;
    struct store **stores; /* of its pieces, each once */
    int num_stores;
    struct store **units;                 /* by unit of its passes; NULL: that piece has none */
    struct pass_steps passes[NUM_PASSES]; /* by opcode */
};

/* The values kept for one microbatch, a record for each piece. */
struct chunk_record {
    struct record *pieces;
    const struct microbatch *microbatch;
};

/* What a pass is given. */
struct chunk_call {
    const struct chunk *chunk;
    const struct chunk_record *record;
    enum opcode op;
    const struct data_lane *data;
    void *flow; /* of a FORWARD the chunk's input, as machine_forward; of the backwards the gradient
                   of the output, as machine_backward */
};

/* Returns the chunk's output, or the gradient of its input. After the weights' gradients nothing is
 * kept any more. */
void *chunk_pass(struct machine *machine, const struct chunk_call *call);

#endif
