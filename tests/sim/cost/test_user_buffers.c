#include "tests/testing.h"

#include "sim/cost/user_buffers.h"

enum { COUNT = 3, RANKS = 4 };

struct list {
    struct timed_op at[COUNT];
    int after[COUNT];
    double left_s[COUNT];
};

/* Three ops, each of which reads the result of the one before and waits for it. */
static void make(struct list *list, const enum op_kind kinds[COUNT], const double s[COUNT])
{
    *list = (struct list){ 0 };
    for (int i = 0; i < COUNT; i++) {
        bool sends = op_is_collective(kinds[i]);
        list->at[i] = (struct timed_op){ .kind = kinds[i],
                                         .stream = sends ? STREAM_TENSOR : STREAM_COMPUTE,
                                         .pass = PASS_FORWARD };
        ids_add(&list->at[i].in, i);
        list->at[i].made = (short)(i + 1);
        list->after[i] = i - 1;
        list->left_s[i] = s[i];
    }
    user_buffers_overlap(list->at, COUNT, RANKS, list->after, list->left_s);
}

static const enum op_kind gathered[COUNT] = { OP_ALL_GATHER, OP_GEMM, OP_ACTIVATION };
static const enum op_kind scattered[COUNT] = { OP_GEMM, OP_REDUCE_SCATTER, OP_NORM };

START_TEST(a_product_runs_beside_the_gather_of_its_input)
{
    struct list list;
    make(&list, gathered, (double[COUNT]){ 1, 4, 2 });
    ck_assert_int_eq(list.after[1], -1);
    ck_assert_int_eq(list.after[2], 0);
    /* the last op keeps its 2 s: gather and first quarter of the product take 1 + 1 s, less than
     * the product's 4 s, so nothing is added */
    ck_assert_double_eq_tol(list.left_s[2], 2, 1e-12);
    make(&list, gathered, (double[COUNT]){ 6, 4, 2 });
    /* the last op gets 2 + 1 s: the last quarter of the product's 4 s runs after the gather */
    ck_assert_double_eq_tol(list.left_s[2], 3, 1e-12);
}
END_TEST

START_TEST(a_scatter_leaves_its_last_quarter_after_the_product)
{
    struct list list;
    make(&list, scattered, (double[COUNT]){ 8, 4, 2 });
    ck_assert_int_eq(list.after[1], -1);
    ck_assert_int_eq(list.after[2], 1);
    ck_assert_double_eq_tol(list.left_s[1], 3, 1e-12);
    /* the last op gets 2 + 1 s: the last quarter of the scatter's 4 s runs after the product's 8
     * s */
    ck_assert_double_eq_tol(list.left_s[2], 3, 1e-12);
    make(&list, scattered, (double[COUNT]){ 4, 8, 2 });
    ck_assert_double_eq_tol(list.left_s[1], 6, 1e-12);
    /* product and scatter take 4/4 + 8 = 9 s, of which the scatter keeps 6 s; the last op gets
     * 2 + 3 s */
    ck_assert_double_eq_tol(list.left_s[2], 5, 1e-12);
}
END_TEST

START_TEST(other_lists_stay_as_they_are)
{
    struct list list;
    make(&list, (enum op_kind[]){ OP_ALL_GATHER, OP_NORM, OP_GEMM }, (double[COUNT]){ 1, 2, 3 });
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(list.after[i], i - 1);
        ck_assert_double_eq(list.left_s[i], i + 1.0);
    }
}
END_TEST

START_TEST(copies_take_16_multiprocessors)
{
    ck_assert_double_eq_tol(user_buffers_slowdown(132), 132.0 / 116, 1e-12);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("user_buffers");
    tcase_add_test(tc, a_product_runs_beside_the_gather_of_its_input);
    tcase_add_test(tc, a_scatter_leaves_its_last_quarter_after_the_product);
    tcase_add_test(tc, other_lists_stay_as_they_are);
    tcase_add_test(tc, copies_take_16_multiprocessors);
    Suite *s = suite_create("sim/cost/user_buffers");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
