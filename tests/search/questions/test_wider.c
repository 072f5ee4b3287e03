#include "tests/testing.h"

#include "search/questions/wider.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/sim/named.h"

#include <math.h>
#include <string.h>

/* The questions are about GPT-3 1.3B on 16 H100. */
static struct instance instance;
static struct arena arena;

static void set_up(void)
{
    instance_load(&instance);
}

static void tear_down(void)
{
    arena_release(&arena);
    instance_release(&instance);
}

/* The options, in the order of the table's columns. Each option has a method other than the default
 * if such a method searches the same plans. */
enum { UNEVEN, MIXES, PLACEMENT, NUM_OPTIONS };
static const struct {
    const char *name, *method;
} options[NUM_OPTIONS] = { { "--uneven", "milp" },
                           { "--recompute-mixes", "bnb" },
                           { "--placement", "exhaustive" } };

/* A plan, the words fixed by the request, and
 * the words that must be fixed when an option is added; NULL: the option must not be searched. */
static const struct {
    const char *layout, *fix, *words[NUM_OPTIONS];
} rows[] = {
    { "pp4 dp4 mb1 zero1",
      NULL,
      { "tp1 cp1 pp4 dp4 mb1 sp0 zero1 recompute=none", NULL,
        "tp1 cp1 pp4 dp4 mb1 sp0 zero1 vpp1 recompute=none" } },
    { "pp4 dp4 mb2",
      "pp4 vpp1",
      { "tp1 cp1 pp4 dp4 mb2 sp0 zero0 vpp1 recompute=none", NULL,
        "tp1 cp1 pp4 dp4 mb2 sp0 zero0 vpp1 recompute=none" } },
    { "pp4 dp4 mb2 vpp2 zero1",
      "mb2 vpp2",
      { "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp2 recompute=none", NULL,
        "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp2 recompute=none" } },
    { "cp2 pp4 dp2 mb1 zero1 recompute=full",
      NULL,
      { "tp1 cp2 pp4 dp2 mb1 sp0 zero1 recompute=full", "tp1 cp2 pp4 dp2 mb1 sp0 zero1 vpp1",
        "tp1 cp2 pp4 dp2 mb1 sp0 zero1 vpp1 recompute=full" } },
    { "pp4 dp4 mb1 zero1 recompute=full",
      "recompute=full",
      { "tp1 cp1 pp4 dp4 mb1 sp0 zero1 recompute=full", NULL,
        "tp1 cp1 pp4 dp4 mb1 sp0 zero1 vpp1 recompute=full" } },
    { "pp4 dp4 mb2 vpp2 zero1 recompute=full",
      NULL,
      { "tp1 cp1 pp4 dp4 mb2 sp0 zero1 recompute=full", NULL,
        "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp2 recompute=full" } },
    { "pp2 dp8 mb1 zero1 recompute=selective",
      NULL,
      { "tp1 cp1 pp2 dp8 mb1 sp0 zero1 recompute=selective", NULL,
        "tp1 cp1 pp2 dp8 mb1 sp0 zero1 vpp1 recompute=selective" } },
    { "pp8 dp2 mb1 vpp3 zero1 recompute=selective:mlp",
      NULL,
      { "tp1 cp1 pp8 dp2 mb1 sp0 zero1 recompute=selective:mlp", NULL,
        "tp1 cp1 pp8 dp2 mb1 sp0 zero1 vpp3 recompute=selective:mlp" } },
    { "pp4 dp4 mb2 zero1 recompute=block:2",
      NULL,
      { "tp1 cp1 pp4 dp4 mb2 sp0 zero1", NULL, "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp1" } },
    { "tp2 pp4 dp2 mb1 sp zero1 order=pp-dp-cp-tp recompute=full",
      NULL,
      { "tp2 cp1 pp4 dp2 mb1 sp1 zero1 recompute=full", "tp2 cp1 pp4 dp2 mb1 sp1 zero1 vpp1",
        "tp2 cp1 pp4 dp2 mb1 sp1 zero1 vpp1 recompute=full" } },
    { "tp2 pp4 dp2 mb1 zero1 order=pp-dp-cp-tp",
      "order=pp-dp-cp-tp",
      { "tp2 cp1 pp4 dp2 mb1 sp0 zero1 recompute=none", NULL, NULL } },
    { "pp4 dp4 mb1 zero1 schedule=zb-h1",
      NULL,
      { NULL, NULL, "tp1 cp1 pp4 dp4 mb1 sp0 zero1 vpp1 recompute=none" } },
    { "pp4 dp4 mb1 zero1 stages=7,7,7,3", "stages=7,7,7,3", { NULL, NULL, NULL } },
    { "pp4 dp4 mb2 zero1 schedule=gpipe recompute=full",
      NULL,
      { NULL, NULL, "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp1 recompute=full" } },
    { "tp4 dp4 mb1 zero1 order=dp-tp-cp-pp recompute=full",
      NULL,
      { NULL, NULL, "tp4 cp1 pp1 dp4 mb1 sp0 zero1 vpp1 recompute=full" } },
};

static struct scored_plan scored(const char *layout)
{
    struct scored_plan of = { .plan = plan_on(&instance.system, &instance.model, layout, &arena) };
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    of.prediction.step_s = evaluate_step_s(evaluator, &of.plan);
    evaluator_free(evaluator);
    return of;
}

static void set_option(struct search_request *request, int option, bool value)
{
    if (option == UNEVEN)
        request->uneven = value;
    else if (option == MIXES)
        request->recompute_mixes = value;
    else
        request->placement = value;
}

/* Step time of the best plan with the option and the words. */
static double best_s(const struct search_request *asked, const struct plan *plan, int option,
                     const char *words)
{
    struct search_request request = search_including(asked, plan);
    request.fix = words;
    request.method = options[option].method;
    set_option(&request, option, true);
    struct search_result got = search_of(&request);
    double step_s = got.num_top > 0 ? got.top[0].prediction.step_s : HUGE_VAL;
    search_result_release(&got);
    return step_s;
}

static const struct wider *of_option(const struct wider *found, int count, int option)
{
    for (int i = 0; i < count; i++)
        if (strcmp(found[i].option, options[option].name) == 0)
            return &found[i];
    return NULL;
}

/* Checks that the answer has every option with which a search near the plan saves at least 3 % of
 * the step time, the largest saving first. Returns the number of options. */
static int check_wider(const struct search_request *request, const struct scored_plan *best,
                       const char *const words[NUM_OPTIONS])
{
    struct wider found[MOST_WIDER];
    int count = search_wider(request, best, &arena, found), expected = 0;
    for (int option = 0; option < NUM_OPTIONS; option++) {
        double plan_s = best->prediction.step_s;
        double step_s =
            words[option] ? best_s(request, &best->plan, option, words[option]) : plan_s;
        const struct wider *got = of_option(found, count, option);
        ck_assert_msg((got != NULL) == (1 - step_s / plan_s >= 0.03),
                      "%s: the step takes %g s with the option, %g s without", options[option].name,
                      step_s, plan_s);
        expected += got != NULL;
        if (got) {
            ck_assert_double_eq_tol(got->gain, 1 - step_s / plan_s, 1e-9);
            ck_assert_double_eq_tol(got->best.prediction.step_s, step_s, 1e-9 * step_s);
        }
    }
    ck_assert_int_eq(count, expected);
    for (int i = 1; i < count; i++)
        ck_assert_double_ge(found[i - 1].gain, found[i].gain);
    return count;
}

START_TEST(options_that_save_time_near_the_plan_are_found)
{
    struct scored_plan best = scored(rows[_i].layout);
    struct search_request request = instance_request(&instance);
    request.fix = rows[_i].fix;
    check_wider(&request, &best, rows[_i].words);
}
END_TEST

/* On 17 GB only a plan that recomputes some layers of some stages is faster. */
START_TEST(stages_recompute_different_numbers_of_layers)
{
    static const char *const words[NUM_OPTIONS] = {
        "tp1 cp1 pp2 dp8 mb4 sp0 zero1 recompute=full",
        "tp1 cp1 pp2 dp8 mb4 sp0 zero1 vpp1",
        "tp1 cp1 pp2 dp8 mb4 sp0 zero1 vpp1 recompute=full",
    };
    instance.system.gpu.memory_bytes = 17e9;
    struct scored_plan best = scored("pp2 dp8 mb4 zero1 recompute=full");
    struct search_request request = instance_request(&instance);
    ck_assert_int_eq(check_wider(&request, &best, words), 2);
}
END_TEST

/* The degree of experts is not fixed, because experts are divided over ranks that the plan has
 * anyway. */
START_TEST(experts_may_be_divided_otherwise)
{
    static const char *const words[NUM_OPTIONS] = {
        "tp1 cp1 pp4 dp4 mb2 sp0 zero1 recompute=none", NULL,
        "tp1 cp1 pp4 dp4 mb2 sp0 zero1 vpp1 recompute=none"
    };
    struct err err = { 0 };
    instance.model.experts = 8;
    instance.model.topk = 2;
    ck_assert(model_derive(&instance.model, &err));
    struct scored_plan best = scored("pp4 dp4 mb2 zero1");
    struct search_request request = instance_request(&instance);
    ck_assert_int_eq(check_wider(&request, &best, words), 2);
}
END_TEST

/* An option of the request is not suggested, and does not hide another option. */
START_TEST(options_of_the_request_are_not_suggested)
{
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct scored_plan best = scored(rows[i].layout);
        for (int option = 0; option < NUM_OPTIONS; option++) {
            struct search_request request = instance_request(&instance);
            struct wider found[MOST_WIDER];
            request.fix = rows[i].fix;
            set_option(&request, option, true);
            int count = search_wider(&request, &best, &arena, found);
            ck_assert_ptr_null(of_option(found, count, option));
        }
    }
}
END_TEST

/* If all links are equal, no rank order is better than another. */
START_TEST(on_one_level_of_links_no_placement_is_searched)
{
    static const char *const words[NUM_OPTIONS] = { NULL };
    instance.system.cluster.num_levels = 1;
    instance.system.num_gpus = 4;
    struct scored_plan best = scored("tp2 dp2 mb1 zero1 stages=24");
    struct search_request request = instance_request(&instance);
    ck_assert_int_eq(check_wider(&request, &best, words), 0);
}
END_TEST

/* The option is listed if the best plan of the wider space saves 3.01 % of the step time, but not
 * if it saves 2.99 %. */
START_TEST(the_limit_is_3_percent)
{
    struct scored_plan best = scored(rows[0].layout);
    struct search_request request = instance_request(&instance);
    struct wider found[MOST_WIDER];
    double step_s = best_s(&request, &best.plan, UNEVEN, rows[0].words[UNEVEN]);
    best.prediction.step_s = step_s / (1 - 0.0301);
    ck_assert_int_eq(search_wider(&request, &best, &arena, found), 1);
    ck_assert_double_eq_tol(found[0].gain, 0.0301, 1e-9);
    best.prediction.step_s = step_s / (1 - 0.0299);
    ck_assert_int_eq(search_wider(&request, &best, &arena, found), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("wider");
    TCase *cases = tcase_create("wider");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_loop_test(cases, options_that_save_time_near_the_plan_are_found, 0, LENGTH(rows));
    tcase_add_test(cases, stages_recompute_different_numbers_of_layers);
    tcase_add_test(cases, experts_may_be_divided_otherwise);
    tcase_add_test(cases, options_of_the_request_are_not_suggested);
    tcase_add_test(cases, on_one_level_of_links_no_placement_is_searched);
    tcase_add_test(cases, the_limit_is_3_percent);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
