/* sim/cost/averaging.h - how often the data ranks of a training run average over all of them. */
#ifndef SIM_COST_AVERAGING_H
#define SIM_COST_AVERAGING_H

#include "models/model.h"
#include "sim/exchange/exchange.h"

/* Share of the run's steps that do: 1 / H, and 1 where there is no period. An H that adapts follows
 * its rule along the losses of models/learning_curve.h up to the model's tokens; where these are
 * not stated the run is taken to be short, and H the first. */
double averaging_share(const struct exchange *exchange, const struct model *model);

#endif
