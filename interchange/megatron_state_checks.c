/* Checks of sharded state and overlap, recompute, offload, environment and run. */
#include "interchange/megatron_checks.h"

#include <string.h>

bool megatron_gathers_can_overlap(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (!a->overlap_param)
        return true;
    if (!a->distributed_optimizer && !a->megatron_fsdp)
        return BROKEN("--overlap-param-gather", "is given without --use-distributed-optimizer");
    return a->overlap_grad ||
           BROKEN("--overlap-param-gather", "is given without --overlap-grad-reduce");
}

void megatron_mend_overlap(struct job *job, struct arena *arena)
{
    unsigned overlaps = job_overlaps(job);
    (void)arena;
    if (!(overlaps >> PLAN_OVERLAP_GRAD & 1))
        overlaps &= ~(1u << PLAN_OVERLAP_PARAM);
    if (!job->plan.sp)
        overlaps &= ~(1u << PLAN_OVERLAP_TP);
    overlaps |= job->plan.pp == 2 ? 1u << PLAN_OVERLAP_P2P : 0;
    job_set_overlaps(job, overlaps);
}

bool megatron_replays_module(const struct megatron_args *a, enum replayed module)
{
    bool is_selective = a->granularity == GRANULARITY_SELECTIVE || a->recompute_activations;
    return is_selective && (a->recompute_modules >> module & 1) != 0;
}

bool megatron_recompute_is_whole(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    bool is_full = a->granularity == GRANULARITY_FULL && !a->recompute_activations;
    if (is_full && a->method == METHOD_NONE)
        return BROKEN("--recompute-granularity", "full needs --recompute-method");
    if (is_full && a->recompute_layers < 1)
        return BROKEN("--recompute-granularity", "full needs --recompute-num-layers");
    if (!is_full && a->granularity == GRANULARITY_SELECTIVE &&
        (a->method != METHOD_NONE || a->recompute_layers > 0))
        return BROKEN("--recompute-granularity",
                      "selective takes neither --recompute-method nor --recompute-num-layers");
    if (megatron_replays_module(a, REPLAY_EXPERT_ACTIVATION) && !a->grouped_gemm)
        return BROKEN("--recompute-modules", "moe_act needs --moe-grouped-gemm");
    if (megatron_replays_module(a, REPLAY_LATENT_UP) && !a->latent)
        return BROKEN("--recompute-modules", "mla_up_proj needs --multi-latent-attention");
    if (a->fp8 != FP8_FORMAT_NONE && a->fp8_recipe == RECIPE_DELAYED &&
        (megatron_replays_module(a, REPLAY_EXPERT_ACTIVATION) ||
         megatron_replays_module(a, REPLAY_NORM)))
        return BROKEN("--recompute-modules",
                      "moe_act and layernorm cannot be combined with fp8 with delayed scaling");
    return !megatron_replays_module(a, REPLAY_SHARED_EXPERT) || !a->overlap_shared ||
           BROKEN("--recompute-modules",
                  "shared_experts cannot be combined with --moe-shared-expert-overlap");
}

/* Changes selective recompute to the attention core only, which every model supports. */
void megatron_mend_modules(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.replays = 0;
}

bool megatron_sequence_parallel_has_ranks(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->sp && a->tp == 1)
        return BROKEN("--sequence-parallel", "is switched off, as tp is 1");
    return !a->overlap_tp || a->sp ||
           BROKEN("--tp-comm-overlap", "is given without --sequence-parallel");
}

bool megatron_offload_stands_alone(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (!a->offload_activations)
        return true;
    if (a->pp > 1)
        return BROKEN("--cpu-offloading", "cannot be combined with %d pipeline stages", a->pp);
    if (a->granularity != GRANULARITY_NONE || a->recompute_activations)
        return BROKEN("--cpu-offloading", "cannot be combined with recompute");
    return (a->offload_layers >= 0 && a->offload_layers < a->layers) ||
           BROKEN("--cpu-offloading-num-layers", "is %d, but the model has %d layers",
                  a->offload_layers, a->layers);
}

static bool is_fsdp(const struct megatron_args *a)
{
    return a->megatron_fsdp || a->torch_fsdp2;
}

bool megatron_connections_are_right(const struct rule_case *of, struct err *err)
{
    static const char name[] = "CUDA_DEVICE_MAX_CONNECTIONS";
    const struct megatron_args *a = of->args;
    if (!of->environment || of->environment->count == 0)
        return true; /* an export sets the variable, and an argument list does not show the
                        environment */
    const struct setting *found = settings_find(of->environment, name);
    bool is_one = found && strcmp(found->values[0], "1") == 0;
    if (is_fsdp(a))
        return !is_one || BROKEN(name, "is 1, but FSDP needs a larger value, or none");
    bool needs_one = (a->tp > 1 || a->cp > 1) && of->job->one_connection;
    return !needs_one || is_one ||
           BROKEN(name, "is %s, but with tp or cp over 1 it must be 1 on GPUs before Blackwell",
                  found ? found->values[0] : "not set");
}

bool megatron_fsdp_stands_alone(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    const char *where = a->torch_fsdp2 ? "--use-torch-fsdp2" : "--use-megatron-fsdp";
    const char *format = a->checkpoint_format ? a->checkpoint_format : "";
    if (!is_fsdp(a))
        return true;
    if (a->megatron_fsdp && a->pp > 1 && of->job->plan.reshard != RESHARD_EACH_GRADIENT)
        return BROKEN(where, "gathers and reduces in each pass of a pipeline, so the layout needs "
                             "reshard=gradients");
    if (a->megatron_fsdp)
        return strcmp(format, "fsdp_dtensor") == 0 ||
               BROKEN(where, "needs --ckpt-format fsdp_dtensor, found \"%.40s\"", format);
    if (a->pp > 1 || a->ep > 1)
        return BROKEN(where, "cannot be combined with pp %d and ep %d", a->pp, a->ep);
    if (a->distributed_optimizer)
        return BROKEN(where, "cannot be combined with --use-distributed-optimizer");
    if (a->fuses_wgrad)
        return BROKEN(where, "needs --no-gradient-accumulation-fusion");
    if (!a->untied)
        return BROKEN(where, "needs --untie-embeddings-and-output-weights");
    if (a->fp16)
        return BROKEN(where, "cannot be combined with --fp16");
    return strcmp(format, "torch_dist") == 0 || strcmp(format, "torch_dcp") == 0 ||
           BROKEN(where, "needs --ckpt-format torch_dist, found \"%.40s\"", format);
}

bool megatron_run_is_stated_once(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->train_iters > 0 && a->train_samples > 0)
        return BROKEN("--train-iters", "cannot be combined with --train-samples");
    if (a->save && a->save_interval < 1)
        return BROKEN("--save", "needs --save-interval");
    if (a->overlap_param_in_step && (!a->overlap_param || megatron_vpp_of(of) == 1))
        return BROKEN("--overlap-param-gather-with-optimizer-step",
                      "needs --overlap-param-gather and virtual stages");
    return !a->bf16 || !a->fp16 || BROKEN("--bf16", "cannot be combined with --fp16");
}

bool megatron_optimizer_state_fits(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->offload_optimizer && !a->precision_aware)
        return BROKEN("--optimizer-cpu-offload", "needs --use-precision-aware-optimizer");
    if (a->precision_aware && !a->distributed_optimizer)
        return BROKEN("--use-precision-aware-optimizer", "needs --use-distributed-optimizer");
    return !a->precision_aware || a->optimizer == MEGATRON_ADAM ||
           BROKEN("--use-precision-aware-optimizer", "needs the optimizer Adam");
}

/* Changes the optimizer state to fp32 on the GPU, which every optimizer supports. */
void megatron_mend_state(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.offloads &= ~(1u << OFFLOAD_OPTIMIZER);
    if (job->plan.optimizer == OPTIMIZER_ADAM_BF16)
        job->plan.optimizer = OPTIMIZER_ADAM;
}
