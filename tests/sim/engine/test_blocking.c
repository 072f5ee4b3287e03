/* not under tsan: it has one thread. */
/* The time that the host adds to a pass, for asynchronous and for blocking launches. */
#include "sim/engine/simulate.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <math.h>

static double step_s(double issue_s, bool blocks)
{
    planned.system.stack.host.issue_s = issue_s;
    planned.system.stack.host.launches_block = blocks;
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct prediction prediction = evaluate(evaluator, &planned.plan);
    evaluator_free(evaluator);
    return prediction.step_s;
}

/* If each launch takes 10 s on a host that launches ahead, the host alone determines the step. So
 * the step's time shows the number of launches. Blocking launches add this number times the time of
 * a launch to the GPU's time, however long a launch takes. */
START_TEST(blocking_launches_add_to_the_gpus_time)
{
    static const char *const layouts[] = { "mb1", "mb4 recompute=full" };
    static const double slow_s = 10, issue_s = 50e-6;
    planned_load("dgx-a100-80g", "megatron-2021", "gpt3-1.3b", 1);
    planned.model.batch = 8;
    planned_layout(layouts[_i]);
    double launches = step_s(slow_s, false) / slow_s;
    double gpu_s = step_s(0, true);
    ck_assert_double_eq(gpu_s, step_s(0, false));
    ck_assert_double_eq_tol((step_s(issue_s, true) - gpu_s) / (launches * issue_s), 1, 1e-3);
    ck_assert_double_eq_tol((step_s(issue_s / 8, true) - gpu_s) / (launches * issue_s / 8), 1,
                            1e-3);
    ck_assert_double_lt(step_s(issue_s / 8, false) - gpu_s, launches * issue_s / 80);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("blocking");
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_loop_test(tc, blocking_launches_add_to_the_gpus_time, 0, 2);
    Suite *s = suite_create("sim/engine/blocking");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
