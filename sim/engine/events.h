/* sim/engine/events.h - simulates a step event by event: it turns instruction lists into a
 * timeline.
 *
 * One rank stands for each pipeline stage. The instructions of a lane run in order, each after its
 * `after` instruction. A message starts when both its ends have reached it (nothing is buffered).
 * The gradient norm waits for all stages unless the stack (training software) validates it later
 * (step_cost.validates). Compute and communication of a stage slow each other, and transfers share
 * links (progress.h). The recurrence of pipeline.h leaves out some of these effects. They can be
 * switched off here, so that the two can be compared. */
#ifndef SIM_ENGINE_EVENTS_H
#define SIM_ENGINE_EVENTS_H

#include "base/err.h"
#include "sim/engine/step_cost.h"
#include "sim/schedule/timeline.h"

/* Runs lowered lists, which must pass schedule_check. The timeline is in the arena; NULL on
 * deadlock, with ERR_INFEASIBLE and err->where = "stage S, instruction I". */
struct timeline *events_run(const struct schedule *schedule, const struct step_cost *cost,
                            struct arena *arena, struct err *err);

#endif
