#include "tests/testing.h"

#include "exec/comm/comm.h"
#include "tests/exec/exchange/exchange_case.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Checks that the delivered sums plus the ranks' error-feedback buffers equal the sum of all
 * gradients so far. */
static bool loses_nothing(struct exchange_side *side, const struct exchange_case *of)
{
    double delivered[ALL_ELEMENTS] = { 0 };
    enum { STEPS = 120 };
    bool ok = true;
    for (int step = 0; step < STEPS && ok; step++) {
        if (step < 5)
            exchange_case_fill(side, of, step, side->gradients);
        else
            memset(side->gradients, 0, sizeof(float) * ALL_ELEMENTS);
        ok = exchange_case_sum_step(side, step);
        for (size_t i = 0; i < ALL_ELEMENTS; i++)
            delivered[i] += (double)side->gradients[i];
    }
    for (size_t i = 0; i < ALL_ELEMENTS; i++) {
        double given = 0;
        for (int step = 0; step < 5; step++)
            given += (double)exchange_case_sum(of, step, i);
        ok = ok && fabs(delivered[i] - given) < 1e-3;
    }
    return ok;
}

START_TEST(delivered_sums_plus_error_memory_equal_all_gradients)
{
    static const char *const with_memory[] = { "topk:0.02", "neolithic:0.02:rounds=2",
                                               "powersgd:2" };
    for (int i = 0; i < LENGTH(with_memory); i++)
        exchange_case_run(&comm_local, (struct exchange_case){ .word = with_memory[i],
                                                               .size = 3,
                                                               .per_node = 1,
                                                               .check = loses_nothing,
                                                               .seed = 7 });
}
END_TEST

/* If the gradient is constant, EF21's estimate of the gradient converges, because each step
 * corrects k further elements. */
static bool catches_up(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 10 && ok; step++) {
        exchange_case_fill(side, of, 0, side->gradients);
        ok = exchange_case_sum_step(side, step);
    }
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->gradients[i] == exchange_case_sum(of, 0, i);
    return ok;
}

START_TEST(the_estimate_of_ef21_converges_to_a_constant_gradient)
{
    exchange_case_run(
        &comm_local,
        (struct exchange_case){
            .word = "ef21:0.1", .size = 4, .per_node = 1, .check = catches_up, .seed = 9 });
}
END_TEST

/* Without error feedback, two rounds of top-k send the k largest elements, then the next k. */
static bool sums_into_averaged(struct exchange_side *side, const struct exchange_case *of)
{
    exchange_case_fill(side, of, 0, side->gradients);
    bool ok = exchange_case_sum_step(side, 0);
    float *kept = ((float **)(uintptr_t)of->seed)[side->on.rank];
    memcpy(kept, side->gradients, sizeof(float) * ALL_ELEMENTS);
    return ok;
}

START_TEST(two_rounds_send_the_elements_of_one_round_with_twice_the_share)
{
    static const char *const two[] = { "neolithic:0.1:rounds=2:memory=off",
                                       "neolithic:0.2:rounds=1:memory=off" };
    static float found[2][2][ALL_ELEMENTS];
    for (int i = 0; i < 2; i++) {
        float *kept[] = { found[i][0], found[i][1] };
        exchange_case_run(&comm_local, (struct exchange_case){ .word = two[i],
                                                               .size = 2,
                                                               .per_node = 1,
                                                               .check = sums_into_averaged,
                                                               .seed = (uint64_t)(uintptr_t)kept });
    }
    ck_assert_mem_eq(found[0][0], found[1][0], sizeof found[0][0]);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("compression");
    tcase_add_test(tc, delivered_sums_plus_error_memory_equal_all_gradients);
    tcase_add_test(tc, the_estimate_of_ef21_converges_to_a_constant_gradient);
    tcase_add_test(tc, two_rounds_send_the_elements_of_one_round_with_twice_the_share);
    Suite *s = suite_create("exec/exchange: compression");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
