/* sim/cost/stage_load.h - what one rank of a pipeline stage has to exchange with its data peers. */
#ifndef SIM_COST_STAGE_LOAD_H
#define SIM_COST_STAGE_LOAD_H

#include "sim/cost/piece.h"

struct stage_load {
    struct exchange_load load; /* its tensors are the ones below, so it is not to be copied */
    struct exchange_tensor tensors[NUM_PIECES * MAX_PIECE_TENSORS];
};

/* All of the stage's parameters, or an equal `share` of each tensor: counts may be fractions. */
void fill_stage_load(const struct model *model, const struct plan *plan,
                     const struct pieces *pieces, int stage, double share, struct stage_load *out);

#endif
