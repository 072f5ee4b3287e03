/* Replaces a DualPipe plan, whose stages hold two mirrored copies of the model, by the equivalent
 * DualPipeV plan. */
#include "sim/plan/fold.h"

#include "sim/plan/ranks.h"
#include "sim/schedule/schedule.h"

bool plan_is_mirrored(const struct plan *plan)
{
    if (!plan->schedule[0])
        return false;
    const struct generator *generator = generator_find(plan->schedule);
    return generator && generator->rule && generator->rule->is_mirrored;
}

/* Bounds call this before plans are checked, so the number of stages may be odd or below 4, which a
 * rule would refuse. */
struct plan plan_folded(const struct plan *plan)
{
    struct plan folded = *plan;
    folded.pp = plan->pp > 1 ? plan->pp / 2 : 1;
    folded.vpp = 2 * plan->vpp;
    folded.dp = 2 * plan->dp;
    if (plan->shard == plan_replicas(plan)) /* all ranks, like 0: the layout's text omits it */
        folded.shard = 0;
    plan_set_schedule(&folded, "dualpipev");
    return folded;
}
