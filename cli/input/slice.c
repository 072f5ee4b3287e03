#include "cli/input/slice.h"

#include "sim/plan/holding.h"
#include "sim/plan/ranks.h"

static int largest_common_divisor(int a, int b)
{
    return b == 0 ? a : largest_common_divisor(b, a % b);
}

/* Reduces the plan to `stages` pipeline stages. A single stage gets one chunk with all layers of
 * the stage. */
static void cut_stages(struct setup *setup, int stages)
{
    struct plan *plan = &setup->plan;
    struct model *model = &setup->model;
    model->layers = stage_holding(plan, model, 0).layers * stages;
    plan->pp = stages;
    if (stages == 1) {
        plan->vpp = 1;
        plan_set_schedule(plan, "");
    }
}

static void cut_replicas(struct setup *setup, int replicas, int num_microbatches)
{
    struct plan *plan = &setup->plan;
    plan->dp = replicas;
    setup->model.batch = (double)num_microbatches * plan->microbatch * replicas;
    if (plan_replicas(plan) == 1)
        plan->zero = 0;
}

static bool check(const struct options *options, const struct plan *plan, struct err *err)
{
    if (options->training.ranks == 0)
        return err_set(err, ERR_USAGE, "--slice",
                       "needs --ranks, the number of ranks of the slice");
    if (plan->chunk_layers)
        return err_set(err, ERR_USAGE, "--slice",
                       "cannot slice a plan with stages= or another setting that lists stages");
    int unit = plan->tp * plan->cp;
    return options->training.ranks % unit == 0 ||
           err_set(err, ERR_USAGE, "--ranks",
                   "expected a multiple of the %d tensor ranks, which a slice keeps; found %d",
                   unit, options->training.ranks);
}

bool slice_plan(const struct options *options, struct setup *setup, struct err *err)
{
    struct plan *plan = &setup->plan;
    if (!check(options, plan, err))
        return false;
    int ranks = options->training.ranks / (plan->tp * plan->cp);
    int microbatches = plan_microbatches(plan, setup->model.batch);
    int stages = largest_common_divisor(plan->pp, ranks);
    cut_stages(setup, stages);
    cut_replicas(setup, ranks / stages, microbatches);
    setup->system.num_gpus = options->training.ranks;
    return !plan_check(plan, &setup->model, setup->model.batch, options->training.ranks, err);
}
