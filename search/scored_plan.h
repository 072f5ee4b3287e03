/* search/scored_plan.h - a plan with its prediction. */
#ifndef SEARCH_SCORED_PLAN_H
#define SEARCH_SCORED_PLAN_H

#include "sim/engine/prediction.h"
#include "sim/plan/plan.h"

struct scored_plan {
    struct plan plan;
    struct prediction prediction; /* its stages are in the result's arena */
};
/* A deep copy in the arena, which may outlast the result of `from`. */
struct scored_plan scored_plan_copy(const struct scored_plan *from, struct arena *arena);

#endif
