/* search/effective.h - plans by the time of the whole run: failures, checkpoints and lost work
 * included.
 *
 * On one cluster a run costs as much as it lasts. Plans differ in goodput only by how long their
 * GPUs copy a checkpoint to the host, so the fastest step is nearly always the shortest run. */
#ifndef SEARCH_EFFECTIVE_H
#define SEARCH_EFFECTIVE_H

#include "search/request.h"
#include "search/result.h"
#include "sim/campaign/goodput.h"

/* The run of the model's tokens, which must be known, by a plan that was predicted. */
struct run effective_run(const struct system *system, const struct model *model,
                         const struct plan *plan, const struct prediction *prediction);
/* Its mean length; HUGE_VAL: it never ends. */
double effective_s(const struct system *system, const struct model *model,
                   const struct scored_plan *scored);

/* The tokens that a run trains on whose mean length is `time_s`; 0: it never ends. */
double effective_tokens(const struct system *system, const struct model *model,
                        const struct scored_plan *scored, double time_s);

/* Orders the top by it. False when a plan that is not in the top might still be the best: one whose
 * step takes as long as the last's, and whose copies take no time. */
bool effective_sort(const struct search_request *request, struct search_result *result);

#endif
