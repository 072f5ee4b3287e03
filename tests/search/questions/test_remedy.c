#include "tests/testing.h"

#include "search/questions/remedy.h"
#include "sim/engine/simulate.h"
#include "tests/search/instance.h"
#include "tests/sim/named.h"

/* The question is about GPT-3 1.3B on 16 H100 with Megatron-Core. */
static struct instance instance;
static struct arena arena;
static struct evaluator *evaluator;
static struct plan plan; /* the layout that does not fit */

static void set_up(void)
{
    instance_load(&instance);
    instance.system.stack.norms_in_products = false; /* else norms cannot be recomputed */
    evaluator = evaluator_new(&instance.system, &instance.model);
    plan = plan_on(&instance.system, &instance.model, "tp2 pp4 dp2 mb2 vpp2 sp zero1", &arena);
}

static void tear_down(void)
{
    evaluator_free(evaluator);
    arena_release(&arena);
    instance_release(&instance);
}

static double peak_of(const char *layout)
{
    struct plan other = plan_on(&instance.system, &instance.model, layout, &arena);
    return evaluate_peak_bytes(evaluator, &other);
}

static int find(double most_bytes, struct scored_plan out[MOST_REMEDIES])
{
    return search_remedies(&instance.system, &instance.model, &plan, most_bytes, &arena, out);
}

static bool has(const struct scored_plan *found, int count, const char *layout)
{
    struct plan wanted = plan_on(&instance.system, &instance.model, layout, &arena);
    for (int i = 0; i < count; i++)
        if (plan_equal(&found[i].plan, &wanted))
            return true;
    return false;
}

/* The answer lists changes that make the plan fit: the fastest change of each kind, sorted by step
 * time. */
START_TEST(the_fastest_sufficient_change_of_each_kind_is_found)
{
    struct scored_plan found[MOST_REMEDIES];
    double most_bytes = evaluate_peak_bytes(evaluator, &plan) - 1;
    int count = find(most_bytes, found);
    ck_assert_int_eq(count, 4);
    ck_assert(has(found, count, "tp2 pp4 dp2 mb1 vpp2 sp zero1"));
    ck_assert(has(found, count, "tp2 pp4 dp1 cp2 mb2 vpp2 sp zero1"));
    ck_assert(has(found, count, "tp2 pp4 dp2 mb2 vpp2 sp zero1 grad=bf16"));
    /* of the sub-layers that can be recomputed, norms take the least time */
    ck_assert(has(found, count, "tp2 pp4 dp2 mb2 vpp2 sp zero1 recompute=selective:layernorm"));
    for (int i = 0; i < count; i++) {
        ck_assert_double_le(found[i].prediction.peak_memory_bytes, most_bytes);
        if (i > 0)
            ck_assert_double_ge(found[i].prediction.step_s, found[i - 1].prediction.step_s);
    }
}
END_TEST

/* If only full recompute frees enough memory, no other kind of recompute is listed. */
START_TEST(full_recompute_is_proposed_alone_where_nothing_less_fits)
{
    struct scored_plan found[MOST_REMEDIES];
    int count = find(peak_of("tp2 pp4 dp2 mb2 vpp2 sp zero1 recompute=full"), found);
    ck_assert_int_eq(count, 1);
    ck_assert(has(found, count, "tp2 pp4 dp2 mb2 vpp2 sp zero1 recompute=full"));
}
END_TEST

/* With one byte less than full recompute needs, no single change is enough, so two kinds change. */
START_TEST(two_changes_are_proposed_where_none_alone_fits)
{
    struct scored_plan found[MOST_REMEDIES];
    double most_bytes = peak_of("tp2 pp4 dp2 mb2 vpp2 sp zero1 recompute=full") - 1;
    int count = find(most_bytes, found);
    ck_assert_int_eq(count, 1);
    const struct plan *both = &found[0].plan;
    int changed = (both->recompute != plan.recompute) + (both->cp != plan.cp) +
                  (both->gradient_dtype != plan.gradient_dtype) +
                  (both->microbatch != plan.microbatch);
    ck_assert_int_eq(changed, 2);
    ck_assert_double_le(found[0].prediction.peak_memory_bytes, most_bytes);
}
END_TEST

START_TEST(no_change_is_proposed_if_none_fits)
{
    struct scored_plan found[MOST_REMEDIES];
    ck_assert_int_eq(find(1e9, found), 0);
}
END_TEST

/* The stack of Llama 3 may shard gradients in a pipeline, Megatron-Core may not. */
START_TEST(only_zero_stages_that_the_stack_allows_are_proposed)
{
    struct instance of;
    struct scored_plan found[MOST_REMEDIES];
    instance_load_with(&of, "dgx-h100", "llama3");
    struct evaluator *with = evaluator_new(&of.system, &of.model);
    struct plan whole = plan_on(&of.system, &of.model, "tp2 pp4 dp2 mb2 vpp2 sp", &arena);
    double most_bytes = evaluate_peak_bytes(with, &whole) - 1;
    int count = search_remedies(&of.system, &of.model, &whole, most_bytes, &arena, found);
    int shards = 0;
    for (int i = 0; i < count; i++)
        shards = found[i].plan.zero > shards ? found[i].plan.zero : shards;
    ck_assert_int_ge(shards, 1);
    ck_assert_int_le(shards, of.system.stack.shards.pipeline_zero);
    evaluator_free(with);
    instance_release(&of);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("remedy");
    TCase *cases = tcase_create("remedies");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_fastest_sufficient_change_of_each_kind_is_found);
    tcase_add_test(cases, full_recompute_is_proposed_alone_where_nothing_less_fits);
    tcase_add_test(cases, two_changes_are_proposed_where_none_alone_fits);
    tcase_add_test(cases, no_change_is_proposed_if_none_fits);
    tcase_add_test(cases, only_zero_stages_that_the_stack_allows_are_proposed);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
