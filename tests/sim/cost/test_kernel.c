#include "sim/cost/kernel.h"

#include "sim/cost/compute.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>

static struct kernel *add_table(struct kernel *table, const char *json)
{
    struct err err = { 0 };
    json_t *object = json_loads(json, 0, NULL);
    ck_assert(object != NULL);
    ck_assert_msg(kernel_read(object, table, &err), "%s: %s", err.where, err.msg);
    json_decref(object);
    return table;
}

static const char products[] = "{\"op\": \"gemm\", \"points\": ["
                               "[64, 64, 64, 1, \"10 us\"], [128, 256, 64, 1, \"50 us\"],"
                               "[512, 512, 512, 1, \"2.7 ms\"], [1024, 256, 512, 1, \"2.6 ms\"]]}";

START_TEST(a_measured_shape_takes_its_measured_time)
{
    struct kernel table;
    add_table(&table, products);
    for (int i = 0; i < table.num_points; i++) {
        double s = kernel_s(&table, table.points[i].size);
        ck_assert_double_eq_tol(s / table.points[i].time_s, 1, 0.01);
    }
    kernel_release(&table);
}
END_TEST

/* A size that this kind of op does not have counts as 1. An expected number of rows may be below
 * 1. */
START_TEST(a_missing_size_counts_as_one)
{
    struct op op = { .kind = OP_NORM, .m = 0.5, .n = 1, .batch = 3 };
    double size[NUM_KERNEL_SIZES];
    kernel_size_of(&op, size);
    ck_assert(size[0] == 0.5 && size[1] == 1 && size[2] == 1 && size[3] == 3);
}
END_TEST

START_TEST(an_op_without_work_takes_no_time)
{
    struct kernel table;
    add_table(&table, products);
    for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
        double size[NUM_KERNEL_SIZES] = { 64, 64, 64, 1 };
        size[i] = 0;
        ck_assert_double_eq(kernel_s(&table, size), 0);
    }
    kernel_release(&table);
}
END_TEST

/* A made-up time of a product with m rows: 0.02 ns per multiply-add, times 1 + 16 / m. */
static double made_up_s(const double size[NUM_KERNEL_SIZES])
{
    return 2e-11 * size[0] * size[1] * size[2] * size[3] * (1 + 16 / size[0]);
}

/* The trend of a table of measured times is linear in the logarithms of the sizes. It is a
 * least-squares fit, with a prior for slope 0 that weighs as much as one point. At the minimum the
 * derivative with respect to each slope is 0, so the sum of residuals times the distance from the
 * mean size equals the slope. */
START_TEST(the_trend_equals_regularised_least_squares)
{
    struct kernel table;
    add_table(&table, products);
    double mean = 0;
    for (int p = 0; p < table.num_points; p++)
        mean += table.points[p].rest / table.num_points;
    ck_assert_double_eq_tol(mean, 0, 1e-12);
    for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
        double sum = 0;
        for (int p = 0; p < table.num_points; p++)
            sum += table.points[p].rest * (table.points[p].log_size[i] - table.middle[i]);
        ck_assert_double_eq_tol(sum, table.slope[i], 1e-12);
    }
    ck_assert_double_ne(table.slope[0], 0);
    kernel_release(&table);
}
END_TEST

START_TEST(between_measured_shapes_a_smooth_cost_is_interpolated_within_percents)
{
    struct kernel table = { .kind = OP_GEMM, .points = calloc(64, sizeof(struct kernel_point)) };
    for (double m = 32; m <= 2048; m *= 4)
        for (double n = 64; n <= 1024; n *= 4)
            for (double k = 64; k <= 1024; k *= 4) {
                struct kernel_point *point = &table.points[table.num_points++];
                *point = (struct kernel_point){ .size = { m, n, k, 1 } };
                point->time_s = made_up_s(point->size);
            }
    kernel_fit(&table);
    for (double m = 40; m < 2000; m *= 1.3)
        for (double n = 70; n < 1000; n *= 1.7) {
            double size[NUM_KERNEL_SIZES] = { m, n, 300, 1 };
            ck_assert_double_eq_tol(kernel_s(&table, size) / made_up_s(size), 1, 0.12);
        }
    kernel_release(&table);
}
END_TEST

START_TEST(beyond_the_largest_shape_time_grows_with_the_work)
{
    struct kernel table;
    add_table(&table, products);
    double once = kernel_s(&table, (double[]){ 1 << 16, 1 << 14, 1 << 14, 1 });
    double twice = kernel_s(&table, (double[]){ 1 << 17, 1 << 14, 1 << 14, 1 });
    ck_assert_double_eq_tol(twice / once, 2, 0.05);
    kernel_release(&table);
}
END_TEST

START_TEST(a_variant_uses_its_own_table_or_else_the_first)
{
    struct kernel tables[2];
    add_table(&tables[0], "{\"op\": \"activation\", \"variant\": \"gelu\", \"points\": "
                          "[[8, 8, 1, 1, \"1 us\"]]}");
    add_table(&tables[1], "{\"op\": \"activation\", \"variant\": \"swiglu\", \"points\": "
                          "[[8, 8, 1, 1, \"2 us\"]]}");
    ck_assert_ptr_eq(kernel_find(tables, 2, OP_ACTIVATION, PASS_FORWARD, "swiglu"), &tables[1]);
    ck_assert_ptr_eq(kernel_find(tables, 2, OP_ACTIVATION, PASS_FORWARD, "relu"), &tables[0]);
    ck_assert_ptr_null(kernel_find(tables, 2, OP_ACTIVATION, PASS_BACKWARD_INPUT, "gelu"));
    ck_assert_ptr_null(kernel_find(tables, 2, OP_NORM, PASS_FORWARD, "gelu"));
    kernel_release(&tables[0]);
    kernel_release(&tables[1]);
}
END_TEST

START_TEST(a_table_replaces_the_formula_only_for_its_ops)
{
    struct kernel table;
    struct gpu gpu = { .peak_flops_per_s[DTYPE_FP32] = 1e12,
                       .memory_bytes_per_s = 1e12,
                       .num_sms = 1 };
    struct profile profile = { .memory_efficiency = 1, .kernels = &table, .num_kernels = 1 };
    add_table(&table, "{\"op\": \"bias_grad\", \"pass\": \"weight_gradient\", \"points\": "
                      "[[64, 256, 1, 1, \"7 us\"]]}");
    struct op op = { .kind = OP_BIAS_GRAD,
                     .pass = PASS_BACKWARD_WEIGHT,
                     .m = 64,
                     .n = 256,
                     .batch = 1,
                     .bytes = 1e6 };
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &op), 7e-6, 1e-8);
    op.kind = OP_NORM;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &op), 1e-6, 1e-12);
    kernel_release(&table);
}
END_TEST

/* Six groups, each a product of 128 x 256 x 64 that takes 50 us. */
START_TEST(groups_of_a_measured_product_run_one_after_another)
{
    struct kernel table;
    struct gpu gpu = { .peak_flops_per_s[DTYPE_FP32] = 1e12,
                       .memory_bytes_per_s = 1e12,
                       .num_sms = 1 };
    struct profile profile = { .memory_efficiency = 1, .kernels = &table, .num_kernels = 1 };
    add_table(&table, products);
    struct op one = {
        .kind = OP_GEMM, .m = 128, .n = 256, .k = 64, .batch = 1, .flops = 5, .bytes = 7
    };
    struct op six = one;
    six.batch = 6;
    six.flops *= 6;
    six.bytes *= 6;
    double one_s = op_s(&gpu, &profile, ATTENTION_FLASH2, &one);
    ck_assert_double_eq_tol(one_s / 50e-6, 1, 0.01);
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &six), 6 * one_s, 1e-12);
    kernel_release(&table);
}
END_TEST

START_TEST(written_tables_read_back_equal)
{
    struct kernel table, again;
    struct err err = { 0 };
    add_table(&table, products);
    json_t *object = kernel_write(&table);
    ck_assert_msg(kernel_read(object, &again, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_eq(again.num_points, table.num_points);
    for (int i = 0; i < table.num_points; i++)
        ck_assert(again.points[i].time_s == table.points[i].time_s);
    ck_assert(again.level == table.level);
    json_decref(object);
    kernel_release(&table);
    kernel_release(&again);
}
END_TEST

static const struct {
    const char *json, *where;
} faults[] = {
    { "{\"op\": \"gem\", \"points\": [[1, 1, 1, 1, \"1 s\"]]}", "op" },
    { "{\"op\": \"gemm\", \"points\": []}", "points" },
    { "{\"op\": \"gemm\", \"points\": [[1, 1, 1, \"1 s\"]]}", "points[0]" },
    { "{\"op\": \"gemm\", \"points\": [[1, 0, 1, 1, \"1 s\"]]}", "points[0]" },
    { "{\"op\": \"gemm\", \"points\": [[1, 1, 1, 1, \"1 s\"], [1, 1, 1, 1, \"0 s\"]]}",
      "points[1]" },
    { "{\"op\": \"gemm\", \"points\": [[1, 1, 1, 1, \"1\"]]}", "points[0]" },
    { "{\"op\": \"gemm\", \"pass\": \"back\", \"points\": [[1, 1, 1, 1, \"1 s\"]]}", "pass" },
};

START_TEST(an_error_in_a_kernel_table_names_its_key)
{
    struct kernel table;
    struct err err = { 0 };
    json_t *object = json_loads(faults[_i].json, 0, NULL);
    ck_assert(!kernel_read(object, &table, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    json_decref(object);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("kernel");
    tcase_add_test(cases, a_measured_shape_takes_its_measured_time);
    tcase_add_test(cases, an_op_without_work_takes_no_time);
    tcase_add_test(cases, a_missing_size_counts_as_one);
    tcase_add_test(cases, the_trend_equals_regularised_least_squares);
    tcase_add_test(cases, between_measured_shapes_a_smooth_cost_is_interpolated_within_percents);
    tcase_add_test(cases, beyond_the_largest_shape_time_grows_with_the_work);
    tcase_add_test(cases, a_variant_uses_its_own_table_or_else_the_first);
    tcase_add_test(cases, a_table_replaces_the_formula_only_for_its_ops);
    tcase_add_test(cases, written_tables_read_back_equal);
    tcase_add_loop_test(cases, an_error_in_a_kernel_table_names_its_key, 0, LENGTH(faults));
    tcase_add_test(cases, groups_of_a_measured_product_run_one_after_another);
    Suite *s = suite_create("sim/cost/kernel");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
