/* sim/cost/kernel_launch.h - how the host launches a plan's kernels. */
#ifndef SIM_COST_KERNEL_LAUNCH_H
#define SIM_COST_KERNEL_LAUNCH_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* How this plan's kernels are launched. A stack with LAUNCH_PASSES launches a pass as a graph
 * (LAUNCH_GRAPHS) if the plan can replay captured passes, else kernel by kernel (LAUNCH_EAGER). A
 * plan with several stages cannot replay them, because its buffers are rarely at the addresses that
 * they had at capture. */
enum launch plan_launch(const struct plan *plan, const struct stack *stack);

/* Host time to launch a kernel; within a graph, the time from one kernel to the next. */
double plan_issue_s(const struct plan *plan, const struct stack *stack);

#endif
