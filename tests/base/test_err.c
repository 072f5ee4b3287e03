#include "base/err.h"
#include "base/plain.h"
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

START_TEST(the_first_failure_is_kept)
{
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, "a", "cause");
    ck_assert(!err_set(&err, ERR_INPUT, "b", "consequence"));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "a");
    ck_assert_str_eq(err.msg, "cause");
}
END_TEST

START_TEST(a_failure_is_passed_on_unless_one_is_already_set)
{
    struct err from = { 0 }, err = { 0 };
    err_set(&from, ERR_SYSTEM, "a", "cause");
    ck_assert(!err_pass(&err, &from));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "a");
    ck_assert_str_eq(err.msg, "cause");
    ck_assert(!err_pass(&err, &(struct err){ .code = ERR_INPUT, .msg = "consequence" }));
    ck_assert_str_eq(err.msg, "cause");
}
END_TEST

START_TEST(a_prefix_is_put_before_where_and_the_rest_is_unchanged)
{
    struct err err = { 0 };
    err_set(&err, ERR_INPUT, "bandwidth", "is missing");
    err_prefix(&err, "levels[1].");
    err_prefix(&err, "h200.json: ");
    ck_assert_str_eq(err.where, "h200.json: levels[1].bandwidth");
    ck_assert_str_eq(err.msg, "is missing");
}
END_TEST

START_TEST(a_place_inside_a_value_is_written_after_the_values_key)
{
    struct err err = { 0 };
    err_set(&err, ERR_INPUT, "", "expected a number");
    err_within(&err, "[3]");
    err_within_item(&err, "points", 2);
    ck_assert_str_eq(err.where, "points[2][3]");
    ck_assert(!err_within_item(&err, "kernels", 0));
    ck_assert_str_eq(err.where, "kernels[0].points[2][3]");
    ck_assert(!err_within(&err, "profile"));
    ck_assert_str_eq(err.where, "profile.kernels[0].points[2][3]");
}
END_TEST

START_TEST(a_prefix_that_is_too_long_is_cut_and_the_key_is_kept)
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

/* Control characters, characters that change the direction of writing, and invalid UTF-8. */
static const struct {
    const char *text, *plain;
} plain_texts[] = {
    { "h100 · 80 GiB, 東京, \U0001F680", "h100 · 80 GiB, 東京, \U0001F680" },
    { "\x1b]0;title\a", "?]0;title?" },
    { "a\xc2\x9b"
      "2J",
      "a?2J" }, /* the C1 form of ESC [ */
    { "a\x9b"
      "2J",
      "a?2J" },                               /* ESC [ in Latin-1 */
    { "\u202eexe.txt", "?exe.txt" },          /* right-to-left override */
    { "\u2066a\u2069\u200e\u061c", "?a???" }, /* isolates and marks */
    { "a\u2028b\u2029", "a?b?" },             /* ends of lines */
    { "\xe2\x80", "??" },                     /* cut short */
    { "\xed\xa0\x80\xc0\xaf\xff", "??????" }, /* a surrogate, an overlong form, an invalid byte */
};

START_TEST(only_plain_text_reaches_the_terminal)
{
    struct err err = { 0 };
    const char *text = plain_texts[_i].text, *plain = plain_texts[_i].plain;
    err_set(&err, ERR_INPUT, text, "%s", text);
    ck_assert_str_eq(err.where, plain);
    ck_assert_str_eq(err.msg, plain);
    const char *fault = plain_fault(text);
    ck_assert_int_eq(fault == NULL, strcmp(text, plain) == 0);
    ck_assert(!fault || strncmp(text, plain, (size_t)(fault - text)) == 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("err");
    tcase_add_test(tc, setting_an_error_returns_false_and_fills_it);
    tcase_add_test(tc, the_first_failure_is_kept);
    tcase_add_test(tc, a_failure_is_passed_on_unless_one_is_already_set);
    tcase_add_test(tc, a_prefix_is_put_before_where_and_the_rest_is_unchanged);
    tcase_add_test(tc, a_place_inside_a_value_is_written_after_the_values_key);
    tcase_add_test(tc, a_prefix_that_is_too_long_is_cut_and_the_key_is_kept);
    tcase_add_test(tc, control_characters_never_reach_the_terminal);
    tcase_add_loop_test(tc, only_plain_text_reaches_the_terminal, 0, LENGTH(plain_texts));
    Suite *s = suite_create("base/err");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
