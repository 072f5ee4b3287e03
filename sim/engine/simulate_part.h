/* sim/engine/simulate_part.h - how simulate.c begins the work on a plan, for what evaluates
 * a part of it in files of its own. */
#ifndef SIM_ENGINE_SIMULATE_PART_H
#define SIM_ENGINE_SIMULATE_PART_H

#include "sim/engine/simulate.h"
#include "sim/engine/work.h"

/* work_begin fills what memory depends on, the second function what the chunks' times depend on.
 * The durations, which include blocking messages, are the evaluator's scratch space. */
struct work work_begin(struct evaluator *evaluator, const struct plan *given);
void work_add_links(struct work *work);

#endif
