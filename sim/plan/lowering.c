#include "sim/plan/lowering.h"

#include "sim/plan/fold.h"
#include "sim/plan/state_share.h"

static int embedding_stage(const struct plan *plan)
{
    return placement_embedding_stage(plan_placement(plan));
}

/* If the head and the modules for later tokens hold copies of the embedding table on two stages,
 * only the reduction with the head's copy is in the instruction lists, because a reduction has two
 * ends. */
struct lowering plan_lowering(const struct plan *plan, const struct model *model)
{
    bool is_mirrored = plan_is_mirrored(plan);
    bool has_data_group = is_mirrored || (double)plan->dp * plan->cp > 1;
    bool mixes = has_data_group && !exchange_keeps_replicas_equal(&plan->exchange);
    bool is_beside = exchange_start(&plan->exchange) == START_STEP;
    if (mixes)
        has_data_group = exchange_sums_in_groups(&plan->exchange);
    bool ends_meet = is_mirrored || placement_ends_meet(plan_placement(plan));
    bool has_head_copy = model->tied && !ends_meet;
    bool is_elsewhere = is_mirrored ? plan->mtp_place == MTP_APART
                                    : plan_later_stage(plan) != embedding_stage(plan);
    bool has_later_copy = model->mtp > 0 && is_elsewhere;
    return (struct lowering){
        .recompute = plan->recompute >= RECOMPUTE_FULL,
        .has_data_group = has_data_group && !plan_reduces(plan),
        .gather_updated = plan_gathers_updated(plan) && has_data_group,
        .mix_beside = (mixes || has_data_group) && is_beside,
        .mix_updated = mixes && !is_beside,
        .tied = has_head_copy || has_later_copy,
        .tied_back = !has_head_copy && plan->mtp_place == MTP_APART,
    };
}

struct schedule_shape plan_shape(const struct plan *plan, double global_batch)
{
    int copies = plan_is_mirrored(plan) ? 2 : 1;
    return (struct schedule_shape){ plan->pp, copies * plan->vpp,
                                    plan_microbatches(plan, global_batch) / copies, 0 };
}

double plan_instructions(const struct plan *plan, double global_batch)
{
    struct schedule_shape shape = plan_shape(plan, global_batch);
    return 8.0 * shape.num_stages * shape.chunks_per_stage * shape.num_microbatches;
}
