/* search/uneven/dealt.h - the table of stages (uneven/stages.h) for plans that deal a stage's
 * layers to its chunks (uneven/deal.h). An option of a stage is its times with one number of
 * layers. The table serves all schedules but those with two mirrored copies of the model
 * (DualPipe).
 *
 * If all layers are of one kind, a stage's option is exact: its times and its memory depend on its
 * own chunks alone. With several kinds they also depend on where the stage's chunks begin, and so
 * on the layers of all other stages. An option then has each chunk's least times over all layers at
 * which the chunk can begin, and counts as fitting if it may fit for some of them; the caller times
 * each division and checks its memory. */
#ifndef SEARCH_UNEVEN_DEALT_H
#define SEARCH_UNEVEN_DEALT_H

#include "search/uneven/stages.h"

/* Arrays are in the arena. request->layers is not used, nor is request->step_s if the gradient
 * exchange lets replicas differ. */
struct stage_table dealt_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena);

/* Lower bounds of the step time of every division, which are much cheaper than a table.
 * dealt_floor_s returns as soon as its bound reaches limit_s. dealt_block_floor_s, whose bound
 * holds for all plans of a block (equal degrees and microbatch), is cheaper still and less
 * tight. */
double dealt_floor_s(struct evaluator *evaluator, const struct stack *stack,
                     const struct stage_request *request, double limit_s);
double dealt_block_floor_s(struct evaluator *evaluator, const struct stack *stack,
                           const struct plan *plan);

#endif
