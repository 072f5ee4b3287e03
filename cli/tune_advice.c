/* Settings that a framework accepts but that cost time or memory, one row each. */
#include "base/length.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/tune.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <string.h>

/* A row checks the plan for one such setting. `mend` changes the plan as the row advises. The
 * advice is given only if the changed plan fits and the framework can run it; with `must_gain`, it
 * must also be predicted to be faster. Rows without `mend` write the fix themselves. */
struct advice {
    const char *id, *sentence;
    bool (*is_seen)(struct tuning *t, struct text *where, struct text *found, struct text *fix);
    void (*mend)(struct tuning *t, struct plan *plan);
    bool must_gain;
};

/* --- the plan -------------------------------------------------------------------------------- */

#define SEEN(name) \
    static bool name(struct tuning *t, struct text *where, struct text *found, struct text *fix)

SEEN(sp_is_off)
{
    const struct plan *plan = &t->now.plan;
    (void)fix;
    text_add(where, "sp");
    text_add(found, "is off with tp%d", plan->tp);
    return plan->tp > 1 && !plan->sp;
}

static void take_sp(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan->sp = true;
}

SEEN(tp_leaves_node)
{
    int tp = t->now.plan.tp, node = cluster_node_size(&t->job.setup.system.cluster);
    (void)fix;
    text_add(where, "tp");
    text_add(found, "is %d, but a node has only %d GPUs", tp, node);
    return tp > node;
}

static void take_node(struct tuning *t, struct plan *plan)
{
    plan->tp = cluster_node_size(&t->job.setup.system.cluster);
}

SEEN(recomputes)
{
    (void)fix;
    text_add(where, "recompute");
    text_add(found, "is %s, but less recompute fits in memory",
             recompute_names[t->now.plan.recompute]);
    return t->now.plan.recompute != RECOMPUTE_NONE;
}

static void recompute_nothing(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan_set_recompute(plan, RECOMPUTE_NONE);
}

SEEN(recomputes_all)
{
    const struct plan *plan = &t->now.plan;
    return recomputes(t, where, found, fix) && plan->recompute != RECOMPUTE_SELECTIVE;
}

static void recompute_attention(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan_set_recompute(plan, RECOMPUTE_SELECTIVE);
}

SEEN(state_is_whole)
{
    const struct plan *plan = &t->now.plan;
    (void)fix;
    text_add(where, "zero");
    text_add(found, "is 0, so each of %d replicas keeps the whole optimizer state",
             plan_replicas(plan));
    return !plan_cuts(plan, STATE_OPTIMIZER) && plan_replicas(plan) > 1;
}

static void shard_state(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan->zero = 1;
}

SEEN(overlap_is_off)
{
    unsigned lacks = t->now.usual_overlaps & ~job_overlaps(&t->now);
    (void)fix;
    text_add(where, "overlap");
    text_add(found, "leaves out");
    for (int i = 0; i < NUM_PLAN_OVERLAPS; i++)
        if (lacks >> i & 1)
            text_add(found, " %s", overlap_words[i]);
    return t->now.plan.overlaps_given && lacks != 0;
}

static void overlap_as_usual(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan->overlaps_given = false;
    plan->overlaps = 0;
}

SEEN(attention_is_unfused)
{
    const struct plan *plan = &t->now.plan;
    (void)fix;
    text_add(where, "attn");
    text_add(found, "writes the scores of all pairs of %d tokens to memory", t->now.model.seq);
    return plan->attention == PLAN_ATTENTION_UNFUSED ||
           (plan->attention == PLAN_ATTENTION_DEFAULT && !t->now.flash_default);
}

static void fuse_attention(struct tuning *t, struct plan *plan)
{
    plan->attention = t->now.flash_default ? PLAN_ATTENTION_DEFAULT : PLAN_ATTENTION_FLASH;
}

SEEN(context_is_split)
{
    (void)fix;
    text_add(where, "cp");
    text_add(found, "is %d for sequences of %d tokens, which fit in memory without it",
             t->now.plan.cp, t->now.model.seq);
    return t->now.plan.cp > 1;
}

static void join_context(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan->cp = 1;
}

SEEN(state_is_offloaded)
{
    (void)fix;
    text_add(where, "offload");
    text_add(found, "copies data to the host that would fit in the GPU's memory");
    return t->now.plan.offloads != 0;
}

static void offload_nothing(struct tuning *t, struct plan *plan)
{
    (void)t;
    plan->offloads = 0;
}

SEEN(pipeline_starves)
{
    const struct plan *plan = &t->now.plan;
    int microbatches = plan_microbatches(plan, t->now.model.batch);
    text_add(where, "pp");
    text_add(found, "is %d, but a step has only %d microbatches", plan->pp, microbatches);
    text_add(
        fix,
        "use fewer pipeline stages or a smaller micro-batch, or raise the global batch to %.0f",
        (double)plan->microbatch * plan->dp * plan->pp * 4);
    return plan->pp > 1 && microbatches < plan->pp;
}

/* --- batch, memory, precision ---------------------------------------------------------------- */

/* Largest odd factor of a batch that still divides well (search/questions/nearby.h). */
enum { MOST_ODD_PART = 31 };

SEEN(batch_is_odd)
{
    double batch = t->now.model.batch, step = 1;
    while (round(batch / step) > MOST_ODD_PART)
        step *= 2;
    bool divides = fmod(batch, step) == 0.0;
    text_add(where, "batch");
    text_add(found, "is %.0f, which has few divisors, so few layouts are possible", batch);
    text_add(fix, "use a global batch of %.0f", round(batch / step) * step);
    return !divides;
}

static void add_bytes(struct text *to, const char *words, double bytes)
{
    char text[48];
    units_show(bytes, QUANTITY_BYTES, text, sizeof text);
    text_add(to, words, text);
}

SEEN(memory_is_short)
{
    const struct prediction *p = &t->present.prediction;
    text_add(where, "memory");
    add_bytes(found, "needs %s", p->peak_memory_bytes);
    add_bytes(found, " of %s", t->job.setup.memory_bytes);
    if (t->measured_bytes > 0)
        add_bytes(found, " as predicted; the log shows %s", t->measured_bytes);
    text_add(fix, "use one of the listed changes, which fit");
    return !p->fits;
}

SEEN(memory_is_near_edge)
{
    const struct prediction *p = &t->present.prediction;
    text_add(where, "memory");
    add_bytes(found, "is %s", p->peak_memory_bytes);
    add_bytes(found, " of %s", t->job.setup.memory_bytes);
    text_add(found, ", P(out of memory) %.0f %%", 100 * p->p_oom);
    text_add(fix, "use a change with less risk, a smaller micro-batch, or more recompute");
    return p->fits && p->p_oom > t->oom_risk;
}

SEEN(precision_is_slow)
{
    int precision = t->now.plan.precision;
    text_add(where, "precision");
    text_add(found, "is %s", precision_names[precision]);
    text_add(fix,
             "train in bf16, or in fp16 where the GPU has no bf16 (for Megatron --bf16, --fp16)");
    return precision == PRECISION_FP32;
}

// clang-format off
static const struct advice advice[] = {
    { "memory", "The plan fits in the memory of a GPU.", memory_is_short, NULL, false },
    { "memory-edge", "The risk of running out of memory is small.", memory_is_near_edge, NULL, false },
    { "tp-across-nodes", "Tensor ranks stay within a node.", tp_leaves_node, take_node, false },
    { "sp-off", "With tensor parallelism, sequence parallelism is on: it saves memory and sends the same bytes.", sp_is_off, take_sp, false },
    { "recompute", "Activations that fit in memory are not recomputed.", recomputes, recompute_nothing, true },
    { "recompute-full", "Whole layers are not recomputed if recompute of attention's core is enough.", recomputes_all, recompute_attention, true },
    { "optimizer-whole", "Data-parallel replicas shard the optimizer's state.", state_is_whole, shard_state, false },
    { "overlap-off", "Communication overlaps with compute.", overlap_is_off, overlap_as_usual, true },
    { "attention-unfused", "Attention is fused.", attention_is_unfused, fuse_attention, true },
    { "context-split", "Sequences are split only if they do not fit otherwise.", context_is_split, join_context, true },
    { "offload", "State is offloaded only if it does not fit otherwise.", state_is_offloaded, offload_nothing, true },
    { "pipeline-starved", "Each pipeline stage has a microbatch to work on.", pipeline_starves, NULL, false },
    { "batch-odd", "The global batch has many divisors.", batch_is_odd, NULL, false },
    { "precision", "Matrix products use types of 16 bits or fewer.", precision_is_slow, NULL, false },
};

/* Settings of a file, or variables of its environment, that cost time and are not part of a plan.
 * Keys are those of Megatron and PyTorch; value NULL: any value. */
static const struct {
    const char *key, *value, *sentence, *fix;
} costly[] = {
    { "--no-gradient-accumulation-fusion", NULL, "The matrix product of a weight gradient also adds it to the accumulated gradient.", "drop it" },
    { "--no-masked-softmax-fusion", NULL, "Mask and softmax are one kernel.", "drop it" },
    { "--no-bias-swiglu-fusion", NULL, "Bias and activation are one kernel.", "drop it" },
    { "--no-bias-gelu-fusion", NULL, "Bias and activation are one kernel.", "drop it" },
    { "--no-bias-dropout-fusion", NULL, "Bias and dropout are one kernel.", "drop it" },
    { "--no-persist-layer-norm", NULL, "Norms use the persistent kernel.", "drop it" },
    { "--no-rope-fusion", NULL, "Rotary positions are one kernel.", "drop it" },
    { "--deterministic-mode", NULL, "Kernels need not give the same bits in every run.", "drop it" },
    { "--empty-unused-memory-level", "2", "The allocator keeps its memory between steps.", "drop it" },
    { "--timing-log-level", "2", "Timers do not stop the GPU in every layer.", "set it to 0" },
    { "CUDA_LAUNCH_BLOCKING", "1", "Kernels are launched before earlier ones have ended.", "unset it" },
    { "TORCH_DISTRIBUTED_DEBUG", "DETAIL", "Collectives run without a check of each call.", "unset it" },
    { "NCCL_P2P_DISABLE", "1", "GPUs of a node write to each other's memory.", "unset it" },
    { "NCCL_IB_DISABLE", "1", "Nodes communicate over InfiniBand if there is one.", "unset it" },
};
// clang-format on

/* --- output ---------------------------------------------------------------------------------- */

/* Writes the flags that give the mended plan; false if that plan is no better. */
static bool write_fix(struct tuning *t, const struct advice *row, struct text *fix)
{
    struct plan plan = tune_start(t);
    struct scored_plan mended;
    struct flag_change flags;
    if (!row->mend)
        return true;
    row->mend(t, &plan);
    bool is_sound = tune_score(t, &plan, &mended);
    const struct prediction *now = &t->present.prediction;
    bool fits = is_sound &&
                (tune_may_offer(t, &mended) ||
                 (!row->must_gain && mended.prediction.peak_memory_bytes <=
                                         fmax(now->peak_memory_bytes, t->job.setup.memory_bytes)));
    bool gains = is_sound && mended.prediction.step_s < now->step_s;
    if (row->must_gain && (!fits || !gains))
        return false;
    if (fits && tune_flags(t, &plan, &flags)) {
        text_add(fix, "%s", flag_change_words(&flags, &t->arena));
        return true;
    }
    text_add(fix, "use one of the listed changes");
    return !row->must_gain && row->mend == take_node;
}

static void add_costly(struct tuning *t, json_t *broken)
{
    const struct imported *imported = t->job.imported;
    for (int i = 0; i < LENGTH(costly); i++) {
        const struct setting *found = settings_find(&imported->given, costly[i].key);
        found = found ? found : settings_find(&imported->environment, costly[i].key);
        const char *value = found && found->num_values > 0 ? found->values[0] : "";
        bool is_costly = found && (!costly[i].value || strcmp(value, costly[i].value) == 0);
        bool is_needed = is_costly && t->unsound.code == ERR_NONE && tune_needs(t, costly[i].key);
        struct broken row = { "slow-setting", costly[i].sentence, costly[i].key,
                              *value ? value : "is given", costly[i].fix };
        if (is_costly && !is_needed)
            json_array_append_new(broken, broken_json(&row));
    }
}

void tune_add_advice(struct tuning *t, json_t *broken)
{
    for (int i = 0; i < LENGTH(advice) && t->unsound.code == ERR_NONE; i++) {
        struct text where = { 0 }, found = { 0 }, fix = { 0 };
        if (advice[i].is_seen(t, &where, &found, &fix) && write_fix(t, &advice[i], &fix)) {
            struct broken row = { advice[i].id, advice[i].sentence, text_get(&where),
                                  text_get(&found), text_get(&fix) };
            json_array_append_new(broken, broken_json(&row));
        }
        text_release(&where);
        text_release(&found);
        text_release(&fix);
    }
    add_costly(t, broken);
}
