/* sim/cost/stage_load.h - what one rank of a pipeline stage exchanges with its data peers. */
#ifndef SIM_COST_STAGE_LOAD_H
#define SIM_COST_STAGE_LOAD_H

#include "sim/cost/piece.h"

struct stage_load {
    struct exchange_load load; /* points to the tensors below, so the struct must not be copied */
    struct exchange_tensor tensors[NUM_PIECES * MAX_PIECE_TENSORS];
};

/* The stage's parameters times `share`, taken equally of each tensor: counts may be fractions. */
void fill_stage_load(const struct model *model, const struct plan *plan,
                     const struct pieces *pieces, int stage, double share, struct stage_load *out);

#endif
