#include "calibration/measure/refine.h"

#include "tests/testing.h"

#include <math.h>

static const char tables[] =
    "[{\"op\": \"gemm\", \"points\": [[64, 64, 64, 1, \"10 us\"], [256, 64, 64, 1, \"30 us\"]]},"
    " {\"op\": \"norm\", \"points\": [[64, 64, 1, 1, \"4 us\"]]}]";

static struct kernel kernels[2];
static struct profile profile;

static void set_up(void)
{
    struct err err = { 0 };
    json_t *rows = json_loads(tables, 0, NULL);
    for (size_t i = 0; i < 2; i++)
        ck_assert(kernel_read(json_array_get(rows, i), &kernels[i], &err));
    json_decref(rows);
    profile = (struct profile){ .kernels = kernels, .num_kernels = 2 };
}

static void tear_down(void)
{
    for (int i = 0; i < 2; i++)
        kernel_release(&kernels[i]);
}

/* The ops are a matrix product of each size in the table, and a norm. */
static struct op ran_ops[] = {
    { .kind = OP_GEMM, .m = 64, .n = 64, .k = 64, .batch = 1 },
    { .kind = OP_GEMM, .m = 256, .n = 64, .k = 64, .batch = 1 },
    { .kind = OP_NORM, .m = 64, .n = 64, .k = 1, .batch = 1 },
};
static struct ops ran = { .at = ran_ops, .count = 3 };

static bool refine(const char *text, struct refinement *out, struct err *err)
{
    json_t *run = json_loads(text, 0, NULL);
    ck_assert(run != NULL);
    bool ok = refine_profile(run, &ran, &profile, out, err);
    json_decref(run);
    return ok;
}

START_TEST(a_kinds_times_are_scaled_by_its_measured_ratio)
{
    struct err err = { 0 };
    struct refinement found;
    double size[NUM_KERNEL_SIZES] = { 256, 64, 64, 1 };
    ck_assert(refine("{\"core_share\": 0.97, \"by_kind\": {\"gemm\": {\"measured_s\": 3,"
                     " \"predicted_s\": 2},"
                     " \"rotary\": {\"measured_s\": 3, \"predicted_s\": 2}}}",
                     &found, &err));
    ck_assert_double_eq_tol(found.factor[OP_GEMM], 1.5, 1e-12);
    ck_assert_double_eq_tol(kernel_s(&kernels[0], size), 45e-6, 1e-6);
    ck_assert_double_eq_tol(kernels[1].points[0].time_s, 4e-6, 1e-12);
    ck_assert(found.factor[OP_NORM] == 1 && found.factor[OP_ROTARY] == 1);
}
END_TEST

/* A measured run of the smaller product hardly affects a product with four times as many rows,
 * because its weight there is e^-8. */
START_TEST(shapes_far_from_those_measured_keep_their_times)
{
    struct err err = { 0 };
    struct refinement found;
    struct ops all = ran;
    ran.count = 1;
    ck_assert(
        refine("{\"by_kind\": {\"gemm\": {\"measured_s\": 3, \"predicted_s\": 2}}}", &found, &err));
    ran = all;
    ck_assert_double_eq_tol(kernels[0].points[0].time_s, 15e-6, 1e-12);
    ck_assert_double_eq_tol(kernels[0].points[1].time_s, 30e-6 * pow(1.5, exp(-8)), 1e-12);
}
END_TEST

START_TEST(a_kind_with_an_extreme_ratio_keeps_its_times)
{
    struct err err = { 0 };
    struct refinement found;
    ck_assert(
        refine("{\"by_kind\": {\"norm\": {\"measured_s\": 9, \"predicted_s\": 2}}}", &found, &err));
    ck_assert(found.factor[OP_NORM] == 1);
}
END_TEST

static const struct {
    const char *run, *where;
} faults[] = {
    { "{}", "by_kind" },
    { "{\"core_share\": 0.15, \"by_kind\": {\"gemm\": {\"measured_s\": 3, \"predicted_s\": 2}}}",
      "core_share" },
    { "{\"by_kind\": {\"norm\": {\"predicted_s\": 2}}}", "by_kind.norm.measured_s" },
    { "{\"by_kind\": {\"gemm\": {\"measured_s\": 1, \"predicted_s\": -1}}}",
      "by_kind.gemm.predicted_s" },
};

START_TEST(a_faulty_run_is_refused_by_its_key)
{
    struct err err = { 0 };
    struct refinement found;
    ck_assert(!refine(faults[_i].run, &found, &err));
    ck_assert_str_eq(err.where, faults[_i].where);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("refine");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, a_kinds_times_are_scaled_by_its_measured_ratio);
    tcase_add_test(cases, shapes_far_from_those_measured_keep_their_times);
    tcase_add_test(cases, a_kind_with_an_extreme_ratio_keeps_its_times);
    tcase_add_loop_test(cases, a_faulty_run_is_refused_by_its_key, 0, LENGTH(faults));
    Suite *s = suite_create("calibration/measure/refine");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
