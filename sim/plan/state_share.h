/* sim/plan/state_share.h - which parts of the training state are sharded, and over which ranks: the
 * one place that knows ZeRO's stages.
 *
 * Data and context ranks hold the same weights. Stage 1 (Megatron-LM's distributed optimizer)
 * shards the optimizer state, stage 2 also the gradients, stage 3 (FSDP) also the parameters
 * (Rajbhandari et al. 2020, figure 1). With shard=N they are sharded over N neighbours, and each
 * group of N holds a copy (Zhao et al. 2023, PyTorch FSDP, section 3.2.2). */
#ifndef SIM_PLAN_STATE_SHARE_H
#define SIM_PLAN_STATE_SHARE_H

#include "sim/plan/ranks.h"

/* OPTIMIZER: master weights and moments. */
enum state { STATE_OPTIMIZER, STATE_GRADIENTS, STATE_PARAMETERS, NUM_STATES };

enum { NUM_ZERO_STAGES = NUM_STATES + 1 };

/* Whether ZeRO stage `zero` shards this state. Each ZeRO stage shards one more kind of state. */
static inline bool zero_cuts(int zero, enum state what)
{
    return zero > (int)what;
}

static inline bool plan_cuts(const struct plan *plan, enum state what)
{
    return zero_cuts(plan->zero, what);
}

/* Whether the plan shards some state that ZeRO stage `most` does not. */
static inline bool plan_cuts_beyond(const struct plan *plan, int most)
{
    return plan->zero > most;
}

/* Whether two plans shard the same kinds of state. */
static inline bool plans_cut_alike(const struct plan *a, const struct plan *b)
{
    return a->zero == b->zero;
}

/* Number of ranks over which `what` is sharded; each keeps an equal part. */
static inline int state_ranks(const struct plan *plan, enum state what)
{
    return plan_cuts(plan, what) ? plan_shards(plan) : 1;
}

/* Number of ranks of a stage that hold the same experts, or the same part of them. */
static inline int plan_expert_replicas(const struct plan *plan)
{
    return plan_stage_ranks(plan) / (plan->ep * plan->etp);
}

/* Number of ranks over which one copy of a rank's experts is sharded. With shard=N there are as
 * many copies as of the other weights (Megatron Core, num_distributed_optimizer_instances). */
static inline int plan_expert_shards(const struct plan *plan)
{
    int copies = plan_replicas(plan) / plan_shards(plan);
    int shards = plan_expert_replicas(plan) / copies;
    return shards > 0 ? shards : 1;
}

/* Number of ranks over which `what` of the experts is sharded. */
static inline int expert_state_ranks(const struct plan *plan, enum state what)
{
    return plan_cuts(plan, what) ? plan_expert_shards(plan) : 1;
}

/* Whether several groups hold a sharded copy each (HSDP). */
static inline bool plan_repeats_shares(const struct plan *plan)
{
    return plan_cuts(plan, STATE_OPTIMIZER) && plan_shards(plan) != plan_replicas(plan);
}

/* Whether sharded parameters are gathered for each pass, and whether sharded gradients are reduced
 * after each backward. PyTorch's pipelines keep gradients whole until a stage's last backward, and
 * torchtitan's keep parameters gathered until then (reshard=step;
 * torch/distributed/pipelining/stage.py, _post_backward; torchtitan's apply_fsdp, where
 * fsdp_reshard_after_forward=always is reshard=pass). Megatron-FSDP does both in each pass
 * (reshard=gradients; its mfsdp_v2_vpp2_1f1b_schedule.md). */
static inline bool plan_reshards_passes(const struct plan *plan)
{
    return plan->pp == 1 || plan->reshard != RESHARD_EACH_STEP;
}

static inline bool plan_sums_passes(const struct plan *plan)
{
    return plan->pp == 1 || plan->reshard == RESHARD_EACH_GRADIENT;
}

/* Whether all parameters are gathered once per step, after the update: the optimizer is sharded and
 * parameters are not. */
static inline bool plan_gathers_updated(const struct plan *plan)
{
    return plan_cuts(plan, STATE_OPTIMIZER) &&
           !(plan_cuts(plan, STATE_PARAMETERS) && plan_reshards_passes(plan));
}

/* Whether parameters are gathered before each piece of a pass (embedding, layer or head), and
 * whether gradients are reduced after it. */
static inline bool plan_gathers(const struct plan *plan)
{
    return plan_cuts(plan, STATE_PARAMETERS) && plan_replicas(plan) > 1 &&
           plan_reshards_passes(plan);
}

static inline bool plan_reduces(const struct plan *plan)
{
    return plan_cuts(plan, STATE_GRADIENTS) && plan_replicas(plan) > 1 && plan_sums_passes(plan);
}

/* Whether whole gradients can be reduced piece by piece while a step's last backward runs: as
 * buckets, with one stage. */
static inline bool plan_reduces_pieces(const struct plan *plan)
{
    return plan->pp == 1 && plan_replicas(plan) > 1 && !plan_cuts(plan, STATE_GRADIENTS) &&
           exchange_is_default(&plan->exchange);
}

/* Whether parameters stay gathered after the first pass of a step, and whether gradients stay whole
 * until the last pass. */
static inline bool plan_keeps_gathered(const struct plan *plan)
{
    return plan_cuts(plan, STATE_PARAMETERS) && plan_replicas(plan) > 1 &&
           !plan_reshards_passes(plan);
}

static inline bool plan_keeps_sums(const struct plan *plan)
{
    return plan_cuts(plan, STATE_GRADIENTS) && plan_replicas(plan) > 1 && !plan_sums_passes(plan);
}

#endif
