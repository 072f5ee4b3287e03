#include "calibration/measure/host_resume.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct arena arena;
static struct host_shapes shapes;
static char path[64];
static const struct host_op op = { .kind = OP_SOFTMAX,
                                   .pass = 1,
                                   .variant = "dropout",
                                   .size = { 2, 3, 5, 7 },
                                   .time = { 3e-6, 2e-6, 4e-6 } };

static void set_up(void)
{
    arena = (struct arena){ 0 };
    shapes = host_shapes_grid(GRID_GPU, true, &arena);
    snprintf(path, sizeof path, "/tmp/host_resume-%d", (int)getpid());
    unlink(path);
}

static void tear_down(void)
{
    unlink(path);
    arena_release(&arena);
}

static struct host_resume *opened(const char *at)
{
    struct err err = { 0 };
    struct host_resume *resume = host_resume_open(at, &shapes, &err);
    ck_assert_msg(resume != NULL, "%s: %s", err.where, err.msg);
    return resume;
}

static struct host_ops no_ops(void)
{
    return (struct host_ops){ .at = ARENA_ARRAY(&arena, struct host_op, 8), .room = 8 };
}

/* Keeps a measurement for the shape at index 2. */
static void keep_op(void)
{
    struct err err = { 0 };
    struct host_resume *resume = opened(path);
    struct host_ops ops = no_ops();
    ops.at[ops.count++] = op;
    ck_assert(host_resume_keep(resume, 2, &ops, 0, &err));
    host_resume_close(resume);
}

static bool is_known(int shape, struct host_ops *ops)
{
    struct host_resume *resume = opened(path);
    bool known = host_resume_take(resume, shape, &arena, ops);
    host_resume_close(resume);
    return known;
}

START_TEST(a_stored_measurement_is_reused)
{
    keep_op();
    struct host_ops ops = no_ops();
    ck_assert(!is_known(1, &ops));
    ck_assert(is_known(2, &ops));
    ck_assert_int_eq(ops.count, 1);
    ck_assert_int_eq(ops.at[0].kind, op.kind);
    ck_assert_int_eq(ops.at[0].pass, op.pass);
    ck_assert_str_eq(ops.at[0].variant, op.variant);
    ck_assert_mem_eq(ops.at[0].size, op.size, sizeof op.size);
    ck_assert_mem_eq(&ops.at[0].time, &op.time, sizeof op.time);
}
END_TEST

START_TEST(a_truncated_line_is_ignored)
{
    keep_op();
    struct host_ops ops = no_ops();
    FILE *file = fopen(path, "a");
    fputs("{\"3\":[[2,1,\"dropout\",[2.0,", file);
    fclose(file);
    ck_assert(!is_known(3, &ops));
    ck_assert(is_known(2, &ops));
}
END_TEST

START_TEST(ops_of_another_grid_are_ignored)
{
    keep_op();
    struct host_ops ops = no_ops();
    shapes = host_shapes_grid(GRID_GPU, false, &arena);
    ck_assert(!is_known(2, &ops));
}
END_TEST

START_TEST(indices_without_an_op_are_ignored)
{
    keep_op();
    struct host_ops ops = no_ops();
    FILE *file = fopen(path, "a");
    fputs("{\"4\":[[99,1,\"\",[1.0,1.0,1.0,1.0],[1.0,1.0,1.0]]],\"5\":[7],\"6\":7}\n", file);
    fclose(file);
    for (int shape = 4; shape <= 6; shape++)
        ck_assert(!is_known(shape, &ops));
    ck_assert_int_eq(ops.count, 0);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_reported)
{
    struct err err = { 0 };
    ck_assert_ptr_null(host_resume_open("/nonexistent/part", &shapes, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "/nonexistent/part");
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("host_resume");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_stored_measurement_is_reused);
    tcase_add_test(tc, a_truncated_line_is_ignored);
    tcase_add_test(tc, ops_of_another_grid_are_ignored);
    tcase_add_test(tc, indices_without_an_op_are_ignored);
    tcase_add_test(tc, a_file_that_cannot_be_written_is_reported);
    Suite *s = suite_create("calibration/measure/host_resume");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
