#include "tests/testing.h"

#include "base/normal.h"
#include "calibration/fit/held_peaks.h"
#include "calibration/fit/stack_widths.h"

#include <math.h>
#include <string.h>

static const struct peak_variances variances = { 0.0016, 0.0036 };

/* S is the shift of a stack (the error common to all runs of a training software), with variance
 * `between`, and e the error of a plan, with variance `within`, both normal with mean 0. A run that
 * did not run out of memory shows that S + e is at most b. With one such bound, S + e has a normal
 * distribution truncated at b. With D^2 the sum of the variances, z = b / D and l = phi(z) /
 * Phi(z), S has the mean -between / D x l and the variance between - between^2 / D^2 x l (z +
 * l). */
START_TEST(one_bound_has_a_closed_form)
{
    double all = variances.between + variances.within, deviation = sqrt(all);
    for (double bound = -0.3; bound < 0.4; bound += 0.05) {
        struct held_peak peak = { "stack", "model", "gpu", bound };
        struct peak_shift found = peak_shift_find(variances, &peak, 1);
        double z = bound / deviation, l = normal_density(z) / normal_cdf(z);
        ck_assert_double_eq_tol(found.mean, -variances.between / deviation * l, 1e-6);
        ck_assert_double_eq_tol(
            found.variance,
            variances.between - variances.between * variances.between / all * l * (z + l), 1e-6);
    }
}
END_TEST

START_TEST(distant_bounds_change_nothing)
{
    struct held_peak peaks[20];
    for (int i = 0; i < LENGTH(peaks); i++)
        peaks[i] = (struct held_peak){ "stack", i % 2 ? "one" : "two", i % 3 ? "a" : "b", 0.5 };
    struct peak_shift found = peak_shift_find(variances, peaks, LENGTH(peaks));
    ck_assert_double_eq_tol(found.mean, 0, 1e-9);
    ck_assert_double_eq_tol(found.variance, variances.between, 1e-9);
    found = peak_shift_find(variances, peaks, 0);
    ck_assert_double_eq_tol(found.variance, variances.between, 1e-9);
}
END_TEST

/* Runs of further models add evidence; further runs of the same model on the same GPU add none,
 * unless their bounds are tighter. */
START_TEST(only_the_tightest_bound_of_a_model_on_a_gpu_counts)
{
    struct held_peak peaks[] = { { "stack", "one", "a", 0.02 },
                                 { "stack", "one", "a", 0.02 },
                                 { "stack", "one", "a", 0.05 },
                                 { "stack", "one", "b", 0.05 },
                                 { "stack", "two", "a", 0.05 } };
    struct peak_shift one = peak_shift_find(variances, peaks, 1);
    struct peak_shift same = peak_shift_find(variances, peaks, 3);
    struct peak_shift two = peak_shift_find(variances, peaks, 4);
    struct peak_shift three = peak_shift_find(variances, peaks, 5);
    ck_assert_double_eq(one.mean, same.mean);
    ck_assert_double_eq(one.variance, same.variance);
    ck_assert_double_lt(two.mean, one.mean);
    ck_assert_double_lt(three.mean, two.mean);
    ck_assert_double_lt(three.variance, one.variance);
}
END_TEST

/* Shifts of stacks are +-0.1, and errors of plans around them are +-0.02. With many rows per stack,
 * `between` is found to be the variance of the shifts, and `within` that of the errors. */
START_TEST(variances_are_those_of_stacks_and_of_plans)
{
    enum { STACKS = 6, ROWS = 100 };
    static const char *const names[STACKS] = { "a", "b", "c", "d", "e", "f" };
    static struct width_row rows[STACKS * ROWS];
    for (int i = 0; i < STACKS * ROWS; i++)
        rows[i] = (struct width_row){ .stack = names[i / ROWS],
                                      .error = (i / ROWS % 2 ? 0.1 : -0.1) + (i % 2 ? 0.02 : -0.02),
                                      .shares = { 1 } };
    struct peak_variances found = peak_variances_find(rows, STACKS * ROWS);
    ck_assert_double_eq_tol(found.between, 0.01, 1e-4);
    ck_assert_double_eq_tol(found.within, 0.0004, 1e-5);
    found = peak_variances_find(rows, 0);
    ck_assert_double_eq(found.between, 0);
    ck_assert_double_eq(found.within, 0);
}
END_TEST

/* The error interval of a stack whose memory peaks were measured keeps 0 as its centre. Runs that
 * did not run out of memory never widen an interval or raise its centre. The layout of Llama 3 and
 * the layouts of llm-foundry, whose batches fill the memory, lower the centre. */
START_TEST(shipped_stacks_are_shifted_where_runs_fitted)
{
    struct fit_table table;
    struct families families;
    struct err err = { 0 };
    double pooled = 0;
    ck_assert_msg(fit_table_load(NULL, &table, &err), "%s", err.msg);
    ck_assert_int_gt(table.num_ran, 0);
    ck_assert_msg(families_find(&table, NULL, 0, 2, &families, &err), "%s: %s", err.where, err.msg);
    pooled = families_of(&families, "megatron-core")->memory;
    ck_assert_double_eq(families_of(&families, "megatron-core")->memory_shift, 0);
    ck_assert_double_eq(families_of(&families, "megatron-2023")->memory_shift, 0);
    static const char *const shifted[] = { "llama3", "llm-foundry", "deepspeed-zero3" };
    for (int i = 0; i < LENGTH(shifted); i++) {
        const struct family_widths *family = families_of(&families, shifted[i]);
        ck_assert_double_lt(family->memory_shift, 0);
        ck_assert_double_gt(family->memory_shift, -pooled);
        ck_assert_double_lt(family->memory, pooled);
    }
    families_release(&families);
    fit_table_release(&table);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/fit/held_peaks");
    TCase *laws = tcase_create("laws");
    tcase_add_test(laws, one_bound_has_a_closed_form);
    tcase_add_test(laws, distant_bounds_change_nothing);
    tcase_add_test(laws, only_the_tightest_bound_of_a_model_on_a_gpu_counts);
    tcase_add_test(laws, variances_are_those_of_stacks_and_of_plans);
    tcase_add_test(laws, shipped_stacks_are_shifted_where_runs_fitted);
    suite_add_tcase(s, laws);
    return s;
}

TEST_MAIN(suite)
