/* exec/supported.h - features of plans and models that the executor does not support. */
#ifndef EXEC_SUPPORTED_H
#define EXEC_SUPPORTED_H

#include "sim/plan/plan.h"

/* One row per unsupported feature of a plan, with the reason. */
struct refusal {
    const char *where; /* the word of the layout, or "model" */
    const char *sentence;
    bool (*asks)(const struct plan *plan, const struct model *model);
};
extern const struct refusal run_refusals[];
extern const int num_run_refusals;

/* Returns false with ERR_UNAVAILABLE, where = the layout word, for the first unsupported
 * feature. */
bool run_supported(const struct plan *plan, const struct model *model, struct err *err);

#endif
