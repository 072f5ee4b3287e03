/* Sets the plan of a measured row, which is a published run: its degrees of parallelism, sharding,
 * recompute, precision and overlap. match.json holds patterns for the words of a row. */
#include "base/length.h"
#include "calibration/rows/convert_part.h"

#include "base/text.h"
#include "sim/engine/simulate.h"
#include "sim/plan/state_share.h"
#include "sim/plan/token.h"
#include "sim/schedule/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool read_degrees(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    if (!row_count(row->mbs, "mbs", &plan->microbatch, reason) ||
        !row_count(row->dp, "dp", &plan->dp, reason) ||
        !row_count(row->tp, "tp", &plan->tp, reason) ||
        !row_count(row->pp, "pp", &plan->pp, reason) ||
        !row_count_or(row->vpp, "vpp", 1, &plan->vpp, reason) ||
        !row_count_or(row->cp, "cp", 1, &plan->cp, reason) ||
        !row_count_or(row->ep, "ep", of->spreads_experts ? plan->dp : 1, &plan->ep, reason) ||
        !row_count_or(row->etp, "etp", 1, &plan->etp, reason))
        return false;
    if (plan->pp == 1)
        plan->vpp = 1; /* with one stage, chunks run one after the other and make no difference */
    int layers = of->out->model.layers;
    /* embedding and head may be chunks of their own (spread_layers) */
    double most = layers + (plan->pp > 1 ? 2 : 0);
    if ((double)plan->pp * plan->vpp > most)
        return err_set(reason, ERR_INFEASIBLE, "pp", "pp x vpp is more than the %d layers", layers);
    return true;
}

/* Some software accumulates gradients over several runs of the pipeline, each with a local batch.
 */
static void divide_batch(const struct conversion *of, const struct plan *plan)
{
    double *batch = &of->out->model.batch;
    double local = *batch / plan->dp;
    of->out->pipeline_runs = 1;
    if (plan->pp == 1 || of->local_batch == 0 || fmod(local, of->local_batch) != 0)
        return;
    of->out->pipeline_runs = (int)(local / of->local_batch);
    *batch /= of->out->pipeline_runs;
}

/* Reads the size of ZeRO's sharding group, which must divide the data and context ranks of a stage;
 * by default it is all of them. */
static bool read_shard(const struct run_row *row, struct plan *plan, struct err *reason)
{
    plan->shard = 0;
    return !plan_cuts(plan, STATE_OPTIMIZER) || row->zero_shard >= plan_replicas(plan) ||
           row_count_or(row->zero_shard, "zero_shard", 0, &plan->shard, reason);
}

/* Flags of a row that have no effect are ignored: sequence parallelism with tp 1, ZeRO with dp and
 * cp 1. */
static bool read_sharding(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    const struct stack *stack = &of->out->system->stack;
    bool has_replicas = plan->dp > 1 || plan->cp > 1;
    plan->sp = row->sp > 0 && plan->tp > 1;
    if (!row_is_stated(row->sp) && plan->tp > 1) {
        plan->sp = stack->unstated.sp_default;
        convert_assume(of, plan->sp ? "sp not stated: on, as usual with the software"
                                    : "sp not stated: off");
    }
    if (row->zero_stage > 3)
        return row_skip(reason, "zero_stage", "is not between 0 and 3");
    plan->zero = row->zero_stage > 0 ? (int)row->zero_stage : row->dist_opt > 0;
    if (!row_is_stated(row->zero_stage) && !row_is_stated(row->dist_opt) && has_replicas) {
        static const char *const words[] = {
            "zero_stage not stated: 0", "zero_stage not stated: 1, as usual with the software",
            "zero_stage not stated: 2, as usual with the software",
            "zero_stage not stated: 3, as usual with the software"
        };
        plan->zero =
            plan->pp > 1 && stack->unstated.zero_default > 1 ? 1 : stack->unstated.zero_default;
        convert_assume(of, words[plan->zero]);
    }
    if (!has_replicas)
        plan->zero = 0;
    return read_shard(row, plan, reason);
}

static bool says(const char *text, const char *word)
{
    return match_text(word, text);
}

/* Low-precision recipes by their names in rows; the first match is used. */
static const struct {
    const char *words; /* pattern of match_text */
    enum precision precision;
} fp8_words[] = {
    { "mx", PRECISION_FP8_MX },
    { "row", PRECISION_FP8_ROWWISE },
    { "block|sub", PRECISION_FP8_BLOCK },
    { "cs|current|tensorwise|tensor-wise|dynamic", PRECISION_FP8_CURRENT },
    { "delayed", PRECISION_FP8_DELAYED },
};

static enum precision fp8_precision(const struct conversion *of, const char *word)
{
    for (size_t i = 0; i < LENGTH(fp8_words); i++)
        if (says(word, fp8_words[i].words))
            return fp8_words[i].precision;
    enum precision usual = (enum precision)of->out->system->stack.unstated.fp8_default;
    convert_assume(of, usual == PRECISION_FP8_DELAYED
                           ? "fp8 recipe not stated: delayed scaling, one scale per tensor"
                           : "fp8 recipe not stated: the software's usual one");
    return usual;
}

/* Reads the data type of the reduction; if it is not stated, that of the gradients. */
static bool read_reduction(const struct conversion *of, struct plan *plan, struct err *reason)
{
    static const struct {
        const char *words; /* pattern of match_text */
        enum dtype dtype;
    } types[] = {
        { "", DTYPE_FP32 },
        { "fp32|float32", DTYPE_FP32 },
        { "bf16|bfloat16", DTYPE_BF16 },
        { "fp16|float16", DTYPE_FP16 },
    };
    const char *word = of->row->reduce_dtype;
    size_t i = 0;
    while (i < LENGTH(types) && !match_text(types[i].words, word))
        i++;
    if (i == LENGTH(types))
        return err_set(reason, ERR_INFEASIBLE, "reduce_dtype",
                       "reduce_dtype %.40s is not one of fp32, bf16, fp16", word);
    plan->reduce_dtype = *word ? (int)types[i].dtype : plan->gradient_dtype;
    return true;
}

static bool read_precision(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    const char *word = row->precision;
    bool is_pure = says(word, "pure") || says(row->param_dtype, "bf16|bfloat16");
    if (*word == '\0') {
        bool has_bf16 = of->out->system->gpu.peak_flops_per_s[DTYPE_BF16] > 0;
        convert_assume(of, has_bf16 ? "precision not stated: bf16" : "precision not stated: fp16");
        word = has_bf16 ? "bf16" : "fp16";
    }
    if (says(word, "nvfp4"))
        plan->precision = PRECISION_NVFP4;
    else if (says(word, "fp8"))
        plan->precision = (int)fp8_precision(of, word);
    else if (says(word, "bf16|bfloat16"))
        plan->precision = is_pure ? PRECISION_BF16_PURE : PRECISION_BF16;
    else if (says(word, "fp16|float16"))
        plan->precision = PRECISION_FP16;
    else if (says(word, "fp32|float32|tf32"))
        plan->precision = PRECISION_FP32;
    else
        return err_set(reason, ERR_INFEASIBLE, "precision", "precision %.40s is not modelled yet",
                       word);
    /* Pure bf16 has bf16 gradients. Megatron accumulates in fp32 with bf16, but not with fp16. */
    plan->gradient_dtype = DTYPE_FP32;
    if (plan->precision == PRECISION_BF16_PURE)
        plan->gradient_dtype = DTYPE_BF16;
    else if (plan->precision == PRECISION_FP16 && of->out->system->stack.gradients_in_dtype)
        plan->gradient_dtype = DTYPE_FP16;
    return read_reduction(of, plan, reason);
}

/* Reads the recompute column. The column separates modules by a space ("selective mlp"), a layout
 * by a colon ("selective:mlp"). Other values, such as full:4, are read as in a layout. */
static bool read_recompute(const struct conversion *of, struct plan *plan, struct err *reason)
{
    static const char modules[] = "selective ";
    const char *word = of->recompute;
    if (*word == '\0')
        return true; /* assume_recompute decides */
    bool has_modules = strncmp(word, modules, strlen(modules)) == 0;
    const char *rest = has_modules ? word + strlen(modules) : word;
    struct text layout = { 0 };
    struct plan parsed;
    struct err err = { 0 };
    text_add(&layout, "recompute=%s%s", has_modules ? "selective:" : "", rest);
    bool ok = !strpbrk(rest, " \t\r\n") &&
              plan_parse(text_get(&layout), &of->systems->arena, &parsed, &err);
    text_release(&layout);
    if (!ok)
        return err_set(reason, ERR_INFEASIBLE, "recompute", "recompute %.60s is not known", word);
    plan->recompute = parsed.recompute;
    plan->replays = parsed.replays;
    plan->stage_replays = parsed.stage_replays;
    plan->num_stage_replays = parsed.num_stage_replays;
    plan->recompute_every = parsed.recompute_every;
    plan->recompute_layers = parsed.recompute_layers;
    plan->num_recompute_layers = parsed.num_recompute_layers;
    plan->recompute_share = parsed.recompute_share;
    return true;
}

static bool read_schedule(const struct conversion *of, struct plan *plan, struct err *reason)
{
    static const struct {
        const char *words, *schedule;
    } others[] = {
        { "1f1b-i|1f1b-interleaved|interleaved-1f1b|interleaved", "interleaved" },
        { "zb-1p|zb1p|zbh1|zero-bubble-h1", "zb-h1" },
        { "zb-2p|zb2p|zbh2|zero-bubble-h2", "zb-h2" },
    };
    const char *word = of->row->schedule;
    if (*word == '\0')
        return true;
    for (int i = 0; i < num_generators; i++)
        if (strcasecmp(generators[i].name, word) == 0)
            plan_set_schedule(plan, generators[i].name);
    for (size_t i = 0; *plan->schedule == '\0' && i < LENGTH(others); i++)
        if (match_text(others[i].words, word))
            plan_set_schedule(plan, others[i].schedule);
    if (*plan->schedule == '\0')
        return err_set(reason, ERR_INFEASIBLE, "schedule", "schedule %.40s is not modelled yet",
                       word);
    return true;
}

static void read_attention(const struct conversion *of, struct plan *plan)
{
    double flash = of->row->flash_attn;
    plan->attention = flash > 0    ? PLAN_ATTENTION_FLASH
                      : flash == 0 ? PLAN_ATTENTION_UNFUSED
                                   : PLAN_ATTENTION_DEFAULT;
    if (!row_is_stated(flash))
        convert_assume(of, of->out->system->stack.unstated.flash_default
                               ? "flash_attn not stated: on"
                               : "flash_attn not stated: off");
}

/* The stack says which collectives overlap compute; a rule of match.json may add to these, and a
 * row may override this for tensor collectives. */
static void read_overlap(const struct conversion *of, struct plan *plan)
{
    double async_tp = of->row->async_tp;
    const unsigned tp = 1u << PLAN_OVERLAP_TP;
    unsigned own = of->out->system->stack.overlaps | of->overlap;
    plan->overlaps_given = row_is_stated(async_tp) || of->overlap != 0;
    if (plan->overlaps_given)
        plan->overlaps = !row_is_stated(async_tp) ? own : async_tp > 0 ? own | tp : own & ~tp;
}

/* Divides layers over chunks if they do not divide evenly. First choice: embedding and head count
 * as one layer each, if the layers then divide evenly (Megatron's account-for-embedding options,
 * BigScience's balanced partition). Second choice: they are chunks of their own, if all other
 * chunks have one layer (Qi et al. 2024 interleave with --num-layers-per-virtual-pipeline-stage 1).
 * Otherwise the first chunks get one layer more, as in DeepSpeed's partition_uniform. */
static void spread_layers(const struct conversion *of, struct plan *plan)
{
    int layers = of->out->model.layers;
    int num_chunks = plan_chunks(plan);
    if (layers % num_chunks == 0)
        return;
    int *chunk_layers = ARENA_ARRAY(&of->systems->arena, int, (size_t)num_chunks);
    bool balanced = (layers + 2) % num_chunks == 0 && (layers + 2) / num_chunks > 0;
    for (int i = 0; i < num_chunks; i++)
        if (balanced)
            chunk_layers[i] = (layers + 2) / num_chunks - (i == 0 || i == num_chunks - 1);
        else
            chunk_layers[i] = layers / num_chunks + (i < layers % num_chunks);
    plan->chunk_layers = chunk_layers;
    plan->num_chunk_layers = num_chunks;
    if (num_chunks == layers + 2)
        convert_assume(
            of,
            "pp x vpp is 2 more than the layers: the embedding and the head are separate chunks");
    else
        convert_assume(of, balanced
                               ? "layers do not divide: the first and last chunk have one fewer"
                               : "layers do not divide: the first chunks have one more");
}

/* A measured run did not run out of memory, and predicted peaks exceed measured ones by at most 10
 * %, in one case by 20 %. So a run must have recomputed if its predicted peak without recompute
 * exceeds the memory by more than 25 %. */
static const double surely_too_large = 1.25;

static bool fits_surely_not(const struct system *system, const struct model *model,
                            const struct plan *plan)
{
    struct evaluator *evaluator = evaluator_new(system, model);
    double bytes = evaluate_peak_bytes(evaluator, plan);
    evaluator_free(evaluator);
    return bytes > surely_too_large * gpu_usable_bytes(&system->gpu);
}

/* A run whose row does not mention recompute had none, unless it fits only with recompute: without
 * recompute it needs far more memory than a GPU has, with full recompute it does not. */
static void assume_recompute(const struct conversion *of, struct plan *plan)
{
    const struct system *system = of->out->system;
    struct plan full = *plan;
    if (*of->recompute != '\0')
        return;
    full.recompute = RECOMPUTE_FULL;
    bool is_full = fits_surely_not(system, &of->out->model, plan) &&
                   !fits_surely_not(system, &of->out->model, &full);
    if (is_full)
        *plan = full;
    convert_assume(of, is_full ? "recompute not stated: full, as without it the run does not fit"
                               : "recompute not stated: none");
}

bool convert_plan(const struct conversion *of, struct err *reason)
{
    struct plan *plan = &of->out->plan;
    const struct model *model = &of->out->model;
    const struct system *system = of->out->system;
    *plan = plan_default();
    plan->optimizer = of->optimizer;
    if (!read_degrees(of, plan, reason) || !read_schedule(of, plan, reason) ||
        !read_precision(of, plan, reason) || !read_sharding(of, plan, reason))
        return false;
    divide_batch(of, plan);
    if (model->experts > 0)
        plan->capacity = (int)lround(100 * of->capacity);
    read_attention(of, plan);
    read_overlap(of, plan);
    spread_layers(of, plan);
    if (!read_recompute(of, plan, reason) ||
        plan_check(plan, model, model->batch, system->num_gpus, reason) ||
        !system_check(system, plan, reason))
        return false;
    assume_recompute(of, plan);
    return true;
}
