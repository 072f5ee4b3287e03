/* sim/engine/events.h - a step, event by event: instruction lists in, a timeline out.
 *
 * One rank stands for each pipeline stage. Lanes run in order, `after` edges hold, a message moves
 * when both its ends have reached it (nothing is buffered), and the gradient norm joins all stages
 * unless it is validated later. Compute and communication of a stage slow each other, transfers
 * share wires (progress.h). Each effect that the recurrence of pipeline.h leaves out can be
 * switched off here, so that the two can be compared. */
#ifndef SIM_ENGINE_EVENTS_H
#define SIM_ENGINE_EVENTS_H

#include "base/err.h"
#include "sim/engine/step_cost.h"
#include "sim/schedule/timeline.h"

/* Runs lowered lists that schedule_check would accept. In the arena; NULL (ERR_INFEASIBLE, where =
 * "stage S, instruction I") on deadlock. */
struct timeline *events_run(const struct schedule *schedule, const struct step_cost *cost,
                            struct arena *arena, struct err *err);

#endif
