#include "sim/engine/memory_interval.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"

#include "tests/sim/cost/wires.h"
#include "tests/sim/engine/time_parts.h"
#include "tests/sim/settings.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- parts --------------------------------------------------------------------------------------
 */

START_TEST(parts_of_the_time_are_positive_and_add_up)
{
    settings_each_prediction(_i, check_time_parts);
}
END_TEST

/* Checks that no stage is busy longer than the step, and that the busiest stage's idle time is the
 * bubble. */
static void check_idle(void)
{
    struct evaluator *evaluator = evaluator_new(&setting.system, &setting.model);
    for (int i = 0; i < setting.num_plans; i++) {
        double idle_s[64];
        struct prediction p = evaluate(evaluator, &setting.plans[i]);
        ck_assert_int_le(p.num_stages, 64);
        evaluate_idle(evaluator, &setting.plans[i], idle_s);
        ck_assert_double_eq(idle_s[p.busiest_stage], p.time.bubble_s);
        for (int stage = 0; stage < p.num_stages; stage++)
            ck_assert_msg(idle_s[stage] >= -1e-9 * p.step_s && idle_s[stage] <= p.step_s,
                          "%s, stage %d idles %g of %g s", setting.texts[i], stage, idle_s[stage],
                          p.step_s);
    }
    evaluator_free(evaluator);
}

START_TEST(stages_idle_at_most_a_step_and_the_busiest_for_the_bubble)
{
    settings_each(_i, check_idle);
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
        ck_assert_msg(fabs(m->allocated_bytes / allocated_bytes - 1) < 1e-9,
                      "%s: parts of memory do not sum to allocated_bytes", layout);
        ck_assert_msg(fabs(m->total_bytes / total_bytes - 1) < 1e-9,
                      "%s: parts of memory do not sum to total_bytes", layout);
        const double *part = &m->weights_bytes;
        for (size_t i = 0; i < sizeof *m / sizeof *part; i++)
            ck_assert_msg(part[i] >= 0, "%s, stage %d: part %zu of memory is %g bytes", layout, s,
                          i, part[i]);
        peak_bytes = fmax(peak_bytes, m->total_bytes);
    }
    ck_assert_double_eq(p->peak_memory_bytes, peak_bytes);
    ck_assert_double_eq(p->stages[p->peak_stage].total_bytes, peak_bytes);
    ck_assert_int_eq(p->fits, peak_bytes <= memory_fits_bytes(&setting.system));
}

START_TEST(parts_of_the_memory_are_positive_and_add_up)
{
    settings_each_prediction(_i, check_memory);
}
END_TEST

static void check_rates(const struct prediction *p, const char *layout)
{
    ck_assert_msg(0 < p->mfu && p->mfu <= p->hfu * (1 + 1e-9) && p->hfu <= 1,
                  "%s: the MFU %g and HFU %g are not in order between 0 and 1", layout, p->mfu,
                  p->hfu);
    double tokens = setting.model.batch * setting.model.seq;
    ck_assert_double_eq_tol(p->tokens_per_s * p->step_s, tokens, 1e-9 * tokens);
    ck_assert_double_lt(p->step_low_s, p->step_s);
    ck_assert_double_gt(p->step_high_s, p->step_s);
}

START_TEST(useful_flops_are_at_most_executed_flops_which_are_below_peak)
{
    settings_each_prediction(_i, check_rates);
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

/* One evaluator (which caches costs) predicts plans in random order with repetitions. The results
 * are compared with those of new evaluators. */
static void check_memo(void)
{
    struct evaluator *used = evaluator_new(&setting.system, &setting.model);
    for (int i = 0; i < 3 * setting.num_plans; i++) {
        const struct plan *plan = &setting.plans[rand() % setting.num_plans];
        struct evaluator *fresh = evaluator_new(&setting.system, &setting.model);
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
    settings_each(_i, check_memo);
}
END_TEST

/* Predicts each plan with its number of data ranks multiplied by `times`. */
static void check_turned(struct evaluator *used, const struct system *system, int times)
{
    evaluator_turn_to(used, system);
    for (int i = 0; i < setting.num_plans; i++) {
        struct plan plan = setting.plans[rand() % setting.num_plans];
        struct err ignored = { 0 };
        plan.dp *= times;
        if (plan_check(&plan, &setting.model, setting.model.batch, system->num_gpus, &ignored))
            continue;
        struct evaluator *fresh = evaluator_new(system, &setting.model);
        struct prediction expected = evaluate(fresh, &plan);
        struct prediction got = evaluate(used, &plan);
        check_same(&got, &expected);
        ck_assert_double_eq(evaluate_bound_s(used, &plan), evaluate_bound_s(fresh, &plan));
        evaluator_free(fresh);
    }
}

/* One evaluator is used with several numbers of GPUs and again with the first. */
static void check_counts(void)
{
    const int times[] = { 1, 2, 4, 1 };
    struct evaluator *used = evaluator_new(&setting.system, &setting.model);
    for (int i = 0; i < (int)LENGTH(times); i++) {
        struct system system = setting.system;
        system.num_gpus *= times[i];
        check_turned(used, &system, times[i]);
    }
    evaluator_free(used);
}

START_TEST(a_prediction_does_not_depend_on_the_counts_of_gpus_before_it)
{
    srand((unsigned)_i);
    settings_each(_i, check_counts);
}
END_TEST

/* These plans differ only in the time that their overlapped pairs of passes save. An evaluator
 * remembers the pipeline that it timed last, and must not reuse that time for another pipeline. */
START_TEST(what_pairs_save_is_timed_anew)
{
    static const char *const layouts[] = {
        "tp1 ep8 pp2 mb1 vpp2 schedule=dualpipev overlap=grad,p2p,ep",
        "tp1 ep8 pp2 mb1 vpp2 schedule=dualpipev overlap=grad,p2p"
    };
    double step_s[2];
    struct plan plans[2];
    setting_load("dgx-h100", "megatron-core", "mixtral-8x7b", 16, 64);
    struct evaluator *both = evaluator_new(&setting.system, &setting.model);
    for (int i = 0; i < 2; i++) {
        ck_assert(setting_read_plan(layouts[i], &plans[i]));
        struct evaluator *own = evaluator_new(&setting.system, &setting.model);
        step_s[i] = evaluate_step_s(own, &plans[i]);
        evaluator_free(own);
    }
    ck_assert_double_lt(step_s[0], step_s[1]);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(evaluate_step_s(both, &plans[i % 2]), step_s[i % 2]);
    evaluator_free(both);
    setting_release();
}
END_TEST

/* With 6 tensor ranks in nodes of 8 GPUs, the first tensor group is on one node, the second on two.
 * So sums on 12 GPUs are slower than on 6, although the stride of the group is the same. */
START_TEST(a_group_that_crosses_nodes_on_more_gpus_is_timed_again)
{
    setting_load("dgx-h100", "megatron-core", "gpt3-175b", 64, 256);
    struct system system = setting.system;
    struct evaluator *used = evaluator_new(&system, &setting.model);
    struct plan plan = plan_default();
    double tensor_s[2];
    plan.tp = 6;
    for (plan.dp = 1; plan.dp <= 2; plan.dp++) {
        system.num_gpus = plan_ranks(&plan);
        evaluator_turn_to(used, &system);
        struct evaluator *fresh = evaluator_new(&system, &setting.model);
        struct prediction expected = evaluate(fresh, &plan);
        struct prediction got = evaluate(used, &plan);
        check_same(&got, &expected);
        /* with twice the data ranks each rank has half as many microbatches */
        tensor_s[plan.dp - 1] = got.time.tensor_comm_s * plan.dp;
        evaluator_free(fresh);
    }
    ck_assert_double_gt(tensor_s[1], 2 * tensor_s[0]);
    evaluator_free(used);
    setting_release();
}
END_TEST

/* --- hand calculations --------------------------------------------------------------------------
 */

/* A pipeline of such wide layers that an embedding of 128 words, and messages, are negligible. */
static void load_uniform(int pp, int vpp, int num_microbatches)
{
    setting_load("dgx-h100", "xla", "gpt3-13b", 8, num_microbatches);
    struct model *model = &setting.model;
    model->layers = 4 * pp * vpp;
    model->vocab = 128;
    model->tied = false;
    setting.system.num_gpus = pp;
    setting.system.stack.host.step_s = 0;
    setting.system.profile.intra_latency_factor = 1e-6;
    setting.system.profile.intra_bandwidth_factor = 1e6;
}

static struct prediction predict_layout(const char *layout, struct evaluator **evaluator)
{
    struct plan *plan = &setting.plans[0];
    ck_assert_msg(setting_read_plan(layout, plan), "%s", layout);
    *evaluator = evaluator_new(&setting.system, &setting.model);
    return evaluate(*evaluator, plan);
}

/* The bubble is (p - 1)/m of the useful time, or (p - 1)/(mv) if interleaved. The tolerance of 1 %
 * is for embedding and head. */
static void check_bubble(const char *layout, int pp, int vpp, int num_microbatches)
{
    struct evaluator *evaluator;
    load_uniform(pp, vpp, num_microbatches);
    struct prediction p = predict_layout(layout, &evaluator);
    double useful_s = p.step_s - p.time.bubble_s - p.time.optimizer_s;
    double expected = (pp - 1.0) / (num_microbatches * vpp);
    ck_assert_double_eq_tol(p.time.bubble_s / useful_s / expected, 1, 0.01);
    evaluator_free(evaluator);
    setting_release();
}

START_TEST(the_bubble_is_p_minus_1_microbatches)
{
    check_bubble("pp4", 4, 1, 8);
    check_bubble("pp8", 8, 1, 32);
    check_bubble("pp4 schedule=gpipe", 4, 1, 8);
    check_bubble("pp4 vpp2", 4, 2, 8);
    check_bubble("pp8 vpp4", 8, 4, 64);
}
END_TEST

/* Each of 8 data ranks computes its share of 256 sequences, 2 at a time. */
START_TEST(a_replicas_batch_is_divided_into_microbatches)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "gpt3-1.3b", SETTING_GPUS, SETTING_BATCH);
    struct prediction p = predict_layout("tp8 mb2", &evaluator);
    ck_assert_int_eq(p.num_microbatches, 16);
    ck_assert_int_eq(p.num_stages, 1);
    evaluator_free(evaluator);
}
END_TEST

/* With 8 microbatches and equal layers, a stage of 1 layer works 1/13 as long as one of 13 layers,
 * which is the busiest and holds the most weights. The unit of time is the forward and backward of
 * one layer. The busiest, last stage waits for the 3 stages before it at the start and at the end,
 * 3 units in all, so it works for 8 x 13 of 8 x 13 + 3 units. All stages wait for its update, which
 * has 13 times the weights of a layer. */
START_TEST(stages_with_few_layers_wait_for_the_longest)
{
    struct evaluator *evaluator;
    double idle_s[4];
    load_uniform(4, 1, 8);
    struct prediction p = predict_layout("pp4 stages=1,1,1,13", &evaluator);
    evaluate_idle(evaluator, &setting.plans[0], idle_s);
    double passes_s = p.step_s - p.time.optimizer_s - p.time.other_s - p.time.data_comm_s;
    double short_s = passes_s * (1 - 8 / (8.0 * 13 + 3)) + p.time.optimizer_s * (1 - 1 / 13.0);
    for (int stage = 0; stage < 3; stage++)
        ck_assert_double_eq_tol(idle_s[stage] / short_s, 1, 0.01);
    ck_assert_double_eq_tol(idle_s[3] / passes_s, 3 / (8.0 * 13 + 3), 0.01);
    evaluator_free(evaluator);
    setting_release();
}
END_TEST

START_TEST(the_stage_with_most_layers_is_busiest)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "gpt3-1.3b", 4, 64);
    struct prediction p = predict_layout("pp4 stages=4,12,4,4", &evaluator);
    ck_assert_int_eq(p.busiest_stage, 1);
    ck_assert_double_gt(p.stages[1].weights_bytes, p.stages[0].weights_bytes);
    evaluator_free(evaluator);
}
END_TEST

/* Two stages of tp 4 fill a node and compute 32 microbatches of 2 sequences. The last stage has the
 * head. Each microbatch sends one message in each direction, with two bytes per value. */
static double messages_s(const char *stack, const char *layout, double *expected_alone_s)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", stack, "gpt3-1.3b", 8, 64);
    struct prediction p = predict_layout(layout, &evaluator);
    struct plan *plan = &setting.plans[0];
    struct comm_group pair = axis_pair(&setting.system, plan, PIPELINE_RANKS);
    double bytes = 2.0 * 2 * 2048 * 2048;
    double tp = plan->tp;
    bool is_split = plan->sp || setting.system.stack.pipeline.scatter_gather_p2p;
    double message_s = point_to_point_s(&pair, is_split ? bytes / tp : bytes);
    if (!plan->sp && is_split) {
        struct comm_group tensor = network_plan_group(&setting.system, plan, TENSOR_RANKS);
        message_s += collective_s(&tensor, COLLECTIVE_ALL_GATHER, bytes);
    }
    *expected_alone_s = 32 * message_s;
    double got_s = p.time.pipeline_comm_s;
    evaluator_free(evaluator);
    setting_release();
    return got_s;
}

/* Depending on layout and stack, a message is the whole tensor, a tensor rank's share of it, or a
 * share that is gathered on arrival. */
START_TEST(an_end_stage_sends_one_message_per_microbatch)
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

/* The 8 data groups of a node share its NIC of 50 GB/s. The 1.3156e9 gradients of 4 bytes leave the
 * node twice, except for the 1/8 that stays in the node: 2 x 7/8 x 4 x 1.3156e9 / 50e9 = 0.184 s.
 */
START_TEST(gradients_of_a_node_share_its_nic)
{
    struct evaluator *evaluator;
    setting_load("hgx-h100-1ndr", "megatron-core", "gpt3-1.3b", 64, 64);
    struct prediction p = predict_layout("tp8 dp8 mb1 overlap=none", &evaluator);
    double wire_s = 2 * 7.0 / 8 * 4 * model_parameters(&setting.model) / 50e9;
    ck_assert_double_eq_tol(wire_s, 0.184, 0.0005);
    ck_assert_double_eq_tol(p.time.data_comm_s / wire_s, 1, 0.05);
    evaluator_free(evaluator);
    setting_release();
}
END_TEST

static const struct {
    const char *stack;
    int buckets;        /* enum pipeline_buckets */
    double least, most; /* share of the reduction that is hidden by the backward */
} bucketed[] = {
    { "torch-ddp", PIPELINE_BUCKETS_ALL, 0.4, 1 },
    { "torchtitan", PIPELINE_BUCKETS_ALL, 0.4, 1 },
    { "megatron-core", PIPELINE_BUCKETS_NONE, 0, 0 },
    { "megatron-core", PIPELINE_BUCKETS_FIRST, 0.2, 1 },
};

/* In a pipeline, PyTorch's gradient buckets (except the last one) are reduced on every stage while
 * the last backward runs, so at most its duration is hidden. Megatron reduces the gradients of a
 * chunk as a whole. */
START_TEST(buckets_of_a_pipeline_are_reduced_during_the_last_backward)
{
    struct evaluator *evaluator;
    setting_load("dgx-a100-80g", bucketed[_i].stack, "gpt3-6.7b", 64, 64);
    if (strcmp(bucketed[_i].stack, "megatron-core") == 0)
        setting.system.stack.shards.pipeline_buckets = bucketed[_i].buckets;
    ck_assert_int_eq(setting.system.stack.shards.pipeline_buckets, bucketed[_i].buckets);
    double none_s = predict_layout("pp8 mb1 recompute=full overlap=none", &evaluator).step_s;
    evaluator_free(evaluator);
    double grad_s = predict_layout("pp8 mb1 recompute=full overlap=grad", &evaluator).step_s;
    struct data_groups groups = network_data_groups(&setting.system, &setting.plans[0]);
    double parameters =
        4 * model_layer_parameters(&setting.model) + /* the parameters of the first stage */
        model_embedding_parameters(&setting.model);
    double comm_s = collective_s(&groups.shard, COLLECTIVE_ALL_REDUCE, 4 * parameters);
    ck_assert_double_ge(none_s - grad_s, bucketed[_i].least * comm_s);
    ck_assert_double_le(none_s - grad_s, bucketed[_i].most * comm_s);
    evaluator_free(evaluator);
    setting_release();
}
END_TEST

/* The first and last stage sum the gradients of a tied embedding of 50304 rows (50257, padded to a
 * multiple of 128) of 2048 values. */
START_TEST(the_first_and_last_stage_reduce_a_tied_table)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "gpt3-1.3b", 4, 64);
    struct prediction p = predict_layout("pp4 stages=1,1,1,21", &evaluator);
    struct comm_group pair = axis_pair(&setting.system, &setting.plans[0], PIPELINE_RANKS);
    double expected_s = collective_s(&pair, COLLECTIVE_ALL_REDUCE, 4.0 * 50304 * 2048);
    ck_assert_int_eq(p.busiest_stage, 3);
    ck_assert_double_eq_tol(p.time.data_comm_s, expected_s, 1e-9 * expected_s);
    evaluator_free(evaluator);
    struct prediction middle = predict_layout("pp4 stages=1,21,1,1", &evaluator);
    ck_assert_double_eq(middle.time.data_comm_s, 0);
    evaluator_free(evaluator);
    /* untied embeddings are not summed, unless the last stage has an embedding too; frozen ones are
     * never summed */
    setting.model.tied = false;
    ck_assert_double_eq(predict_layout("pp4 stages=1,1,1,21", &evaluator).time.data_comm_s, 0);
    evaluator_free(evaluator);
    setting.model.mtp = 1;
    double later_s = predict_layout("pp4 stages=1,1,1,21", &evaluator).time.data_comm_s;
    ck_assert_double_eq_tol(later_s, expected_s, 1e-9 * expected_s);
    evaluator_free(evaluator);
    setting.model.mtp = 0;
    setting.model.tied = true;
    setting.model.lora = 8;
    ck_assert_double_eq(predict_layout("pp4 stages=1,1,1,21", &evaluator).time.data_comm_s, 0);
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

/* The model has 12 x 65536 x 1048576^2 = 8.6e17 parameters, besides the embeddings. It runs on a
 * million GPUs. */
START_TEST(a_quintillion_parameters_on_a_million_gpus_are_finite)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "gpt3-175b", 1 << 20, 1 << 20);
    struct model *model = &setting.model;
    model->layers = 1 << 16;
    model->hidden = 1 << 20;
    model->heads = model->kv_heads = 1 << 13;
    model->head_dim = 128;
    model->ffn = 1 << 22;
    ck_assert_double_gt(model_parameters(model), 8e17);
    struct prediction p = predict_layout("tp8 pp64 vpp4 sp zero1", &evaluator);
    check_finite(&p);
    check_time_parts(&p, "tp8 pp64 vpp4 sp zero1");
    ck_assert(!p.fits);
    evaluator_free(evaluator);
}
END_TEST

START_TEST(one_token_on_one_gpu_is_finite)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "tiny", 1, 1);
    setting.model.seq = 1;
    struct prediction p = predict_layout("mb1", &evaluator);
    check_finite(&p);
    check_time_parts(&p, "mb1");
    evaluator_free(evaluator);
}
END_TEST

START_TEST(many_microbatches_are_finite)
{
    struct evaluator *evaluator;
    setting_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8, 1 << 18);
    struct prediction p = predict_layout("pp8 vpp3", &evaluator);
    check_finite(&p);
    check_time_parts(&p, "pp8 vpp3");
    evaluator_free(evaluator);
}
END_TEST

/* --- errors -------------------------------------------------------------------------------------
 */

START_TEST(a_type_that_the_gpu_does_not_multiply_is_refused)
{
    struct err err = { 0 };
    struct plan plan = plan_default();
    setting_load("dgx1-v100", "megatron-2021", "gpt3-1.3b", SETTING_GPUS, SETTING_BATCH);
    ck_assert(!system_check(&setting.system, &plan, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "dtype");
}
END_TEST

START_TEST(nodes_without_a_network_are_refused)
{
    struct err err = { 0 };
    struct plan plan = plan_default();
    setting_load("dgx-h100", "megatron-core", "gpt3-1.3b", SETTING_GPUS, SETTING_BATCH);
    setting.system.cluster.num_levels = 1;
    ck_assert(!system_check(&setting.system, &plan, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "gpus");
    setting.system.num_gpus = 8;
    err = (struct err){ 0 };
    ck_assert(system_check(&setting.system, &plan, &err));
}
END_TEST

START_TEST(parts_have_distinct_names_and_labels)
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
    int n = settings_num_clusters();
    TCase *tc = tcase_create("simulate");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, NULL, setting_release);
    tcase_add_loop_test(tc, parts_of_the_time_are_positive_and_add_up, 0, TURNS(n));
    tcase_add_loop_test(tc, stages_idle_at_most_a_step_and_the_busiest_for_the_bubble, 0, TURNS(n));
    tcase_add_loop_test(tc, parts_of_the_memory_are_positive_and_add_up, 0, TURNS(n));
    tcase_add_loop_test(tc, useful_flops_are_at_most_executed_flops_which_are_below_peak, 0,
                        TURNS(n));
    tcase_add_loop_test(tc, a_prediction_does_not_depend_on_those_before_it, 0, TURNS(n));
    tcase_add_loop_test(tc, a_prediction_does_not_depend_on_the_counts_of_gpus_before_it, 0,
                        TURNS(n));
    tcase_add_test(tc, a_group_that_crosses_nodes_on_more_gpus_is_timed_again);
    tcase_add_test(tc, the_bubble_is_p_minus_1_microbatches);
    tcase_add_test(tc, a_replicas_batch_is_divided_into_microbatches);
    tcase_add_test(tc, an_end_stage_sends_one_message_per_microbatch);
    tcase_add_test(tc, gradients_of_a_node_share_its_nic);
    tcase_add_test(tc, what_pairs_save_is_timed_anew);
    tcase_add_loop_test(tc, buckets_of_a_pipeline_are_reduced_during_the_last_backward, 0,
                        LENGTH(bucketed));
    tcase_add_test(tc, the_first_and_last_stage_reduce_a_tied_table);
    tcase_add_test(tc, stages_with_few_layers_wait_for_the_longest);
    tcase_add_test(tc, the_stage_with_most_layers_is_busiest);
    tcase_add_test(tc, a_quintillion_parameters_on_a_million_gpus_are_finite);
    tcase_add_test(tc, one_token_on_one_gpu_is_finite);
    tcase_add_test(tc, many_microbatches_are_finite);
    tcase_add_test(tc, a_type_that_the_gpu_does_not_multiply_is_refused);
    tcase_add_test(tc, nodes_without_a_network_are_refused);
    tcase_add_test(tc, parts_have_distinct_names_and_labels);
    Suite *s = suite_create("sim/engine/simulate");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
