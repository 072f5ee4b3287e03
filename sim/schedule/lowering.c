#include "sim/schedule/lowering.h"

struct lowering plan_lowering(const struct plan *plan, const struct model *model)
{
    bool has_data_group = (double)plan->dp * plan->cp > 1;
    return (struct lowering){
        .recompute = plan->recompute >= RECOMPUTE_FULL,
        .gather_params = plan->zero == 3 && has_data_group,
        .reduce_each = plan->zero >= 2,
        .has_data_group = has_data_group,
        .gather_updated = (plan->zero == 1 || plan->zero == 2) && has_data_group,
        .tied = model->tied && plan->pp > 1,
    };
}

struct schedule_shape plan_shape(const struct plan *plan, double global_batch)
{
    return (struct schedule_shape){ plan->pp, plan->vpp, plan_microbatches(plan, global_batch) };
}

double plan_instructions(const struct plan *plan, double global_batch)
{
    struct schedule_shape shape = plan_shape(plan, global_batch);
    return 8.0 * shape.num_stages * shape.chunks_per_stage * shape.num_microbatches;
}
