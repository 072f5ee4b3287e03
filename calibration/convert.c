#include "calibration/convert.h"

#include "base/text.h"
#include "sim/engine/simulate.h"
#include "sim/plan/token.h"
#include "sim/schedule/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- numbers of a row ------------------------------------------------------------------------ */

static bool skip_row(struct err *err, const char *column, const char *reason)
{
    return err_set(err, ERR_INFEASIBLE, column, "%s %s", column, reason);
}

static bool is_stated(double value)
{
    return value >= 0;
}

/* A count that must be stated. */
static bool read_count(double value, const char *column, int *out, struct err *err)
{
    enum { MOST = 1 << 30 };
    if (!is_stated(value))
        return skip_row(err, column, "is not stated");
    if (value < 1 || value > MOST || value != floor(value))
        return skip_row(err, column, "is not a whole number from 1 to 2^30");
    *out = (int)value;
    return true;
}

/* A count that has a usual value. */
static bool read_count_or(double value, const char *column, int fallback, int *out, struct err *err)
{
    *out = fallback;
    return !is_stated(value) || read_count(value, column, out, err);
}

/* --- the model ------------------------------------------------------------------------------- */

/* Options that no column tells, by the names of model and software. The first that matches wins. */
struct family {
    const char *model_name, *software; /* patterns of match_text */
    bool gated;
    int norm, activation, positions; /* enums of struct model */
    bool linear_bias, tied, embedding_norm;
    double dropout;
};

static const struct family families[] = {
    { .model_name = "*",
      .software = "*",
      .gated = true,
      .norm = NORM_RMS,
      .activation = ACTIVATION_SWIGLU,
      .positions = POSITION_ROTARY },
    /* Parmar et al. 2024, arXiv:2402.16819: squared ReLU, untied, no biases. */
    { .model_name = "Nemotron",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_RELU,
      .positions = POSITION_ROTARY },
    { .model_name = "BLOOM",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_ALIBI,
      .linear_bias = true,
      .tied = true,
      .embedding_norm = true },
    /* MPT in llm-foundry, GPT-2 in llm.c and GPT in Paxml train without dropout. */
    { .model_name = "*",
      .software = "llm-foundry|MosaicML|llm.c|Pax|MaxText",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_LEARNED,
      .linear_bias = true,
      .tied = true },
    { .model_name = "*",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_LEARNED,
      .linear_bias = true,
      .tied = true,
      .dropout = 0.1 },
};
enum { NUM_FAMILIES = sizeof families / sizeof *families };

static const struct family *family_of(const struct run_row *row)
{
    for (int i = 0; i < NUM_FAMILIES - 1; i++)
        if (families[i].gated == (row->gated_mlp > 0) &&
            match_text(families[i].model_name, row->model_name) &&
            match_text(families[i].software, row->software))
            return &families[i];
    return &families[NUM_FAMILIES - 1];
}

/* Vocabularies of sources that print none. Those of Qi et al. 2024 have parameters to three digits,
 * which only about 27,000 to 35,000 tokens fit in all four models; their published scripts read a
 * SentencePiece vocabulary, and 32,000 is its usual size. */
static const struct usual_vocab {
    const char *model_name, *software; /* patterns of match_text */
    int size;
    const char *assumption;
} usual_vocabs[] = {
    { "GPT *B", "Megatron-LM fork, schedule *", 32000,
      "vocab not stated: 32000, which fits the parameters that are" },
};
enum { NUM_USUAL_VOCABS = sizeof usual_vocabs / sizeof *usual_vocabs };

/* The row's own, else what its notes say that the collector inferred ("[INFERRED ...
 * vocab=50304]"), else a usual one. The assumption is "" when there is none; a vocabulary of -1 is
 * not known. */
static double vocab_of(const struct run_row *row, const char **assumption)
{
    static const char key[] = "vocab=";
    *assumption = "";
    if (is_stated(row->vocab))
        return row->vocab;
    const char *inferred = strstr(row->notes, "INFERRED");
    const char *vocab = inferred ? strstr(inferred, key) : NULL;
    if (vocab) {
        *assumption = "vocab not stated: as the row's notes infer it";
        return strtod(vocab + strlen(key), NULL);
    }
    for (int i = 0; i < NUM_USUAL_VOCABS; i++)
        if (match_text(usual_vocabs[i].model_name, row->model_name) &&
            match_text(usual_vocabs[i].software, row->software)) {
            *assumption = usual_vocabs[i].assumption;
            return usual_vocabs[i].size;
        }
    return -1;
}

static bool read_dimensions(const struct run_row *row, struct model *out, struct err *err)
{
    const char *ignored;
    int batch = 0;
    if (!read_count(row->layers, "layers", &out->layers, err) ||
        !read_count(row->hidden, "hidden", &out->hidden, err) ||
        !read_count(row->heads, "heads", &out->heads, err) ||
        !read_count(vocab_of(row, &ignored), "vocab", &out->vocab, err) ||
        !read_count(row->seq, "seq", &out->seq, err) ||
        !read_count(row->gbs_seqs, "gbs_seqs", &batch, err) ||
        !read_count_or(row->kv_heads, "kv_heads", out->heads, &out->kv_heads, err))
        return false;
    out->batch = batch;
    if (row->gated_mlp > 0 && !is_stated(row->ffn_hidden))
        return skip_row(err, "ffn_hidden", "is not stated");
    return read_count_or(row->ffn_hidden, "ffn_hidden", 0, &out->ffn, err);
}

bool run_model(const struct run_row *row, struct model *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (row->experts > 0)
        return err_set(err, ERR_INFEASIBLE, "experts", "mixture of experts is not modelled yet");
    if (!read_dimensions(row, out, err))
        return false;
    const struct family *family = family_of(row);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, row->model_name);
    out->norm = family->norm;
    out->activation = family->activation;
    out->positions = family->positions;
    out->linear_bias = family->linear_bias;
    out->embedding_norm = family->embedding_norm;
    out->tied = family->tied;
    out->dropout = family->dropout;
    return model_derive(out, err);
}

/* --- the system ------------------------------------------------------------------------------ */

/* Files as loaded, for one GPU; owns what the systems below share. */
struct loaded_pair {
    const char *cluster, *stack;
    struct system system;
    struct loaded_pair *older;
};

/* The same for so many GPUs, in nodes of so many. */
struct sized_system {
    struct system system;
    const struct loaded_pair *pair;
    int node_size; /* as the row says; 0: the cluster's own */
    struct sized_system *older;
};

struct run_systems {
    struct arena arena;
    struct match_table match;
    const char *cluster, *stack;
    struct loaded_pair *pairs;
    struct sized_system *sized;
};

struct run_systems *run_systems_new(const char *cluster, const char *stack, struct err *err)
{
    struct run_systems *systems = arena_grow(NULL, sizeof *systems);
    *systems = (struct run_systems){ 0 };
    if (!match_load(NULL, &systems->match, err)) {
        run_systems_free(systems);
        return NULL;
    }
    systems->cluster = cluster ? arena_text(&systems->arena, cluster) : NULL;
    systems->stack = stack ? arena_text(&systems->arena, stack) : NULL;
    return systems;
}

void run_systems_free(struct run_systems *systems)
{
    if (!systems)
        return;
    for (struct loaded_pair *pair = systems->pairs; pair; pair = pair->older)
        system_release(&pair->system);
    match_release(&systems->match);
    arena_release(&systems->arena);
    free(systems);
}

static struct loaded_pair *find_pair(struct run_systems *systems, const char *cluster,
                                     const char *stack, struct err *err)
{
    for (struct loaded_pair *pair = systems->pairs; pair; pair = pair->older)
        if (strcmp(pair->cluster, cluster) == 0 && strcmp(pair->stack, stack) == 0)
            return pair;
    struct loaded_pair *pair = ARENA_NEW(&systems->arena, struct loaded_pair);
    if (!system_load(cluster, stack, 1, &pair->system, err))
        return NULL;
    pair->cluster = arena_text(&systems->arena, cluster);
    pair->stack = arena_text(&systems->arena, stack);
    pair->older = systems->pairs;
    systems->pairs = pair;
    return pair;
}

static struct system *find_sized(struct run_systems *systems, const struct loaded_pair *pair,
                                 int num_gpus, int node_size)
{
    for (struct sized_system *s = systems->sized; s; s = s->older)
        if (s->pair == pair && s->system.num_gpus == num_gpus && s->node_size == node_size)
            return &s->system;
    struct sized_system *s = ARENA_NEW(&systems->arena, struct sized_system);
    s->system = pair->system;
    s->system.num_gpus = num_gpus;
    s->pair = pair;
    s->node_size = node_size;
    s->system.cluster.levels[0].size =
        node_size > 0 ? node_size : cluster_node_share(&s->system.cluster, num_gpus);
    s->older = systems->sized;
    systems->sized = s;
    return &s->system;
}

/* --- the plan -------------------------------------------------------------------------------- */

/* A row under conversion. */
struct conversion {
    struct run_systems *systems;
    const struct run_row *row;
    struct run_case *out;
    const char *recompute; /* as match.json knows better, else the row's own */
};

/* `text` lives forever. */
static void assume(const struct conversion *of, const char *text)
{
    if (*text && of->out->num_assumptions < MAX_ASSUMPTIONS)
        of->out->assumptions[of->out->num_assumptions++] = text;
}

static bool read_system(struct conversion *of, struct err *reason, struct err *err)
{
    const struct run_row *row = of->row;
    struct run_systems *systems = of->systems;
    int num_gpus, node_size;
    if (!read_count(row->n_gpus, "n_gpus", &num_gpus, reason) ||
        !read_count_or(row->gpus_per_node, "gpus_per_node", 0, &node_size, reason))
        return false;
    struct match_row words = { row->gpu, row->network, row->software, node_size, row->source_key };
    struct match found;
    match_find(&systems->match, &words, &found);
    if ((!systems->cluster && !*found.cluster) || (!systems->stack && !*found.stack))
        return err_set(reason, ERR_INFEASIBLE, "gpu", "%s", found.skip);
    if (!systems->cluster)
        assume(of, found.cluster_assumption);
    if (!systems->stack)
        assume(of, found.stack_assumption);
    if (*found.recompute)
        of->recompute = found.recompute;
    const struct loaded_pair *pair =
        find_pair(systems, systems->cluster ? systems->cluster : found.cluster,
                  systems->stack ? systems->stack : found.stack, err);
    if (!pair)
        return false;
    const struct cluster *cluster = &pair->system.cluster;
    int own_size = cluster_node_size(cluster);
    if (node_size > own_size)
        assume(of, "nodes as large as the cluster's, smaller than stated");
    if (node_size >= own_size || node_size == cluster_host_size(cluster))
        node_size = 0;
    of->out->system = find_sized(systems, pair, num_gpus, node_size);
    double most = (double)cluster->num_nodes * own_size;
    if (cluster->num_nodes > 0 && num_gpus > most)
        return err_set(reason, ERR_INFEASIBLE, "n_gpus", "%s has %.0f GPUs; %d were used",
                       cluster->name, most, num_gpus);
    return true;
}

static bool read_model(const struct conversion *of, struct err *reason)
{
    const char *assumption;
    if (!run_model(of->row, &of->out->model, reason))
        return false;
    vocab_of(of->row, &assumption);
    assume(of, assumption);
    return true;
}

static bool read_degrees(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    if (!read_count(row->mbs, "mbs", &plan->microbatch, reason) ||
        !read_count(row->dp, "dp", &plan->dp, reason) ||
        !read_count(row->tp, "tp", &plan->tp, reason) ||
        !read_count(row->pp, "pp", &plan->pp, reason) ||
        !read_count_or(row->vpp, "vpp", 1, &plan->vpp, reason) ||
        !read_count_or(row->cp, "cp", 1, &plan->cp, reason) ||
        !read_count_or(row->ep, "ep", 1, &plan->ep, reason))
        return false;
    if (plan->ep > 1)
        return err_set(reason, ERR_INFEASIBLE, "ep", "expert parallelism is not modelled yet");
    if (plan->pp == 1)
        plan->vpp = 1; /* chunks of a single stage run one after the other */
    int layers = of->out->model.layers;
    double most = layers + (plan->pp > 1 ? 2 : 0); /* embedding and head alone: spread_layers */
    if ((double)plan->pp * plan->vpp > most)
        return err_set(reason, ERR_INFEASIBLE, "pp", "pp x vpp is more than the %d layers", layers);
    return true;
}

/* "FSDP shard degree 128 x replicas 4" in the notes; degrees that are not stated are no number. */
static int noted_shard(const char *notes)
{
    static const char key[] = "shard degree ";
    const char *degree = strstr(notes, key);
    long shard = degree ? strtol(degree + strlen(key), NULL, 10) : 0;
    return shard > 0 && shard < PLAN_MAX_NUMBER ? (int)shard : 0;
}

/* Of tp 1, or of dp and cp 1, there is nothing to split or shard, whatever the row's flags say. */
static bool read_sharding(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    const struct stack *stack = &of->out->system->stack;
    bool has_replicas = plan->dp > 1 || plan->cp > 1;
    plan->sp = row->sp > 0 && plan->tp > 1;
    if (!is_stated(row->sp) && plan->tp > 1) {
        plan->sp = stack->sp_default;
        assume(of, plan->sp ? "sp not stated: on, as the software has it wherever tp is"
                            : "sp not stated: off");
    }
    if (row->zero_stage > 3)
        return skip_row(reason, "zero_stage", "is not 0 to 3");
    plan->zero = row->zero_stage > 0 ? (int)row->zero_stage : row->dist_opt > 0;
    if (!is_stated(row->zero_stage) && !is_stated(row->dist_opt) && has_replicas) {
        static const char *const words[] = {
            "zero_stage not stated: 0", "zero_stage not stated: 1, as usual with the software",
            "zero_stage not stated: 2, as usual with the software",
            "zero_stage not stated: 3, as usual with the software"
        };
        plan->zero = plan->pp > 1 && stack->zero_default > 1 ? 1 : stack->zero_default;
        assume(of, words[plan->zero]);
    }
    if (!has_replicas)
        plan->zero = 0;
    plan->shard = plan->zero > 0 ? noted_shard(row->notes) : 0;
    return true;
}

static bool says(const char *text, const char *word)
{
    return match_text(word, text);
}

/* What a framework prints is what it has allocated; only the driver also sees what it reserves, and
 * the context. */
static void read_memory_kind(const struct conversion *of)
{
    const struct run_row *row = of->row;
    of->out->memory_is_allocated = !says(row->notes, "nvidia-smi|reserved");
    if (row->measured_mem_gb > 0 && of->out->memory_is_allocated)
        assume(of, "memory not said to be nvidia-smi's: what is allocated");
}

/* Recipes by what rows call them; the first that matches wins. */
static const struct {
    const char *words; /* pattern of match_text */
    enum fp8_kind kind;
} fp8_words[] = {
    { "mx", FP8_MX },           { "row", FP8_ROWWISE },
    { "block|sub", FP8_BLOCK }, { "cs|current|tensorwise|tensor-wise|dynamic", FP8_CURRENT },
    { "delayed", FP8_DELAYED },
};

static int fp8_precision(const struct conversion *of, const char *word)
{
    for (size_t i = 0; i < sizeof fp8_words / sizeof *fp8_words; i++)
        if (says(word, fp8_words[i].words))
            return (int)PRECISION_FP8 + (int)fp8_words[i].kind;
    assume(of, "fp8 recipe not stated: delayed scaling, one scale a tensor");
    return PRECISION_FP8;
}

static bool read_precision(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const struct run_row *row = of->row;
    const char *word = row->precision;
    bool is_pure = says(word, "pure") || says(row->notes, "mode PURE|pure bf16|bf16 pure");
    if (*word == '\0') {
        bool has_bf16 = of->out->system->gpu.peak_flops_per_s[DTYPE_BF16] > 0;
        assume(of, has_bf16 ? "precision not stated: bf16" : "precision not stated: fp16");
        word = has_bf16 ? "bf16" : "fp16";
    }
    if (says(word, "fp4"))
        return err_set(reason, ERR_INFEASIBLE, "precision", "fp4 is not modelled yet");
    if (says(word, "fp8"))
        plan->precision = fp8_precision(of, word);
    else if (says(word, "bf16|bfloat16"))
        plan->precision = is_pure ? PRECISION_BF16_PURE : PRECISION_BF16;
    else if (says(word, "fp16|float16"))
        plan->precision = PRECISION_FP16;
    else if (says(word, "fp32|float32|tf32"))
        plan->precision = PRECISION_FP32;
    else
        return err_set(reason, ERR_INFEASIBLE, "precision", "precision %.40s is not modelled yet",
                       word);
    /* Pure bf16 has gradients in bf16; Megatron makes bf16 accumulate in fp32, and not fp16. */
    plan->gradient_dtype = DTYPE_FP32;
    if (plan->precision == PRECISION_BF16_PURE)
        plan->gradient_dtype = DTYPE_BF16;
    else if (plan->precision == PRECISION_FP16 && of->out->system->stack.gradients_in_dtype)
        plan->gradient_dtype = DTYPE_FP16;
    plan->reduce_dtype = plan->gradient_dtype;
    return true;
}

/* The layout grammar reads the rest: recompute=full:4. */
static bool read_recompute(const struct conversion *of, struct plan *plan, struct err *reason)
{
    const char *word = of->recompute;
    if (*word == '\0') {
        assume(of, "recompute not stated: none");
        return true;
    }
    struct text layout = { 0 };
    struct plan parsed;
    struct err err = { 0 };
    text_add(&layout, "recompute=%s", word);
    bool ok = !strpbrk(word, " \t\r\n") &&
              plan_parse(text_get(&layout), &of->systems->arena, &parsed, &err);
    text_release(&layout);
    if (!ok)
        return err_set(reason, ERR_INFEASIBLE, "recompute", "recompute %.60s is not known", word);
    plan->recompute = parsed.recompute;
    plan->recompute_every = parsed.recompute_every;
    plan->recompute_layers = parsed.recompute_layers;
    plan->num_recompute_layers = parsed.num_recompute_layers;
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
            snprintf(plan->schedule, sizeof plan->schedule, "%s", generators[i].name);
    for (size_t i = 0; *plan->schedule == '\0' && i < sizeof others / sizeof *others; i++)
        if (match_text(others[i].words, word))
            snprintf(plan->schedule, sizeof plan->schedule, "%s", others[i].schedule);
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
    if (!is_stated(flash))
        assume(of, of->out->system->stack.flash_default ? "flash_attn not stated: on"
                                                        : "flash_attn not stated: off");
}

/* Layers that don't divide: embedding and head count as a layer each where that makes them divide
 * (Megatron's account-for-embedding options, BigScience's balanced partition), and are chunks of
 * their own where all others have one layer (Qi et al. 2024 interleave with
 * --num-layers-per-virtual-pipeline-stage 1); otherwise the first chunks have one more, as
 * DeepSpeed's partition_uniform. */
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
        assume(of,
               "pp x vpp is 2 more than the layers: embedding and head are chunks of their own");
    else
        assume(of, balanced ? "layers do not divide: the first and last chunk have one fewer"
                            : "layers do not divide: the first chunks have one more");
}

static bool read_plan(const struct conversion *of, struct err *reason)
{
    struct plan *plan = &of->out->plan;
    const struct model *model = &of->out->model;
    const struct system *system = of->out->system;
    *plan = plan_default();
    if (!read_degrees(of, plan, reason) || !read_schedule(of, plan, reason) ||
        !read_precision(of, plan, reason) || !read_sharding(of, plan, reason) ||
        !read_recompute(of, plan, reason))
        return false;
    read_attention(of, plan);
    spread_layers(of, plan);
    return !plan_check(plan, model, model->batch, system->num_gpus, reason) &&
           system_check(system, plan, reason);
}

/* --- the row --------------------------------------------------------------------------------- */

static bool is_listed(char (*fitted)[40], int count, const struct run_row *row)
{
    for (int i = 0; i < count; i++)
        if (strcmp(fitted[i], row->id) == 0 || strcmp(fitted[i], row->source_key) == 0)
            return true;
    return false;
}

bool run_convert(struct run_systems *systems, const struct run_row *row, struct run_case *out,
                 struct err *err)
{
    struct conversion of = { systems, row, out, row->recompute };
    struct err reason = { 0 };
    memset(out, 0, sizeof *out);
    out->row = row;
    out->skip = "";
    out->is_moe = row->experts > 0;
    bool ok = read_system(&of, &reason, err) && read_model(&of, &reason) && read_plan(&of, &reason);
    if (err->code != ERR_NONE)
        return false;
    if (!ok) {
        out->skip = arena_text(&systems->arena, reason.msg);
        return true;
    }
    read_memory_kind(&of);
    const struct profile *profile = &out->system->profile;
    const struct stack *stack = &out->system->stack;
    out->is_fitted = is_listed(profile->fitted, profile->num_fitted, row) ||
                     is_listed(stack->fitted, stack->num_fitted, row);
    return true;
}
