#include "tests/testing.h"

#include "base/random.h"

#include <math.h>

START_TEST(the_first_numbers_are_those_of_splitmix64)
{
    /* A generator with key 0 begins with the state 0. The expected numbers are those of the
     * reference implementation, https://prng.di.unimi.it/splitmix64.c. */
    struct random rng = { 0 };
    ck_assert_uint_eq(random_bits(&rng), 0xe220a8397b1dcdafu);
    ck_assert_uint_eq(random_bits(&rng), 0x6e789e6aa1b965f4u);
    ck_assert_uint_eq(random_bits(&rng), 0x06c45d188009454fu);
}
END_TEST

START_TEST(the_nth_number_depends_only_on_key_and_count)
{
    struct random rng = random_new(7, 3);
    for (int i = 0; i < 10; i++)
        random_bits(&rng);
    struct random late = random_new(7, 3);
    late.count = 10;
    ck_assert_uint_eq(random_bits(&rng), random_bits(&late));
}
END_TEST

START_TEST(neighbouring_seeds_and_streams_share_no_number)
{
    struct random of[3] = { random_new(1, 0), random_new(2, 0), random_new(1, 1) };
    uint64_t drawn[3][100];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 100; j++)
            drawn[i][j] = random_bits(&of[i]);
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            for (int k = 0; k < 100; k++)
                for (int l = 0; l < 100; l++)
                    ck_assert_uint_ne(drawn[i][k], drawn[j][l]);
}
END_TEST

/* Chi-square of n equally likely cells has mean n - 1 and variance 2 (n - 1). The test allows six
 * standard deviations. */
START_TEST(numbers_below_n_are_uniform)
{
    enum { DRAWS = 100000 };
    static const int ns[] = { 1, 2, 3, 7, 64, 1000 };
    int n = ns[_i];
    int counts[1000] = { 0 };
    struct random rng = random_new(11, (uint64_t)n);
    for (int i = 0; i < DRAWS; i++) {
        int drawn = random_below(&rng, n);
        ck_assert(drawn >= 0 && drawn < n);
        counts[drawn]++;
    }
    double expected = DRAWS / (double)n;
    double chi_square = 0;
    for (int i = 0; i < n; i++)
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    ck_assert_double_le(fabs(chi_square - (n - 1)), 6 * sqrt(2 * (n - 1)));
}
END_TEST

START_TEST(unit_draws_are_uniform_in_0_to_1)
{
    enum { DRAWS = 100000 };
    struct random rng = random_new(13, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        double unit = random_unit(&rng);
        ck_assert(unit >= 0 && unit < 1);
        sum += unit;
        squares += unit * unit;
    }
    ck_assert_double_eq_tol(sum / DRAWS, 1 / 2.0,
                            0.006); /* six standard deviations: 6 / sqrt(12 n) */
    ck_assert_double_eq_tol(squares / DRAWS, 1 / 3.0, 0.006);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_add_test(tests, the_first_numbers_are_those_of_splitmix64);
    tcase_add_test(tests, the_nth_number_depends_only_on_key_and_count);
    tcase_add_test(tests, neighbouring_seeds_and_streams_share_no_number);
    tcase_add_loop_test(tests, numbers_below_n_are_uniform, 0, 6);
    tcase_add_test(tests, unit_draws_are_uniform_in_0_to_1);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
