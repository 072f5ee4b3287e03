/* sim/engine/events.h - a step, event by event: instruction lists in, a timeline out.
 *
 * One rank stands for each pipeline stage. The instructions of a lane run in order, each after its
 * `after` instruction. A message moves when both its ends have reached it (nothing is buffered),
 * and the gradient norm waits for all stages unless it is validated later. Compute and
 * communication of a stage slow each other, and transfers share links (progress.h). Each effect
 * that the recurrence of pipeline.h leaves out can be switched off here, so that the two can be
 * compared. */
#ifndef SIM_ENGINE_EVENTS_H
#define SIM_ENGINE_EVENTS_H

#include "base/err.h"
#include "sim/engine/step_cost.h"
#include "sim/schedule/timeline.h"

/* Runs lowered lists that schedule_check would accept. The timeline is in the arena; NULL on
 * deadlock, with ERR_INFEASIBLE and err->where = "stage S, instruction I". */
struct timeline *events_run(const struct schedule *schedule, const struct step_cost *cost,
                            struct arena *arena, struct err *err);

#endif
