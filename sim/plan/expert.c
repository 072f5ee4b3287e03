#include "sim/plan/axes.h"

int expert_degree(const struct plan *plan)
{
    return plan->ep;
}

bool expert_is_modelled(const struct plan_case *of, struct err *err)
{
    int ep = of->plan->ep;
    int etp = of->plan->etp;
    if (ep == 1 && etp == 1)
        return true;
    return err_set(err, ERR_INFEASIBLE,
                   ep > 1 ? token_text("ep", ep).at : token_text("etp", etp).at,
                   "expert parallelism is not modelled yet: ep is %d and etp %d, not 1", ep, etp);
}
