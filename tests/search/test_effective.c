#include "tests/testing.h"

#include "search/effective.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"

#include <math.h>

static struct instance instance;

/* In these instances copies to the host are slow and failures are frequent, so it matters over how
 * many ranks a plan shards its state. The plan with the shortest run, failures included, is then
 * not the plan with the fastest step. */
static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 16;
    for (int i = 0; i < 2; i++) {
        instance.system.cluster.levels[i].bytes_per_s /= 81;
        instance.system.cluster.levels[i].channel_bytes_per_s /= 81;
    }
    instance.system.gpu.pcie_bytes_per_s = 2e5;
    instance.system.gpu.mtbf_s = 2e5;
    instance.model.layers = 6;
    instance.model.batch = 48;
    instance.model.tokens = 1e10;
}

static void tear_down(void)
{
    instance_release(&instance);
}

/* The time of the shortest run, over all plans that fit. */
static double brute_s(void)
{
    double shortest_s = HUGE_VAL;
    struct naive_space space =
        naive_space_kept(&instance.model, instance.system.num_gpus, &instance.system);
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (int i = 0; i < space.count; i++) {
        struct scored_plan scored = { space.at[i], evaluate(evaluator, &space.at[i]) };
        if (scored.prediction.fits)
            shortest_s = fmin(shortest_s, effective_s(&instance.system, &instance.model, &scored));
    }
    evaluator_free(evaluator);
    free(space.at);
    return shortest_s;
}

static struct search_result run(int objective)
{
    struct search_request request = instance_request(&instance);
    request.objective = objective;
    request.top = 1;
    return search_of(&request);
}

START_TEST(the_cheapest_plan_has_the_shortest_run_with_failures)
{
    struct search_result by_cost = run(OBJECTIVE_COST), by_time = run(OBJECTIVE_TIME);
    double cost_s = effective_s(&instance.system, &instance.model, by_cost.top);
    double time_s = effective_s(&instance.system, &instance.model, by_time.top);
    ck_assert(by_cost.proved_optimal);
    ck_assert_int_eq(by_cost.num_top, 1);
    ck_assert_double_eq_tol(cost_s, brute_s(), 1e-9 * cost_s);
    ck_assert_double_lt(cost_s, time_s);
    ck_assert_double_gt(by_cost.top->prediction.step_s, by_time.top->prediction.step_s);
    search_result_release(&by_cost);
    search_result_release(&by_time);
}
END_TEST

/* Without a number of tokens the run's length is unknown, so the plan with the fastest step counts
 * as the cheapest. */
START_TEST(without_tokens_cost_and_time_rank_plans_alike)
{
    instance.model.tokens = 0;
    struct search_result by_cost = run(OBJECTIVE_COST), by_time = run(OBJECTIVE_TIME);
    ck_assert(plan_equal(&by_cost.top->plan, &by_time.top->plan));
    search_result_release(&by_cost);
    search_result_release(&by_time);
}
END_TEST

START_TEST(failures_do_not_change_a_search_for_step_time)
{
    struct search_result frequent = run(OBJECTIVE_TIME);
    instance.system.gpu.mtbf_s = 1e18;
    instance.system.gpu.pcie_bytes_per_s = 5e10;
    struct search_result rare = run(OBJECTIVE_TIME);
    ck_assert(plan_equal(&frequent.top->plan, &rare.top->plan));
    ck_assert_double_eq(frequent.top->prediction.step_s, rare.top->prediction.step_s);
    ck_assert_double_eq(frequent.evaluated, rare.evaluated);
    ck_assert(frequent.proved_optimal && rare.proved_optimal);
    search_result_release(&frequent);
    search_result_release(&rare);
}
END_TEST

START_TEST(an_interrupted_search_for_cost_proves_nothing)
{
    struct search_request request = instance_request(&instance);
    request.objective = OBJECTIVE_COST;
    request.interrupted = always;
    struct search_result result = search_of(&request);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved_optimal);
    search_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("effective");
    TCase *cases = tcase_create("effective");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_cheapest_plan_has_the_shortest_run_with_failures);
    tcase_add_test(cases, without_tokens_cost_and_time_rank_plans_alike);
    tcase_add_test(cases, failures_do_not_change_a_search_for_step_time);
    tcase_add_test(cases, an_interrupted_search_for_cost_proves_nothing);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
