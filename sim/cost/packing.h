/* sim/cost/packing.h - how long ranks wait because packed documents give them unequal attention. */
#ifndef SIM_COST_PACKING_H
#define SIM_COST_PACKING_H

#include "models/model.h"

/* How microbatches of attention work w_j, independent, with mean 1, meet. */
struct packing {
    double sequences;    /* of a microbatch */
    double microbatches; /* one behind the other, of each data rank */
    double data_ranks;   /* of which the step waits for the last */
    double fill; /* (stages - 1) / chunks of each: passes that fill and drain the pipeline */
    double context_ranks; /* among which a sequence's tokens are cut by their place; 1: none are */
};

/* What a step waits for the last, in units of the mean attention of one microbatch; 0 for one
 * document a sequence. */
double packing_wait(const struct model *model, const struct packing *packing);

#endif
