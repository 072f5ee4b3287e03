#include "kernels/host/round.h"
#include "tests/testing.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A 16-bit format with `fraction` bits after the exponent. */
struct format {
    int fraction, least_exponent; /* least_exponent is the exponent of the smallest normal number */
    void (*pack)(long n, const float *x, uint16_t *out);
    void (*unpack)(long n, const uint16_t *x, float *out);
    void (*round)(long n, float *x);
};
static const struct format formats[] = {
    { 7, -126, bf16_pack, bf16_unpack, bf16_round },
    { 10, -14, fp16_pack, fp16_unpack, fp16_round },
};
enum { NUM_FORMATS = LENGTH(formats) };

/* The value of a bit pattern by definition, except for an exponent of all ones. */
static double value_of(const struct format *format, uint32_t pattern)
{
    uint32_t exponent = (pattern & 0x7fff) >> format->fraction;
    uint32_t fraction = pattern & ((1u << format->fraction) - 1);
    double significand = fraction + (exponent ? ldexp(1, format->fraction) : 0);
    int power = format->least_exponent - format->fraction + (exponent ? (int)exponent - 1 : 0);
    return (pattern & 0x8000 ? -1 : 1) * ldexp(significand, power);
}

static uint32_t infinity_of(const struct format *format)
{
    return 0x7fffu >> format->fraction << format->fraction;
}

static uint16_t packed(const struct format *format, float value)
{
    uint16_t pattern;
    format->pack(1, &value, &pattern);
    return pattern;
}

START_TEST(every_bit_pattern_has_its_value_and_round_trips)
{
    const struct format *format = &formats[_i];
    for (uint32_t pattern = 0; pattern < 0x10000; pattern++) {
        uint16_t half = (uint16_t)pattern;
        float value;
        format->unpack(1, &half, &value);
        uint32_t magnitude = pattern & 0x7fff;
        if (magnitude > infinity_of(format)) {
            ck_assert(isnan(value) && isnan(float_of(bits_of(value))));
            continue;
        }
        if (magnitude == infinity_of(format))
            ck_assert(isinf(value) && !signbit(value) == !(pattern & 0x8000));
        else
            ck_assert((double)value == value_of(format, pattern));
        ck_assert_uint_eq(packed(format, value), pattern);
    }
}
END_TEST

/* A float next to the midpoint of two neighbouring values rounds to the nearer one, and the
 * midpoint to the even one. Infinity is the upper neighbour of the largest number; here it has the
 * value of the next larger exponent. */
START_TEST(rounding_is_to_nearest_even)
{
    const struct format *format = &formats[_i];
    for (uint32_t low = 0; low < infinity_of(format); low++)
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            uint32_t high = low + 1, even = low & 1 ? high : low;
            double middle = (value_of(format, low) + value_of(format, high)) / 2;
            float at = (float)(sign ? -middle : middle);
            ck_assert((double)fabsf(at) == middle);
            ck_assert_uint_eq(packed(format, at), sign | even);
            ck_assert_uint_eq(packed(format, float_of(bits_of(at) - 1)), sign | low);
            ck_assert_uint_eq(packed(format, float_of(bits_of(at) + 1)), sign | high);
        }
}
END_TEST

START_TEST(too_large_values_become_infinite_and_nan_stays_nan)
{
    const struct format *format = &formats[_i];
    ck_assert_uint_eq(packed(format, FLT_MAX), infinity_of(format));
    ck_assert_uint_eq(packed(format, -FLT_MAX), 0x8000 | infinity_of(format));
    ck_assert_uint_eq(packed(format, -INFINITY), 0x8000 | infinity_of(format));
    ck_assert_uint_gt(packed(format, NAN) & 0x7fff, infinity_of(format));
    /* The upper 16 bits of this NaN are those of infinity, but its result must be a NaN. */
    ck_assert_uint_gt(packed(format, float_of(0x7f800001)) & 0x7fff, infinity_of(format));
    ck_assert_uint_gt(packed(format, float_of(0xffffffff)) & 0x7fff, infinity_of(format));
}
END_TEST

START_TEST(rounding_in_place_equals_packing_and_unpacking)
{
    enum { N = 1000 };
    const struct format *format = &formats[_i];
    float x[N], rounded[N];
    uint16_t halves[N];
    for (uint32_t i = 0; i < N; i++)
        x[i] = float_of(i * 4294967u);
    format->pack(N, x, halves);
    format->unpack(N, halves, rounded);
    format->round(N, x);
    ck_assert_mem_eq(x, rounded, sizeof x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_round");
    TCase *tests = tcase_create("host_round");
    tcase_add_loop_test(tests, every_bit_pattern_has_its_value_and_round_trips, 0, NUM_FORMATS);
    tcase_add_loop_test(tests, rounding_is_to_nearest_even, 0, NUM_FORMATS);
    tcase_add_loop_test(tests, too_large_values_become_infinite_and_nan_stays_nan, 0, NUM_FORMATS);
    tcase_add_loop_test(tests, rounding_in_place_equals_packing_and_unpacking, 0, NUM_FORMATS);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
