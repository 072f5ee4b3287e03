#include "tests/testing.h"

#include "base/file.h"
#include "sim/cost/datafile.h"
#include "sim/cost/network.h"
#include "sim/engine/simulate.h"
#include "sim/plan/layout.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- every cluster x some models x some plans ----------------------------------------------------
 */

static const char *const models[] = { "gpt3-125m", "gpt3-1.3b", "llama3-8b", "gpt3-175b",
                                      "llama2-70b" };
static const char *const stacks[] = { "megatron-core", "megatron-2021", "nemo",
                                      "torch-ddp",     "xla",           "megatron-deepspeed",
                                      "torchtitan",    "vtrain" };
/* Those that a model can't have are left out. */
static const char *const layouts[] = {
    "mb1",
    "mb4",
    "tp2",
    "tp2 sp mb2",
    "tp4 pp2",
    "tp4 pp2 sp zero1",
    "tp8",
    "tp8 sp mb2 zero1",
    "tp8 pp2 recompute=full",
    "tp8 pp4 sp recompute=selective attn=unfused",
    "tp8 pp8 mb1",
    "pp2",
    "pp4 zero1",
    "pp4 vpp2",
    "pp4 vpp2 zero1 recompute=selective",
    "tp2 pp4 vpp2 mb2 zero1",
    "tp4 pp4 vpp2 overlap=none",
    "tp4 pp4 vpp2 overlap=grad,param,p2p,tp sp zero1",
    "tp2 pp8 vpp3 zero1",
    "pp8 schedule=gpipe",
    "pp8 schedule=naive",
    "pp4 schedule=gpipe recompute=full",
    "tp8 pp2 order=tp-cp-pp-dp",
    "pp2 tp4 order=pp-tp-cp-dp",
    "tp2 order=dp-tp-cp-pp",
    "zero2",
    "zero3",
    "tp4 zero3 overlap=param",
    "zero3 recompute=full mb2",
    "pp4 stages=1,4,4,3",
    "pp4 stages=5,7,7,5 recompute=block:1,2,3,4",
    "recompute=full:2",
    "tp2 pp2 recompute=block:2 zero1",
    "optimizer=adafactor",
    "optimizer=momentum pp4",
    "dtype=fp32",
    "dtype=fp16 tp4",
    "dtype=fp16 grad=fp16 reduce=fp16 tp4",
    "tp8 pp4 attn=unfused overlap=tp",
    "tp16 pp4",
    "tp4 pp16",
    "cp2 zero1",
    "cp8 tp8 sp",
    "cp4 zero2 cp-comm=all-gather",
    "cp2 zero3 mb2 cp-comm=a2a",
    "tp2 cp4 pp4 vpp2 sp zero1",
    "tp4 cp2 pp2 recompute=selective cp-comm=all-gather",
    "cp2 tp2 pp2 recompute=full order=pp-cp-tp-dp",
    "cp16 pp2 overlap=none",
    "offload=optimizer",
    "tp2 pp4 zero1 offload=optimizer",
    "tp4 mb2 offload=activations",
    "zero3 offload=optimizer,activations",
    "zero3 shard=8",
    "zero2 shard=4 recompute=full",
    "tp4 pp2 zero1 shard=2",
    "cp4 zero3 shard=2",
    "cp2 tp2 zero1 shard=8 overlap=none",
    "zero3 shard=4 order=dp-tp-cp-pp",
};
enum {
    NUM_MODELS = sizeof models / sizeof models[0],
    NUM_STACKS = sizeof stacks / sizeof stacks[0],
    NUM_LAYOUTS = sizeof layouts / sizeof layouts[0],
    NUM_GPUS = 64,
    BATCH = 256,
};

static char **clusters;
static size_t num_clusters;

/* One model on one cluster, and the plans that it can have there. */
struct instance {
    struct system system;
    struct model model;
    struct arena arena;
    struct plan plans[NUM_LAYOUTS];
    const char *texts[NUM_LAYOUTS];
    int num_plans;
};
static struct instance instance;

static void check_ok(bool ok, const struct err *err)
{
    ck_assert_msg(ok, "%s: %s", err->where, err->msg);
}

static void tear_down(void)
{
    system_release(&instance.system);
    arena_release(&instance.arena);
    memset(&instance, 0, sizeof instance);
}

/* Whether the layout is one of the model on this many GPUs. GPUs without bf16 get fp16. */
static bool read_plan(const char *layout, struct plan *out)
{
    struct err err = { 0 };
    const struct system *system = &instance.system;
    check_ok(plan_parse(layout, &instance.arena, out, &err), &err);
    if (system->gpu.peak_flops_per_s[precision_dtype((enum precision)out->precision)] <= 0)
        out->precision = PRECISION_FP16;
    return plan_derive_data(out, system->num_gpus, &err) &&
           !plan_check(out, &instance.model, instance.model.batch, system->num_gpus, &err) &&
           system_check(system, out, &err);
}

static void load(const char *cluster, const char *stack, const char *model, int num_gpus,
                 double batch)
{
    struct err err = { 0 };
    check_ok(system_load(cluster, stack, num_gpus, &instance.system, &err), &err);
    check_ok(model_load(model, &instance.model, &err), &err);
    instance.model.batch = batch;
    for (int i = 0; i < NUM_LAYOUTS; i++) {
        instance.texts[instance.num_plans] = layouts[i];
        instance.num_plans += read_plan(layouts[i], &instance.plans[instance.num_plans]);
    }
}

/* Calls `claim` for each model on cluster `i`. */
static void each_instance(int i, void (*claim)(void))
{
    int num_plans = 0;
    for (int m = 0; m < NUM_MODELS; m++) {
        load(clusters[i], stacks[(i + m) % NUM_STACKS], models[m], NUM_GPUS, BATCH);
        num_plans += instance.num_plans;
        claim();
        tear_down();
    }
    ck_assert_int_gt(num_plans, 100);
}

/* Calls `claim` for each plan and its prediction. */
static void each_prediction(int i, void (*claim)(const struct prediction *, const char *))
{
    for (int m = 0; m < NUM_MODELS; m++) {
        load(clusters[i], stacks[(i + m) % NUM_STACKS], models[m], NUM_GPUS, BATCH);
        struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
        for (int p = 0; p < instance.num_plans; p++) {
            struct prediction prediction = evaluate(evaluator, &instance.plans[p]);
            claim(&prediction, instance.texts[p]);
        }
        evaluator_free(evaluator);
        tear_down();
    }
}

/* --- parts --------------------------------------------------------------------------------------
 */

static void check_time(const struct prediction *p, const char *layout)
{
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++) {
        double part_s = time_part_s(&p->time, i);
        ck_assert_msg(part_s >= -1e-9 * p->step_s, "%s: %s is %g s of %g", layout,
                      time_part_table[i].name, part_s, p->step_s);
        sum_s += part_s;
    }
    ck_assert_msg(fabs(sum_s - p->step_s) <= 1e-9 * p->step_s, "%s: parts %.17g s, step %.17g s",
                  layout, sum_s, p->step_s);
}

START_TEST(parts_of_the_time_are_positive_and_add_up)
{
    each_prediction(_i, check_time);
}
END_TEST

static void check_memory(const struct prediction *p, const char *layout)
{
    double peak_bytes = 0;
    for (int s = 0; s < p->num_stages; s++) {
        const struct stage_memory *m = &p->stages[s];
        double allocated_bytes = m->weights_bytes + m->gradients_bytes + m->optimizer_bytes +
                                 m->activations_bytes + fmax(m->logits_bytes, m->recompute_bytes) +
                                 m->buckets_bytes + m->library_bytes;
        double total_bytes = allocated_bytes + m->slack_bytes + m->network_bytes + m->context_bytes;
        ck_assert_msg(fabs(m->allocated_bytes / allocated_bytes - 1) < 1e-9, "%s", layout);
        ck_assert_msg(fabs(m->total_bytes / total_bytes - 1) < 1e-9, "%s", layout);
        const double *part = &m->weights_bytes;
        for (size_t i = 0; i < sizeof *m / sizeof *part; i++)
            ck_assert_msg(part[i] >= 0, "%s, stage %d, part %zu: %g", layout, s, i, part[i]);
        peak_bytes = fmax(peak_bytes, m->total_bytes);
    }
    ck_assert_double_eq(p->peak_memory_bytes, peak_bytes);
    ck_assert_double_eq(p->stages[p->peak_stage].total_bytes, peak_bytes);
    ck_assert_int_eq(p->fits, peak_bytes <= instance.system.gpu.memory_bytes);
}

START_TEST(parts_of_the_memory_are_positive_and_add_up)
{
    each_prediction(_i, check_memory);
}
END_TEST

static void check_rates(const struct prediction *p, const char *layout)
{
    ck_assert_msg(0 < p->mfu && p->mfu <= p->hfu * (1 + 1e-9) && p->hfu <= 1, "%s: mfu %g, hfu %g",
                  layout, p->mfu, p->hfu);
    double tokens = instance.model.batch * instance.model.seq;
    ck_assert_double_eq_tol(p->tokens_per_s * p->step_s, tokens, 1e-9 * tokens);
    ck_assert_double_lt(p->step_low_s, p->step_s);
    ck_assert_double_gt(p->step_high_s, p->step_s);
}

START_TEST(useful_flops_are_some_of_those_executed_which_are_below_peak)
{
    each_prediction(_i, check_rates);
}
END_TEST

/* --- one against another ------------------------------------------------------------------------
 */

/* NCCL chooses by its own times: with factors between them and ours its choice may be the slower.
 * Measured collectives are those of the machine as it was. */
static struct system uncalibrated(const struct system *system)
{
    struct system plain = *system;
    plain.profile.intra_bandwidth_factor = plain.profile.intra_latency_factor = 1;
    plain.profile.inter_bandwidth_factor = plain.profile.inter_latency_factor = 1;
    plain.profile.num_curves = 0;
    return plain;
}

/* What a change of the system must not do to any plan. */
static void check_changed(void (*change)(struct system *), const char *what)
{
    struct system plain = uncalibrated(&instance.system);
    struct system changed = plain;
    change(&changed);
    struct evaluator *before = evaluator_new(&plain, &instance.model);
    struct evaluator *after = evaluator_new(&changed, &instance.model);
    for (int p = 0; p < instance.num_plans; p++) {
        double before_s = evaluate_step_s(before, &instance.plans[p]);
        double after_s = evaluate_step_s(after, &instance.plans[p]);
        ck_assert_msg(after_s <= before_s * (1 + 1e-9), "%s, %s, %s, %s: %s takes %g s, not %g s",
                      instance.system.cluster.name, instance.system.stack.name, instance.model.name,
                      instance.texts[p], what, after_s, before_s);
    }
    evaluator_free(before);
    evaluator_free(after);
}

static void widen(struct system *system, int first, int last)
{
    for (int i = first; i <= last; i++) {
        struct level *level = &system->cluster.levels[i];
        level->bytes_per_s *= 1.3;
        level->channel_bytes_per_s *= 1.3;
        level->nvls_intra_bytes_per_s *= 1.3;
    }
}

static void widen_node(struct system *system)
{
    widen(system, 0, 0);
}

static void widen_network(struct system *system)
{
    widen(system, 1, system->cluster.num_levels - 1);
}

static void widen_memory(struct system *system)
{
    system->gpu.memory_bytes_per_s *= 1.3;
}

static void raise_peak(struct system *system)
{
    for (int i = 0; i < NUM_DTYPES; i++)
        system->gpu.peak_flops_per_s[i] *= 1.3;
}

static void lower_latency(struct system *system)
{
    system->profile.intra_latency_factor /= 1.3;
    system->profile.inter_latency_factor /= 1.3;
}

static void lower_kernel(struct system *system)
{
    system->profile.kernel_s /= 1.3;
}

static void lower_issue(struct system *system)
{
    system->stack.issue_s /= 1.3;
    system->stack.microbatch_s /= 1.3;
    system->stack.step_s /= 1.3;
}

static void speed_up_host_link(struct system *system)
{
    system->gpu.pcie_bytes_per_s *= 1.3;
    system->cluster.host_bytes_per_s *= 1.3;
}

static void equalize_chips(struct system *system)
{
    system->profile.chip_spread = 0;
}

static const struct {
    void (*change)(struct system *);
    const char *what;
} changes[] = {
    { widen_node, "a faster node" },
    { widen_network, "a faster network" },
    { widen_memory, "faster memory" },
    { raise_peak, "a higher peak" },
    { lower_latency, "a lower latency" },
    { lower_kernel, "a shorter kernel" },
    { lower_issue, "a faster host" },
    { equalize_chips, "equal chips" },
    { speed_up_host_link, "a faster link to the host" },
};

/* Products were measured on the machine as it is. */
static void check_changes(void)
{
    instance.system.profile.num_gemm_points = 0;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        check_changed(changes[i].change, changes[i].what);
}

START_TEST(a_faster_machine_is_never_slower)
{
    each_instance(_i, check_changes);
}
END_TEST

/* One checkpoint more, when a chunk is a single layer that is kept and run again. */
static void check_recompute(void)
{
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < instance.num_plans; i++) {
        struct plan plan = instance.plans[i];
        if (plan.recompute != RECOMPUTE_NONE || plan_chunks(&plan) == instance.model.layers)
            continue;
        struct prediction none = evaluate(evaluator, &plan);
        plan.recompute = RECOMPUTE_SELECTIVE;
        struct prediction selective = evaluate(evaluator, &plan);
        plan.recompute = RECOMPUTE_FULL;
        struct prediction full = evaluate(evaluator, &plan);
        bool one_layer = plan.chunk_layers != NULL;
        ck_assert_msg(one_layer || full.peak_memory_bytes <= none.peak_memory_bytes,
                      "%s, %s: %g and not %g", instance.model.name, instance.texts[i],
                      full.peak_memory_bytes, none.peak_memory_bytes);
        ck_assert_double_ge(full.step_s, none.step_s * (1 - 1e-9));
        ck_assert_double_ge(selective.step_s, none.step_s * (1 - 1e-9));
        ck_assert_double_ge(full.hfu * full.step_s, none.hfu * none.step_s);
        ck_assert_double_eq_tol(full.mfu * full.step_s / (none.mfu * none.step_s), 1, 1e-9);
    }
    evaluator_free(evaluator);
}

START_TEST(recompute_in_full_needs_no_more_memory_and_no_less_time)
{
    each_instance(_i, check_recompute);
}
END_TEST

static void check_zero(void)
{
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < instance.num_plans; i++) {
        struct plan plan = instance.plans[i];
        if (plan.zero != 1 || plan_offloads(&plan, OFFLOAD_OPTIMIZER))
            continue;
        double sharded_bytes = evaluate_peak_bytes(evaluator, &plan);
        plan.zero = 0;
        ck_assert_double_lt(sharded_bytes, evaluate_peak_bytes(evaluator, &plan));
    }
    evaluator_free(evaluator);
}

START_TEST(a_sharded_optimizer_needs_less_memory)
{
    each_instance(_i, check_zero);
}
END_TEST

/* A group of all data ranks is plain ZeRO, groups of one are none: ZeRO-1 then is ZeRO-0. State
 * grows as groups shrink. */
static void check_shards(void)
{
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < instance.num_plans; i++) {
        struct plan plan = instance.plans[i];
        if (plan.zero == 0 || plan_offloads(&plan, OFFLOAD_OPTIMIZER))
            continue;
        plan.shard = 0;
        struct prediction all = evaluate(evaluator, &plan);
        double all_bytes = all.stages[0].weights_bytes + all.stages[0].optimizer_bytes;
        plan.shard = plan_replicas(&plan);
        ck_assert_double_eq(evaluate_step_s(evaluator, &plan), all.step_s);
        ck_assert_double_eq(evaluate_peak_bytes(evaluator, &plan), all.peak_memory_bytes);
        plan.shard = 1;
        struct prediction none = evaluate(evaluator, &plan);
        ck_assert_double_gt(none.stages[0].weights_bytes + none.stages[0].optimizer_bytes,
                            all_bytes);
        if (plan.zero > 1)
            continue;
        double none_s = none.step_s;
        double none_bytes = none.peak_memory_bytes;
        plan.shard = plan.zero = 0;
        plan.overlaps &= ~(1u << PLAN_OVERLAP_PARAM);
        ck_assert_double_eq_tol(evaluate_step_s(evaluator, &plan) / none_s, 1, 1e-12);
        ck_assert_double_eq_tol(evaluate_peak_bytes(evaluator, &plan) / none_bytes, 1, 1e-12);
    }
    evaluator_free(evaluator);
}

START_TEST(shards_over_all_ranks_are_plain_zero_and_over_one_are_none)
{
    each_instance(_i, check_shards);
}
END_TEST

/* Seconds and bytes of a plan where its stack's policy is another. */
struct outcome {
    double step_s, peak_bytes;
};

static struct outcome outcome_with(const struct plan *plan, struct stack policy)
{
    struct system system = instance.system;
    system.stack.reshard = policy.reshard;
    system.stack.prefetch = policy.prefetch;
    system.stack.accumulate = policy.accumulate;
    struct evaluator *evaluator = evaluator_new(&system, &instance.model);
    struct outcome outcome = { evaluate_step_s(evaluator, plan),
                               evaluate_peak_bytes(evaluator, plan) };
    evaluator_free(evaluator);
    return outcome;
}

static void check_trade(struct outcome less, struct outcome more, const char *layout)
{
    ck_assert_msg(more.step_s <= less.step_s * (1 + 1e-12), "%s: %g s, then %g s", layout,
                  less.step_s, more.step_s);
    ck_assert_msg(more.peak_bytes >= less.peak_bytes, "%s: %g, then %g bytes", layout,
                  less.peak_bytes, more.peak_bytes);
}

/* Layers ahead, weights that stay and gradients that wait cost memory, and save time if anything.
 */
static void check_policies(void)
{
    for (int i = 0; i < instance.num_plans; i++) {
        const struct plan *plan = &instance.plans[i];
        if (plan->zero < 2)
            continue;
        struct stack policy = { .reshard = true, .prefetch = 0, .accumulate = ACCUMULATE_REDUCED };
        struct outcome before = outcome_with(plan, policy);
        for (policy.prefetch = 1; policy.prefetch <= 4; policy.prefetch *= 2) {
            struct outcome after = outcome_with(plan, policy);
            check_trade(before, after, instance.texts[i]);
            before = after;
        }
        policy.reshard = false;
        struct outcome kept = outcome_with(plan, policy);
        check_trade(before, kept, instance.texts[i]);
        policy.accumulate = ACCUMULATE_NO_SYNC;
        check_trade(kept, outcome_with(plan, policy), instance.texts[i]);
        policy.reshard = true;
        check_trade(before, outcome_with(plan, policy), instance.texts[i]);
    }
}

START_TEST(policies_of_sharding_trade_memory_for_time)
{
    each_instance(_i, check_policies);
}
END_TEST

static void check_offload(void)
{
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < instance.num_plans; i++) {
        struct plan plan = instance.plans[i];
        plan.offloads = 0;
        double before_s = evaluate_step_s(evaluator, &plan);
        double before_bytes = evaluate_peak_bytes(evaluator, &plan);
        bool can_both = plan.pp == 1 && plan.recompute == RECOMPUTE_NONE;
        for (unsigned set = 1; set <= (can_both ? 3 : 1); set++) {
            plan.offloads = set;
            double after_s = evaluate_step_s(evaluator, &plan);
            ck_assert_msg(after_s >= before_s * (1 - 1e-12), "%s, %s: %g s, offloaded (%u) %g s",
                          instance.model.name, instance.texts[i], before_s, set, after_s);
            ck_assert_double_le(evaluate_peak_bytes(evaluator, &plan), before_bytes);
        }
    }
    evaluator_free(evaluator);
}

START_TEST(offload_needs_no_more_memory_and_no_less_time)
{
    each_instance(_i, check_offload);
}
END_TEST

/* Twice the GPUs and the batch: as many microbatches on each, and a larger group to wait for. Not
 * from one node to two: NICs may be faster than the wires inside. */
static void check_more_data_ranks(void)
{
    struct system larger_system = instance.system;
    struct model larger_model = instance.model;
    larger_system.num_gpus *= 2;
    larger_model.batch *= 2;
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    struct evaluator *larger = evaluator_new(&larger_system, &larger_model);
    for (int i = 0; i < instance.num_plans; i++) {
        struct plan plan = instance.plans[i];
        int node_size = cluster_node_size(&instance.system.cluster);
        if (plan.zero > 0 || layout_stride(&plan, AXIS_DATA) * plan.dp <= node_size)
            continue;
        double before_s = evaluate_step_s(evaluator, &plan);
        plan.dp *= 2;
        double after_s = evaluate_step_s(larger, &plan);
        ck_assert_msg(after_s >= before_s * (1 - 1e-9), "%s, %s, %s: %g s, and %g s with twice dp",
                      instance.system.cluster.name, instance.model.name, instance.texts[i],
                      before_s, after_s);
    }
    evaluator_free(evaluator);
    evaluator_free(larger);
}

START_TEST(twice_the_data_ranks_are_never_faster_with_twice_the_batch)
{
    each_instance(_i, check_more_data_ranks);
}
END_TEST

static void check_bound(void)
{
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < instance.num_plans; i++) {
        double bound_s = evaluate_bound_s(evaluator, &instance.plans[i]);
        double step_s = evaluate_step_s(evaluator, &instance.plans[i]);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-9), "%s, %s, %s: %.17g s bounds %.17g s",
                      instance.system.cluster.name, instance.model.name, instance.texts[i], bound_s,
                      step_s);
        ck_assert_double_gt(bound_s, 0);
    }
    evaluator_free(evaluator);
}

START_TEST(no_step_is_shorter_than_its_bound)
{
    each_instance(_i, check_bound);
}
END_TEST

/* --- the same bits ------------------------------------------------------------------------------
 */

static void check_same(const struct prediction *a, const struct prediction *b)
{
    struct prediction x = *a, y = *b;
    ck_assert_mem_eq(x.stages, y.stages, (size_t)x.num_stages * sizeof *x.stages);
    x.stages = y.stages = NULL;
    ck_assert_mem_eq(&x.time, &y.time, sizeof x.time);
    ck_assert_double_eq(x.step_s, y.step_s);
    ck_assert_double_eq(x.peak_memory_bytes, y.peak_memory_bytes);
    ck_assert_double_eq(x.hfu, y.hfu);
    ck_assert_int_eq(x.busiest_stage, y.busiest_stage);
    ck_assert_int_eq(x.num_microbatches, y.num_microbatches);
}

/* One evaluator meets the plans in a random order, each as often as it comes; every other
 * prediction is by an evaluator that has seen nothing else. */
static void check_memo(void)
{
    struct evaluator *used = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < 3 * instance.num_plans; i++) {
        const struct plan *plan = &instance.plans[rand() % instance.num_plans];
        struct evaluator *fresh = evaluator_new(&instance.system, &instance.model);
        struct prediction expected = evaluate(fresh, plan);
        struct prediction got = evaluate(used, plan);
        check_same(&got, &expected);
        ck_assert_double_eq(evaluate_peak_bytes(used, plan), expected.peak_memory_bytes);
        ck_assert_double_eq(evaluate_step_s(used, plan), expected.step_s);
        evaluator_free(fresh);
    }
    evaluator_free(used);
}

START_TEST(a_prediction_does_not_depend_on_those_before_it)
{
    srand((unsigned)_i);
    each_instance(_i, check_memo);
}
END_TEST

/* --- hand calculations --------------------------------------------------------------------------
 */

/* A pipeline of wide layers, beside which an embedding of 128 words and messages are nothing. */
static void load_uniform(int pp, int vpp, int num_microbatches)
{
    load("dgx-h100", "xla", "gpt3-13b", 8, num_microbatches);
    struct model *model = &instance.model;
    model->layers = 4 * pp * vpp;
    model->vocab = 128;
    model->tied = false;
    instance.system.num_gpus = pp;
    instance.system.stack.step_s = 0;
    instance.system.profile.intra_latency_factor = 1e-6;
    instance.system.profile.intra_bandwidth_factor = 1e6;
}

static struct prediction predict_layout(const char *layout, struct evaluator **evaluator)
{
    struct plan *plan = &instance.plans[0];
    ck_assert_msg(read_plan(layout, plan), "%s", layout);
    *evaluator = evaluator_new(&instance.system, &instance.model);
    return evaluate(*evaluator, plan);
}

/* (p - 1)/m of useful time, (p - 1)/(mv) when interleaved; 1% for the embedding and the head. */
static void check_bubble(const char *layout, int pp, int vpp, int num_microbatches)
{
    struct evaluator *evaluator;
    load_uniform(pp, vpp, num_microbatches);
    struct prediction p = predict_layout(layout, &evaluator);
    double useful_s = p.step_s - p.time.bubble_s - p.time.optimizer_s;
    double expected = (pp - 1.0) / (num_microbatches * vpp);
    ck_assert_double_eq_tol(p.time.bubble_s / useful_s / expected, 1, 0.01);
    evaluator_free(evaluator);
    tear_down();
}

START_TEST(the_bubble_is_p_less_one_microbatches)
{
    check_bubble("pp4", 4, 1, 8);
    check_bubble("pp8", 8, 1, 32);
    check_bubble("pp4 schedule=gpipe", 4, 1, 8);
    check_bubble("pp4 vpp2", 4, 2, 8);
    check_bubble("pp8 vpp4", 8, 4, 64);
}
END_TEST

/* 256 sequences over 8 data ranks, 2 at a time. */
START_TEST(microbatches_share_a_replicas_batch)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "gpt3-1.3b", NUM_GPUS, BATCH);
    struct prediction p = predict_layout("tp8 mb2", &evaluator);
    ck_assert_int_eq(p.num_microbatches, 16);
    ck_assert_int_eq(p.num_stages, 1);
    evaluator_free(evaluator);
}
END_TEST

/* All else equal, a stage with more layers is busiest, and holds the most weights. */
START_TEST(the_stage_with_most_layers_is_busiest)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "gpt3-1.3b", 4, 64);
    struct prediction p = predict_layout("pp4 stages=4,12,4,4", &evaluator);
    ck_assert_int_eq(p.busiest_stage, 1);
    ck_assert_double_gt(p.stages[1].weights_bytes, p.stages[0].weights_bytes);
    evaluator_free(evaluator);
}
END_TEST

/* Two stages of tp 4 in a node, 32 microbatches of 2 sequences; the last stage has the head. A
 * message down or up for each microbatch, in two bytes a value. */
static double messages_s(const char *stack, const char *layout, double *expected_alone_s)
{
    struct evaluator *evaluator;
    load("dgx-h100", stack, "gpt3-1.3b", 8, 64);
    struct prediction p = predict_layout(layout, &evaluator);
    struct plan *plan = &instance.plans[0];
    struct comm_group pair = network_stage_pair(&instance.system, plan);
    double bytes = 2.0 * 2 * 2048 * 2048;
    double tp = plan->tp;
    bool is_split = plan->sp || instance.system.stack.scatter_gather_p2p;
    double message_s = point_to_point_s(&pair, is_split ? bytes / tp : bytes);
    if (!plan->sp && is_split) {
        struct comm_group tensor = network_axis_group(&instance.system, plan, AXIS_TENSOR);
        message_s += collective_s(&tensor, COLLECTIVE_ALL_GATHER, bytes);
    }
    *expected_alone_s = 32 * message_s;
    double got_s = p.time.pipeline_comm_s;
    evaluator_free(evaluator);
    tear_down();
    return got_s;
}

/* Whole, a tensor rank's share of it, or that and a gather on arrival. */
START_TEST(an_end_stage_sends_a_message_for_each_microbatch)
{
    double expected_s;
    double whole_s = messages_s("megatron-core", "tp4 pp2 mb2", &expected_s);
    ck_assert_double_eq_tol(whole_s, expected_s, 1e-9 * expected_s);
    double first_s = messages_s("megatron-core", "tp4 pp2 mb2 stages=20,4", &expected_s);
    ck_assert_double_eq_tol(first_s, expected_s, 1e-9 * expected_s);
    double split_s = messages_s("megatron-core", "tp4 pp2 mb2 sp", &expected_s);
    ck_assert_double_eq_tol(split_s, expected_s, 1e-9 * expected_s);
    double gathered_s = messages_s("megatron-2021", "tp4 pp2 mb2", &expected_s);
    ck_assert_double_eq_tol(gathered_s, expected_s, 1e-9 * expected_s);
    ck_assert_double_lt(split_s, whole_s);
    ck_assert_double_lt(split_s, gathered_s);
}
END_TEST

/* First and last stage add up gradients of a table of 50304 rows (50257 padded to 128) of 2048. */
START_TEST(ends_of_a_pipeline_reduce_a_tied_table)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "gpt3-1.3b", 4, 64);
    struct prediction p = predict_layout("pp4 stages=1,1,1,21", &evaluator);
    struct comm_group pair = network_stage_pair(&instance.system, &instance.plans[0]);
    double expected_s = collective_s(&pair, COLLECTIVE_ALL_REDUCE, 4.0 * 50304 * 2048);
    ck_assert_int_eq(p.busiest_stage, 3);
    ck_assert_double_eq_tol(p.time.data_comm_s, expected_s, 1e-9 * expected_s);
    evaluator_free(evaluator);
    struct prediction middle = predict_layout("pp4 stages=1,21,1,1", &evaluator);
    ck_assert_double_eq(middle.time.data_comm_s, 0);
    evaluator_free(evaluator);
}
END_TEST

/* --- extremes -----------------------------------------------------------------------------------
 */

static void check_finite(const struct prediction *p)
{
    ck_assert_double_finite(p->step_s);
    ck_assert_double_gt(p->step_s, 0);
    ck_assert_double_finite(p->peak_memory_bytes);
    ck_assert_double_finite(p->mfu);
    for (int i = 0; i < num_time_parts; i++)
        ck_assert_double_finite(time_part_s(&p->time, i));
}

/* 12 x 65536 x 1048576^2 = 8.6e17 parameters and the embeddings, on a million GPUs. */
START_TEST(a_quintillion_parameters_on_a_million_gpus_are_finite)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "gpt3-175b", 1 << 20, 1 << 20);
    struct model *model = &instance.model;
    model->layers = 1 << 16;
    model->hidden = 1 << 20;
    model->heads = model->kv_heads = 1 << 13;
    model->head_dim = 128;
    model->ffn = 1 << 22;
    ck_assert_double_gt(model_parameters(model), 8e17);
    struct prediction p = predict_layout("tp8 pp64 vpp4 sp zero1", &evaluator);
    check_finite(&p);
    check_time(&p, "tp8 pp64 vpp4 sp zero1");
    ck_assert(!p.fits);
    evaluator_free(evaluator);
}
END_TEST

START_TEST(one_token_on_one_gpu_is_finite)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "tiny", 1, 1);
    instance.model.seq = 1;
    struct prediction p = predict_layout("mb1", &evaluator);
    check_finite(&p);
    check_time(&p, "mb1");
    evaluator_free(evaluator);
}
END_TEST

START_TEST(many_microbatches_are_finite)
{
    struct evaluator *evaluator;
    load("dgx-h100", "megatron-core", "gpt3-1.3b", 8, 1 << 18);
    struct prediction p = predict_layout("pp8 vpp3", &evaluator);
    check_finite(&p);
    check_time(&p, "pp8 vpp3");
    evaluator_free(evaluator);
}
END_TEST

/* --- errors -------------------------------------------------------------------------------------
 */

START_TEST(a_type_that_the_gpu_does_not_multiply_is_refused)
{
    struct err err = { 0 };
    struct plan plan = plan_default();
    load("dgx1-v100", "megatron-2021", "gpt3-1.3b", NUM_GPUS, BATCH);
    ck_assert(!system_check(&instance.system, &plan, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "dtype");
}
END_TEST

START_TEST(nodes_without_a_network_are_refused)
{
    struct err err = { 0 };
    struct plan plan = plan_default();
    load("dgx-h100", "megatron-core", "gpt3-1.3b", NUM_GPUS, BATCH);
    instance.system.cluster.num_levels = 1;
    ck_assert(!system_check(&instance.system, &plan, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "gpus");
    instance.system.num_gpus = 8;
    err = (struct err){ 0 };
    ck_assert(system_check(&instance.system, &plan, &err));
}
END_TEST

START_TEST(parts_have_names_and_labels_of_their_own)
{
    for (int i = 0; i < num_time_parts; i++)
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(time_part_table[i].name, time_part_table[j].name);
            ck_assert_str_ne(time_part_table[i].label, time_part_table[j].label);
            ck_assert_uint_ne(time_part_table[i].offset, time_part_table[j].offset);
        }
    ck_assert_uint_eq((size_t)num_time_parts * sizeof(double), sizeof(struct time_parts));
}
END_TEST

static Suite *suite(void)
{
    char folder[PATH_MAX];
    if (file_data_folder(cluster_files.folder, folder, sizeof folder))
        clusters = file_list_json(folder, &num_clusters);
    int n = (int)num_clusters;
    TCase *tc = tcase_create("simulate");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, parts_of_the_time_are_positive_and_add_up, 0, TURNS(n));
    tcase_add_loop_test(tc, parts_of_the_memory_are_positive_and_add_up, 0, TURNS(n));
    tcase_add_loop_test(tc, useful_flops_are_some_of_those_executed_which_are_below_peak, 0,
                        TURNS(n));
    tcase_add_loop_test(tc, a_faster_machine_is_never_slower, 0, TURNS(n));
    tcase_add_loop_test(tc, recompute_in_full_needs_no_more_memory_and_no_less_time, 0, TURNS(n));
    tcase_add_loop_test(tc, a_sharded_optimizer_needs_less_memory, 0, TURNS(n));
    tcase_add_loop_test(tc, shards_over_all_ranks_are_plain_zero_and_over_one_are_none, 0,
                        TURNS(n));
    tcase_add_loop_test(tc, policies_of_sharding_trade_memory_for_time, 0, TURNS(n));
    tcase_add_loop_test(tc, offload_needs_no_more_memory_and_no_less_time, 0, TURNS(n));
    tcase_add_loop_test(tc, twice_the_data_ranks_are_never_faster_with_twice_the_batch, 0,
                        TURNS(n));
    tcase_add_loop_test(tc, no_step_is_shorter_than_its_bound, 0, TURNS(n));
    tcase_add_loop_test(tc, a_prediction_does_not_depend_on_those_before_it, 0, TURNS(n));
    tcase_add_test(tc, the_bubble_is_p_less_one_microbatches);
    tcase_add_test(tc, microbatches_share_a_replicas_batch);
    tcase_add_test(tc, an_end_stage_sends_a_message_for_each_microbatch);
    tcase_add_test(tc, ends_of_a_pipeline_reduce_a_tied_table);
    tcase_add_test(tc, the_stage_with_most_layers_is_busiest);
    tcase_add_test(tc, a_quintillion_parameters_on_a_million_gpus_are_finite);
    tcase_add_test(tc, one_token_on_one_gpu_is_finite);
    tcase_add_test(tc, many_microbatches_are_finite);
    tcase_add_test(tc, a_type_that_the_gpu_does_not_multiply_is_refused);
    tcase_add_test(tc, nodes_without_a_network_are_refused);
    tcase_add_test(tc, parts_have_names_and_labels_of_their_own);
    Suite *s = suite_create("sim/engine/simulate");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
