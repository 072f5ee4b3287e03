#include "sim/plan/axes.h"

int context_degree(const struct plan *plan)
{
    return plan->cp;
}

bool context_is_modelled(const struct plan_case *of, struct err *err)
{
    int cp = of->plan->cp;
    return cp == 1 || err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                              "context parallelism is not modelled yet: cp is %d, not 1", cp);
}
