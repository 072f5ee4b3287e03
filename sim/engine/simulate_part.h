/* sim/engine/simulate_part.h - the first steps of an evaluation, for other files that evaluate only
 * a part of a plan. */
#ifndef SIM_ENGINE_SIMULATE_PART_H
#define SIM_ENGINE_SIMULATE_PART_H

#include "sim/engine/evaluation.h"
#include "sim/engine/simulate.h"

/* evaluation_begin fills the fields that memory depends on, evaluation_add_links those that the
 * chunks' times depend on. The durations, which include blocking messages, are in the evaluator's
 * scratch space. */
struct evaluation evaluation_begin(struct evaluator *evaluator, const struct plan *given);
void evaluation_add_links(struct evaluation *w);

#endif
