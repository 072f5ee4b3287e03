/* sim/cost/kernel_launch.h - how the host launches a plan's kernels. */
#ifndef SIM_COST_KERNEL_LAUNCH_H
#define SIM_COST_KERNEL_LAUNCH_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* How this plan's kernels are launched. If the stack says LAUNCH_PASSES, the answer is graphs when
 * the plan can replay a captured pass, else eager. With several stages it cannot, as memory is
 * rarely laid out as it was at capture. */
enum launch plan_launch(const struct plan *plan, const struct stack *stack);

/* Host time to launch a kernel; within a graph, the time from one kernel to the next. */
double plan_issue_s(const struct plan *plan, const struct stack *stack);

#endif
