/* sim/cost/stage_load.h - what one rank of a pipeline stage exchanges with its data peers. */
#ifndef SIM_COST_STAGE_LOAD_H
#define SIM_COST_STAGE_LOAD_H

#include "sim/cost/piece.h"

struct stage_load {
    struct exchange_load load; /* points to the tensors below, so the struct must not be copied */
    struct exchange_tensor tensors[NUM_PIECES * MAX_PIECE_TENSORS];
};

/* Fills in the share `share` of the stage's parameters. It is taken equally from each tensor, so
 * counts may be fractions. */
void fill_stage_load(const struct model *model, const struct plan *plan,
                     const struct pieces *pieces, int stage, double share, struct stage_load *out);

#endif
