/* Checks that degrees divide the model's sizes, and checks of its experts. */
#include "interchange/megatron_checks.h"

#include <limits.h>

bool megatron_heads_divide_hidden(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->kv_channels > 0 || a->latent || a->heads < 1 || a->hidden % a->heads == 0 ||
           BROKEN("--num-attention-heads",
                  "%d does not divide --hidden-size %d, and there is no "
                  "--kv-channels",
                  a->heads, a->hidden);
}

bool megatron_tensor_divides_heads(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->heads % a->tp == 0 ||
           BROKEN("--tensor-model-parallel-size", "%d does not divide the %d attention heads",
                  a->tp, a->heads);
}

bool megatron_tensor_fits_groups(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int groups = a->query_groups;
    return !a->grouped_query || groups < 1 || groups % a->tp == 0 || a->tp % groups == 0 ||
           BROKEN("--tensor-model-parallel-size",
                  "%d neither divides the %d query groups nor is a multiple of them", a->tp,
                  groups);
}

bool megatron_context_divides_sequence(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int product = 1;
    for (int i = 0; i < a->hierarchy.count; i++)
        product *= a->hierarchy.at[i] > 0 && product < INT_MAX / a->hierarchy.at[i]
                       ? a->hierarchy.at[i]
                       : 1;
    if (a->hierarchy.count > 0 && product != a->cp)
        return BROKEN("--hierarchical-context-parallel-sizes", "have the product %d, but cp is %d",
                      product, a->cp);
    return a->cp == 1 || a->seq % (2 * a->cp) == 0 ||
           BROKEN("--context-parallel-size", "2 x %d does not divide the sequence of %d", a->cp,
                  a->seq);
}

bool megatron_positions_cover_sequence(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->max_positions == 0 || a->max_positions >= a->seq ||
           BROKEN("--max-position-embeddings", "%d is less than the sequence of %d",
                  a->max_positions, a->seq);
}

bool megatron_experts_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->ep > 1 && a->experts == 0)
        return BROKEN("--expert-model-parallel-size", "is %d, but the model has no experts", a->ep);
    return a->experts == 0 || a->experts % a->ep == 0 ||
           BROKEN("--expert-model-parallel-size", "%d does not divide the %d experts", a->ep,
                  a->experts);
}

bool megatron_experts_divide_world(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    long long ways = (long long)(a->etp > 0 ? a->etp : a->tp) * a->ep * a->pp;
    return a->experts == 0 || of->job->num_gpus == 0 || of->job->num_gpus % ways == 0 ||
           BROKEN("--expert-model-parallel-size", "etp %d x ep %d x pp %d does not divide %d GPUs",
                  a->etp > 0 ? a->etp : a->tp, a->ep, a->pp, of->job->num_gpus);
}

bool megatron_experts_see_all_rows(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->experts == 0 || a->tp == 1 || a->sp ||
           BROKEN("--sequence-parallel", "is missing; experts with tp %d need it", a->tp);
}

void megatron_mend_sp(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.sp = true;
}

bool megatron_expert_bias_is_whole(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int etp = a->etp > 0 ? a->etp : a->tp;
    return a->experts == 0 || !a->linear_bias || etp == 1 ||
           BROKEN("--expert-tensor-parallel-size", "is %d, but experts with biases need 1", etp);
}

void megatron_mend_etp(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.etp = 1;
}

bool megatron_router_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->experts == 0)
        return true;
    if (a->expert_bias && a->router_score == 0)
        return BROKEN("--moe-router-enable-expert-bias",
                      "needs --moe-router-score-function sigmoid");
    if (a->topk == 1 && a->router_score == 0 && !a->pre_softmax)
        return BROKEN("--moe-router-topk", "is 1, which needs --moe-router-pre-softmax with "
                                           "softmax");
    if (a->router_group_topk > 0 && (a->router_groups < 1 || a->experts % a->router_groups != 0 ||
                                     a->router_group_topk > a->router_groups))
        return BROKEN("--moe-router-num-groups",
                      "is %d, with %d experts and %d groups per token; the groups must divide the "
                      "experts and be at least the groups per token",
                      a->router_groups, a->experts, a->router_group_topk);
    return !a->grouped_gemm || a->bf16 || BROKEN("--moe-grouped-gemm", "needs --bf16");
}

bool megatron_expert_overlap_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    static const char where[] = "--overlap-moe-expert-parallel-comm";
    bool recomputes_all =
        a->granularity == GRANULARITY_FULL || megatron_replays_module(a, REPLAY_EXPERTS);
    if (a->overlap_shared && a->dispatcher == DISPATCHER_ALLGATHER)
        return BROKEN("--moe-shared-expert-overlap", "needs the dispatcher alltoall or flex");
    if (a->delay_wgrad && !a->overlap_expert)
        return BROKEN("--delay-wgrad-compute", "needs %s", where);
    if (!a->overlap_expert)
        return true;
    if (a->ep == 1)
        return BROKEN(where, "needs ep of 2 or more");
    if (a->dispatcher == DISPATCHER_ALLGATHER)
        return BROKEN(where, "needs the dispatcher alltoall or flex");
    if (!a->bf16 && !a->fp16)
        return BROKEN(where, "needs --bf16 or --fp16");
    if (a->pp > 1 && megatron_vpp_of(of) == 1)
        return BROKEN(where, "needs virtual stages if pp is over 1");
    if (a->overlap_shared || recomputes_all || a->mtp > 1)
        return BROKEN(where, "cannot be combined with --moe-shared-expert-overlap, full "
                             "recompute, recompute of moe, or two multi-token-prediction modules");
    return true;
}

bool megatron_capacity_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return !a->pad_to_capacity || a->capacity > 0 ||
           BROKEN("--moe-pad-expert-input-to-capacity", "needs --moe-expert-capacity-factor");
}

bool megatron_later_tokens_are_possible(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->mtp == 0 || a->position != EMBEDDING_LEARNED ||
           BROKEN("--mtp-num-layers", "cannot be combined with learned positions");
}
