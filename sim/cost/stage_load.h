/* sim/cost/stage_load.h - the gradients that one rank of a pipeline stage exchanges with other data
 * ranks. */
#ifndef SIM_COST_STAGE_LOAD_H
#define SIM_COST_STAGE_LOAD_H

#include "sim/cost/piece.h"

struct stage_load {
    struct exchange_load load; /* points to the tensors below, so the struct must not be copied */
    struct exchange_tensor tensors[NUM_PIECES * MAX_PIECE_TENSORS];
};

/* Fills `out` with a share of the stage's parameters. The same share is taken from each tensor, so
 * numbers of tensors may be fractions. */
void fill_stage_load(const struct model *model, const struct plan *plan,
                     const struct pieces *pieces, int stage, double share, struct stage_load *out);

#endif
