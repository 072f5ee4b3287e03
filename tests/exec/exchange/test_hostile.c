/* Tests the parser of the option --hostile NUMBER:KIND[:STRENGTH], which makes data ranks send
 * false gradients. */
#include "exec/exchange/hostile.h"

#include "tests/testing.h"

#include <string.h>

static const struct {
    const char *text;
    int count, falsity;
    double strength; /* 0: the default strength of the kind */
} said[] = {
    { "1", 1, FALSITY_FLIP, 0 },
    { "3:flip", 3, FALSITY_FLIP, 0 },
    { "2:noise:2.5", 2, FALSITY_NOISE, 2.5 },
    { "16777216:silence", 1 << 24, FALSITY_SILENCE, 0 },
};

START_TEST(number_kind_and_strength_are_parsed)
{
    struct hostility usual, hostility;
    struct err err = { 0 };
    ck_assert(hostility_read("1", &usual, &err));
    ck_assert_msg(hostility_read(said[_i].text, &hostility, &err), "%s", err.msg);
    ck_assert_int_eq(hostility.count, said[_i].count);
    ck_assert_int_eq((int)hostility.falsity, said[_i].falsity);
    ck_assert_double_eq((double)hostility.strength,
                        said[_i].strength > 0 ? said[_i].strength : (double)usual.strength);
}
END_TEST

static const char *const faults[] = { "",        "0:flip",   "-1",         "x:flip",
                                      "1x:flip", "16777217", "1:",         "1:flap",
                                      ":flip",   "1:flip:x", "1:flip:2:3", "1:noise:-1" };

START_TEST(other_words_are_refused)
{
    struct hostility hostility;
    struct err err = { 0 };
    ck_assert_msg(!hostility_read(faults[_i], &hostility, &err), "--hostile %s was accepted",
                  faults[_i]);
    ck_assert_int_eq(err.code, ERR_USAGE);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("hostile");
    tcase_add_loop_test(tc, number_kind_and_strength_are_parsed, 0, LENGTH(said));
    tcase_add_loop_test(tc, other_words_are_refused, 0, LENGTH(faults));
    Suite *s = suite_create("exec/exchange/hostile");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
