/* The axis dp: its word in a plan's text, its rules, and the rules about how data ranks exchange
 * gradients. */
#include "sim/plan/axes.h"

#include "base/length.h"
#include "sim/exchange/robust.h"
#include "sim/plan/fold.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <stdio.h>

/* A larger number of ranks is taken for a typing error. */
static const double max_microbatches = 1 << 24;

static bool refuse_batch(const struct plan *plan, double batch, double at_once, struct err *err)
{
    double below = floor(batch / at_once) * at_once;
    char nearest[80];
    if (err->code != ERR_NONE) /* an error is already set, so no further one is reported */
        return false;
    if (below > 0)
        snprintf(nearest, sizeof nearest, "nearest are %.0f and %.0f", below, below + at_once);
    else
        snprintf(nearest, sizeof nearest, "the smallest is %.0f", at_once);
    return err_set(err, ERR_INFEASIBLE, token_text("dp", plan->dp).at,
                   "batch %.15g is not a multiple of dp %d x microbatch %d; %s", batch, plan->dp,
                   plan->microbatch, nearest);
}

static bool data_divides_batch(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    double at_once = (double)plan->dp * plan->microbatch;
    double batch = of->global_batch;
    if (!(batch >= at_once) || fmod(batch, at_once) != 0)
        return refuse_batch(plan, batch, at_once, err);
    if (batch / at_once > max_microbatches)
        return err_set(err, ERR_INFEASIBLE, token_text("mb", plan->microbatch).at,
                       "batch %.15g makes %.15g microbatches, more than %.0f", batch,
                       batch / at_once, max_microbatches);
    return true;
}

/* Megatron-LM's --num-distributed-optimizer-instances and PyTorch's HYBRID_SHARD: the shard group
 * must consist of whole context groups or be an equal part of one. */
static bool shard_is_possible(const struct plan *plan, struct err *err)
{
    int all = plan_replicas(plan);
    struct token_text token;
    if (plan->shard == 0 || plan->shard == all)
        return true;
    snprintf(token.at, sizeof token.at, "shard=%d", plan->shard);
    if (plan->zero == 0)
        return err_set(err, ERR_INFEASIBLE, token.at,
                       "shard=%d needs ZeRO stage 1 or more: nothing is sharded at 0", plan->shard);
    if (all % plan->shard != 0)
        return err_set(err, ERR_INFEASIBLE, token.at,
                       "shard=%d does not divide the %d ranks of dp %d x cp %d", plan->shard, all,
                       plan->dp, plan->cp);
    if (plan->shard % plan->cp != 0 && plan->cp % plan->shard != 0)
        return err_set(err, ERR_INFEASIBLE, token.at,
                       "shard=%d is neither a multiple of cp %d nor divides it", plan->shard,
                       plan->cp);
    return true;
}

static bool reshard_is_possible(const struct plan *plan, struct err *err)
{
    bool has_effect = plan->pp > 1 && plan->zero >= 2;
    if (plan->reshard == RESHARD_EACH_STEP)
        return true;
    if (!has_effect)
        return err_set(err, ERR_INFEASIBLE, "reshard",
                       "reshard= needs a pipeline and ZeRO stage 2 or 3, not pp %d and stage %d",
                       plan->pp, plan->zero);
    return plan->reshard != RESHARD_EACH_PASS || plan->zero == 3 ||
           err_set(err, ERR_INFEASIBLE, "reshard",
                   "reshard=pass gathers weights, which ZeRO stage 2 does not shard");
}

bool data_can_shard(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!shard_is_possible(plan, err) || !reshard_is_possible(plan, err))
        return false;
    if (plan->zero == 0)
        return true;
    if (plan_replicas(plan) == 1)
        return err_set(err, ERR_INFEASIBLE, token_text("zero", plan->zero).at,
                       "ZeRO stage %d shards over data ranks, but dp is 1", plan->zero);
    if (plan->zero >= 2 && plan_is_mirrored(plan))
        return err_set(err, ERR_INFEASIBLE, token_text("zero", plan->zero).at,
                       "ZeRO stage %d needs one copy of each stage, but schedule=%s has two",
                       plan->zero, plan_schedule(plan));
    return true;
}

/* Rules of exchange methods other than all-reduce. Under ZeRO each rank needs the sum of all
 * gradients, which these methods avoid. Context ranks hold parts of one gradient, which must be
 * summed. */
bool data_can_exchange(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    const struct exchange_method *method = exchange_method_of(&plan->exchange);
    if (exchange_is_default(&plan->exchange))
        return true;
    if (plan->dp == 1)
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "exchange=%s connects data ranks, but dp is 1", method->name);
    if (plan->zero > 0)
        return err_set(
            err, ERR_INFEASIBLE, "exchange",
            "exchange=%s needs ZeRO stage 0, not %d, as every rank holds the whole state",
            method->name, plan->zero);
    if (plan->cp > 1)
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "exchange=%s needs cp 1, not %d: context ranks sum their gradients",
                       method->name, plan->cp);
    if (method->object == EXCHANGE_WEIGHTS && plan_offloads(plan, OFFLOAD_OPTIMIZER))
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "exchange=%s averages weights, but offload=optimizer keeps them on the host",
                       method->name);
    if (method->rule && method->rule->weighs_ranks && (plan->tp > 1 || plan->pp > 1))
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "exchange=%s needs tp 1 and pp 1, not %d and %d: it compares whole "
                       "gradients, and each shard of the model would compare only its own",
                       method->name, plan->tp, plan->pp);
    return !method->accepts || method->accepts(&plan->exchange, plan->dp, err);
}

/* --- the axis ------------------------------------------------------------------------------ */

static const struct plan_token words[] = {
    { "dp", "dpN", "Data-parallel ranks; absent: the remaining GPUs.", TOKEN_NUMBER,
      TOKEN_MEMBER(dp), .min = 1 },
};

static const struct plan_rule rules[] = {
    { "batch", "The batch is a multiple of dp x microbatch.", data_divides_batch },
};

const struct axis data_axis = {
    .name = "dp",
    .summary = "Each rank trains on different sequences; gradients are summed once a step.",
    .source = "Rajbhandari et al. 2020, ZeRO, for what the ranks may shard",
    .place = 40,
    .is_replicated = true,
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
};
