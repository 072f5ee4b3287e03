#include "sim/collective/collective.h"

#include "sim/collective/measured_curve.h"
#include "tests/sim/collective/nccl_groups.h"
#include "tests/testing.h"

#include <math.h>

/* The measured curve of a collective: 100 us at 1 MiB and 160 us at 4 MiB. */

static struct curve measured_curve(void)
{
    static const double points[][2] = { { MIB, 100e-6 }, { 4 * MIB, 160e-6 }, { 64 * MIB, 1e-3 } };
    struct curve curve = { .num_points = 3 };
    for (int i = 0; i < curve.num_points; i++)
        curve.points[i] = (struct curve_point){ points[i][0], points[i][1], log(points[i][0]),
                                                log(points[i][1]) };
    return curve;
}

static struct comm_group measured_group(const struct curve *curve)
{
    struct comm_group group = nccl_groups[A100_NODE];
    group.curves[COLLECTIVE_ALL_REDUCE] = curve;
    return group;
}

START_TEST(a_measured_size_takes_the_measured_time)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    for (int i = 0; i < curve.num_points; i++)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, curve.points[i].bytes),
                                curve.points[i].time_s, 1e-15);
}
END_TEST

/* Half way between 1 and 4 MiB on a log scale is 2 MiB: sqrt(100 x 160) us. */
START_TEST(between_measured_sizes_log_time_is_linear_in_log_size)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, 2 * MIB),
                            sqrt(100e-6 * 160e-6), 1e-12);
}
END_TEST

/* A point-to-point message has a measured curve of its own. */
START_TEST(a_message_takes_what_was_measured_and_beyond_it_the_model_is_scaled)
{
    struct curve curve = measured_curve();
    const struct comm_group *model = &nccl_groups[A100_NODE];
    struct comm_group group = *model;
    group.message_curve = &curve;
    ck_assert_double_eq_tol(point_to_point_s(&group, MIB), 100e-6, 1e-15);
    ck_assert_double_eq_tol(point_to_point_s(&group, 2 * MIB), sqrt(100e-6 * 160e-6), 1e-12);
    ck_assert_double_eq_tol(point_to_point_s(&group, 4),
                            100e-6 * point_to_point_s(model, 4) / point_to_point_s(model, MIB),
                            1e-12);
    ck_assert_double_eq_tol(
        point_to_point_s(&group, 256 * MIB),
        1e-3 * point_to_point_s(model, 256 * MIB) / point_to_point_s(model, 64 * MIB), 1e-12);
    ck_assert_double_eq(point_to_point_s(&group, 0), 0);
}
END_TEST

START_TEST(beyond_measured_sizes_the_model_is_scaled_to_the_curves_ends)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    const struct comm_group *model = &nccl_groups[A100_NODE];
    for (double bytes = 1; bytes < MIB; bytes *= 3)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, bytes) / 100e-6,
                                collective_s(model, COLLECTIVE_ALL_REDUCE, bytes) /
                                    collective_s(model, COLLECTIVE_ALL_REDUCE, MIB),
                                1e-12);
    for (double bytes = 65 * MIB; bytes < 1e18; bytes *= 3)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, bytes) / 1e-3,
                                collective_s(model, COLLECTIVE_ALL_REDUCE, bytes) /
                                    collective_s(model, COLLECTIVE_ALL_REDUCE, 64 * MIB),
                                1e-9 * bytes / MIB);
    double end_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 64 * MIB);
    double beyond_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 64 * MIB * (1 + 1e-9));
    ck_assert_double_eq_tol(beyond_s / end_s, 1, 1e-6);
}
END_TEST

START_TEST(a_curve_changes_one_collectives_time_but_not_nccls_choice)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    const struct comm_group *model = &nccl_groups[A100_NODE];
    ck_assert_double_eq(collective_s(&group, COLLECTIVE_ALL_GATHER, MIB),
                        collective_s(model, COLLECTIVE_ALL_GATHER, MIB));
    ck_assert_double_eq(collective_choose(&group, COLLECTIVE_ALL_REDUCE, MIB).time_s,
                        collective_choose(model, COLLECTIVE_ALL_REDUCE, MIB).time_s);
    ck_assert_double_eq(collective_s(&group, COLLECTIVE_ALL_REDUCE, 0), 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *measured = tcase_create("measured");
    tcase_add_test(measured, a_measured_size_takes_the_measured_time);
    tcase_add_test(measured, between_measured_sizes_log_time_is_linear_in_log_size);
    tcase_add_test(measured, beyond_measured_sizes_the_model_is_scaled_to_the_curves_ends);
    tcase_add_test(measured, a_curve_changes_one_collectives_time_but_not_nccls_choice);
    tcase_add_test(measured, a_message_takes_what_was_measured_and_beyond_it_the_model_is_scaled);

    Suite *s = suite_create("sim/cost/collective: measured curves");
    suite_add_tcase(s, measured);
    return s;
}

TEST_MAIN(suite)
