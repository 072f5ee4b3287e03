#include "tests/testing.h"

#include "search/counts.h"
#include "search/questions/pareto.h"
#include "sim/plan/ranks.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_dominated(const struct pareto_point *points, size_t count, size_t i)
{
    for (size_t j = 0; j < count; j++)
        if (pareto_dominates(&points[j], &points[i]))
            return true;
    return false;
}

enum { MOST_POINTS = 300 };

/* If values are drawn from a few numbers, many keys and points are equal; if they are drawn from
 * many numbers, no two are equal. */
START_TEST(the_sweep_marks_the_non_dominated_points)
{
    static const int num_values[] = { 2, 5, 30, INT_MAX };
    struct random rng = random_new((uint64_t)_i, 0); /* Check prints the seed when the test fails */
    for (int turn = 0; turn < TURNS(16); turn++) {
        struct pareto_point points[MOST_POINTS];
        bool is_on_front[MOST_POINTS];
        size_t count = (size_t)within(&rng, 0, MOST_POINTS);
        for (size_t i = 0; i < count; i++)
            for (int key = 0; key < PARETO_KEYS; key++)
                points[i].key[key] = random_below(&rng, num_values[_i % 4]);
        pareto_mark(points, count, is_on_front);
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(is_on_front[i], !is_dominated(points, count, i));
    }
}
END_TEST

START_TEST(a_point_dominates_worse_but_not_equal_points)
{
    struct pareto_point a = { { 1, 2, 3 } };
    struct pareto_point worse = { { 1, 2, 4 } };
    struct pareto_point other = { { 0, 9, 9 } };
    ck_assert(pareto_dominates(&a, &worse));
    ck_assert(!pareto_dominates(&worse, &a));
    ck_assert(!pareto_dominates(&a, &a));
    ck_assert(!pareto_dominates(&a, &other));
    ck_assert(!pareto_dominates(&other, &a));
}
END_TEST

/* --- plans -------------------------------------------------------------------------------- */

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 8;
    instance.model.layers = 6;
    instance.model.batch = 12;
}

static void tear_down(void)
{
    instance_release(&instance);
}

static void run(const struct search_request *request, double saving_bytes,
                struct pareto_result *result)
{
    struct err err = { 0 };
    bool ok = search_pareto(request, saving_bytes, result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
}

struct cloud {
    struct pareto_point at[200000];
    size_t count;
};

static void add_point(struct evaluator *evaluator, const struct plan *plan, struct cloud *cloud)
{
    struct prediction p = evaluate(evaluator, plan);
    ck_assert(cloud->count < LENGTH(cloud->at));
    if (p.fits)
        cloud->at[cloud->count++] =
            (struct pareto_point){ { plan_ranks(plan), p.step_s, p.peak_memory_bytes } };
}

/* Adds every plan that fits on one number of GPUs, in one rank order or in all. */
static void add_points(int num_gpus, bool placement, struct cloud *cloud)
{
    struct arena arena = { 0 };
    struct naive_space space = naive_space_kept(&instance.model, num_gpus, &instance.system);
    struct system smaller = instance.system;
    smaller.num_gpus = num_gpus;
    struct evaluator *evaluator = evaluator_new(&smaller, &instance.model);
    for (int i = 0; i < space.count; i++) {
        struct plan plan = space.at[i];
        struct rank_orders orders = orders_new(&plan, placement, &arena);
        for (int order = 0; order < orders.count; order++) {
            memcpy(plan.order, orders.at[order], sizeof plan.order);
            if (!orders_is_first(&orders, order, &plan))
                continue;
            struct plan settled = plan;
            naive_settle(evaluator, &instance.model, &settled);
            add_point(evaluator, &settled, cloud);
        }
    }
    evaluator_free(evaluator);
    free(space.at);
    arena_release(&arena);
}

static struct pareto_point point_of(const struct pareto_plan *plan)
{
    return (struct pareto_point){ { plan->num_gpus, plan->scored.prediction.step_s,
                                    plan->scored.prediction.peak_memory_bytes } };
}

static bool has_point(const struct pareto_result *result, const struct pareto_point *point)
{
    for (int i = 0; i < result->count; i++) {
        struct pareto_point found = point_of(&result->at[i]);
        if (memcmp(&found, point, sizeof found) == 0)
            return true;
    }
    return false;
}

/* Checks the prediction against that of a job on this number of GPUs. */
static void check_prediction(const struct pareto_plan *plan)
{
    struct system system = instance.system;
    system.num_gpus = plan->num_gpus;
    struct evaluator *evaluator = evaluator_new(&system, &instance.model);
    struct prediction expected = evaluate(evaluator, &plan->scored.plan);
    ck_assert_double_eq(plan->scored.prediction.mfu, expected.mfu);
    evaluator_free(evaluator);
}

/* In the search, bounds exclude most plans, usually in all rank orders at once; here every plan is
 * evaluated. */
START_TEST(the_front_has_exactly_the_non_dominated_plans)
{
    bool placement = _i != 0;
    struct cloud *cloud = calloc(1, sizeof *cloud);
    instance.system.num_gpus = placement ? 4 : 8;
    for (int num_gpus = 1; num_gpus <= instance.system.num_gpus; num_gpus *= 2)
        add_points(num_gpus, placement, cloud);
    struct search_request request = instance_request(&instance);
    struct pareto_result result;
    request.placement = placement;
    run(&request, 0, &result);
    ck_assert_double_lt(result.evaluated, (double)cloud->count / 2.5);
    ck_assert_double_ge(result.evaluated + result.bounded, (double)cloud->count);
    ck_assert_int_eq(result.count, result.num_on_front);
    ck_assert_int_gt(result.count, 10);
    for (int i = 0; i < result.count; i++) {
        struct pareto_point point = point_of(&result.at[i]);
        for (size_t j = 0; j < cloud->count; j++)
            ck_assert(!pareto_dominates(&cloud->at[j], &point));
        ck_assert_int_eq(plan_ranks(&result.at[i].scored.plan), result.at[i].num_gpus);
        check_prediction(&result.at[i]);
    }
    /* Checks one by one that every point that is not on the front is dominated by a point of the
     * front. */
    for (size_t j = 0; j < cloud->count; j++)
        if (!has_point(&result, &cloud->at[j]))
            ck_assert(is_dominated(cloud->at, cloud->count, j));
    pareto_result_release(&result);
    free(cloud);
}
END_TEST

START_TEST(a_front_has_no_two_equal_points_and_is_sorted)
{
    struct search_request request = instance_request(&instance);
    struct pareto_result result;
    run(&request, 0, &result);
    for (int i = 1; i < result.count; i++) {
        const struct pareto_plan *a = &result.at[i - 1];
        const struct pareto_plan *b = &result.at[i];
        ck_assert_int_le(a->num_gpus, b->num_gpus);
        if (a->num_gpus != b->num_gpus)
            continue;
        ck_assert_double_lt(a->scored.prediction.step_s, b->scored.prediction.step_s);
        ck_assert_double_gt(a->scored.prediction.peak_memory_bytes,
                            b->scored.prediction.peak_memory_bytes);
    }
    pareto_result_release(&result);
}
END_TEST

START_TEST(plans_with_negligible_savings_are_omitted)
{
    const double saving_bytes = 2e9;
    struct search_request request = instance_request(&instance);
    struct pareto_result whole, thin;
    run(&request, 0, &whole);
    run(&request, saving_bytes, &thin);
    ck_assert_int_eq(thin.num_on_front, whole.count);
    ck_assert_int_lt(thin.count, whole.count);
    struct pareto_point last = point_of(&whole.at[0]);
    for (int i = 0, next = 0; i < whole.count; i++) {
        struct pareto_point left = point_of(&whole.at[i]);
        if (i == 0 || left.key[0] != last.key[0] || last.key[2] - left.key[2] >= saving_bytes) {
            struct pareto_point found = point_of(&thin.at[next++]);
            last = left;
            ck_assert_mem_eq(&found, &left, sizeof left);
        }
        ck_assert_int_le(next, thin.count);
        ck_assert(i + 1 < whole.count || next == thin.count);
        bool is_covered = has_point(&thin, &left);
        for (int j = 0; j < thin.count; j++) {
            struct pareto_point kept = point_of(&thin.at[j]);
            is_covered |= kept.key[0] == left.key[0] && kept.key[1] <= left.key[1] &&
                          kept.key[2] < left.key[2] + saving_bytes;
        }
        ck_assert(is_covered);
    }
    pareto_result_release(&whole);
    pareto_result_release(&thin);
}
END_TEST

START_TEST(the_front_does_not_depend_on_the_number_of_jobs)
{
    struct search_request request = instance_request(&instance);
    struct pareto_result one, five;
    request.placement = true;
    request.jobs = 1;
    run(&request, 0, &one);
    request.jobs = 5;
    run(&request, 0, &five);
    ck_assert_int_eq(one.count, five.count);
    ck_assert_double_eq(one.candidates, five.candidates);
    ck_assert_double_eq(one.evaluated, five.evaluated);
    ck_assert_double_eq(one.bounded, five.bounded);
    for (int i = 0; i < one.count; i++) {
        ck_assert(plan_equal(&one.at[i].scored.plan, &five.at[i].scored.plan));
        ck_assert_double_eq(one.at[i].scored.prediction.step_s,
                            five.at[i].scored.prediction.step_s);
    }
    pareto_result_release(&one);
    pareto_result_release(&five);
}
END_TEST

/* If the sweep is ended on one number of GPUs, the result is incomplete, even if the next number is
 * swept completely. */
static bool once(void)
{
    static bool was_asked;
    bool is_first = !was_asked;
    was_asked = true;
    return is_first;
}

START_TEST(an_incomplete_front_is_reported_as_incomplete)
{
    struct search_request request = instance_request(&instance);
    struct pareto_result result;
    request.jobs = 1;
    request.interrupted = once;
    run(&request, 0, &result);
    ck_assert(result.was_interrupted && !result.timed_out);
    ck_assert_double_gt(result.evaluated, 0);
    pareto_result_release(&result);
    request.interrupted = NULL;
    request.time_limit_s = 1e-9;
    run(&request, 0, &result);
    ck_assert(result.timed_out && !result.was_interrupted);
    pareto_result_release(&result);
}
END_TEST

START_TEST(an_interrupted_front_is_reported_and_wrong_words_are_errors)
{
    struct err err = { 0 };
    struct search_request request = instance_request(&instance);
    struct pareto_result result;
    request.interrupted = always;
    run(&request, 0, &result);
    ck_assert(result.was_interrupted);
    pareto_result_release(&result);
    request.fix = "tpx";
    ck_assert(!search_pareto(&request, 0, &result, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    pareto_result_release(&result);
}
END_TEST

/* --- counts ------------------------------------------------------------------------------- */

static void check_counts(struct values counts, const int *expected, int count)
{
    ck_assert_int_eq(counts.count, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(counts.at[i], expected[i]);
}

START_TEST(numbers_of_gpus_are_parts_of_a_node_or_whole_nodes)
{
    static const int all[] = { 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40 };
    static const int usual[] = { 1, 2, 4, 8, 16, 24, 32, 40 };
    static const int large[] = { 1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 200, 240 };
    static const int of_five[] = { 1, 5, 10, 15, 20, 30, 40 };
    static const int part[] = { 1, 2, 4, 5 };
    struct arena arena = { 0 };
    check_counts(counts_all(&instance.system.cluster, 44, &arena), all, 12);
    check_counts(counts_usual(&instance.system.cluster, 40, &arena), usual, 8);
    check_counts(counts_all(&instance.system.cluster, 5, &arena), all, 5);
    check_counts(counts_usual(&instance.system.cluster, 5, &arena), part, 4);
    struct values counts = counts_usual(&instance.system.cluster, 400, &arena);
    ck_assert_int_eq(counts.at[counts.count - 1], 400);
    check_counts((struct values){ counts.at, 13 }, large, 13);
    instance.system.cluster.levels[0].size = 5;
    check_counts(counts_usual(&instance.system.cluster, 44, &arena), of_five, 7);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pareto");
    TCase *points = tcase_create("points");
    tcase_add_loop_test(points, the_sweep_marks_the_non_dominated_points, 0, 8);
    tcase_add_test(points, a_point_dominates_worse_but_not_equal_points);
    suite_add_tcase(s, points);
    TCase *plans = tcase_create("plans");
    tcase_set_timeout(plans, 120);
    tcase_add_checked_fixture(plans, set_up, tear_down);
    tcase_add_loop_test(plans, the_front_has_exactly_the_non_dominated_plans, 0, 2);
    tcase_add_test(plans, a_front_has_no_two_equal_points_and_is_sorted);
    tcase_add_test(plans, plans_with_negligible_savings_are_omitted);
    tcase_add_test(plans, an_incomplete_front_is_reported_as_incomplete);
    tcase_add_test(plans, an_interrupted_front_is_reported_and_wrong_words_are_errors);
    tcase_add_test(plans, numbers_of_gpus_are_parts_of_a_node_or_whole_nodes);
    suite_add_tcase(s, plans);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_set_timeout(threads, 120);
    tcase_add_checked_fixture(threads, set_up, tear_down);
    tcase_add_test(threads, the_front_does_not_depend_on_the_number_of_jobs);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
