/* The text output of a search: printed parts sum to the total, rows group similar plans, and a line
 * states how large the error of a cost must be for another plan to be the best. */
#include "tests/testing.h"

#include "cli/print/apportion.h"
#include "cli/views/similar_plans.h"
#include "search/robust.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/sim/named.h"

#include <math.h>

/* --- rounded parts ------------------------------------------------------------------------ */

static const struct {
    double parts[4], units[4];
} rounded[] = {
    { { 0.4, 0.4, 0.4, 0 }, { 1, 0, 0, 0 } }, /* each part rounds to 0, their sum to 1 */
    { { 0.6, 0.6, 0.6, 0.4 }, { 1, 1, 0, 0 } },       { { -0.04, -0.03, 0.01, 0 }, { 0, 0, 0, 0 } },
    { { -1.86, 1.20, 0.42, 0.18 }, { -2, 1, 1, 0 } }, { { 5, -3, 0, 2 }, { 5, -3, 0, 2 } },
};

START_TEST(rounded_parts_add_up)
{
    double units[4], sum = 0, exact = 0;
    apportion(rounded[_i].parts, 4, 1, units);
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq(units[i], rounded[_i].units[i]);
        ck_assert_double_lt(fabs(units[i] - rounded[_i].parts[i]), 1);
        sum += units[i];
        exact += rounded[_i].parts[i];
    }
    ck_assert_double_eq(sum, round(exact));
}
END_TEST

/* --- plans -------------------------------------------------------------------------------- */

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 32;
    instance.model = model_of("gpt3-13b");
}

static void tear_down(void)
{
    instance_release(&instance);
}

static bool are_alike(const struct plan *a, const struct plan *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->pp == b->pp && a->microbatch == b->microbatch &&
           (a->zero == 3) == (b->zero == 3) &&
           (a->recompute == RECOMPUTE_FULL) == (b->recompute == RECOMPUTE_FULL);
}

START_TEST(rows_differ_and_their_counts_cover_every_plan)
{
    struct search_request request = instance_request(&instance);
    request.top = 60;
    struct search_result result = search_of(&request);
    struct kinds kinds = kinds_of(&result, MOST_KINDS);
    int num_plans = kinds.count;
    ck_assert_int_eq(kinds.first[0], 0);
    ck_assert_int_gt(kinds.count, 2);
    ck_assert_int_lt(kinds.count, result.num_top);
    for (int i = 0; i < kinds.count; i++) {
        num_plans += kinds.alike[i];
        for (int j = 0; j < i; j++)
            ck_assert(
                !are_alike(&result.top[kinds.first[i]].plan, &result.top[kinds.first[j]].plan));
    }
    ck_assert_int_eq(num_plans, result.num_top);
    ck_assert_int_eq(kinds_of(&result, 2).count, 2);
    search_result_release(&result);
}
END_TEST

/* Returns the index of the fastest rival (other plan) that fits if the costs of one class are
 * multiplied by this factor, or -1 if there is none. */
static int winner_at(const struct robust_request *request, int cost_class, double factor)
{
    struct arena arena = { 0 };
    struct system system = *request->system;
    double least_s = HUGE_VAL;
    int best = -1;
    cost_classes[cost_class].scale(&system, factor, &arena);
    struct evaluator *evaluator = evaluator_new(&system, request->model);
    for (int i = 0; i < request->num_rivals; i++) {
        struct prediction p = evaluate(evaluator, &request->rivals[i].plan);
        if (p.fits && p.step_s < least_s) {
            least_s = p.step_s;
            best = i;
        }
    }
    evaluator_free(evaluator);
    arena_release(&arena);
    return best;
}

/* The tipping point is the smallest factor on a class of costs at which a rival becomes the best.
 * Just beyond it a rival is the best; at half the distance none is, for any class in either
 * direction. */
START_TEST(the_tipping_point_is_the_smallest_factor_that_changes_the_best_plan)
{
    static const double within = 0.3;
    struct search_request request = instance_request(&instance);
    struct search_result result = search_of(&request);
    struct robust_request asked = { .system = &instance.system,
                                    .model = &instance.model,
                                    .rivals = result.top,
                                    .num_rivals = result.num_top,
                                    .jobs = 2 };
    struct tipping_point point = search_tipping_point(&asked, within);
    ck_assert_int_ge(point.cost_class, 0);
    ck_assert_int_eq(winner_at(&asked, point.cost_class, point.flip.factor), point.flip.to);
    ck_assert_int_ne(point.flip.to, 0);
    double half = 0.5 * fabs(point.flip.factor - 1);
    for (int i = 0; i < num_cost_classes; i++) {
        ck_assert_int_eq(winner_at(&asked, i, 1 + half), 0);
        ck_assert_int_eq(winner_at(&asked, i, 1 - half), 0);
    }
    ck_assert_int_eq(search_tipping_point(&asked, half).cost_class, -1);
    search_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("answer");
    TCase *sums = tcase_create("sums"), *plans = tcase_create("plans");
    tcase_add_loop_test(sums, rounded_parts_add_up, 0, LENGTH(rounded));
    tcase_add_checked_fixture(plans, set_up, tear_down);
    tcase_set_tags(plans, THREADS);
    tcase_add_test(plans, rows_differ_and_their_counts_cover_every_plan);
    tcase_add_test(plans, the_tipping_point_is_the_smallest_factor_that_changes_the_best_plan);
    suite_add_tcase(s, sums);
    suite_add_tcase(s, plans);
    return s;
}

TEST_MAIN(suite)
