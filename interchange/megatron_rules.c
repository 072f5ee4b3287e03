/* What Megatron-LM checks when it starts (P), only once the job runs (R), about experts (E), and
 * what it has no arguments for (X). P and R: its validate_args, TransformerConfig, and the calls
 * that raise later, NVIDIA/Megatron-LM@d98e8a6. Rows are checked in order; a rule may rely on those
 * above it. */
#include "interchange/megatron.h"

#include "base/length.h"
#include "sim/plan/stage_text.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* --- what has no arguments ------------------------------------------------------------------- */

static bool schedule_exists(const struct rule_case *of, struct err *err)
{
    const char *name = plan_schedule(&of->job->plan);
    return strcmp(name, "1f1b") == 0 || strcmp(name, "interleaved") == 0 ||
           BROKEN("schedule", "schedule=%s is not in Megatron-LM", name);
}

static void mend_schedule(struct job *job, struct arena *arena)
{
    (void)arena;
    plan_set_schedule(&job->plan, "");
    if (job->plan.pp == 1)
        job->plan.vpp = 1;
}

static bool order_exists(const struct rule_case *of, struct err *err)
{
    static const int other[NUM_AXES] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_PIPELINE, AXIS_EXPERT,
                                         AXIS_DATA };
    const struct plan usual = plan_default(), *plan = &of->job->plan;
    return memcmp(plan->order, usual.order, sizeof usual.order) == 0 ||
           memcmp(plan->order, other, sizeof other) == 0 ||
           BROKEN("order", "ranks can be in order tp-cp-dp-pp or tp-cp-pp-dp alone");
}

static void mend_order(struct job *job, struct arena *arena)
{
    struct plan usual = plan_default();
    (void)arena;
    memcpy(job->plan.order, usual.order, sizeof usual.order);
}

static bool exchange_exists(const struct rule_case *of, struct err *err)
{
    return exchange_is_default(&of->job->plan.exchange) ||
           BROKEN("exchange", "exchange= is not in Megatron-LM, which reduces gradients exactly");
}

static void mend_exchange(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.exchange = (struct exchange){ 0 };
}

static bool optimizer_exists(const struct rule_case *of, struct err *err)
{
    int optimizer = of->job->plan.optimizer;
    return (optimizer != OPTIMIZER_ADAM_8BIT && optimizer != OPTIMIZER_ADAFACTOR) ||
           BROKEN("optimizer", "optimizer=%s is not in Megatron-LM", optimizer_names[optimizer]);
}

static void mend_optimizer(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.optimizer = OPTIMIZER_ADAM;
}

static bool precision_exists(const struct rule_case *of, struct err *err)
{
    int precision = of->job->plan.precision;
    return (precision != PRECISION_BF16_PURE && precision != PRECISION_FP8_ROWWISE) ||
           BROKEN("dtype", "dtype=%s is not in Megatron-LM", precision_names[precision]);
}

static void mend_precision(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    plan->precision =
        plan->precision == PRECISION_FP8_ROWWISE ? PRECISION_FP8_CURRENT : PRECISION_BF16;
}

static bool gradients_are_one_type(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    return plan->gradient_dtype == plan->reduce_dtype ||
           BROKEN("reduce",
                  "gradients are kept in %s and reduced in %s; Megatron-LM reduces what "
                  "it keeps",
                  dtype_names[plan->gradient_dtype], dtype_names[plan->reduce_dtype]);
}

static void mend_gradients(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.reduce_dtype = job->plan.gradient_dtype;
}

static bool recompute_exists(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    if (plan->recompute == RECOMPUTE_SELECTIVE && (plan_replays(plan) & REPLAYS_PER_OP) != 0)
        return BROKEN("recompute", "recompute=op-selective is not in Megatron-LM");
    if (plan->recompute != RECOMPUTE_BLOCK)
        return true;
    for (int i = 1; i < plan->num_recompute_layers; i++)
        if (plan->recompute_layers[i] != plan->recompute_layers[0])
            return BROKEN("recompute",
                          "chunk %d recomputes %d layers and chunk 0 %d; --recompute-num-layers is "
                          "one number for all",
                          i, plan->recompute_layers[i], plan->recompute_layers[0]);
    return plan->num_recompute_layers == 0 || plan->recompute_layers[0] > 0 ||
           BROKEN("recompute", "recompute=block:0 recomputes nothing");
}

/* The most layers that any chunk recomputes, for all of them; it fits wherever the list did. */
static void mend_recompute(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    int *most = ARENA_NEW(arena, int);
    if (plan->recompute == RECOMPUTE_SELECTIVE) {
        plan->replays = 0;
        return;
    }
    for (int i = 0; i < plan->num_recompute_layers; i++)
        *most = plan->recompute_layers[i] > *most ? plan->recompute_layers[i] : *most;
    plan->recompute = *most > 0 ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    plan->recompute_layers = most;
    plan->num_recompute_layers = 1;
}

static bool batch_is_whole(const struct rule_case *of, struct err *err)
{
    double batch = of->job->model.batch;
    return (batch >= 1 && batch <= INT_MAX && batch >= floor(batch) && batch <= floor(batch)) ||
           BROKEN("--global-batch-size", "expected 1 to %d sequences, found %g", INT_MAX, batch);
}

/* --- models ---------------------------------------------------------------------------------- */

static bool has_other_blocks(const struct model *model)
{
    for (int i = 0; i < model_num_kinds(model); i++) {
        struct block_kind kind = model_kind(model, i), own = model_own_kind(model);
        kind.feed_forward = own.feed_forward;
        if (!block_kinds_are_equal(&kind, &own))
            return true;
    }
    return model_num_kinds(model) > 1 && model->experts == 0;
}

static bool has_other_attention(const struct model *model)
{
    return model_kind(model, 0).attention != ATTENTION_FULL;
}

#define HAS(name, condition)                    \
    static bool name(const struct model *model) \
    {                                           \
        return condition;                       \
    }
// clang-format off
HAS(has_gain_norm, model->norm == NORM_GAIN)
HAS(has_other_activation, model->activation == ACTIVATION_RELU || model->activation == ACTIVATION_GEGLU)
HAS(has_other_positions, model->positions != POSITION_LEARNED && model->positions != POSITION_ROTARY && model->positions != POSITION_NONE)
HAS(has_embedding_norm, model->embedding_norm)
HAS(has_other_qk_norm, model->qk_norm && (model->qk_norm_kind != QK_NORM_HEAD || model->kv_lora > 0))
HAS(has_other_bias, (model->out_bias || model->ffn_bias) && !model->linear_bias)
HAS(has_head_extras, model->head_bias || model->head_transform || model->token_types > 0)
HAS(has_sinks, model->sinks)
HAS(has_gate, model->attention_gate)
HAS(has_other_places, model->norm_place != NORMS_BEFORE)
HAS(is_parallel, model->parallel != PARALLEL_NO)
HAS(has_router_bias, model->router_bias)
HAS(has_other_expert_bias, model->experts > 0 && model->expert_bias != model->linear_bias)
HAS(has_indexer, model->index_heads > 0)
// clang-format on

/* Features of models, by what a user calls them. */
static const struct {
    const char *name;
    bool (*is_there)(const struct model *model);
} features[] = {
    { "a LayerNorm without bias", has_gain_norm },
    { "an activation other than gelu, swiglu and squared relu", has_other_activation },
    { "positions other than learned, rotary and none", has_other_positions },
    { "a norm behind the embedding", has_embedding_norm },
    { "a norm of q and k other than per head", has_other_qk_norm },
    { "biases on some projections only", has_other_bias },
    { "a head with a bias or a transform, or token types", has_head_extras },
    { "attention sinks", has_sinks },
    { "gated attention", has_gate },
    { "norms behind the parts of a block", has_other_places },
    { "attention and feed-forward side by side", is_parallel },
    { "a bias of the router", has_router_bias },
    { "experts with biases unlike the rest", has_other_expert_bias },
    { "an indexer of attention", has_indexer },
    { "attention other than full", has_other_attention },
    { "blocks of several widths", has_other_blocks },
};

static bool model_exists(const struct rule_case *of, struct err *err)
{
    for (int i = 0; i < LENGTH(features); i++)
        if (features[i].is_there(&of->job->model))
            return BROKEN("--model", "%s has %s, which these arguments have no words for",
                          of->job->model.name, features[i].name);
    return true;
}

/* --- when it starts -------------------------------------------------------------------------- */

/* Data ranks; 0 where the degrees do not divide the GPUs. */
static int data_ranks(const struct rule_case *of)
{
    const struct megatron_args *a = of->args;
    long long ways = (long long)a->tp * a->pp * a->cp;
    if (ways < 1 || of->job->num_gpus % ways != 0)
        return 0;
    return (int)(of->job->num_gpus / ways);
}

static bool degrees_divide_world(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    const struct {
        const char *flag;
        int value;
    } degrees[] = { { "--tensor-model-parallel-size", a->tp },
                    { "--pipeline-model-parallel-size", a->pp },
                    { "--context-parallel-size", a->cp },
                    { "--expert-model-parallel-size", a->ep },
                    { "--micro-batch-size", a->micro_batch } };
    for (int i = 0; i < LENGTH(degrees); i++)
        if (degrees[i].value < 1)
            return BROKEN(degrees[i].flag, "is %d, and must be 1 or more", degrees[i].value);
    return of->job->num_gpus == 0 || data_ranks(of) > 0 ||
           BROKEN("--tensor-model-parallel-size", "tp %d x pp %d x cp %d does not divide %d GPUs",
                  a->tp, a->pp, a->cp, of->job->num_gpus);
}

static bool batch_divides(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int dp = data_ranks(of);
    return dp == 0 || a->global_batch == 0 || a->global_batch % (a->micro_batch * dp) == 0 ||
           BROKEN("--global-batch-size", "%d is no multiple of micro-batch %d x dp %d",
                  a->global_batch, a->micro_batch, dp);
}

static bool stages_are_given_once(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return (a->lpvs > 0) + (a->nvs > 0) + (a->layout != NULL) <= 1 ||
           BROKEN("--num-layers-per-virtual-pipeline-stage",
                  "is given together with another of --num-virtual-stages-per-pipeline-rank and "
                  "--pipeline-model-parallel-layout");
}

static int counted_layers(const struct megatron_args *a)
{
    return a->layers + a->account_embedding + a->account_loss;
}

static bool layers_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    bool is_even = !a->layout && a->nvs == 0 && a->first_layers == 0 && a->last_layers == 0;
    return !is_even || a->layers == 0 || counted_layers(a) % a->pp == 0 ||
           BROKEN("--pipeline-model-parallel-size", "%d layers do not divide over %d stages",
                  counted_layers(a), a->pp);
}

static bool virtual_layers_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->lpvs == 0)
        return true;
    if (a->first_layers > 0 || a->last_layers > 0)
        return BROKEN("--num-layers-per-virtual-pipeline-stage",
                      "does not go with layers of the first or last stage; "
                      "--num-virtual-stages-per-pipeline-rank does");
    int layers = counted_layers(a) / a->pp;
    return a->layers == 0 || (counted_layers(a) % a->pp == 0 && layers % a->lpvs == 0) ||
           BROKEN("--num-layers-per-virtual-pipeline-stage",
                  "%d does not divide the %d layers of a stage", a->lpvs, layers);
}

static int vpp_of(const struct rule_case *of)
{
    const struct megatron_args *a = of->args;
    return a->layout ? of->job->plan.vpp : megatron_vpp(a);
}

static bool interleaving_has_stages(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int vpp = vpp_of(of);
    if (vpp == 1)
        return true;
    if (a->pp == 1)
        return BROKEN("--pipeline-model-parallel-size",
                      "is 1, and %d virtual stages need 2 or more", vpp);
    return a->overlap_p2p || a->pp > 2 ||
           BROKEN("--no-overlap-p2p-communication",
                  "goes with virtual stages from 3 pipeline stages on, not %d", a->pp);
}

static bool ends_have_layers(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int vpp = vpp_of(of);
    if (a->first_layers == 0 && a->last_layers == 0)
        return true;
    int middle = a->layers - a->first_layers - a->last_layers;
    int stages = a->pp - (a->first_layers > 0) - (a->last_layers > 0);
    const char *where = a->first_layers > 0 ? "--decoder-first-pipeline-num-layers"
                                            : "--decoder-last-pipeline-num-layers";
    if (a->account_embedding || a->account_loss)
        return BROKEN(where, "does not go with --account-for-embedding or --account-for-loss");
    if (a->first_layers < 0 || a->last_layers < 0 || a->first_layers % vpp != 0 ||
        a->last_layers % vpp != 0)
        return BROKEN(where, "%d and %d layers do not divide over %d virtual stages",
                      a->first_layers, a->last_layers, vpp);
    if ((middle > 0) != (stages > 0) || middle < 0 || stages < 0)
        return BROKEN(where, "leaves %d layers for %d stages", middle, stages);
    return stages == 0 || (middle % stages == 0 && middle / stages % vpp == 0) ||
           BROKEN(where, "%d layers do not divide over %d stages of %d", middle, stages, vpp);
}

static bool layout_holds_layers(const struct rule_case *of, struct err *err)
{
    static const char where[] = "--pipeline-model-parallel-layout";
    const struct megatron_args *a = of->args;
    struct stage_text stages;
    struct arena arena = { 0 };
    struct model model = of->job->model;
    if (!a->layout)
        return true;
    model.layers = a->layers > 0 ? a->layers : model.layers;
    bool is_alone =
        a->first_layers == 0 && a->last_layers == 0 && !a->account_embedding && !a->account_loss;
    bool ok = (is_alone || BROKEN(where, "does not go with other ways to divide layers")) &&
              stage_text_read(a->layout, &arena, &stages, err) &&
              stage_text_check(&stages, &model, a->pp, a->mtp, err);
    if (!ok)
        err->code = ERR_INFEASIBLE;
    arena_release(&arena);
    return ok;
}

static bool gathers_can_overlap(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (!a->overlap_param)
        return true;
    if (!a->distributed_optimizer && !a->megatron_fsdp)
        return BROKEN("--overlap-param-gather", "is given without --use-distributed-optimizer");
    return a->overlap_grad ||
           BROKEN("--overlap-param-gather", "is given without --overlap-grad-reduce");
}

static void mend_overlap(struct job *job, struct arena *arena)
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

static bool heads_divide_hidden(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->kv_channels > 0 || a->latent || a->heads < 1 || a->hidden % a->heads == 0 ||
           BROKEN("--num-attention-heads",
                  "%d does not divide --hidden-size %d, and there is no "
                  "--kv-channels",
                  a->heads, a->hidden);
}

static bool tensor_divides_heads(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->heads % a->tp == 0 ||
           BROKEN("--tensor-model-parallel-size", "%d does not divide the %d attention heads",
                  a->tp, a->heads);
}

static bool tensor_fits_groups(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int groups = a->query_groups;
    return !a->grouped_query || groups < 1 || groups % a->tp == 0 || a->tp % groups == 0 ||
           BROKEN("--tensor-model-parallel-size",
                  "%d neither divides the %d query groups nor is a multiple of them", a->tp,
                  groups);
}

static bool context_divides_sequence(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int product = 1;
    for (int i = 0; i < a->hierarchy.count; i++)
        product *= a->hierarchy.at[i] > 0 && product < INT_MAX / a->hierarchy.at[i]
                       ? a->hierarchy.at[i]
                       : 1;
    if (a->hierarchy.count > 0 && product != a->cp)
        return BROKEN("--hierarchical-context-parallel-sizes", "multiply to %d, and cp is %d",
                      product, a->cp);
    return a->cp == 1 || a->seq % (2 * a->cp) == 0 ||
           BROKEN("--context-parallel-size", "2 x %d does not divide the sequence of %d", a->cp,
                  a->seq);
}

static bool positions_cover_sequence(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->max_positions == 0 || a->max_positions >= a->seq ||
           BROKEN("--max-position-embeddings", "%d is less than the sequence of %d",
                  a->max_positions, a->seq);
}

static bool replays_module(const struct megatron_args *a, enum replayed module)
{
    bool is_selective = a->granularity == GRANULARITY_SELECTIVE || a->recompute_activations;
    return is_selective && (a->recompute_modules >> module & 1) != 0;
}

static bool recompute_is_whole(const struct rule_case *of, struct err *err)
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
    if (replays_module(a, REPLAY_EXPERT_ACTIVATION) && !a->grouped_gemm)
        return BROKEN("--recompute-modules", "moe_act needs --moe-grouped-gemm");
    if (replays_module(a, REPLAY_LATENT_UP) && !a->latent)
        return BROKEN("--recompute-modules", "mla_up_proj needs --multi-latent-attention");
    if (a->fp8 != FP8_FORMAT_NONE && a->fp8_recipe == RECIPE_DELAYED &&
        (replays_module(a, REPLAY_EXPERT_ACTIVATION) || replays_module(a, REPLAY_NORM)))
        return BROKEN("--recompute-modules",
                      "moe_act and layernorm do not go with fp8 of delayed scales");
    return !replays_module(a, REPLAY_SHARED_EXPERT) || !a->overlap_shared ||
           BROKEN("--recompute-modules",
                  "shared_experts does not go with --moe-shared-expert-overlap");
}

/* Attention's core alone: what every selective recompute may have. */
static void mend_modules(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.replays = 0;
}

static bool sequence_parallel_has_ranks(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->sp && a->tp == 1)
        return BROKEN("--sequence-parallel", "is switched off, as tp is 1");
    return !a->overlap_tp || a->sp ||
           BROKEN("--tp-comm-overlap", "is given without --sequence-parallel");
}

static bool experts_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->ep > 1 && a->experts == 0)
        return BROKEN("--expert-model-parallel-size", "is %d, and the model has no experts", a->ep);
    return a->experts == 0 || a->experts % a->ep == 0 ||
           BROKEN("--expert-model-parallel-size", "%d does not divide the %d experts", a->ep,
                  a->experts);
}

static bool offload_stands_alone(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (!a->offload_activations)
        return true;
    if (a->pp > 1)
        return BROKEN("--cpu-offloading", "does not go with %d pipeline stages", a->pp);
    if (a->granularity != GRANULARITY_NONE || a->recompute_activations)
        return BROKEN("--cpu-offloading", "does not go with recompute");
    return (a->offload_layers >= 0 && a->offload_layers < a->layers) ||
           BROKEN("--cpu-offloading-num-layers", "is %d, and the model has %d layers",
                  a->offload_layers, a->layers);
}

static bool is_fsdp(const struct megatron_args *a)
{
    return a->megatron_fsdp || a->torch_fsdp2;
}

static bool connections_are_right(const struct rule_case *of, struct err *err)
{
    static const char name[] = "CUDA_DEVICE_MAX_CONNECTIONS";
    const struct megatron_args *a = of->args;
    if (!of->environment || of->environment->count == 0)
        return true; /* the exporter sets it; of an argument list nothing is known */
    const struct setting *found = settings_find(of->environment, name);
    bool is_one = found && strcmp(found->values[0], "1") == 0;
    if (is_fsdp(a))
        return !is_one || BROKEN(name, "is 1, and FSDP needs it to be more, or not set");
    bool needs_one = (a->tp > 1 || a->cp > 1) && of->job->one_connection;
    return !needs_one || is_one ||
           BROKEN(name, "is %s, and tp or cp over 1 need it to be 1 on GPUs before Blackwell",
                  found ? found->values[0] : "not set");
}

static bool fsdp_stands_alone(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    const char *where = a->torch_fsdp2 ? "--use-torch-fsdp2" : "--use-megatron-fsdp";
    const char *format = a->checkpoint_format ? a->checkpoint_format : "";
    if (!is_fsdp(a))
        return true;
    if (a->megatron_fsdp)
        return strcmp(format, "fsdp_dtensor") == 0 ||
               BROKEN(where, "needs --ckpt-format fsdp_dtensor, found \"%.40s\"", format);
    if (a->pp > 1 || a->ep > 1)
        return BROKEN(where, "does not go with pp %d and ep %d", a->pp, a->ep);
    if (a->distributed_optimizer)
        return BROKEN(where, "does not go with --use-distributed-optimizer");
    if (a->fuses_wgrad)
        return BROKEN(where, "needs --no-gradient-accumulation-fusion");
    if (!a->untied)
        return BROKEN(where, "needs --untie-embeddings-and-output-weights");
    if (a->fp16)
        return BROKEN(where, "does not go with --fp16");
    return strcmp(format, "torch_dist") == 0 || strcmp(format, "torch_dcp") == 0 ||
           BROKEN(where, "needs --ckpt-format torch_dist, found \"%.40s\"", format);
}

static bool run_is_stated_once(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->train_iters > 0 && a->train_samples > 0)
        return BROKEN("--train-iters", "and --train-samples exclude each other");
    if (a->save && a->save_interval < 1)
        return BROKEN("--save", "needs --save-interval");
    if (a->overlap_param_in_step && (!a->overlap_param || vpp_of(of) == 1))
        return BROKEN("--overlap-param-gather-with-optimizer-step",
                      "needs --overlap-param-gather and virtual stages");
    return !a->bf16 || !a->fp16 || BROKEN("--bf16", "and --fp16 exclude each other");
}

static bool optimizer_state_fits(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->offload_optimizer && !a->precision_aware)
        return BROKEN("--optimizer-cpu-offload", "needs --use-precision-aware-optimizer");
    if (a->precision_aware && !a->distributed_optimizer)
        return BROKEN("--use-precision-aware-optimizer", "needs --use-distributed-optimizer");
    return !a->precision_aware || a->optimizer == MEGATRON_ADAM ||
           BROKEN("--use-precision-aware-optimizer", "is for Adam");
}

/* States in fp32 on the GPU, which every optimizer has. */
static void mend_state(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.offloads &= ~(1u << OFFLOAD_OPTIMIZER);
    if (job->plan.optimizer == OPTIMIZER_ADAM_BF16)
        job->plan.optimizer = OPTIMIZER_ADAM;
}

/* --- once the job runs ----------------------------------------------------------------------- */

static bool virtual_stages_divide(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    bool is_even = a->first_layers == 0 && a->last_layers == 0;
    if (a->nvs < 2 || !is_even || a->layers == 0)
        return true;
    int layers = counted_layers(a);
    return (layers % a->pp == 0 && layers / a->pp % a->nvs == 0) ||
           BROKEN("--num-virtual-stages-per-pipeline-rank",
                  "%d does not divide the %d layers of each of %d stages; Megatron-LM finds out "
                  "when it builds the model",
                  a->nvs, layers / a->pp, a->pp);
}

static bool microbatches_fill_groups(const struct rule_case *of, struct err *err)
{
    static const char where[] = "--microbatch-group-size-per-virtual-pipeline-stage";
    const struct megatron_args *a = of->args;
    int dp = data_ranks(of), group = a->microbatch_group > 0 ? a->microbatch_group : a->pp;
    if (vpp_of(of) == 1 || dp == 0 || a->global_batch == 0)
        return true;
    int microbatches = a->global_batch / (a->micro_batch * dp);
    if (group < a->pp)
        return BROKEN(where, "%d is less than the %d stages", group, a->pp);
    if (microbatches < group)
        return BROKEN(where, "%d microbatches are fewer than a group of %d", microbatches, group);
    int rest = microbatches % group;
    return rest == 0 || rest >= a->pp ||
           BROKEN(where, "%d microbatches leave %d behind groups of %d, fewer than the %d stages",
                  microbatches, rest, group, a->pp);
}

static bool experts_divide_world(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    long long ways = (long long)(a->etp > 0 ? a->etp : a->tp) * a->ep * a->pp;
    return a->experts == 0 || of->job->num_gpus == 0 || of->job->num_gpus % ways == 0 ||
           BROKEN("--expert-model-parallel-size", "etp %d x ep %d x pp %d does not divide %d GPUs",
                  a->etp > 0 ? a->etp : a->tp, a->ep, a->pp, of->job->num_gpus);
}

static bool experts_see_all_rows(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->experts == 0 || a->tp == 1 || a->sp ||
           BROKEN("--sequence-parallel", "is missing; experts with tp %d need it", a->tp);
}

static void mend_sp(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.sp = true;
}

static bool ramp_up_divides(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int dp = data_ranks(of);
    if (a->ramp_up.count == 0 || dp == 0)
        return true;
    if (a->ramp_up.count != 3)
        return BROKEN("--rampup-batch-size", "expected a first batch, an increment and samples");
    for (int i = 0; i < 2; i++)
        if (a->ramp_up.at[i] % (a->micro_batch * dp) != 0)
            return BROKEN("--rampup-batch-size", "%d is no multiple of micro-batch %d x dp %d",
                          a->ramp_up.at[i], a->micro_batch, dp);
    return true;
}

/* --- experts --------------------------------------------------------------------------------- */

static bool expert_bias_is_whole(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    int etp = a->etp > 0 ? a->etp : a->tp;
    return a->experts == 0 || !a->linear_bias || etp == 1 ||
           BROKEN("--expert-tensor-parallel-size", "is %d, and experts with biases need 1", etp);
}

static void mend_etp(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.etp = 1;
}

static bool router_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    if (a->experts == 0)
        return true;
    if (a->expert_bias && a->router_score == 0)
        return BROKEN("--moe-router-enable-expert-bias",
                      "needs --moe-router-score-function sigmoid");
    if (a->topk == 1 && a->router_score == 0 && !a->pre_softmax)
        return BROKEN("--moe-router-topk", "is 1, and softmax then needs --moe-router-pre-softmax");
    if (a->router_group_topk > 0 && (a->router_groups < 1 || a->experts % a->router_groups != 0 ||
                                     a->router_group_topk > a->router_groups))
        return BROKEN("--moe-router-num-groups", "%d groups of %d experts, of which a token has %d",
                      a->router_groups, a->experts, a->router_group_topk);
    return !a->grouped_gemm || a->bf16 || BROKEN("--moe-grouped-gemm", "needs --bf16");
}

static bool expert_overlap_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    static const char where[] = "--overlap-moe-expert-parallel-comm";
    bool recomputes_all = a->granularity == GRANULARITY_FULL || replays_module(a, REPLAY_EXPERTS);
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
    if (a->pp > 1 && vpp_of(of) == 1)
        return BROKEN(where, "needs virtual stages where pp is over 1");
    if (a->overlap_shared || recomputes_all || a->mtp > 1)
        return BROKEN(where, "does not go with --moe-shared-expert-overlap, full recompute, "
                             "recompute of moe, or two modules for later tokens");
    return true;
}

static bool capacity_is_sound(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return !a->pad_to_capacity || a->capacity > 0 ||
           BROKEN("--moe-pad-expert-input-to-capacity", "needs --moe-expert-capacity-factor");
}

static bool later_tokens_are_possible(const struct rule_case *of, struct err *err)
{
    const struct megatron_args *a = of->args;
    return a->mtp == 0 || a->position != EMBEDDING_LEARNED ||
           BROKEN("--mtp-num-layers", "does not go with learned positions");
}

// clang-format off
const struct target_rule megatron_rules[] = {
    { "X1", "The schedule is 1f1b, or interleaved with virtual stages.",
      "leave schedule= out", schedule_exists, mend_schedule },
    { "X2", "Ranks are in the order tp-cp-dp-pp, or tp-cp-pp-dp.",
      "leave order= out", order_exists, mend_order },
    { "X3", "Gradients are all-reduced, or reduce-scattered, exactly.",
      "leave exchange= out", exchange_exists, mend_exchange },
    { "X4", "The optimizer is Adam or SGD.",
      "leave optimizer= out", optimizer_exists, mend_optimizer },
    { "X5", "The precision is fp32, fp16, bf16, a recipe of fp8 of Transformer Engine, or nvfp4.",
      "take bf16", precision_exists, mend_precision },
    { "X6", "Gradients are reduced in the type that they are kept in.",
      "give grad= and reduce= the same type", gradients_are_one_type, mend_gradients },
    { "X7", "One number of recomputed layers holds for all chunks; modules are whole.",
      "take recompute=block:N or recompute=selective", recompute_exists, mend_recompute },
    { "X8", "The model is one that the arguments have words for.",
      "describe the model in a layer spec of your own", model_exists, NULL },
    { "X9", "The batch is a whole number of sequences.",
      "round --global-batch-size", batch_is_whole, NULL },
    { "P1", "tp x pp x cp divides the number of GPUs.",
      "choose degrees that divide the GPUs", degrees_divide_world, NULL },
    { "P2", "The global batch is a multiple of micro-batch x dp.",
      "round --global-batch-size to a multiple", batch_divides, NULL },
    { "P3", "Layers per virtual stage, virtual stages per rank and a layout exclude each other.",
      "keep one of the three", stages_are_given_once, NULL },
    { "P4", "Without another division the layers, and what is counted as one, divide over the stages.",
      "choose --pipeline-model-parallel-size among the divisors, or give a layout", layers_divide, NULL },
    { "P5", "Layers per virtual stage divide the layers of a stage.",
      "choose --num-layers-per-virtual-pipeline-stage among the divisors", virtual_layers_divide, NULL },
    { "P6", "Virtual stages need two pipeline stages, and three without overlapped messages.",
      "drop --no-overlap-p2p-communication, or the virtual stages", interleaving_has_stages, mend_overlap },
    { "P7", "Layers of the first and last stage leave a whole number for each stage between.",
      "give --pipeline-model-parallel-layout instead", ends_have_layers, NULL },
    { "P8", "A layout has one E first, one L last, every layer once, and stages that pp divides.",
      "count the t in --pipeline-model-parallel-layout", layout_holds_layers, NULL },
    { "P9", "Overlapped gathers of parameters need the distributed optimizer and overlapped reductions.",
      "add --use-distributed-optimizer --overlap-grad-reduce", gathers_can_overlap, mend_overlap },
    { "P10", "The heads divide the hidden width where no width of a head is given.",
      "add --kv-channels", heads_divide_hidden, NULL },
    { "P11", "tp divides the attention heads.",
      "choose --tensor-model-parallel-size among the divisors of the heads", tensor_divides_heads, NULL },
    { "P12", "tp divides the query groups, or is a multiple of them.",
      "choose --tensor-model-parallel-size among the divisors of the groups", tensor_fits_groups, NULL },
    { "P13", "2 x cp divides the sequence.",
      "choose --context-parallel-size so that 2 cp divides --seq-length", context_divides_sequence, NULL },
    { "P14", "The positions cover the sequence.",
      "raise --max-position-embeddings to --seq-length", positions_cover_sequence, NULL },
    { "P15", "Full recompute has a method and a number of layers, selective has neither; modules exist.",
      "add --recompute-method uniform --recompute-num-layers 1, or drop both", recompute_is_whole, mend_modules },
    { "P16", "Sequence parallelism needs tp over 1, and overlapped tensor collectives need it.",
      "drop --sequence-parallel, or raise tp", sequence_parallel_has_ranks, mend_overlap },
    { "P17", "ep divides the experts.",
      "choose --expert-model-parallel-size among the divisors of --num-experts", experts_divide, NULL },
    { "P18", "Activations are offloaded without pipeline or recompute.",
      "drop --cpu-offloading, or the recompute", offload_stands_alone, NULL },
    { "P19", "CUDA_DEVICE_MAX_CONNECTIONS is 1 with tp or cp before Blackwell, and is not 1 with FSDP.",
      "export CUDA_DEVICE_MAX_CONNECTIONS=1, or leave it out with FSDP", connections_are_right, NULL },
    { "P20", "FSDP keeps to its own checkpoint format, and PyTorch's to one stage without experts' ranks.",
      "add --ckpt-format fsdp_dtensor", fsdp_stands_alone, NULL },
    { "P21", "Iterations exclude samples, a folder to save to has an interval, bf16 excludes fp16.",
      "drop one of the two, or add --save-interval", run_is_stated_once, NULL },
    { "P22", "States of Adam in other types, or on the host, need the distributed optimizer.",
      "add --use-distributed-optimizer --use-precision-aware-optimizer", optimizer_state_fits, mend_state },
    { "R1", "Virtual stages per rank divide the layers of a stage.",
      "choose --num-virtual-stages-per-pipeline-rank among the divisors", virtual_stages_divide, NULL },
    { "R2", "Microbatches fill groups of pp or more with virtual stages.",
      "make the microbatches a multiple of pp, or set the group size", microbatches_fill_groups, NULL },
    { "R3", "etp x ep x pp divides the number of GPUs.",
      "choose --expert-model-parallel-size so that it divides", experts_divide_world, NULL },
    { "R4", "Experts with tp over 1 need sequence parallelism.",
      "add --sequence-parallel", experts_see_all_rows, mend_sp },
    { "R5", "The batches of a ramp-up are multiples of micro-batch x dp.",
      "round --rampup-batch-size", ramp_up_divides, NULL },
    { "E1", "Experts with biases are not split over tensor ranks.",
      "add --expert-tensor-parallel-size 1", expert_bias_is_whole, mend_etp },
    { "E2", "The router's score, groups and products go together.",
      "add what the message names", router_is_sound, NULL },
    { "E3", "Overlapped all-to-alls of experts have what they need.",
      "drop --overlap-moe-expert-parallel-comm, or what it does not go with", expert_overlap_is_sound, NULL },
    { "E4", "Padding to a capacity needs a capacity.",
      "add --moe-expert-capacity-factor", capacity_is_sound, NULL },
    { "E5", "Modules for later tokens need positions that are not learned.",
      "take --position-embedding-type rope", later_tokens_are_possible, NULL },
};
// clang-format on
const int num_megatron_rules = LENGTH(megatron_rules);
