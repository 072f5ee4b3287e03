/* cli/hostile.h - option --hostile of run: data ranks that send false gradients. */
#ifndef CLI_HOSTILE_H
#define CLI_HOSTILE_H

#include "exec/exchange/hostile.h"
#include "sim/plan/plan.h"

/* Reads the option's text (NULL: no hostile ranks) and checks that the plan and the kernels can run
 * it. ERR_USAGE or ERR_UNAVAILABLE, where = "--hostile". */
bool hostile_set(const char *text, const struct plan *plan, const struct kernel_api *kernels,
                 struct hostility *out, struct err *err);

#endif
