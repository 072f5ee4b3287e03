/* exec/supported.h - what the executor can't run yet. */
#ifndef EXEC_SUPPORTED_H
#define EXEC_SUPPORTED_H

#include "sim/plan/plan.h"

/* ERR_UNAVAILABLE, where = the layout word, on the first thing that can't be run. */
bool run_supported(const struct plan *plan, const struct model *model, struct err *err);

#endif
