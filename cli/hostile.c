#include "cli/hostile.h"

#include "sim/plan/state_share.h"

static bool check_plan(const struct plan *plan, const struct hostility *hostility, struct err *err)
{
    if (hostility->count >= plan->dp)
        return err_set(err, ERR_USAGE, "--hostile",
                       "expected fewer than the %d data ranks of the plan, found %d", plan->dp,
                       hostility->count);
    if (!exchange_keeps_replicas_equal(&plan->exchange))
        return err_set(err, ERR_USAGE, "--hostile",
                       "hostile ranks falsify gradients, but exchange=%s sends weights",
                       exchange_method_of(&plan->exchange)->name);
    if (plan_cuts(plan, STATE_GRADIENTS))
        return err_set(
            err, ERR_USAGE, "--hostile",
            "needs ZeRO stage 0 or 1, not %d, because hostile ranks falsify whole gradients",
            plan->zero);
    return true;
}

bool hostile_set(const char *text, const struct plan *plan, const struct kernel_api *kernels,
                 struct hostility *out, struct err *err)
{
    struct err found = { 0 };
    *out = (struct hostility){ 0 };
    if (!text)
        return true;
    if (!hostility_read(text, out, &found))
        return err_set(err, ERR_USAGE, "--hostile", "%s", found.msg);
    if (!kernels->falsify)
        return err_set(err, ERR_UNAVAILABLE, "--hostile",
                       "hostile ranks can't be run on %s yet, which has no kernel for them",
                       kernels->name);
    return check_plan(plan, out, err);
}
