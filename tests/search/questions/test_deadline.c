#include "tests/testing.h"

#include "search/effective.h"
#include "search/probe.h"
#include "search/questions/deadline.h"
#include "sim/plan/ranks.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"

#include <math.h>
#include <stdlib.h>

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 32;
    instance.model.layers = 6;
    instance.model.batch = 60; /* a batch that 16 and 32 data ranks do not divide */
    instance.model.tokens = 1e10;
}

static void tear_down(void)
{
    instance_release(&instance);
}

enum { NUM_COUNTS = 11 };
static const int counts[NUM_COUNTS] = { 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32 };

/* The time for all tokens with the fastest plan, failures included; HUGE_VAL if no plan fits. */
static double brute_train_s(int num_gpus)
{
    double fastest_s = HUGE_VAL, train_s = HUGE_VAL;
    struct naive_space space = naive_space_kept(&instance.model, num_gpus, &instance.system);
    struct system smaller = instance.system;
    smaller.num_gpus = num_gpus;
    struct evaluator *evaluator = evaluator_new(&smaller, &instance.model);
    for (int i = 0; i < space.count; i++) {
        naive_settle(evaluator, &instance.model, &space.at[i]);
        struct scored_plan scored = { space.at[i], evaluate(evaluator, &space.at[i]) };
        if (!scored.prediction.fits || scored.prediction.step_s >= fastest_s)
            continue;
        fastest_s = scored.prediction.step_s;
        train_s = effective_s(&smaller, &instance.model, &scored);
    }
    evaluator_free(evaluator);
    free(space.at);
    return train_s;
}

static struct deadline_result run(double deadline_s)
{
    struct err err = { 0 };
    struct search_request request = instance_request(&instance);
    struct deadline_result result;
    bool ok = search_deadline(&request, deadline_s, &result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return result;
}

/* The shortest training time on each number of GPUs is found by brute force. With each of these
 * times as the deadline, the answer is the fewest GPUs that meet it. No number of GPUs meets a
 * deadline slightly below the shortest of all times. */
START_TEST(the_answer_is_the_fewest_gpus_that_meet_the_deadline)
{
    double train_s[NUM_COUNTS];
    bool is_monotone = true;
    for (int i = 0; i < NUM_COUNTS; i++) {
        train_s[i] = brute_train_s(counts[i]);
        is_monotone &= i == 0 || train_s[i] <= train_s[i - 1];
    }
    ck_assert(!is_monotone); /* otherwise a bisection would find the answer and the test would be
                                too easy */
    for (int i = 0; i < NUM_COUNTS; i++) {
        double deadline_s = train_s[i] * (1 + 1e-9);
        int least = 0;
        while (train_s[least] > deadline_s)
            least++;
        struct deadline_result result = run(deadline_s);
        ck_assert(result.is_met);
        ck_assert_int_eq(result.num_gpus, counts[least]);
        ck_assert_double_eq_tol(result.train_s, train_s[least], 1e-9 * train_s[least]);
        ck_assert_int_eq(plan_ranks(&result.best.plan), result.num_gpus);
        deadline_result_release(&result);
    }
}
END_TEST

START_TEST(a_missed_deadline_names_the_fastest_run)
{
    double fastest_s = HUGE_VAL;
    int fastest = 0;
    for (int i = 0; i < NUM_COUNTS; i++) {
        double train_s = brute_train_s(counts[i]);
        if (train_s < fastest_s) {
            fastest_s = train_s;
            fastest = counts[i];
        }
    }
    static const double shares[] = {
        0.999, 0.5, 1e-6
    }; /* the last deadline is shorter than the GPUs' peak FLOPs allow */
    struct deadline_result result = run(shares[_i] * fastest_s);
    ck_assert(!result.is_met);
    ck_assert_int_eq(result.num_gpus, fastest);
    ck_assert_double_eq_tol(result.train_s, fastest_s, 1e-9 * fastest_s);
    deadline_result_release(&result);
}
END_TEST

/* Failures leave only a tenth of the time useful. So a deadline is met only with more GPUs, or
 * never. */
START_TEST(failures_count_against_a_deadline)
{
    double train_s = brute_train_s(8);
    struct deadline_result before = run(train_s * (1 + 1e-9));
    instance.system.gpu.mtbf_s = 32 * 600;
    struct deadline_result after = run(train_s * (1 + 1e-9));
    ck_assert(before.is_met);
    ck_assert_double_gt(after.train_s, before.train_s);
    ck_assert(!after.is_met || after.num_gpus > before.num_gpus);
    instance.system.gpu.mtbf_s = 1; /* with these failures the run never ends */
    struct deadline_result never = run(train_s);
    ck_assert(!never.is_met && isinf(never.train_s));
    deadline_result_release(&before);
    deadline_result_release(&after);
    deadline_result_release(&never);
}
END_TEST

START_TEST(if_no_plan_fits_no_number_of_gpus_is_named)
{
    instance.system.gpu.memory_bytes = 1e8;
    struct deadline_result result = run(1e12);
    ck_assert(!result.is_met);
    ck_assert_int_eq(result.num_gpus, 0);
    ck_assert_int_eq(result.num_searched, NUM_COUNTS);
    deadline_result_release(&result);
}
END_TEST

START_TEST(the_answer_of_a_deadline_is_the_fastest_plan_for_any_objective)
{
    struct err err = { 0 };
    struct search_request request = instance_request(&instance);
    struct deadline_result by_time, by_memory;
    ck_assert(search_deadline(&request, 1, &by_time, &err));
    request.objective = OBJECTIVE_MEMORY;
    request.jobs = 1;
    ck_assert(search_deadline(&request, 1, &by_memory, &err));
    ck_assert(plan_equal(&by_time.best.plan, &by_memory.best.plan));
    ck_assert_double_eq(by_time.train_s, by_memory.train_s);
    deadline_result_release(&by_time);
    deadline_result_release(&by_memory);
}
END_TEST

START_TEST(an_interrupted_search_meets_no_deadline)
{
    struct err err = { 0 };
    struct search_request request = instance_request(&instance);
    struct deadline_result result;
    request.interrupted = always;
    ck_assert(search_deadline(&request, 1e12, &result, &err));
    ck_assert(result.was_interrupted);
    ck_assert(!result.is_met);
    deadline_result_release(&result);
}
END_TEST

/* A probe's bound is that of the whole search: below the best plan's time, and above 0. */
START_TEST(a_probe_has_the_bound_of_the_search)
{
    for (int i = 0; i < NUM_COUNTS; i++) {
        struct system system;
        struct arena arena = { 0 };
        struct search_request all = instance_request(&instance);
        struct search_request request = probe_on(&all, counts[i], &system);
        request.method = "exhaustive";
        struct search_result each = search_of(&request);
        struct probe probe = probe_best(&request, &arena);
        ck_assert_int_eq(probe.fits, each.num_top > 0);
        if (probe.fits) {
            double best_s = each.top[0].prediction.step_s;
            ck_assert_double_eq(probe.best.prediction.step_s, best_s);
            ck_assert_double_gt(probe.least_s, 0);
            ck_assert_double_le(probe.least_s, best_s);
        }
        search_result_release(&each);
        arena_release(&arena);
    }
}
END_TEST

/* On links with long delays more GPUs are slower, and no number of GPUs meets the deadline. */
START_TEST(one_gpu_is_the_answer_if_it_is_the_fastest)
{
    struct profile *profile = &instance.system.profile;
    profile->intra_latency_factor = profile->inter_latency_factor = 1e5;
    instance.model.batch = 1;
    instance.system.gpu.memory_bytes *= 100;
    double alone_s = brute_train_s(1);
    ck_assert_double_lt(alone_s, brute_train_s(8));
    struct deadline_result result = run(alone_s / 2);
    ck_assert(!result.is_met);
    ck_assert_int_eq(result.num_gpus, 1);
    ck_assert_double_eq(result.train_s, alone_s);
    deadline_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("deadline");
    TCase *cases = tcase_create("deadline");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, one_gpu_is_the_answer_if_it_is_the_fastest);
    tcase_add_test(cases, the_answer_is_the_fewest_gpus_that_meet_the_deadline);
    tcase_add_loop_test(cases, a_missed_deadline_names_the_fastest_run, 0, 3);
    tcase_add_test(cases, failures_count_against_a_deadline);
    tcase_add_test(cases, if_no_plan_fits_no_number_of_gpus_is_named);
    tcase_add_test(cases, the_answer_of_a_deadline_is_the_fastest_plan_for_any_objective);
    tcase_add_test(cases, an_interrupted_search_meets_no_deadline);
    tcase_add_test(cases, a_probe_has_the_bound_of_the_search);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
