/* search/effective.h - compares plans by the time of the whole run, including failures, checkpoints
 * and lost work.
 *
 * On one cluster the cost of a run is proportional to its time. Plans differ in goodput only by the
 * time of copying a checkpoint to the host. So the plan with the fastest step nearly always has the
 * shortest run. */
#ifndef SEARCH_EFFECTIVE_H
#define SEARCH_EFFECTIVE_H

#include "search/request.h"
#include "search/result.h"
#include "sim/campaign/goodput.h"

/* The run of `plan` over the model's tokens, which must be known. The plan has been predicted. */
struct run effective_run(const struct system *system, const struct model *model,
                         const struct plan *plan, const struct prediction *prediction);
/* The run's mean length; HUGE_VAL: it never ends. */
double effective_s(const struct system *system, const struct model *model,
                   const struct scored_plan *scored);

/* The number of tokens with which a run's mean length is `time_s`; 0: the run never ends. */
double effective_tokens(const struct system *system, const struct model *model,
                        const struct scored_plan *scored, double time_s);

/* Sorts the top plans by effective_s. Returns false when a plan that is not among the top plans
 * might still be the best. Such a plan has no faster step than the last top plan. So its run takes
 * at least as long as a run with that step time in which copying checkpoints takes no time. Returns
 * true if the best top plan is no slower than such a run. */
bool effective_sort(const struct search_request *request, struct search_result *result);

#endif
