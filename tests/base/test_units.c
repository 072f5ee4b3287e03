#include "base/units.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NUM_QUANTITIES = QUANTITY_TOKENS + 1 };

static double parsed(const char *text, enum quantity quantity)
{
    struct err err = { 0 };
    double value = 0;
    ck_assert_msg(units_parse(text, quantity, &value, &err), "%s: %s", text, err.msg);
    return value;
}

static void assert_reads_back(double value, enum quantity quantity)
{
    char text[64];
    units_write(value, quantity, text, sizeof text);
    double again = parsed(text, quantity);
    ck_assert_msg(memcmp(&value, &again, sizeof value) == 0, "%a is written \"%s\"", value, text);
}

/* Values computed by hand. Results must have the same bits as these literals. */
static const struct {
    const char *text;
    enum quantity quantity;
    double value;
} examples[] = {
    { "450 GB/s", QUANTITY_BYTES_PER_S, 4.5e11 },
    { "3.35 TB/s", QUANTITY_BYTES_PER_S, 3.35e12 },
    { "80 GiB", QUANTITY_BYTES, 80.0 * 1024 * 1024 * 1024 },
    { "141 GB", QUANTITY_BYTES, 141e9 },
    { "0 B", QUANTITY_BYTES, 0 },
    { "1.5 KiB", QUANTITY_BYTES, 1536 },
    { "2.1 us", QUANTITY_SECONDS, 2.1e-6 },
    { "300 ns", QUANTITY_SECONDS, 3e-7 },
    { "2 h", QUANTITY_SECONDS, 7200 },
    { "1 d", QUANTITY_SECONDS, 86400 },
    { "989.4 TFLOP/s", QUANTITY_FLOPS_PER_S, 989.4e12 },
    { "1.98 GHz", QUANTITY_HERTZ, 1.98e9 },
    { "700 W", QUANTITY_WATTS, 700 },
    { "2.5 $/h", QUANTITY_DOLLARS_PER_HOUR, 2.5 },
    { "300 Btok", QUANTITY_TOKENS, 3e11 },
};
enum { NUM_EXAMPLES = LENGTH(examples) };

START_TEST(numbers_are_read_as_the_nearest_double_and_written_unchanged)
{
    char text[64];
    units_write(examples[_i].value, examples[_i].quantity, text, sizeof text);
    ck_assert_double_eq(parsed(examples[_i].text, examples[_i].quantity), examples[_i].value);
    ck_assert_str_eq(text, examples[_i].text);
}
END_TEST

START_TEST(the_blank_before_a_unit_is_optional)
{
    ck_assert_double_eq(parsed("450GB/s", QUANTITY_BYTES_PER_S), 4.5e11);
    ck_assert_double_eq(parsed("  450   GB/s", QUANTITY_BYTES_PER_S), 4.5e11);
}
END_TEST

START_TEST(exponents_signs_and_bare_points_are_read)
{
    ck_assert_double_eq(parsed("1.5e3 MB", QUANTITY_BYTES), 1.5e9);
    ck_assert_double_eq(parsed("15E-1 GB", QUANTITY_BYTES), 1.5e9);
    ck_assert_double_eq(parsed("-.5 s", QUANTITY_SECONDS), -0.5);
    ck_assert_double_eq(parsed("5. s", QUANTITY_SECONDS), 5);
}
END_TEST

START_TEST(rates_in_bits_are_read_as_bytes_per_second)
{
    /* 400 Gb/s / 8 = 50 GB/s. */
    ck_assert_double_eq(parsed("400 Gb/s", QUANTITY_BYTES_PER_S), 50e9);
    ck_assert_double_eq(parsed("1.6 Tb/s", QUANTITY_BYTES_PER_S), 200e9);
}
END_TEST

START_TEST(decimal_and_binary_prefixes_differ)
{
    ck_assert_double_eq(parsed("1 GB", QUANTITY_BYTES), 1e9);
    ck_assert_double_eq(parsed("1 GiB", QUANTITY_BYTES), 1073741824);
}
END_TEST

START_TEST(a_week_is_seven_days)
{
    ck_assert_double_eq(parsed("2w", QUANTITY_SECONDS), 14 * 86400);
}
END_TEST

/* Calls `check` with "NUMBER UNIT" for every unit that units_names lists. */
static void for_each_unit(enum quantity quantity, const char *number,
                          void (*check)(const char *text, enum quantity quantity))
{
    const char *name = units_names(quantity);
    while (*name) {
        size_t length = strcspn(name, ",");
        char text[64];
        snprintf(text, sizeof text, "%s %.*s", number, (int)length, name);
        check(text, quantity);
        name += length + strspn(name + length, ", ");
    }
}

static void check_text_reads_back(const char *text, enum quantity quantity)
{
    assert_reads_back(parsed(text, quantity), quantity);
}

START_TEST(every_unit_of_every_quantity_is_read_and_written_back)
{
    static const char *const numbers[] = {
        "1", "0", "7", "0.1", "3.14159", "1023.9", "1e-3", "-2"
    };
    for (size_t i = 0; i < LENGTH(numbers); i++)
        for_each_unit((enum quantity)_i, numbers[i], check_text_reads_back);
}
END_TEST

START_TEST(the_example_of_every_quantity_is_written_unchanged)
{
    char text[64];
    const char *example = units_example((enum quantity)_i);
    units_write(parsed(example, (enum quantity)_i), (enum quantity)_i, text, sizeof text);
    ck_assert_str_eq(text, example);
}
END_TEST

START_TEST(random_doubles_are_written_and_read_back_equal)
{
    struct random rng = { .key = 1 };
    for (int i = 0; i < SAMPLED(2000, 700); i++) {
        uint64_t bits = random_bits(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_reads_back(value, (enum quantity)_i);
    }
}
END_TEST

START_TEST(random_everyday_values_are_written_and_read_back_equal)
{
    struct random rng = { .key = 2 };
    for (int i = 0; i < SAMPLED(2000, 700); i++) {
        double mantissa = random_unit(&rng);
        int exponent = within(&rng, -10, 17);
        assert_reads_back(mantissa * pow(10, exponent), (enum quantity)_i);
    }
}
END_TEST

START_TEST(the_smallest_and_largest_values_are_read_back_equal)
{
    static const double extremes[] = { 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp1023, -0.0 };
    for (size_t i = 0; i < LENGTH(extremes); i++)
        assert_reads_back(extremes[i], (enum quantity)_i);
}
END_TEST

static const struct {
    const char *text;
    const char *msg;
} faults[] = {
    { "80", "expected a quantity with its unit, like \"80 GiB\"; found the bare number 80" },
    { "0", "expected a quantity with its unit, like \"80 GiB\"; found the bare number 0" },
    { "", "expected a quantity with its unit, like \"80 GiB\"; found \"\"" },
    { "GiB", "expected a quantity with its unit, like \"80 GiB\"; found \"GiB\"" },
    { ". GiB", "expected a quantity with its unit, like \"80 GiB\"; found \". GiB\"" },
    { "nan GiB", "expected a quantity with its unit, like \"80 GiB\"; found \"nan GiB\"" },
    { "inf GiB", "expected a quantity with its unit, like \"80 GiB\"; found \"inf GiB\"" },
    { "+1 GiB", "expected a quantity with its unit, like \"80 GiB\"; found \"+1 GiB\"" },
    { "0x10 B", "expected one of the units B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB; "
                "found \"x10 B\"" },
    { "80 Gib", "expected one of the units B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB; "
                "found \"Gib\"" },
    { "80 GiB of it", "expected one of the units B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB; "
                      "found \"GiB of it\"" },
    { "80 GB/s", "expected one of the units B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB; "
                 "found \"GB/s\"" },
    { "1e999 B", "expected a finite quantity; found \"1e999 B\"" },
    { "1e99999999999999999999 B",
      "expected a finite quantity; found \"1e99999999999999999999 B\"" },
};
enum { NUM_FAULTS = LENGTH(faults) };

START_TEST(an_error_names_the_expected_and_the_found_text)
{
    struct err err = { 0 };
    double untouched = 42;
    ck_assert(!units_parse(faults[_i].text, QUANTITY_BYTES, &untouched, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "");
    ck_assert_str_eq(err.msg, faults[_i].msg);
    ck_assert_double_eq(untouched, 42);
}
END_TEST

START_TEST(a_number_of_a_thousand_digits_is_refused)
{
    struct err err = { 0 };
    double value;
    char text[1100];
    memset(text, '1', 1000);
    strcpy(text + 1000, " GB");
    ck_assert(!units_parse(text, QUANTITY_BYTES, &value, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
}
END_TEST

static const struct {
    double value;
    enum quantity quantity;
    const char *text;
} written[] = {
    { 8.589934592e10, QUANTITY_BYTES, "80 GiB" },
    { 1e12, QUANTITY_BYTES, "1 TB" },
    { 1500, QUANTITY_BYTES, "1.5 kB" },
    { 0, QUANTITY_SECONDS, "0 s" },
    { -4.5e11, QUANTITY_BYTES_PER_S, "-450 GB/s" },
    { 90, QUANTITY_SECONDS, "90 s" },
    { 1.2345678901234567e-5, QUANTITY_SECONDS, "12.345678901234568 us" },
    { 1e-12, QUANTITY_SECONDS, "0.001 ns" },
    { 1e-30, QUANTITY_SECONDS, "1e-21 ns" },
    { 0.5, QUANTITY_DOLLARS_PER_HOUR, "0.5 $/h" },
    { 0.0625, QUANTITY_DOLLARS_PER_HOUR, "0.0625 $/h" },
    { 5e18, QUANTITY_BYTES, "5000 PB" },
    { 1e30, QUANTITY_WATTS, "1e24 MW" },
};
enum { NUM_WRITTEN = LENGTH(written) };

START_TEST(the_unit_that_gives_a_short_number_is_written)
{
    char text[64];
    units_write(written[_i].value, written[_i].quantity, text, sizeof text);
    ck_assert_str_eq(text, written[_i].text);
}
END_TEST

static const struct {
    double value;
    enum quantity quantity;
    const char *text;
} shown[] = {
    { 9.41, QUANTITY_SECONDS, "9.41 s" },
    { 9.996, QUANTITY_SECONDS, "10.0 s" },
    { 0.9996, QUANTITY_SECONDS, "1.00 s" },
    { 0.012345, QUANTITY_SECONDS, "12.3 ms" },
    { 2.1e-6, QUANTITY_SECONDS, "2.10 us" },
    { 1e-12, QUANTITY_SECONDS, "0.001 ns" },
    { 600, QUANTITY_SECONDS, "600 s" },
    { 7200, QUANTITY_SECONDS, "2.00 h" },
    { 86400 * 12.34, QUANTITY_SECONDS, "12.3 d" },
    { 59 * 0x1p30, QUANTITY_BYTES, "59.0 GiB" },
    { 512, QUANTITY_BYTES, "512 B" },
    { 0, QUANTITY_BYTES, "0 B" },
    { 3.35e12, QUANTITY_BYTES_PER_S, "3.35 TB/s" },
    { 989.4e12, QUANTITY_FLOPS_PER_S, "989 TFLOP/s" },
    { -1.5e-3, QUANTITY_SECONDS, "-1.50 ms" },
};
enum { NUM_SHOWN = LENGTH(shown) };

START_TEST(values_for_people_have_three_digits)
{
    char text[64];
    units_show(shown[_i].value, shown[_i].quantity, text, sizeof text);
    ck_assert_str_eq(text, shown[_i].text);
}
END_TEST

static void assert_count_is_shown(double value, const char *expected)
{
    char text[64];
    units_show_count(value, text, sizeof text);
    ck_assert_str_eq(text, expected);
}

START_TEST(counts_are_shown_with_a_letter)
{
    assert_count_is_shown(0, "0");
    assert_count_is_shown(8, "8");
    assert_count_is_shown(999, "999");
    assert_count_is_shown(333700, "334 k");
    assert_count_is_shown(1.2e6, "1.20 M");
    assert_count_is_shown(175e9, "175 B");
    assert_count_is_shown(15e12, "15.0 T");
    assert_count_is_shown(1.5, "1.50");
}
END_TEST

static const struct {
    double days;
    const char *text;
} durations[] = {
    { 1e-4, "8.64 s" },
    { 0.25, "0.25 days" },
    { 11.713, "11.7 days" },
    { 999.4, "999 days" },
    { 1461, "4 years" },
    { 9334, "25.6 years" },
    { 365.25 * 999.9, "1 thousand years" },
    { 3.681e7, "101 thousand years" },
    { 365.25 * 2.5e6, "2.5 million years" },
    { 365.25 * 3e9, "3 billion years" },
    { 365.25 * 3e14, "300 trillion years" },
    { 1e300, "over 1000 trillion years" },
    { HUGE_VAL, "never" },
};
enum { NUM_DURATIONS = LENGTH(durations) };

START_TEST(long_times_are_words_and_no_exponents)
{
    char text[64];
    units_show_duration(durations[_i].days * 86400, text, sizeof text);
    ck_assert_str_eq(text, durations[_i].text);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("units");
    tcase_add_loop_test(tc, numbers_are_read_as_the_nearest_double_and_written_unchanged, 0,
                        NUM_EXAMPLES);
    tcase_add_test(tc, the_blank_before_a_unit_is_optional);
    tcase_add_test(tc, exponents_signs_and_bare_points_are_read);
    tcase_add_test(tc, rates_in_bits_are_read_as_bytes_per_second);
    tcase_add_test(tc, decimal_and_binary_prefixes_differ);
    tcase_add_test(tc, a_week_is_seven_days);
    tcase_add_loop_test(tc, every_unit_of_every_quantity_is_read_and_written_back, 0,
                        NUM_QUANTITIES);
    tcase_add_loop_test(tc, the_example_of_every_quantity_is_written_unchanged, 0, NUM_QUANTITIES);
    tcase_add_loop_test(tc, random_doubles_are_written_and_read_back_equal, 0, NUM_QUANTITIES);
    tcase_add_loop_test(tc, random_everyday_values_are_written_and_read_back_equal, 0,
                        NUM_QUANTITIES);
    tcase_add_loop_test(tc, the_smallest_and_largest_values_are_read_back_equal, 0, NUM_QUANTITIES);
    tcase_add_loop_test(tc, an_error_names_the_expected_and_the_found_text, 0, NUM_FAULTS);
    tcase_add_test(tc, a_number_of_a_thousand_digits_is_refused);
    tcase_add_loop_test(tc, the_unit_that_gives_a_short_number_is_written, 0, NUM_WRITTEN);
    tcase_add_loop_test(tc, values_for_people_have_three_digits, 0, NUM_SHOWN);
    tcase_add_loop_test(tc, long_times_are_words_and_no_exponents, 0, NUM_DURATIONS);
    tcase_add_test(tc, counts_are_shown_with_a_letter);
    Suite *s = suite_create("base/units");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
