/* sim/cost/packing.h - how long ranks wait because packed documents give them unequal attention. */
#ifndef SIM_COST_PACKING_H
#define SIM_COST_PACKING_H

#include "models/model.h"

/* How microbatches meet. The attention work w_j of microbatch j is independent of the others and
 * has mean 1. */
struct packing {
    double sequences;    /* per microbatch */
    double microbatches; /* per data rank, one after another */
    double data_ranks;   /* the step waits for the slowest of them */
    double fill; /* passes that fill and drain the pipeline: (stages - 1) / chunks per stage */
    double context_ranks; /* over which a sequence's tokens are divided; 1: they are not */
};

/* How long a step waits for its slowest ranks, in units of the mean attention work of one
 * microbatch; 0 with one document per sequence. */
double packing_wait(const struct model *model, const struct packing *packing);

#endif
