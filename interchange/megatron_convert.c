/* Converts a job to Megatron-LM's arguments and back. For each part of a job the functions of both
 * directions are adjacent. */
#include "interchange/megatron.h"

#include "base/length.h"
#include "sim/plan/stage_text.h"
#include "sim/plan/state_share.h"
#include "sim/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

#define BIT(x) (1u << (x))

/* --- degrees and chunks ---------------------------------------------------------------------- */

static const int tp_pp_dp_order[MAX_AXES] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_PIPELINE, AXIS_EXPERT,
                                              AXIS_DATA };

static void write_group(const struct job *job, struct megatron_args *to)
{
    const struct plan *plan = &job->plan;
    struct schedule_shape shape = { plan->pp, plan->vpp, plan_microbatches(plan, job->model.batch),
                                    0 };
    int group = plan->vpp > 1 ? interleaved_group(&shape) : plan->pp;
    to->microbatch_group = group == plan->pp ? 0 : group;
}

static void write_degrees(const struct job *job, struct megatron_args *to)
{
    const struct plan *plan = &job->plan;
    to->tp = plan->tp;
    to->pp = plan->pp;
    to->cp = plan->cp;
    to->ep = plan->ep;
    to->etp = job->model.experts > 0 ? plan->etp : 0;
    to->sp = plan->sp;
    to->context_comm = plan->context_comm;
    to->tp_pp_dp = memcmp(plan->order, tp_pp_dp_order, sizeof plan->order) == 0;
    to->micro_batch = plan->microbatch;
    to->global_batch = (int)job->model.batch;
    write_group(job, to);
}

static void write_chunks(const struct job *job, struct megatron_args *to, struct arena *arena)
{
    const struct plan *plan = &job->plan;
    if (plan->chunk_layers) {
        struct stage_text stages = stage_text_of(plan, &job->model, job->model.mtp, arena);
        struct text text = { 0 };
        stage_text_write(&stages, &text);
        to->layout = text_keep(&text, arena);
    } else if (plan->vpp > 1)
        to->lpvs = job->model.layers / plan_chunks(plan);
}

static void read_degrees(const struct megatron_args *from, struct job *job)
{
    struct plan *plan = &job->plan;
    plan->tp = from->tp;
    plan->pp = from->pp;
    plan->cp = from->cp;
    plan->ep = from->ep;
    plan->etp = from->experts == 0 ? 1 : from->etp > 0 ? from->etp : from->tp;
    /* Megatron turns sp off without tensor ranks, with a warning */
    plan->sp = from->sp && from->tp > 1;
    plan->context_comm = from->context_comm;
    if (from->pad_to_capacity && from->capacity > 0 && from->capacity < 1e4)
        plan->capacity = (int)(from->capacity * 100 + 0.5);
    if (from->tp_pp_dp)
        memcpy(plan->order, tp_pp_dp_order, sizeof plan->order);
    plan->microbatch = from->micro_batch > 0 ? from->micro_batch : 1;
    plan->dp = job_data_ranks(job);
    if (from->global_batch > 0)
        job->model.batch = from->global_batch;
    else if (plan->dp > 0)
        job->model.batch = (double)plan->microbatch * plan->dp;
}

int megatron_vpp(const struct megatron_args *args)
{
    int layers = args->layers + args->account_embedding + args->account_loss;
    if (args->nvs > 0)
        return args->nvs;
    if (args->lpvs > 0 && args->pp > 0 && layers / args->pp >= args->lpvs)
        return layers / args->pp / args->lpvs;
    return 1;
}

/* Number of layers of a stage, if the first or last stage has a given number. */
static int stage_layers(const struct megatron_args *args, int stage)
{
    int last = args->pp - 1;
    int middle_layers = args->layers - args->first_layers - args->last_layers;
    int middle_stages = args->pp - (args->first_layers > 0) - (args->last_layers > 0);
    if (stage == 0 && args->first_layers > 0)
        return args->first_layers;
    if (stage == last && args->last_layers > 0)
        return args->last_layers;
    return middle_stages > 0 ? middle_layers / middle_stages : 0;
}

/* Sets the chunks if the first or last stage has a given number of layers, or if embedding and loss
 * count as layers. */
static void read_uneven(const struct megatron_args *from, struct job *job, struct arena *arena)
{
    struct placement placement = plan_placement(&job->plan);
    int vpp = job->plan.vpp, count = placement_chunks(placement);
    int *layers = ARENA_ARRAY(arena, int, (size_t)count);
    int counted = from->layers + from->account_embedding + from->account_loss;
    bool own = from->first_layers > 0 || from->last_layers > 0;
    for (int i = 0; i < count; i++)
        layers[i] = own ? stage_layers(from, placement_stage(placement, i)) / vpp : counted / count;
    if (!own) {
        layers[0] -= from->account_embedding;
        layers[count - 1] -= from->account_loss;
    }
    job_set_chunks(job, layers, count);
}

static bool read_chunks(const struct megatron_args *from, struct job *job, struct arena *arena,
                        struct err *err)
{
    struct plan *plan = &job->plan;
    struct stage_text stages;
    if (from->layout) {
        if (!stage_text_read(from->layout, arena, &stages, err)) {
            err->code = ERR_INPUT;
            return err_within(err, "--pipeline-model-parallel-layout");
        }
        bool is_whole = plan->pp > 0 && stages.num_chunks >= plan->pp;
        plan->vpp = is_whole ? placement_rounds_of(stages.num_chunks, plan->pp) : 1;
        job_set_chunks(job, stages.layers, stages.num_chunks);
        plan->mtp_place = stages.mtp > 0 && stages.mtp_chunk < stages.num_chunks - 1;
        return true;
    }
    plan->vpp = megatron_vpp(from);
    if ((from->first_layers > 0 || from->last_layers > 0 || from->account_embedding ||
         from->account_loss) &&
        plan->pp > 1 && plan->pp <= from->layers && plan->vpp <= from->layers)
        read_uneven(from, job, arena);
    return true;
}

/* --- state and overlap ----------------------------------------------------------------------- */

static void write_state(const struct job *job, struct megatron_args *to)
{
    const struct plan *plan = &job->plan;
    unsigned overlaps = job_overlaps(job);
    to->distributed_optimizer = plan_cuts(plan, STATE_OPTIMIZER);
    if (plan_cuts(plan, STATE_GRADIENTS)) {
        to->megatron_fsdp = true;
        to->sharding = plan->zero;
        to->checkpoint_format = "fsdp_dtensor";
        to->fuses_wgrad = false;
    }
    if (plan_cuts(plan, STATE_OPTIMIZER) && plan->shard > 0 &&
        plan_replicas(plan) % plan->shard == 0)
        to->optimizer_instances = plan_replicas(plan) / plan->shard;
    to->overlap_grad = overlaps & BIT(PLAN_OVERLAP_GRAD);
    to->overlap_param = plan_cuts(plan, STATE_OPTIMIZER) && (overlaps & BIT(PLAN_OVERLAP_PARAM));
    to->overlap_p2p = overlaps & BIT(PLAN_OVERLAP_P2P);
    to->overlap_tp = plan->sp && (overlaps & BIT(PLAN_OVERLAP_TP));
    to->overlap_expert = plan->ep > 1 && (overlaps & BIT(PLAN_OVERLAP_EP));
    to->overlap_shared = plan->ep > 1 && (overlaps & BIT(PLAN_OVERLAP_SHARED));
}

static void read_state(const struct megatron_args *from, struct job *job)
{
    struct plan *plan = &job->plan;
    int replicas = plan->dp * plan->cp;
    plan->zero = from->megatron_fsdp           ? from->sharding
                 : from->torch_fsdp2           ? 3
                 : from->distributed_optimizer ? 1
                                               : 0;
    if (replicas == 1 && job->num_gpus > 0)
        plan->zero = 0; /* there is no other rank to shard over */
    if (plan_cuts(plan, STATE_GRADIENTS) && plan->pp > 1)
        plan->reshard = RESHARD_EACH_GRADIENT;
    if (plan_cuts(plan, STATE_OPTIMIZER) && from->optimizer_instances > 1 &&
        replicas > from->optimizer_instances)
        plan->shard = replicas / from->optimizer_instances;
    unsigned overlaps =
        from->overlap_grad * BIT(PLAN_OVERLAP_GRAD) |
        from->overlap_param * BIT(PLAN_OVERLAP_PARAM) | from->overlap_p2p * BIT(PLAN_OVERLAP_P2P) |
        (from->overlap_tp && plan->sp) * BIT(PLAN_OVERLAP_TP) |
        from->overlap_expert * BIT(PLAN_OVERLAP_EP) |
        (from->overlap_shared && job->model.shared_ffn > 0) * BIT(PLAN_OVERLAP_SHARED);
    job_set_overlaps(job, overlaps);
}

/* --- recompute and offload ------------------------------------------------------------------- */

static void write_recompute(const struct job *job, struct megatron_args *to)
{
    const struct plan *plan = &job->plan;
    switch ((enum recompute)plan->recompute) {
    case RECOMPUTE_NONE:
    case RECOMPUTE_SHARE: /* rejected by megatron_recompute_exists */
        return;
    case RECOMPUTE_SELECTIVE:
        to->granularity = GRANULARITY_SELECTIVE;
        to->recompute_modules = (int)(plan_replays(plan) & ~(unsigned)REPLAYS_PER_OP);
        return;
    case RECOMPUTE_FULL:
    case RECOMPUTE_EVERY:
        to->granularity = GRANULARITY_FULL;
        to->method = METHOD_UNIFORM;
        to->recompute_layers = plan->recompute == RECOMPUTE_EVERY ? plan->recompute_every : 1;
        return;
    case RECOMPUTE_BLOCK:
        to->granularity = GRANULARITY_FULL;
        to->method = METHOD_BLOCK;
        to->recompute_layers = plan->num_recompute_layers > 0 ? plan->recompute_layers[0] : 0;
        return;
    }
}

static void read_full(const struct megatron_args *from, struct plan *plan, struct arena *arena)
{
    int layers = from->recompute_layers > 0 ? from->recompute_layers : 1;
    if (from->method == METHOD_BLOCK) {
        int *blocks = ARENA_NEW(arena, int);
        *blocks = from->recompute_layers;
        plan->recompute = RECOMPUTE_BLOCK;
        plan->recompute_layers = blocks;
        plan->num_recompute_layers = 1;
        return;
    }
    plan->recompute = layers == 1 ? RECOMPUTE_FULL : RECOMPUTE_EVERY;
    plan->recompute_every = layers == 1 ? 0 : layers;
}

static void read_recompute(const struct megatron_args *from, struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    int granularity = from->recompute_activations ? GRANULARITY_SELECTIVE : from->granularity;
    if (granularity == GRANULARITY_FULL)
        read_full(from, plan, arena);
    if (granularity != GRANULARITY_SELECTIVE)
        return;
    plan->recompute = RECOMPUTE_SELECTIVE;
    /* without module names, Megatron recomputes the attention core */
    if ((unsigned)from->recompute_modules != REPLAYS_CORE)
        plan->replays = (unsigned)from->recompute_modules;
}

static void write_offload(const struct job *job, struct megatron_args *to)
{
    if (plan_offloads(&job->plan, OFFLOAD_OPTIMIZER)) {
        to->offload_optimizer = true;
        to->precision_aware = true;
    }
    if (plan_offloads(&job->plan, OFFLOAD_ACTIVATIONS)) {
        to->offload_activations = true;
        /* the backward begins with the last layer, so its activations stay */
        to->offload_layers = job->model.layers - 1;
    }
}

static void read_offload(const struct megatron_args *from, struct plan *plan)
{
    plan->offloads = from->offload_optimizer * BIT(OFFLOAD_OPTIMIZER) |
                     from->offload_activations * BIT(OFFLOAD_ACTIVATIONS);
}

/* --- precision and optimizer ----------------------------------------------------------------- */

/* Precisions in Megatron's flags. Rows of bf16 come first, so that a search by flags finds
 * these. */
static const struct {
    enum precision precision;
    bool bf16, fp16;
    enum megatron_fp8 fp8;
    enum megatron_recipe recipe;
    int fp4;
} precisions[] = {
    { PRECISION_BF16, true, false, FP8_FORMAT_NONE, RECIPE_DELAYED, 0 },
    { PRECISION_FP16, false, true, FP8_FORMAT_NONE, RECIPE_DELAYED, 0 },
    { PRECISION_FP32, false, false, FP8_FORMAT_NONE, RECIPE_DELAYED, 0 },
    { PRECISION_FP8_DELAYED, true, false, FP8_FORMAT_HYBRID, RECIPE_DELAYED, 0 },
    { PRECISION_FP8_CURRENT, true, false, FP8_FORMAT_HYBRID, RECIPE_TENSORWISE, 0 },
    { PRECISION_FP8_MX, true, false, FP8_FORMAT_E4M3, RECIPE_MXFP8, 0 },
    { PRECISION_FP8_BLOCK, true, false, FP8_FORMAT_E4M3, RECIPE_BLOCKWISE, 0 },
    { PRECISION_NVFP4, true, false, FP8_FORMAT_NONE, RECIPE_DELAYED, 1 },
};

static void write_precision(const struct plan *plan, struct megatron_args *to)
{
    to->bf16 = true; /* the nearest flag for a precision that Megatron lacks */
    for (int i = 0; i < LENGTH(precisions); i++)
        if ((int)precisions[i].precision == plan->precision) {
            to->bf16 = precisions[i].bf16;
            to->fp16 = precisions[i].fp16;
            to->fp8 = (int)precisions[i].fp8;
            to->fp8_recipe = (int)precisions[i].recipe;
            to->fp4 = precisions[i].fp4;
        }
    to->reduce_in_bf16 = to->bf16 && plan->gradient_dtype == DTYPE_BF16;
    to->grads_in_fp32 = to->fp16 && plan->gradient_dtype == DTYPE_FP32;
}

static void read_precision(const struct megatron_args *from, struct plan *plan)
{
    for (int i = 0; i < LENGTH(precisions); i++)
        if (precisions[i].bf16 == from->bf16 && precisions[i].fp16 == from->fp16 &&
            precisions[i].fp4 == from->fp4 &&
            (precisions[i].fp8 != FP8_FORMAT_NONE) == (from->fp8 != FP8_FORMAT_NONE) &&
            (from->fp8 == FP8_FORMAT_NONE || (int)precisions[i].recipe == from->fp8_recipe)) {
            plan->precision = (int)precisions[i].precision;
            break;
        }
    plan->gradient_dtype = DTYPE_FP32;
    if (from->bf16 && from->reduce_in_bf16)
        plan->gradient_dtype = DTYPE_BF16;
    if (from->fp16 && !from->grads_in_fp32)
        plan->gradient_dtype = DTYPE_FP16;
    plan->reduce_dtype = plan->gradient_dtype;
}

static void write_optimizer(const struct plan *plan, struct megatron_args *to)
{
    if (plan->optimizer == OPTIMIZER_SGD || plan->optimizer == OPTIMIZER_MOMENTUM)
        to->optimizer = MEGATRON_SGD;
    if (plan->optimizer == OPTIMIZER_SGD)
        to->sgd_momentum = 0;
    if (plan->optimizer == OPTIMIZER_ADAM_BF16) {
        to->precision_aware = true;
        to->exp_avg = STATE_BF16;
        to->exp_avg_sq = STATE_BF16;
    }
}

static void read_optimizer(const struct megatron_args *from, struct plan *plan)
{
    if (from->optimizer == MEGATRON_SGD)
        plan->optimizer = from->sgd_momentum > 0 ? OPTIMIZER_MOMENTUM : OPTIMIZER_SGD;
    else if (from->precision_aware && from->exp_avg == STATE_BF16 && from->exp_avg_sq == STATE_BF16)
        plan->optimizer = OPTIMIZER_ADAM_BF16;
}

static void write_attention(const struct job *job, struct megatron_args *to)
{
    static const int backends[] = { [PLAN_ATTENTION_DEFAULT] = BACKEND_AUTO,
                                    [PLAN_ATTENTION_FLASH] = BACKEND_FLASH,
                                    [PLAN_ATTENTION_UNFUSED] = BACKEND_UNFUSED };
    to->backend = backends[job->plan.attention];
}

static void read_attention(const struct megatron_args *from, struct job *job)
{
    struct plan *plan = &job->plan;
    bool asks = from->flash_flag && !job->flash_default;
    plan->attention = from->backend == BACKEND_UNFUSED || from->backend == BACKEND_LOCAL
                          ? PLAN_ATTENTION_UNFUSED
                      : from->backend == BACKEND_FLASH || asks ? PLAN_ATTENTION_FLASH
                                                               : PLAN_ATTENTION_DEFAULT;
}

/* --- the model ------------------------------------------------------------------------------- */

static void write_block(const struct model *model, struct megatron_args *to)
{
    to->layers = model->layers;
    to->hidden = model->hidden;
    to->ffn = model->ffn;
    to->heads = model->heads;
    to->kv_channels = model->kv_lora > 0 ? 0 : model->head_dim;
    to->grouped_query = model->kv_lora == 0 && model->kv_heads != model->heads;
    if (to->grouped_query)
        to->query_groups = model->kv_heads;
    to->normalization = model->norm == NORM_RMS;
    to->norm_epsilon = model->norm_epsilon;
    to->swiglu = model->activation == ACTIVATION_SWIGLU;
    to->squared_relu = model->activation == ACTIVATION_RELU2;
    to->linear_bias = model->linear_bias;
    to->qkv_bias = model->qkv_bias && !model->linear_bias;
    to->qk_norm =
        model->qk_norm ||
        model->kv_lora > 0; /* with MLA, the norms of the compressed queries and key-values */
    to->attention_dropout = model->dropout;
    to->hidden_dropout = model->dropout;
}

static void write_ends(const struct model *model, struct megatron_args *to)
{
    to->seq = model->seq;
    to->max_positions = model->max_positions > model->seq ? model->max_positions : model->seq;
    to->vocab = model->vocab;
    to->mtp = model->mtp;
    to->untied = !model->tied;
    to->position = model->positions == POSITION_LEARNED  ? EMBEDDING_LEARNED
                   : model->positions == POSITION_ROTARY ? EMBEDDING_ROPE
                                                         : EMBEDDING_NONE;
    if (model->positions == POSITION_ROTARY)
        to->rotary_base = model->rope_theta;
}

static void write_experts(const struct job *job, struct megatron_args *to, struct arena *arena)
{
    const struct model *model = &job->model;
    if (model->experts == 0)
        return;
    to->experts = model->experts;
    to->topk = model->topk;
    to->expert_ffn = model->expert_ffn;
    to->shared_ffn = model->shared_ffn;
    to->moe_frequency = megatron_frequency_write(model, arena);
    to->shared_gate = model->shared_gate;
    to->grouped_gemm = to->bf16; /* grouped GEMM kernels support no other type */
    to->expert_bias = model->score_bias;
    to->router_score = model->score_bias;
    to->pre_softmax = model->topk == 1 && !model->score_bias;
    to->dispatcher = DISPATCHER_ALLTOALL;
    to->capacity = job->plan.capacity / 100.0;
    to->pad_to_capacity = job->plan.capacity > 0;
    to->router_groups = model->expert_groups;
    to->router_group_topk = model->topk_groups;
}

static void write_latent(const struct model *model, struct megatron_args *to)
{
    if (model->kv_lora == 0)
        return;
    to->latent = true;
    to->q_lora = model->q_lora;
    to->kv_lora = model->kv_lora;
    to->qk_head_dim = model->qk_nope_dim;
    to->qk_rope_dim = model->qk_rope_dim;
    to->v_head_dim = model->v_head_dim;
}

/* Megatron's default width of the feed-forward for hidden size h: 4 h, or with SwiGLU 64 times the
 * integer part of (4 h x 2/3) / 64. */
static int usual_ffn(const struct megatron_args *from)
{
    return from->swiglu ? (int)(4.0 * from->hidden * 2 / 3 / 64) * 64 : 4 * from->hidden;
}

static void read_block(const struct megatron_args *from, struct model *model)
{
    model->layers = from->layers;
    model->hidden = from->hidden;
    model->ffn = from->ffn > 0 ? from->ffn : usual_ffn(from);
    model->heads = from->heads;
    model->head_dim = from->latent ? 0 : from->kv_channels;
    model->kv_heads = from->grouped_query ? from->query_groups : from->heads;
    model->norm = from->normalization ? NORM_RMS : NORM_LAYER;
    model->norm_epsilon = from->norm_epsilon;
    model->activation = from->swiglu         ? ACTIVATION_SWIGLU
                        : from->squared_relu ? ACTIVATION_RELU2
                                             : ACTIVATION_GELU;
    model->linear_bias = from->linear_bias;
    model->qkv_bias =
        from->qkv_bias && !from->linear_bias; /* linear_bias includes the biases of q, k and v */
    model->qk_norm = from->qk_norm && !from->latent;
    model->dropout = from->hidden_dropout > from->attention_dropout ? from->hidden_dropout
                                                                    : from->attention_dropout;
}

/* Vocabulary sizes of tokenizers that have a fixed vocabulary. */
static int tokenizer_vocab(const char *tokenizer)
{
    static const struct {
        const char *name;
        int vocab;
    } known[] = {
        { "GPT2BPETokenizer", 50257 }, /* vocab.json of OpenAI's GPT-2 */
        { "Llama2Tokenizer", 32000 },  /* tokenizer.model of Llama 2 */
    };
    for (int i = 0; tokenizer && i < LENGTH(known); i++)
        if (strcmp(tokenizer, known[i].name) == 0)
            return known[i].vocab;
    return 0;
}

static bool read_ends(const struct megatron_args *from, struct model *model, struct err *err)
{
    static const int kinds[] = { [EMBEDDING_LEARNED] = POSITION_LEARNED,
                                 [EMBEDDING_ROPE] = POSITION_ROTARY,
                                 [EMBEDDING_NONE] = POSITION_NONE };
    model->positions = kinds[from->position];
    if (model->positions == POSITION_LEARNED)
        model->max_positions = from->max_positions;
    if (model->positions == POSITION_ROTARY)
        model->rope_theta = from->rotary_base;
    model->tied = !from->untied;
    model->vocab = from->vocab > 0 ? from->vocab : tokenizer_vocab(from->tokenizer);
    return model->vocab > 0 || err_set(err, ERR_INPUT, "--vocab-size",
                                       "is missing, and the tokenizer's name does not imply it; "
                                       "add it, or give the model with --model");
}

static bool read_experts(const struct megatron_args *from, struct model *model, struct err *err)
{
    if (from->experts == 0)
        return true;
    model->experts = from->experts;
    model->topk = from->topk;
    model->expert_ffn = from->expert_ffn > 0 ? from->expert_ffn : model->ffn;
    model->shared_ffn = from->shared_ffn;
    model->shared_gate = from->shared_gate;
    model->expert_bias = from->linear_bias;
    model->score_bias = from->expert_bias;
    model->expert_groups = from->router_groups;
    model->topk_groups = from->router_group_topk;
    if (!from->moe_frequency || !megatron_frequency_read(from->moe_frequency, model, err))
        return !from->moe_frequency;
    model->moe_step = model->moe_step > 1 ? model->moe_step : 0;
    return true;
}

static void read_latent(const struct megatron_args *from, struct model *model)
{
    if (!from->latent)
        return;
    model->q_lora = from->q_lora;
    model->kv_lora = from->kv_lora;
    model->qk_nope_dim = from->qk_head_dim;
    model->qk_rope_dim = from->qk_rope_dim;
    model->v_head_dim = from->v_head_dim;
    model->kv_heads = 0;
}

/* Reads the model. If the caller has given a model, the file only sets its sequence length. */
static bool read_model(const struct megatron_args *from, struct model *model, struct err *err)
{
    bool is_known = model->layers > 0;
    if (from->seq > 0)
        model->seq = from->seq;
    if (is_known)
        return true;
    double batch = model->batch;
    *model = (struct model){ .seq = model->seq, .batch = batch, .mtp = from->mtp };
    snprintf(model->name, sizeof model->name, "imported");
    snprintf(model->source, sizeof model->source, "the imported arguments");
    const struct {
        const char *flag;
        int value;
    } needed[] = { { "--num-layers", from->layers },
                   { "--hidden-size", from->hidden },
                   { "--num-attention-heads", from->heads },
                   { "--seq-length", from->seq } };
    for (int i = 0; i < LENGTH(needed); i++)
        if (needed[i].value < 1)
            return err_set(err, ERR_INPUT, needed[i].flag,
                           "is missing; add it, or give the model with --model");
    read_block(from, model);
    read_latent(from, model);
    return read_ends(from, model, err) && read_experts(from, model, err) &&
           model_derive(model, err);
}

/* --- arguments to job and plan --------------------------------------------------------------- */

void megatron_arguments(const struct job *job, void *args, struct arena *arena)
{
    struct megatron_args *to = args;
    *to = megatron_defaults;
    write_degrees(job, to);
    write_chunks(job, to, arena);
    write_state(job, to);
    write_precision(&job->plan, to);
    write_recompute(job, to);
    write_offload(job, to);
    write_optimizer(&job->plan, to);
    write_attention(job, to);
    write_block(&job->model, to);
    write_ends(&job->model, to);
    write_experts(job, to, arena);
    write_latent(&job->model, to);
}

bool megatron_job(const void *args, struct job *job, struct arena *arena, struct err *err)
{
    const struct megatron_args *from = args;
    read_degrees(from, job);
    if (!read_model(from, &job->model, err) || !read_chunks(from, job, arena, err))
        return false;
    read_state(from, job);
    read_precision(from, &job->plan);
    read_recompute(from, job, arena);
    read_offload(from, &job->plan);
    read_optimizer(from, &job->plan);
    read_attention(from, job);
    return true;
}
