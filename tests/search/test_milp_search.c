#include "models/blocks.h"
#include "search/milp/milp.h"
#include "search/uneven/joint.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static struct system hardware;
static struct model model;

static void load(const char *name, int num_gpus)
{
    struct err err = { 0 };
    bool ok = system_load("dgx-h100", "megatron-core", num_gpus, &hardware, &err) &&
              model_load(name, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    model.batch = 256;
}

static void tear_down(void)
{
    system_release(&hardware);
}

/* With a vocabulary of 128k the head takes longer than two layers, so stages with different numbers
 * of layers are faster. */
static struct search_request request_for(const char *method, const char *fix)
{
    return (struct search_request){ .system = &hardware,
                                    .model = &model,
                                    .method = method,
                                    .fix = fix,
                                    .base = plan_default(),
                                    .uneven = true,
                                    .top = 5,
                                    .jobs = 2 };
}

static double step_s(const struct search_result *result)
{
    ck_assert_int_gt(result->num_top, 0);
    return result->top[0].prediction.step_s;
}

/* --- comparison with dynamic programming ------------------------------------------------------ */

static const char *const fixed[] = { "pp4 vpp1", "pp8 vpp1",           "pp16 vpp1 mb1",
                                     "pp4 vpp1", "pp4 vpp1 mb1 zero1", "pp8 vpp1 mb2 mtp=apart" };

/* Every third of 12 blocks is three times as wide. */
static void mix_blocks(void)
{
    struct block_kind own = model_kind(&model, 0), wide = own;
    wide.ffn *= 3;
    model.layers = 12;
    model.blocks = (struct blocks){
        .kinds = { wide, own }, .runs = { { 0, 1 }, { 1, 2 } }, .num_kinds = 2, .num_runs = 2
    };
}

START_TEST(the_milp_answer_is_no_faster_than_the_proved_optimum_and_states_its_gap)
{
    load("llama3-8b", 32);
    if (_i == 3)
        mix_blocks();
    model.mtp = _i > 3;
    struct search_request dp = request_for("dp", fixed[_i]);
    struct search_request milp = request_for("milp", fixed[_i]);
    dp.recompute_mixes = milp.recompute_mixes = true;
    struct search_result proved = search_of(&dp);
    struct search_result found = search_of(&milp);
    ck_assert(proved.proved_optimal);
    ck_assert_double_ge(step_s(&found), step_s(&proved) * (1 - 1e-9));
    ck_assert_double_le(step_s(&found), step_s(&proved) * 1.05);
    ck_assert_double_le(found.lower_bound_s, step_s(&proved) * (1 + 1e-9));
    ck_assert_double_ge(found.lower_bound_s, step_s(&found) * 0.9);
    if (found.proved_optimal)
        ck_assert_double_eq_tol(step_s(&found), step_s(&proved), 1e-8 * step_s(&proved));
    search_result_release(&proved);
    search_result_release(&found);
}
END_TEST

START_TEST(uneven_stages_are_faster_than_the_best_even_ones)
{
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", "pp8 vpp1");
    struct search_result result = search_of(&request);
    ck_assert_ptr_nonnull(result.even_best);
    ck_assert_double_lt(step_s(&result), 0.99 * result.even_best->prediction.step_s);
    ck_assert_ptr_nonnull(
        strstr(result.space_name, "sum of the stages' passes + (m-1) x the longest pass"));
    search_result_release(&result);
}
END_TEST

START_TEST(the_answer_does_not_depend_on_the_number_of_jobs)
{
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", "pp8");
    request.recompute_mixes = true;
    request.jobs = 1;
    struct search_result one = search_of(&request);
    request.jobs = 7;
    struct search_result seven = search_of(&request);
    ck_assert_int_eq(one.num_top, seven.num_top);
    for (int i = 0; i < one.num_top; i++)
        ck_assert(plan_equal(&one.top[i].plan, &seven.top[i].plan));
    ck_assert_double_eq(one.evaluated, seven.evaluated);
    ck_assert_double_eq(one.lower_bound_s, seven.lower_bound_s);
    search_result_release(&one);
    search_result_release(&seven);
}
END_TEST

/* --- limits that concern several stages together ---------------------------------------- */

static int count_layers(const struct plan *plan)
{
    int kinds = 0;
    for (int i = 0; i < plan->num_chunk_layers; i++) {
        bool is_new = true;
        for (int j = 0; j < i; j++)
            is_new = is_new && plan->chunk_layers[i] != plan->chunk_layers[j];
        kinds += is_new;
    }
    return kinds;
}

START_TEST(a_limit_on_types_of_stages_holds)
{
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", "pp8 vpp1");
    struct search_result any = search_of(&request);
    ck_assert_int_gt(count_layers(&any.top[0].plan), 2);
    request.stage_types = 2;
    struct search_result two = search_of(&request);
    ck_assert_int_eq(count_layers(&two.top[0].plan), 2);
    ck_assert_double_ge(step_s(&two), step_s(&any));
    request.stage_types = 1;
    struct search_result one = search_of(&request);
    ck_assert_ptr_null(one.top[0].plan.chunk_layers);
    ck_assert_double_ge(step_s(&one), step_s(&two));
    search_result_release(&any);
    search_result_release(&two);
    search_result_release(&one);
}
END_TEST

/* The GPUs have so little memory that the first stages recompute more layers than the last. */
START_TEST(equal_recompute_on_all_stages_can_be_required)
{
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", "tp2 cp1 pp8 vpp1 mb2 zero1");
    request.forbid = "sp recompute=selective";
    request.recompute_mixes = true;
    request.max_memory_bytes = 16e9;
    struct search_result any = search_of(&request);
    ck_assert_int_eq(any.top[0].plan.recompute, RECOMPUTE_BLOCK);
    ck_assert_int_gt(any.top[0].plan.num_recompute_layers, 1);
    request.same_recompute = true;
    struct search_result same = search_of(&request);
    for (int i = 0; i < same.num_top; i++)
        ck_assert_int_le(same.top[i].plan.num_recompute_layers, 1);
    ck_assert_double_ge(step_s(&same), step_s(&any));
    ck_assert_double_le(same.lower_bound_s, step_s(&same));
    search_result_release(&any);
    search_result_release(&same);
}
END_TEST

/* Returns how many bytes the fullest host holds for the fastest plan, if host memory is not
 * limited. */
static double most_host_bytes(const struct search_request *request, const struct plan *plan)
{
    struct prepared prepared;
    struct arena arena = { 0 };
    struct err err = { 0 };
    ck_assert(search_prepare(request, &arena, &prepared, &err));
    double bytes = joint_most_host_bytes(&prepared.search, plan);
    arena_release(&arena);
    return bytes;
}

/* The host of the first stages also holds the embedding, so it is the fullest. With a little less
 * host memory these stages have fewer layers, and with much less no plan fits. */
START_TEST(offloaded_state_stays_within_host_memory)
{
    load("llama3-8b", 32);
    struct search_request request =
        request_for("milp", "tp1 pp8 vpp1 cp1 zero1 mb1 offload=optimizer recompute=none");
    struct search_result any = search_of(&request);
    double bytes = most_host_bytes(&request, &any.top[0].plan);
    request.host_memory_bytes = 0.97 * bytes;
    struct search_result less = search_of(&request);
    ck_assert_double_le(most_host_bytes(&request, &less.top[0].plan), request.host_memory_bytes);
    ck_assert_ptr_nonnull(less.top[0].plan.chunk_layers);
    ck_assert(!plan_equal(&less.top[0].plan, &any.top[0].plan));
    ck_assert_double_ge(step_s(&less), step_s(&any));
    search_result_release(&any);
    search_result_release(&less);

    struct err err = { 0 };
    request.host_memory_bytes = 0.5 * bytes;
    ck_assert(!search_run(&request, &less, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "--host-memory");
    search_result_release(&less);
}
END_TEST

/* The step time is the same with a limit that no plan exceeds, without a limit, and with the method
 * bnb. */
START_TEST(a_limit_that_all_hosts_keep_changes_nothing)
{
    const char *words = "tp1 pp8 vpp1 cp1 zero1 mb1 offload=optimizer recompute=none";
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", words);
    struct search_result any = search_of(&request);
    request.host_memory_bytes = 1e15;
    struct search_result limited = search_of(&request);
    request = request_for("bnb", words);
    struct search_result by_dynamic = search_of(&request);
    ck_assert_ptr_nonnull(any.top[0].plan.chunk_layers);
    ck_assert(plan_equal(&limited.top[0].plan, &any.top[0].plan));
    ck_assert_double_eq_tol(step_s(&by_dynamic), step_s(&any), 1e-9);
    search_result_release(&any);
    search_result_release(&by_dynamic);
    search_result_release(&limited);
}
END_TEST

/* The host holds 12 bytes of Adam's state and 4 of fp32 gradients per parameter. Each stage has two
 * of the four ranks of its node. The bytes are computed by hand for a model whose embedding and
 * head are equally large. */
START_TEST(a_host_holds_the_state_of_its_nodes_ranks)
{
    load("llama3-8b", 16);
    struct err err = { 0 };
    struct plan plan;
    struct arena arena = { 0 };
    struct search_request request = request_for("milp", "offload=optimizer");
    struct prepared prepared;
    ck_assert(plan_parse("tp4 pp4 dp1 mb1 offload=optimizer", &arena, &plan, &err));
    ck_assert(search_prepare(&request, &arena, &prepared, &err));
    /* Stages 0 and 1 share one node, stages 2 and 3 the other. Tensor ranks divide all parameters
     * of a layer except the norms. */
    double table = 128512.0 * 4096 / 4; /* the vocabulary is padded to a multiple of 128 per rank */
    double norms = 2 * 4096;
    double layer = (model_layer_parameters(&model) - norms) / 4 + norms;
    double expected = 16 * 4 * (16 * layer + table + 4096);
    ck_assert_double_eq_tol(joint_most_host_bytes(&prepared.search, &plan) / expected, 1, 1e-9);
    double mean = 16 * 4 * (16 * layer + table + 4096.0 / 2);
    ck_assert_double_eq_tol(joint_mean_host_bytes(&prepared.search, &plan) / mean, 1, 1e-9);
    /* Each node has one rank of every stage, so it has all parameters once. */
    ck_assert(plan_parse("tp1 pp4 dp1 mb1 offload=optimizer", &arena, &plan, &err));
    double all = 16 * (32 * model_layer_parameters(&model) + 2 * 128256.0 * 4096 + 4096);
    ck_assert_double_eq_tol(joint_most_host_bytes(&prepared.search, &plan) / all, 1, 1e-9);
    arena_release(&arena);
}
END_TEST

static double host_bytes(const struct search *search, const char *layout,
                         double of(const struct search *search, const struct plan *plan))
{
    struct err err = { 0 };
    struct plan plan;
    struct arena arena = { 0 };
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s", err.msg);
    double bytes = of(search, &plan);
    arena_release(&arena);
    return bytes;
}

static double kept_on_host(const struct search *search, const char *layout)
{
    return host_bytes(search, layout, joint_most_host_bytes);
}

START_TEST(a_host_holds_the_sum_of_state_and_activations)
{
    load("llama3-8b", 16);
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct search_request request = request_for("milp", "offload=optimizer");
    struct prepared prepared;
    ck_assert(search_prepare(&request, &arena, &prepared, &err));
    const struct search *search = &prepared.search;
    double state = kept_on_host(search, "tp4 pp1 dp4 mb1 offload=optimizer");
    double activations = kept_on_host(search, "tp4 pp1 dp4 mb1 offload=activations");
    double both = kept_on_host(search, "tp4 pp1 dp4 mb1 offload=optimizer,activations");
    ck_assert_double_gt(activations, 0);
    ck_assert_double_gt(state, activations / 100);
    ck_assert_double_eq_tol(both / (state + activations), 1, 1e-12);
    arena_release(&arena);
}
END_TEST

/* Each of the node's eight ranks keeps activations on the host. Without a pipeline a rank keeps the
 * activations of 30 of the 32 layers, because two layers stay on the GPU. On the first of two
 * stages it keeps 16 layers' activations, for two microbatches in flight. */
START_TEST(a_host_holds_activations_of_all_microbatches_in_flight)
{
    load("llama3-8b", 16);
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct search_request request = request_for("milp", "offload=activations");
    struct prepared prepared;
    ck_assert(search_prepare(&request, &arena, &prepared, &err));
    const struct search *search = &prepared.search;
    double alone = kept_on_host(search, "tp4 pp1 dp4 mb1 offload=activations");
    double piped = kept_on_host(search, "tp4 pp2 dp2 mb1 offload=activations");
    double inputs = kept_on_host(search, "tp4 pp1 dp4 mb1 recompute=full offload=activations");
    ck_assert_double_eq_tol(piped / alone, 2 * 16 / 30.0, 1e-12);
    /* with full recompute a layer keeps its input in bf16; without it, several such tensors */
    ck_assert_double_eq_tol(inputs, 8 * 30 * 2.0 * model.seq * model.hidden, 1);
    ck_assert_double_gt(alone, 4 * inputs);
    arena_release(&arena);
}
END_TEST

/* joint_mean_host_bytes counts the microbatches in flight on the stage that has the fewest: one
 * microbatch, on the last stage. A node has eight ranks, or four if the job has only four. */
START_TEST(the_mean_host_holds_activations_of_the_fewest_microbatches_in_flight)
{
    load("llama3-8b", 16);
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct search_request request = request_for("milp", "offload=activations");
    struct prepared prepared;
    ck_assert(search_prepare(&request, &arena, &prepared, &err));
    const struct search *search = &prepared.search;
    double layer = kept_on_host(search, "tp4 pp1 dp4 mb1 offload=activations") / 30 / 8;
    static const struct {
        const char *layout;
        int layers; /* layers whose activations a host holds, summed over its ranks */
    } rows[] = { { "tp4 pp1 dp4 mb1 offload=activations", 30 * 8 },
                 { "tp4 pp1 dp1 mb1 offload=activations", 30 * 4 },
                 { "tp4 pp2 dp2 mb1 offload=activations", 16 * 8 },
                 { "tp4 pp4 dp1 mb1 offload=activations", 8 * 8 } };
    for (int i = 0; i < LENGTH(rows); i++)
        ck_assert_double_eq_tol(host_bytes(search, rows[i].layout, joint_mean_host_bytes) / layer,
                                rows[i].layers, 1e-9);
    arena_release(&arena);
}
END_TEST

/* Stages are of one type if they have equally many layers of each kind and recompute equally many
 * layers. */
static const struct {
    const char *layout;
    int types;
    bool recomputes_alike; /* whether all stages recompute the same number of layers, or each
                            * stage recomputes all its layers */
} divided[] = {
    { "tp1 pp4 dp1 mb1", 1, true },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9", 2, true },
    { "tp1 pp4 dp1 mb1 stages=7,8,8,9", 3, true },
    { "tp1 pp4 dp1 mb1 stages=6,7,9,10", 4, true },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9 recompute=block:1", 2, true },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9 recompute=full", 2, true },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9 recompute=block:7,9,7,9", 2, true },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9 recompute=block:7,9,7,8", 3, false },
    { "tp1 pp4 dp1 mb1 stages=7,9,7,9 recompute=block:1,1,2,1", 3, false },
    { "tp1 pp4 dp1 mb1 recompute=block:1,2,2,3", 3, false },
};

START_TEST(limits_on_types_and_recompute_hold_exactly_for_the_plans_within_them)
{
    load("llama3-8b", 4);
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    struct search_request request = { 0 };
    struct space space = { .model = &model };
    struct search search = { .request = &request, .system = &hardware, .space = &space };
    ck_assert_msg(plan_parse(divided[_i].layout, &arena, &plan, &err), "%s", err.msg);
    for (request.stage_types = 0; request.stage_types <= 5; request.stage_types++)
        ck_assert(joint_holds(&search, &plan) ==
                  (request.stage_types == 0 || request.stage_types >= divided[_i].types));
    request.stage_types = 0;
    request.same_recompute = true;
    ck_assert(joint_holds(&search, &plan) == divided[_i].recomputes_alike);
    arena_release(&arena);
}
END_TEST

/* The kinds of nodes of a job: how many ranks of each stage they have. Each kind is listed once.
 * The ranks of a stage are adjacent unless pp comes before dp in the order. */
static const struct {
    const char *layout;
    int node_size, num_kinds, ranks[4][4]; /* [kind][stage] */
} jobs[] = {
    { "tp8 pp2 dp1", 8, 2, { { 8, 0 }, { 0, 8 } } },
    { "tp2 pp2 dp4", 8, 2, { { 8, 0 }, { 0, 8 } } },
    { "tp2 pp2 dp2", 8, 1, { { 4, 4 } } },
    { "tp2 pp4 dp2", 8, 2, { { 4, 4, 0, 0 }, { 0, 0, 4, 4 } } },
    { "tp1 pp2 dp3", 4, 2, { { 3, 1 }, { 0, 2 } } }, /* the second node is not full */
    { "tp2 pp2 dp4 order=tp-cp-pp-dp", 8, 1, { { 4, 4 } } },
    { "tp2 pp2 dp4 order=tp-cp-pp-dp", 2, 2, { { 2, 0 }, { 0, 2 } } },
    { "tp2 pp3 dp4 order=tp-cp-pp-dp", 4, 3, { { 2, 2, 0 }, { 2, 0, 2 }, { 0, 2, 2 } } },
    { "tp1 pp2 dp3 order=tp-cp-pp-dp", 4, 2, { { 2, 2 }, { 1, 1 } } },
    { "tp1 pp3 dp2 order=tp-cp-pp-dp", 2, 3, { { 1, 1, 0 }, { 1, 0, 1 }, { 0, 1, 1 } } },
};

START_TEST(nodes_are_told_apart_by_their_ranks_of_each_stage)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    struct system system = { .cluster.levels[0].size = jobs[_i].node_size };
    struct search search = { .system = &system };
    ck_assert_msg(plan_parse(jobs[_i].layout, &arena, &plan, &err), "%s", err.msg);
    struct host_nodes nodes = joint_nodes(&search, &plan, &arena);
    ck_assert_int_eq(nodes.count, jobs[_i].num_kinds);
    for (int kind = 0; kind < nodes.count; kind++)
        for (int stage = 0; stage < plan.pp; stage++)
            ck_assert_double_eq(nodes.at[kind].ranks[stage], jobs[_i].ranks[kind][stage]);
    arena_release(&arena);
}
END_TEST

/* --- refusals and limits ---------------------------------------------------------------------- */

static void check_refusal(const struct search_request *request, const char *where, const char *says)
{
    struct search_result result;
    struct err err = { 0 };
    ck_assert(!search_run(request, &result, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, where);
    ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
    search_result_release(&result);
}

START_TEST(limits_over_several_stages_are_refused_by_other_methods)
{
    load("llama3-8b", 32);
    const char *const methods[] = { "bnb", "dp" };
    for (int i = 0; i < 2; i++) {
        struct search_request request = request_for(methods[i], "pp4");
        request.stage_types = 2;
        check_refusal(&request, "--stage-types", "milp");
        request.stage_types = 0;
        request.same_recompute = true;
        check_refusal(&request, "--same-recompute", "milp");
        request.same_recompute = false;
        request.host_memory_bytes = 1e12;
        check_refusal(&request, "--host-memory", "milp");
    }
    struct search_request nothing = request_for("milp", "pp4");
    nothing.host_memory_bytes = 1e12;
    check_refusal(&nothing, "--host-memory", "offload");
}
END_TEST

START_TEST(an_ended_search_proves_nothing)
{
    load("llama3-8b", 32);
    struct search_request request = request_for("milp", "pp8");
    request.interrupted = always;
    struct search_result result = search_of(&request);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved_optimal);
    ck_assert_double_lt(result.lower_bound_s, HUGE_VAL);
    search_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("milp_search");
    TCase *cases = tcase_create("milp_search");
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_loop_test(cases,
                        the_milp_answer_is_no_faster_than_the_proved_optimum_and_states_its_gap, 0,
                        LENGTH(fixed));
    tcase_add_test(cases, uneven_stages_are_faster_than_the_best_even_ones);
    tcase_add_test(cases, a_limit_on_types_of_stages_holds);
    tcase_add_test(cases, equal_recompute_on_all_stages_can_be_required);
    tcase_add_test(cases, offloaded_state_stays_within_host_memory);
    tcase_add_test(cases, a_limit_that_all_hosts_keep_changes_nothing);
    tcase_add_test(cases, a_host_holds_the_state_of_its_nodes_ranks);
    tcase_add_test(cases, a_host_holds_the_sum_of_state_and_activations);
    tcase_add_loop_test(cases, limits_on_types_and_recompute_hold_exactly_for_the_plans_within_them,
                        0, LENGTH(divided));
    tcase_add_loop_test(cases, nodes_are_told_apart_by_their_ranks_of_each_stage, 0, LENGTH(jobs));
    tcase_add_test(cases, a_host_holds_activations_of_all_microbatches_in_flight);
    tcase_add_test(cases, the_mean_host_holds_activations_of_the_fewest_microbatches_in_flight);
    tcase_add_test(cases, limits_over_several_stages_are_refused_by_other_methods);
    tcase_add_test(cases, an_ended_search_proves_nothing);
    suite_add_tcase(suite, cases);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_add_checked_fixture(threads, NULL, tear_down);
    tcase_add_test(threads, the_answer_does_not_depend_on_the_number_of_jobs);
    suite_add_tcase(suite, threads);
    return suite;
}

TEST_MAIN(suite)
