#include "tests/testing.h"

#include "search/sweep.h"
#include "tests/draw.h"

enum { MOST_PLANS = 40, TIMES = 12 };

/* Stairs is the set of non-dominated pairs of memory and time. The test compares it with a scan of
 * all plans. Sizes and times are drawn from a few values, so that many are equal. */
START_TEST(stairs_return_the_least_time_within_each_memory)
{
    struct random rng = random_new((uint64_t)_i, 0);
    struct stair plans[MOST_PLANS];
    struct stairs stairs = { 0 };
    for (int n = 0; n < MOST_PLANS; n++) {
        plans[n] = (struct stair){ within(&rng, 1, TIMES), within(&rng, 1, TIMES) };
        stairs_add(&stairs, plans[n].bytes, plans[n].step_s);
        size_t num_steps = 0;
        double last_s = TIMES + 1;
        for (int bytes = 0; bytes <= TIMES + 1; bytes++) {
            double least_s = TIMES + 1;
            for (int i = 0; i <= n; i++)
                if (plans[i].bytes <= bytes && plans[i].step_s < least_s)
                    least_s = plans[i].step_s;
            num_steps += least_s < last_s;
            last_s = least_s;
            for (int step_s = 1; step_s <= TIMES; step_s++)
                ck_assert_int_eq(stairs_beat(&stairs, bytes, step_s), least_s < step_s);
        }
        ck_assert_uint_eq(stairs.count, num_steps); /* no step is stored twice */
    }
    stairs_release(&stairs);
    ck_assert_uint_eq(stairs.count, 0);
}
END_TEST

START_TEST(times_equal_up_to_rounding_are_not_faster)
{
    struct stairs stairs = { 0 };
    stairs_add(&stairs, 1, 1);
    ck_assert(!stairs_beat(&stairs, 1, 1 + 1e-9));
    ck_assert(stairs_beat(&stairs, 1, 1 + 1e-6));
    stairs_release(&stairs);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("stairs");
    tcase_add_loop_test(tc, stairs_return_the_least_time_within_each_memory, 0, 20);
    tcase_add_test(tc, times_equal_up_to_rounding_are_not_faster);
    Suite *s = suite_create("search/stairs");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
