#include "calibration/measure/bench_output.h"

#include "base/file.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *fixture(const char *name, char *path, size_t size)
{
    const char *data = getenv("SIMSEARCH_DATA");
    snprintf(path, size, "%s/tests/fixtures/%s", data ? data : ".", name);
    return path;
}

START_TEST(nccl_tests_output_is_read_as_a_curve_of_its_ranks_and_hosts)
{
    char path[400];
    struct curve curve;
    struct err err = { 0 };
    ck_assert_msg(
        bench_output_read_nccl(fixture("nccl_all_reduce.txt", path, sizeof path), &curve, &err),
        "%s: %s", err.where, err.msg);
    ck_assert_int_eq(curve.collective, COLLECTIVE_ALL_REDUCE);
    ck_assert_int_eq(curve.num_ranks, 8);
    ck_assert_int_eq(curve.num_nodes, 1);
    ck_assert_int_eq(curve.num_points, 4);
    ck_assert(curve.points[3].bytes == 8388608);
    ck_assert_double_eq_tol(curve.points[3].time_s, 81e-6, 1e-12);
}
END_TEST

/* The benchmark prints the bytes that one rank contributes; the curve has the bytes of the gathered
 * buffer. */
START_TEST(osu_output_is_read_as_a_curve_of_the_given_ranks)
{
    char path[400];
    struct curve curve;
    struct err err = { 0 };
    ck_assert_msg(
        bench_output_read_osu(fixture("osu_allgather.txt", path, sizeof path), 16, &curve, &err),
        "%s: %s", err.where, err.msg);
    ck_assert_int_eq(curve.collective, COLLECTIVE_ALL_GATHER);
    ck_assert_int_eq(curve.num_ranks, 16);
    ck_assert_int_eq(curve.num_points, 5);
    ck_assert(curve.points[4].bytes == 16.0 * 1048576);
    ck_assert_double_eq_tol(curve.points[4].time_s, 1650.75e-6, 1e-9);
}
END_TEST

static const struct {
    bool is_osu;
    int num_ranks;
    const char *text;
    const char *where; /* end of the error's `where` */
    const char *says;
} faults[] = {
    { false, 0, "#  Rank  0 on a device 0\n 8 2 float sum -1 nan 0 0 0 1 0 0 0\n", ":2",
      "columns" },
    { false, 0, "hello\n", ":1", "rows of sizes" },
    { false, 0, "# all_reduce_perf\n 8 2 float sum -1 1 0 0 0 1 0 0 0\n", ":2", "2 ranks" },
    { false, 0, " 8 2 float sum -1 1 0 0 0 1 0 0 0\n", ":1", "which collective" },
    { false, 0, "16 2 float sum -1 1 0 0 0 1 0 0 0\n 8 2 float sum -1 1 0 0 0 1 0 0 0\n", ":2",
      "above 16" },
    { false, 0, " 8 2 float sum -1 0 0 0 0 1 0 0 0\n", ":1", "time above 0" },
    { true, 4, "# OSU MPI Allreduce Latency Test v5.9\n# Size\n4 1.5\n8\n", ":4", "1 columns" },
    { true, 0, "# OSU MPI Allreduce Latency Test v5.9\n4 1.5\n", ":2", "2 ranks" },
};

START_TEST(a_faulty_line_is_named)
{
    char path[] = "/tmp/test_bench_output.XXXXXX";
    struct curve curve;
    struct err err = { 0 };
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, faults[_i].text, strlen(faults[_i].text)),
                     (int)strlen(faults[_i].text));
    close(file);
    bool ok = faults[_i].is_osu ? bench_output_read_osu(path, faults[_i].num_ranks, &curve, &err)
                                : bench_output_read_nccl(path, &curve, &err);
    unlink(path);
    ck_assert(!ok);
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, faults[_i].where) != NULL, "the place in the error is %s: %s",
                  err.where, err.msg);
    ck_assert_msg(strstr(err.msg, faults[_i].says) != NULL, "%s", err.msg);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("bench_output");
    tcase_add_test(cases, nccl_tests_output_is_read_as_a_curve_of_its_ranks_and_hosts);
    tcase_add_test(cases, osu_output_is_read_as_a_curve_of_the_given_ranks);
    tcase_add_loop_test(cases, a_faulty_line_is_named, 0, LENGTH(faults));
    Suite *s = suite_create("calibration/measure/bench_output");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
