/* sim/engine/prediction_part.h - functions that fill in a prediction: memory first, then the parts
 * of step_s, then the rates that follow from it. */
#ifndef SIM_ENGINE_PREDICTION_PART_H
#define SIM_ENGINE_PREDICTION_PART_H

#include "sim/engine/prediction.h"
#include "sim/engine/work.h"

void fill_memory(const struct work *work, struct stage_memory *stages,
                 struct prediction *prediction);
void fill_time(const struct work *work, struct prediction *prediction);
void fill_idle(const struct work *work, double step_s, double *idle_s);
/* `model_flops` is the number of FLOPs of a whole step. */
void fill_rates(const struct work *work, double model_flops, struct prediction *prediction);

#endif
