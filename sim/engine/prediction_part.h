/* sim/engine/prediction_part.h - functions that fill in a prediction: memory first, then the parts
 * of step_s, then the rates that follow from it. */
#ifndef SIM_ENGINE_PREDICTION_PART_H
#define SIM_ENGINE_PREDICTION_PART_H

#include "sim/engine/evaluation.h"
#include "sim/engine/prediction.h"

void fill_memory(const struct evaluation *w, struct stage_memory *stages,
                 struct prediction *prediction);
void fill_time(const struct evaluation *w, struct prediction *prediction);
void fill_idle(const struct evaluation *w, double step_s, double *idle_s);
/* `model_flops` is the number of FLOPs of a whole step. */
void fill_rates(const struct evaluation *w, double model_flops, struct prediction *prediction);

#endif
