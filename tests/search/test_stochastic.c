#include "search/splits.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <stdlib.h>

/* The model has 1.3 billion parameters and runs on 16 GPUs. A thousand candidates break no rule of
 * plans, and some of them fit into memory. */
static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.gpu.memory_bytes = 12e9;
}

static void tear_down(void)
{
    instance_release(&instance);
}

static struct search_request new_request(const char *method)
{
    struct search_request request = instance_request(&instance);
    request.method = method;
    request.top = 10;
    request.jobs = 1;
    request.budget = TURNS(800);
    return request;
}

/* The random methods, over which tests loop. */
static const char *const drawing[] = { "zo", "rl", "random" };
enum { NUM_DRAWING = LENGTH(drawing) };

START_TEST(every_random_method_is_tested_here)
{
    int count = 0;
    for (int i = 0; i < num_search_methods; i++)
        count += search_methods[i].is_drawn;
    ck_assert_int_eq(count, NUM_DRAWING);
    for (int i = 0; i < NUM_DRAWING; i++)
        ck_assert(search_method_find(drawing[i])->is_drawn);
}
END_TEST

static void check_same(const struct search_result *a, const struct search_result *b)
{
    ck_assert_int_eq(a->num_top, b->num_top);
    for (int i = 0; i < a->num_top; i++) {
        ck_assert(plan_equal(&a->top[i].plan, &b->top[i].plan));
        ck_assert_double_eq(a->top[i].prediction.step_s, b->top[i].prediction.step_s);
    }
    ck_assert_double_eq(a->evaluated, b->evaluated);
    ck_assert_int_eq(a->num_exclusions, b->num_exclusions);
    for (int i = 0; i < a->num_exclusions; i++)
        ck_assert_mem_eq(&a->exclusions[i], &b->exclusions[i], sizeof *a->exclusions);
}

START_TEST(a_seed_gives_one_answer_on_any_number_of_jobs)
{
    struct search_request request = new_request(drawing[_i]);
    request.seed = 42;
    struct search_result one = search_of(&request);
    request.jobs = 8;
    struct search_result eight = search_of(&request);
    check_same(&one, &eight);
    request.seed = 43;
    struct search_result other = search_of(&request);
    ck_assert(one.candidates != other.candidates || one.evaluated != other.evaluated ||
              one.bounded != other.bounded);
    search_result_release(&one);
    search_result_release(&eight);
    search_result_release(&other);
}
END_TEST

static bool is_candidate(const struct naive_space *space, const struct plan *plan)
{
    struct plan given = *plan; /* the search may replace full by full:K */
    if (plan->recompute == RECOMPUTE_EVERY) {
        given.recompute = RECOMPUTE_FULL;
        given.recompute_every = 0;
    }
    for (int i = 0; i < space->count; i++) {
        const struct plan *at = &space->at[i];
        /* plan_equal comes last, because it is slow */
        if (at->tp == plan->tp && at->pp == plan->pp && at->zero == plan->zero &&
            at->microbatch == plan->microbatch && plan_equal(at, &given))
            return true;
    }
    return false;
}

static double value_of(int objective, const struct scored_plan *scored)
{
    return objective == OBJECTIVE_MEMORY ? scored->prediction.peak_memory_bytes
                                         : scored->prediction.step_s;
}

START_TEST(answers_are_feasible_plans_of_the_space_and_no_faster_than_the_optimum)
{
    int objective = _i / NUM_DRAWING;
    if (is_spared(_i, 2))
        return;
    struct search_request request = new_request(drawing[_i % NUM_DRAWING]);
    request.objective = objective;
    struct search_result drawn = search_of(&request);
    request.method = "exhaustive";
    struct search_result best = search_of(&request);
    struct naive_space space = naive_space_new(&instance.model, 16);
    ck_assert_int_eq(drawn.num_top, request.top);
    for (int i = 0; i < drawn.num_top; i++) {
        const struct scored_plan *scored = &drawn.top[i];
        struct err err = { 0 };
        ck_assert(is_candidate(&space, &scored->plan));
        ck_assert_ptr_null(
            plan_check(&scored->plan, &instance.model, instance.model.batch, 16, &err));
        ck_assert(scored->prediction.fits);
        ck_assert_double_ge(value_of(objective, scored), value_of(objective, &best.top[i]));
        for (int j = 0; j < i; j++)
            ck_assert(!plan_equal(&drawn.top[j].plan, &scored->plan));
        if (i > 0)
            ck_assert_double_ge(value_of(objective, scored), value_of(objective, scored - 1));
    }
    free(space.at);
    search_result_release(&drawn);
    search_result_release(&best);
}
END_TEST

START_TEST(counts_add_up_and_stay_within_space_and_budget)
{
    struct search_request request = new_request(drawing[_i]);
    struct search_result drawn = search_of(&request);
    request.method = "exhaustive";
    struct search_result all = search_of(&request);
    double sum = 0;
    for (int i = 0; i < drawn.num_exclusions; i++) {
        double most = exclusion_of(&all, drawn.exclusions[i].rule);
        ck_assert_double_le(drawn.exclusions[i].count, most);
        sum += drawn.exclusions[i].count;
    }
    ck_assert_double_eq(sum, drawn.infeasible);
    ck_assert_double_eq(drawn.candidates, drawn.evaluated + drawn.bounded + drawn.infeasible);
    ck_assert_double_le(drawn.evaluated, all.evaluated);
    ck_assert_double_le(drawn.evaluated + exclusion_of(&drawn, "memory"), request.budget);
    ck_assert(!drawn.proved_optimal);
    ck_assert_double_gt(drawn.lower_bound_s, 0);
    ck_assert_double_le(drawn.lower_bound_s, all.top[0].prediction.step_s);
    search_result_release(&drawn);
    search_result_release(&all);
}
END_TEST

/* Strategies of one method share its budget, even if the budget is not a multiple of their number.
 */
START_TEST(no_more_plans_are_scored_than_the_budget_allows)
{
    struct search_request request = new_request(drawing[_i]);
    for (request.budget = 1; request.budget <= 15; request.budget += 2) {
        struct search_result drawn = search_of(&request);
        ck_assert_double_le(drawn.evaluated + exclusion_of(&drawn, "memory"), request.budget);
        search_result_release(&drawn);
    }
}
END_TEST

START_TEST(in_a_tiny_space_nearly_every_seed_finds_the_optimum)
{
    enum { SEEDS = 20, AT_LEAST = 18 };
    struct search_request request = new_request("exhaustive");
    request.fix = "cp1 mb1 zero1"; /* a space of about 600 candidates */
    struct search_result best = search_of(&request);
    ck_assert_double_lt(best.candidates, 700);
    request.method = drawing[_i];
    request.budget = 3000;
    int found = 0;
    for (request.seed = 1; request.seed <= SEEDS; request.seed++) {
        struct search_result drawn = search_of(&request);
        found += drawn.num_top > 0 && plan_equal(&drawn.top[0].plan, &best.top[0].plan);
        search_result_release(&drawn);
    }
    ck_assert_msg(found >= AT_LEAST, "%s found the optimum with %d of the seeds 1 to %d",
                  drawing[_i], found, SEEDS);
    search_result_release(&best);
}
END_TEST

START_TEST(if_no_plan_fits_the_exclusions_count_memory)
{
    struct search_request request = new_request(drawing[_i]);
    instance.system.gpu.memory_bytes = 1e9;
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert_double_eq(result.evaluated, 0);
    ck_assert_double_gt(exclusion_of(&result, "memory"), 0);
    ck_assert(result.has_nearest);
    ck_assert_double_gt(result.nearest.prediction.peak_memory_bytes, 1e9);
    search_result_release(&result);
}
END_TEST

START_TEST(if_every_plan_breaks_a_rule_the_exclusions_name_it)
{
    struct search_request request = new_request(drawing[_i]);
    request.fix = "tp3";
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert(!result.has_nearest);
    ck_assert_double_gt(result.infeasible, 0);
    ck_assert_double_eq(result.candidates, result.infeasible);
    search_result_release(&result);
}
END_TEST

START_TEST(an_empty_space_ends_at_once)
{
    struct search_request request = new_request(drawing[_i]);
    request.fix = "tp2";
    request.forbid = "tp2";
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert_double_eq(result.candidates, 0);
    search_result_release(&result);
}
END_TEST

START_TEST(a_search_ended_early_is_reported_and_keeps_its_best_plan)
{
    struct search_request request = new_request(drawing[_i]);
    request.interrupted = always;
    struct search_result result = search_of(&request);
    ck_assert(result.was_interrupted);
    ck_assert_double_eq(result.evaluated, 0);
    search_result_release(&result);
    request.interrupted = NULL;
    request.budget = 1e9;
    request.time_limit_s = 0.05;
    result = search_of(&request);
    ck_assert(result.timed_out);
    ck_assert_int_gt(result.num_top, 0);
    search_result_release(&result);
}
END_TEST

static void see_progress(double done, void *context)
{
    double *last = context;
    ck_assert(done >= *last && done <= 1);
    *last = done;
}

START_TEST(progress_increases_to_one)
{
    double last = 0;
    struct search_request request = new_request(drawing[_i]);
    request.progress = see_progress;
    request.progress_context = &last;
    struct search_result result = search_of(&request);
    ck_assert_double_eq(last, 1);
    search_result_release(&result);
}
END_TEST

static double mean_step_s(const char *method, int num_seeds)
{
    struct search_request request = new_request(method);
    double sum_s = 0;
    request.budget = 1000;
    /* in a larger space both methods would be equally good after so few scores */
    request.chunks = CHUNKS_EVEN;
    for (request.seed = 1; request.seed <= num_seeds; request.seed++) {
        struct search_result result = search_of(&request);
        ck_assert_int_gt(result.num_top, 0);
        sum_s += result.top[0].prediction.step_s;
        search_result_release(&result);
    }
    return sum_s / num_seeds;
}

/* This space has many local optima, so a policy that has converged to one must restart. */
START_TEST(a_learned_policy_is_better_than_random_draws)
{
    struct err err = { 0 };
    system_release(&instance.system);
    ck_assert(system_load("dgx-a100-80g", "megatron-core", 256, &instance.system, &err));
    ck_assert(model_load("llama3-70b", &instance.model, &err));
    instance.model.batch = 512;
    ck_assert_double_lt(mean_step_s("rl", 6), mean_step_s("random", 6));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stochastic");
    TCase *tests = tcase_create("stochastic");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, every_random_method_is_tested_here);
    tcase_add_loop_test(tests,
                        answers_are_feasible_plans_of_the_space_and_no_faster_than_the_optimum, 0,
                        3 * NUM_DRAWING);
    tcase_add_loop_test(tests, counts_add_up_and_stay_within_space_and_budget, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, no_more_plans_are_scored_than_the_budget_allows, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, in_a_tiny_space_nearly_every_seed_finds_the_optimum, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, if_no_plan_fits_the_exclusions_count_memory, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, if_every_plan_breaks_a_rule_the_exclusions_name_it, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, an_empty_space_ends_at_once, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, a_search_ended_early_is_reported_and_keeps_its_best_plan, 0,
                        NUM_DRAWING);
    tcase_add_test(tests, a_learned_policy_is_better_than_random_draws);
    tcase_add_loop_test(tests, progress_increases_to_one, 0, NUM_DRAWING);
    suite_add_tcase(s, tests);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_add_checked_fixture(threads, set_up, tear_down);
    tcase_add_loop_test(threads, a_seed_gives_one_answer_on_any_number_of_jobs, 0, NUM_DRAWING);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
