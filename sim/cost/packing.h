/* sim/cost/packing.h - how long ranks wait because packed documents give them unequal attention
 * work. */
#ifndef SIM_COST_PACKING_H
#define SIM_COST_PACKING_H

#include "models/model.h"

/* The microbatches of a step. The attention work w_j of microbatch j is independent of the others
 * and has mean 1. */
struct packing {
    double sequences;    /* number per microbatch */
    double microbatches; /* number per data rank, run one after another */
    double data_ranks;   /* number of data ranks; the step waits for the slowest */
    double fill; /* passes that fill and drain the pipeline: (stages - 1) / chunks per stage */
    /* number of ranks over which a sequence's tokens are divided; 1: they are not divided */
    double context_ranks;
};

/* How long a step waits for its slowest ranks, in units of the mean attention work of one
 * microbatch; 0 with one document per sequence. */
double packing_wait(const struct model *model, const struct packing *packing);

#endif
