/* sim/cost/kernel_launch.h - how the host launches a plan's kernels. */
#ifndef SIM_COST_KERNEL_LAUNCH_H
#define SIM_COST_KERNEL_LAUNCH_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* What the stack's `launch` comes to; never LAUNCH_PASSES. With several stages a pass hardly ever
 * finds memory as it was when it was captured. */
enum launch plan_launch(const struct plan *plan, const struct stack *stack);

/* Host time to launch a kernel, or within a graph, from one to the next. */
double plan_issue_s(const struct plan *plan, const struct stack *stack);

#endif
