#include "search/evaluators.h"

#include "search/method.h"
#include "sim/plan/ranks.h"
#include "tests/testing.h"

static struct model model;
static struct system system_of_8;
static struct arena arena;

static void set_up(void)
{
    struct err err = { 0 };
    ck_assert_msg(model_load("deepseek-v3", &model, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(system_load("h800-8", "megatron-core", 64, &system_of_8, &err), "%s: %s",
                  err.where, err.msg);
    model.batch = 128;
}

static void tear_down(void)
{
    system_release(&system_of_8);
    arena_release(&arena);
}

/* Layouts whose groups of ranks differ between numbers of GPUs. */
static const char *const layouts[] = {
    "tp2 sp ep8 mb1 zero1",
    "tp4 sp ep16 pp2 mb2",
    "ep32 pp2 vpp2 mb1 recompute=full",
    "tp8 sp ep8 pp2 mb1 overlap=ep",
    "ep16 pp4 mb1 schedule=zb-h1",
    "ep16 pp2 mb1 overlap=ep schedule=dualpipev",
    "ep16 pp2 mb1 schedule=dualpipev", /* passes take as long as with schedule=dualpipe, but other
                                          pairs of ranks exchange messages */
    "ep16 pp2 mb1 overlap=ep schedule=dualpipe",
    "ep16 pp2 mb1 schedule=dualpipe",
};

/* Returns the number of layouts that break no rule. */
static int check_as_fresh(struct evaluator *used, const struct system *system,
                          const struct model *of)
{
    int checked = 0;
    struct evaluator *fresh = evaluator_new(system, of);
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct plan plan = plan_default();
        struct err err = { 0 };
        ck_assert_msg(plan_parse(layouts[i], &arena, &plan, &err), "%s: %s", err.where, err.msg);
        if (!plan_derive_data(&plan, system->num_gpus, &err) ||
            plan_check(&plan, of, of->batch, system->num_gpus, &err))
            continue;
        double step_s = evaluate_step_s(fresh, &plan);
        double floor_s = evaluate_floor_s(fresh, &plan);
        ck_assert_double_eq(evaluate_step_s(used, &plan), step_s);
        ck_assert_double_eq(evaluate_peak_bytes(used, &plan), evaluate_peak_bytes(fresh, &plan));
        ck_assert_double_eq(evaluate(used, &plan).mfu, evaluate(fresh, &plan).mfu);
        ck_assert_double_le(evaluate_work_floor_s(used, &plan), floor_s);
        ck_assert_double_le(floor_s, step_s * (1 + 1e-12));
        checked++;
    }
    evaluator_free(fresh);
    return checked;
}

START_TEST(costs_cached_by_earlier_searches_change_no_answer)
{
    static const struct {
        int gpus, layers;
        bool is_skewed;
    } searches[] = { { 64, 60, false }, { 128, 60, false }, { 128, 24, false }, { 64, 4, false },
                     { 64, 24, true },  { 64, 60, true },   { 64, 60, false } };
    struct evaluators evaluators = { 0 };
    int checked = 0;
    for (int i = 0; i < LENGTH(searches); i++) {
        struct err err = { 0 };
        struct system system = system_of_8;
        struct model of = model;
        system.num_gpus = searches[i].gpus;
        if (searches[i].is_skewed)
            of.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = 1.5 };
        ck_assert(model_set_layers(&of, searches[i].layers, &err));
        evaluators_begin(&evaluators, 1 + i % 2, &system, &of);
        checked += check_as_fresh(evaluators_of(&evaluators, i % 2), &system, &of);
    }
    ck_assert_int_gt(checked, 20);
    evaluators_release(&evaluators);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("evaluators");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, costs_cached_by_earlier_searches_change_no_answer);
    Suite *s = suite_create("search/evaluators");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
