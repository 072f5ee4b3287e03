#include "sim/cost/kernel_launch.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

static const struct stack passes = {
    .host = { .launch = LAUNCH_PASSES, .issue_s = 5e-6, .graph_kernel_s = 1e-6 }
};

static struct arena arena;

static enum launch launch_of(const char *layout)
{
    struct plan plan = plan_of(layout, &arena);
    return plan_launch(&plan, &passes);
}

START_TEST(repeated_passes_are_launched_as_graphs)
{
    ck_assert_int_eq(launch_of("mb1"), LAUNCH_GRAPHS);
    ck_assert_int_eq(launch_of("dp8 zero1 recompute=full"), LAUNCH_GRAPHS);
    ck_assert_int_eq(launch_of("pp2"), LAUNCH_EAGER);
}
END_TEST

START_TEST(passes_with_collectives_in_them_are_issued_op_by_op)
{
    ck_assert_int_eq(launch_of("tp2"), LAUNCH_EAGER);
    ck_assert_int_eq(launch_of("dp2 zero2"), LAUNCH_EAGER);
    ck_assert_int_eq(launch_of("dp2 zero3"), LAUNCH_EAGER);
    /* a single rank gathers nothing, so its passes have no collectives */
    ck_assert_int_eq(launch_of("zero3"), LAUNCH_GRAPHS);
}
END_TEST

START_TEST(a_stacks_fixed_way_to_launch_holds_for_every_plan)
{
    struct plan plan = plan_of("tp2 pp2", &arena);
    struct stack stack = passes;
    for (int launch = LAUNCH_EAGER; launch <= LAUNCH_GRAPHS; launch++) {
        stack.host.launch = launch;
        ck_assert_int_eq(plan_launch(&plan, &stack), launch);
    }
}
END_TEST

START_TEST(the_issue_time_per_kernel_is_lower_in_a_graph)
{
    struct plan one = plan_of("mb1", &arena), two = plan_of("tp2", &arena);
    ck_assert_double_eq(plan_issue_s(&one, &passes), 1e-6);
    ck_assert_double_eq(plan_issue_s(&two, &passes), 5e-6);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("sim/cost/kernel_launch");
    TCase *cases = tcase_create("launch");
    tcase_add_test(cases, repeated_passes_are_launched_as_graphs);
    tcase_add_test(cases, passes_with_collectives_in_them_are_issued_op_by_op);
    tcase_add_test(cases, a_stacks_fixed_way_to_launch_holds_for_every_plan);
    tcase_add_test(cases, the_issue_time_per_kernel_is_lower_in_a_graph);
    suite_add_tcase(suite, cases);
    return suite;
}

TEST_MAIN(suite)
