#include "sim/cost/kernel_launch.h"

#include "sim/plan/pass.h"

enum launch plan_launch(const struct plan *plan, const struct stack *stack)
{
    bool repeats = plan->pp == 1 && !plan_capture_refusal(plan);
    if (stack->host.launch == LAUNCH_PASSES)
        return repeats ? LAUNCH_GRAPHS : LAUNCH_EAGER;
    return (enum launch)stack->host.launch;
}

double plan_issue_s(const struct plan *plan, const struct stack *stack)
{
    return plan_launch(plan, stack) == LAUNCH_GRAPHS ? stack->host.graph_kernel_s
                                                     : stack->host.issue_s;
}
