/* sim/exchange/averaging.h - how often the data ranks of a training run average over all of them.
 */
#ifndef SIM_EXCHANGE_AVERAGING_H
#define SIM_EXCHANGE_AVERAGING_H

#include "models/model.h"
#include "sim/exchange/exchange.h"

/* The share of a run's steps that average over all ranks: 1 / H, or 1 without a period. The period
 * H is the number of steps from one average to the next. An adaptive H grows as the loss falls,
 * which models/learning_curve.h predicts up to the model's number of training tokens. If the model
 * does not state this number, H keeps its first value. */
double averaging_share(const struct exchange *exchange, const struct model *model);

#endif
