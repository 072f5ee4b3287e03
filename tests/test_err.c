#include "base/err.h"
#include "tests/testing.h"

#include <string.h>

START_TEST(setting_an_error_returns_false_and_fills_it)
{
    struct err err = { 0 };
    ck_assert(!err_set(&err, ERR_INPUT, "plan.tensor", "%d does not divide %d", 3, 8));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "plan.tensor");
    ck_assert_str_eq(err.msg, "3 does not divide 8");
}
END_TEST

START_TEST(the_first_failure_wins)
{
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, "a", "cause");
    ck_assert(!err_set(&err, ERR_INPUT, "b", "consequence"));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "a");
    ck_assert_str_eq(err.msg, "cause");
}
END_TEST

START_TEST(a_prefix_goes_before_where_and_keeps_the_rest)
{
    struct err err = { 0 };
    err_set(&err, ERR_INPUT, "bandwidth", "is missing");
    err_prefix(&err, "levels[1].");
    err_prefix(&err, "h200.json: ");
    ck_assert_str_eq(err.where, "h200.json: levels[1].bandwidth");
    ck_assert_str_eq(err.msg, "is missing");
}
END_TEST

START_TEST(a_prefix_that_is_too_long_never_costs_the_key)
{
    struct err err = { 0 };
    char outer[1000];
    memset(outer, 'x', sizeof outer - 1);
    outer[sizeof outer - 1] = '\0';
    err_set(&err, ERR_INPUT, ".key", "is missing");
    err_prefix(&err, outer);
    ck_assert_uint_eq(strlen(err.where), sizeof err.where - 1);
    ck_assert_str_eq(err.where + sizeof err.where - 1 - strlen(".key"), ".key");
}
END_TEST

START_TEST(control_characters_never_reach_the_terminal)
{
    struct err err = { 0 };
    err_set(&err, ERR_INPUT, "\x1b[31mkey", "found \"a\nb\"");
    err_prefix(&err, "a\tb: ");
    ck_assert_str_eq(err.where, "a?b: ?[31mkey");
    ck_assert_str_eq(err.msg, "found \"a?b\"");
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("err");
    tcase_add_test(tc, setting_an_error_returns_false_and_fills_it);
    tcase_add_test(tc, the_first_failure_wins);
    tcase_add_test(tc, a_prefix_goes_before_where_and_keeps_the_rest);
    tcase_add_test(tc, a_prefix_that_is_too_long_never_costs_the_key);
    tcase_add_test(tc, control_characters_never_reach_the_terminal);
    Suite *s = suite_create("base/err");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
