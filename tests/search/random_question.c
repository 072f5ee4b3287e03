#include "tests/search/random_question.h"

#include "base/length.h"
#include "sim/plan/layout.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"
#include "tests/draw.h"

#include <stdio.h>
#include <string.h>

#define WORD(question, ...)                              \
    ((const char *const[]){ __VA_ARGS__ })[random_below( \
        &(question)->rng, (int)LENGTH(((const char *const[]){ __VA_ARGS__ })))]

/* --- system and model ---------------------------------------------------------------------------
 */

static const char *const clusters[] = { "dgx-h100",         "dgx-a100-80g", "p3-v100-16g",
                                        "dgx-b200",         "gb200-nvl72",  "hgx-h100-roce",
                                        "dgx2-v100",        "a100-pcie-8",  "rtx-2080ti-4",
                                        "jean-zay-a100-80g" };
static const char *const stacks[] = { "megatron-core", "megatron-2021",      "nemo",
                                      "torch-ddp",     "megatron-deepspeed", "torchtitan",
                                      "xla",           "deepspeed-zero3" };

/* Multiplies or divides a value by a random factor of at most `most`. */
static void bend(struct question *question, double *value, double most)
{
    *value *= random_below(&question->rng, 2) ? between(&question->rng, 1, most)
                                              : 1 / between(&question->rng, 1, most);
}

static void bend_system(struct question *question)
{
    struct system *system = &question->system;
    for (int i = 0; i < system->cluster.num_levels; i++) {
        struct level *level = &system->cluster.levels[i];
        double factor = 1;
        bend(question, &factor, 4);
        level->bytes_per_s *= factor;
        level->channel_bytes_per_s *= factor;
        level->nvls_intra_bytes_per_s *= factor;
        bend(question, &level->latency_s, 4);
    }
    bend(question, &system->gpu.memory_bytes_per_s, 2);
    bend(question, &system->gpu.pcie_bytes_per_s, 3);
    bend(question, &system->cluster.host_bytes_per_s, 3);
    bend(question, &system->profile.kernel_s, 2);
    system->gpu.memory_bytes = between(&question->rng, 4e9, 30e9);
}

/* Draws a system; some clusters have only one node. */
static const char *draw_system(struct question *question)
{
    struct random *rng = &question->rng;
    const char *cluster, *stack;
    struct err err;
    int gpus;
    do {
        cluster = clusters[random_below(rng, LENGTH(clusters))];
        stack = stacks[random_below(rng, LENGTH(stacks))];
        gpus = PICK(rng, 1, 2, 4, 8, 8, 12, 16, 16, 24, 32);
        err = (struct err){ 0 };
    } while (!system_load(cluster, stack, gpus, &question->system, &err) &&
             err.code == ERR_INFEASIBLE);
    check_ok(err.code == ERR_NONE, &err);
    bend_system(question);
    char words[160];
    snprintf(words, sizeof words, "seed %d: %s, %s, %d GPUs", (int)question->seed, cluster, stack,
             gpus);
    return arena_text(&question->arena, words);
}

static void draw_model(struct question *question)
{
    struct err err = { 0 };
    struct model *model = &question->model;
    struct random *rng = &question->rng;
    const char *name = WORD(question, "gpt3-1.3b", "llama3-8b", "qwen2.5-7b", "bloom-176b",
                            "opt-175b", "mistral-7b", "gpt2-xl");
    check_ok(model_load(name, model, &err), &err);
    model->layers = PICK(rng, 4, 6, 8, 12, 13);
    model->heads = PICK(rng, 4, 6, 8, 12, 16);
    bool is_grouped = model->kv_heads < model->heads && model->heads % 2 == 0;
    model->kv_heads = is_grouped ? model->heads / 2 : model->heads;
    model->head_dim = PICK(rng, 64, 96, 128);
    model->hidden = model->heads * model->head_dim;
    model->ffn = PICK(rng, 2, 3, 4) * model->hidden;
    model->vocab = PICK(rng, 8000, 50257, 128256);
    model->seq = PICK(rng, 512, 1024, 2048);
    model->max_positions = model->max_positions > 0 ? model->seq : 0;
    model->batch = PICK(rng, 8, 12, 16, 32, 48, 60);
    draw_blocks(model, question->seed);
    draw_modules(model, question->seed);
    check_ok(model_check(model, &err), &err);
}

void question_draw(uint64_t seed, struct question *out)
{
    *out = (struct question){ .seed = seed, .rng = random_new(seed, 77) };
    out->words = draw_system(out);
    draw_model(out);
}

/* --- every system and kind of model ------------------------------------------------------------
 */

static const char *const wide_clusters[] = {
    "a100-pcie-8",    "dgx-a100-40g",   "dgx-a100-80g",     "dgx-a100-80g-over7", "dgx-b200",
    "dgx-b300",       "dgx-h100",       "dgx-h100-over7",   "dgx-h200",           "dgx1-v100",
    "dgx2-v100",      "gb200-nvl72",    "gb300-nvl72",      "h100-pcie-8",        "h800-8",
    "hgx-a100-40g-4", "hgx-a100-80g-4", "hgx-h100-1ndr",    "hgx-h100-4",         "hgx-h100-roce",
    "hgx-h20",        "jean-zay-v100",  "meta-grand-teton", "mi300x-8",           "mi355x-8",
    "p3-v100-16g",    "p4d-a100-40g",   "p5-h100",          "rtx-2080ti-4",
};
static const char *const wide_stacks[] = {
    "automodel",
    "bigscience",
    "cuda",
    "deepspeed-zero3",
    "hai-llm",
    "host",
    "internevo",
    "llama3",
    "llm-foundry",
    "llmc",
    "megatron-2021",
    "megatron-2022",
    "megatron-2023",
    "megatron-bridge",
    "megatron-core",
    "megatron-deepspeed",
    "nemo-24.07",
    "nemo",
    "torch-ddp",
    "torchtitan-2024",
    "torchtitan-eager",
    "torchtitan",
    "vtrain",
    "xla",
};
static const char *const wide_models[] = {
    "gpt3-1.3b",      "llama3-8b",     "bloom-176b",         "gpt2-xl",       "mixtral-8x7b",
    "deepseek-v3",    "deepseek-v2",   "deepseek-v3.2",      "glm-4.5-air",   "gpt-oss-20b",
    "llama4-scout",   "minimax-m1",    "minimax-m2",         "nemotron-h-8b", "olmoe-1b-7b",
    "qwen2-57b-a14b", "qwen3-30b-a3b", "qwen3-next-80b-a3b", "dbrx",          "ling-mini-2.0",
};

/* A shallow model of any kind, on any cluster with any stack. */
void question_draw_wide(uint64_t seed, struct question *out)
{
    *out = (struct question){ .seed = seed, .rng = random_new(seed, 83) };
    struct random *rng = &out->rng;
    const char *stack = wide_stacks[seed % LENGTH(wide_stacks)], *cluster;
    struct err err;
    int gpus;
    do {
        cluster = wide_clusters[random_below(rng, LENGTH(wide_clusters))];
        gpus = PICK(rng, 4, 8, 8, 16, 16, 32, 64);
        err = (struct err){ 0 };
    } while (!system_load(cluster, stack, gpus, &out->system, &err) && err.code == ERR_INFEASIBLE);
    check_ok(err.code == ERR_NONE, &err);
    struct model shallow;
    check_ok(model_load(wide_models[random_below(rng, LENGTH(wide_models))], &out->model, &err),
             &err);
    shallow = out->model;
    if (model_set_layers(&shallow, PICK(rng, 4, 6, 8, 12), &err))
        out->model = shallow;
    out->model.batch = PICK(rng, 16, 32, 64);
    out->model.seq = out->model.seq < 4096 ? out->model.seq : 4096;
    char words[160];
    snprintf(words, sizeof words, "seed %d: %s, %s, %d GPUs", (int)seed, cluster, stack, gpus);
    out->words = arena_text(&out->arena, words);
}

void question_release(struct question *question)
{
    system_release(&question->system);
    arena_release(&question->arena);
}

/* --- plans ------------------------------------------------------------------------------------ */

/* Returns one of the words with probability 1 / `rarely`, else NULL. */
static const char *or_none(struct question *question, int rarely, const char *words)
{
    return random_below(&question->rng, rarely) == 0 ? words : "";
}

static void add_degrees(struct question *question, struct text *layout)
{
    struct random *rng = &question->rng;
    int left = question->system.num_gpus;
    int tp = PICK(rng, 1, 1, 2, 2, 3, 4, 8), pp = PICK(rng, 1, 1, 2, 2, 3, 4, 6),
        cp = PICK(rng, 1, 1, 1, 1, 2, 4);
    tp = left % tp == 0 ? tp : 1;
    left /= tp;
    pp = left % pp == 0 ? pp : 1;
    left /= pp;
    cp = left % cp == 0 ? cp : 1;
    text_add(layout, "tp%d pp%d cp%d mb%d", tp, pp, cp, PICK(rng, 1, 1, 1, 2, 4));
    if (tp > 1)
        text_add(layout, "%s", or_none(question, 2, " sp"));
    if (pp > 1)
        text_add(layout, "%s",
                 WORD(question, "", "", "", " vpp2", " vpp3", " schedule=gpipe", " schedule=naive",
                      " schedule=zb-h1", " schedule=zb-h2", " vpp2 schedule=zb-v",
                      " vpp2 schedule=dualpipev", " schedule=dualpipe"));
    if (cp > 1)
        text_add(layout, "%s", WORD(question, "", " cp-comm=all-gather", " cp-comm=a2a"));
}

static void add_options(struct question *question, struct text *layout)
{
    text_add(layout, "%s", WORD(question, "", "", " zero1", " zero1", " zero2", " zero3"));
    text_add(layout, "%s",
             WORD(question, "", "", "", " recompute=selective", " recompute=full",
                  " recompute=full:2", " recompute=block:1"));
    text_add(layout, "%s", or_none(question, 5, WORD(question, " shard=2", " shard=4")));
    text_add(layout, "%s", or_none(question, 5, " attn=unfused"));
    text_add(layout, "%s",
             or_none(question, 3,
                     WORD(question, " overlap=none", " overlap=grad", " overlap=grad,param,p2p,tp",
                          " overlap=tp,p2p", " overlap=param")));
    text_add(layout, "%s", or_none(question, 6, WORD(question, " grad=bf16", " reduce=bf16")));
    text_add(layout, "%s",
             or_none(question, 6,
                     WORD(question, " optimizer=adam-8bit", " optimizer=momentum", " optimizer=sgd",
                          " optimizer=adafactor", " optimizer=muon")));
    text_add(
        layout, "%s",
        or_none(question, 6,
                WORD(question, " order=tp-cp-pp-dp", " order=pp-tp-cp-dp", " order=dp-tp-cp-pp")));
    text_add(layout, "%s",
             or_none(question, 6,
                     WORD(question, " offload=optimizer", " offload=activations",
                          " offload=optimizer,activations")));
    text_add(layout, "%s",
             or_none(question, 6,
                     WORD(question, " exchange=ring", " exchange=local:4", " exchange=gossip:ring",
                          " exchange=gossip:one-peer:combine=beside", " exchange=pga:6",
                          " exchange=ps:1", " exchange=topk:0.01", " exchange=powersgd:4",
                          " exchange=qsgd:8", " exchange=hierarchical")));
    text_add(
        layout, "%s",
        WORD(question, "", "", "", " dtype=fp16", " dtype=fp8", " dtype=bf16-pure", " dtype=fp32"));
}

/* Few gradient exchanges can be combined with ZeRO, so a plan has words of only one of the two. */
static void add_wide_sharing(struct question *question, struct text *layout)
{
    if (random_below(&question->rng, 3) == 0) {
        text_add(layout, "%s",
                 WORD(question, " exchange=ring", " exchange=tree", " exchange=hierarchical",
                      " exchange=ps:2", " exchange=async:3", " exchange=local:4",
                      " exchange=gossip:ring", " exchange=gossip:one-peer:combine=beside",
                      " exchange=pga:6", " exchange=aga:4", " exchange=qsgd:4",
                      " exchange=topk:0.01", " exchange=ef21:0.05", " exchange=neolithic:0.1",
                      " exchange=powersgd:4", " exchange=median", " exchange=krum"));
        return;
    }
    text_add(layout, "%s", WORD(question, " zero1", " zero1", " zero2", " zero3", " zero3"));
    text_add(
        layout, "%s",
        or_none(question, 3,
                WORD(question, " reshard=pass", " reshard=gradients", " shard=2", " shard=4")));
}

static void add_wide_options(struct question *question, struct text *layout)
{
    text_add(layout, "%s",
             or_none(question, 2, WORD(question, " ep2", " ep4", " ep8", " ep2 etp1")));
    add_wide_sharing(question, layout);
    text_add(layout, "%s",
             WORD(question, "", " recompute=selective", " recompute=full", " recompute=full:2",
                  " recompute=block:1", " recompute=block-share:0.5", " recompute=op-selective",
                  " recompute=selective:layernorm", " recompute=selective:mlp",
                  " recompute=selective:core_attn+layernorm"));
    text_add(layout, "%s",
             WORD(question, "", "", "", " dtype=fp16", " dtype=fp8", " dtype=fp8-cs",
                  " dtype=fp8-mx", " dtype=fp8-block", " dtype=fp8-rowwise", " dtype=bf16-pure"));
    text_add(layout, "%s",
             or_none(question, 3,
                     WORD(question, " overlap=none", " overlap=grad", " overlap=grad,param,p2p,tp",
                          " overlap=grad,param,p2p,tp,ep,shared", " overlap=ep,shared")));
    text_add(layout, "%s",
             or_none(question, 4,
                     WORD(question, " optimizer=adam-8bit", " optimizer=adam-bf16",
                          " optimizer=adafactor", " optimizer=muon", " offload=optimizer",
                          " offload=activations", " attn=unfused", " grad=bf16")));
    text_add(layout, "%s",
             or_none(question, 6, WORD(question, " order=tp-cp-pp-dp", " order=dp-tp-cp-pp")));
}

/* Adds uneven chunks with at least one layer each. */
static void add_stages(struct question *question, struct plan *plan)
{
    int chunks = plan_chunks(plan), layers = question->model.layers;
    if (plan->pp == 1 || chunks > layers || random_below(&question->rng, 4) > 0)
        return;
    int *given = ARENA_ARRAY(&question->arena, int, (size_t)chunks);
    for (int i = 0; i < chunks; i++)
        given[i] = 1;
    for (int left = layers - chunks; left > 0; left--)
        given[random_below(&question->rng, chunks)]++;
    plan->chunk_layers = given;
    plan->num_chunk_layers = chunks;
    if (question->model.mtp == 0 || chunks < 3 || random_below(&question->rng, 2) == 0)
        return;
    given[chunks - 2] +=
        given[chunks - 1]; /* the MTP modules stay in the last chunk but one, apart from the head */
    given[chunks - 1] = 0;
    plan->mtp_place = MTP_APART;
}

/* In some plans with selective recompute, lets each stage recompute different modules of its
 * layers.
 */
static void add_parts(struct question *question, struct plan *plan)
{
    if (plan->recompute != RECOMPUTE_SELECTIVE || plan->pp == 1 ||
        random_below(&question->rng, 2) > 0)
        return;
    int *parts = ARENA_ARRAY(&question->arena, int, (size_t)plan->pp);
    for (int stage = 0; stage < plan->pp; stage++)
        parts[stage] = random_below(&question->rng, 1 << (REPLAY_NORM + 1));
    plan->stage_replays = parts;
    plan->num_stage_replays = plan->pp;
}

static bool draw_plan(struct question *question, void add(struct question *, struct text *),
                      struct plan *out)
{
    const struct system *system = &question->system;
    bool found = false;
    for (int turn = 0; turn < 60 && !found; turn++) {
        struct err err = { 0 };
        struct text layout = { 0 };
        add_degrees(question, &layout);
        add(question, &layout);
        check_ok(plan_parse(text_get(&layout), &question->arena, out, &err), &err);
        add_stages(question, out);
        add_parts(question, out);
        found = plan_derive_data(out, system->num_gpus, &err) &&
                !plan_check(out, &question->model, question->model.batch, system->num_gpus, &err) &&
                system_check(system, out, &err);
        text_release(&layout);
    }
    return found;
}

bool question_plan(struct question *question, struct plan *out)
{
    return draw_plan(question, add_options, out);
}

bool question_plan_wide(struct question *question, struct plan *out)
{
    return draw_plan(question, add_wide_options, out);
}

const char *question_layout(struct question *question, const struct plan *plan)
{
    struct text layout = { 0 };
    plan_write(plan, &layout);
    return text_keep(&layout, &question->arena);
}

struct search_request question_request(struct question *question)
{
    struct random *rng = &question->rng;
    struct search_request request = { .system = &question->system,
                                      .model = &question->model,
                                      .base = plan_default(),
                                      .top = PICK(rng, 1, 3, 10),
                                      .jobs = 1 };
    request.fix = WORD(question, NULL, NULL, NULL, "zero1", "vpp1", "recompute=full", "mb2", "tp2",
                       "pp2 schedule=zb-h1", "offload=optimizer", "exchange=local:4", "cp1",
                       "shard=4", "zero1 shard=2");
    request.forbid = WORD(question, NULL, NULL, NULL, "cp", "recompute=none", "zero0 tp2", "sp");
    request.objective = PICK(rng, OBJECTIVE_TIME, OBJECTIVE_TIME, OBJECTIVE_MEMORY);
    if (question->system.gpu.peak_flops_per_s[DTYPE_BF16] <= 0)
        request.base.precision = PRECISION_FP16;
    else if (random_below(rng, 6) == 0 && question->system.gpu.peak_flops_per_s[DTYPE_FP8] > 0)
        request.base.precision = PRECISION_FP8_DELAYED;
    return request;
}
