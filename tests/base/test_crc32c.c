#include "base/crc32c.h"
#include "tests/testing.h"

#include <string.h>

/* Examples from RFC 3720, appendix B.4. */
START_TEST(published_examples_have_their_published_sums)
{
    unsigned char bytes[32] = { 0 };
    ck_assert_uint_eq(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    ck_assert_uint_eq(crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(crc32c(0, bytes, 32), 0x46dd794e);
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
}
END_TEST

START_TEST(the_sum_of_no_bytes_is_0)
{
    ck_assert_uint_eq(crc32c(0, "", 0), 0);
}
END_TEST

START_TEST(a_sum_in_pieces_equals_the_sum_of_the_whole)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog";
    uint32_t whole = crc32c(0, text, sizeof text);
    for (size_t cut = 0; cut <= sizeof text; cut++)
        ck_assert_uint_eq(crc32c(crc32c(0, text, cut), text + cut, sizeof text - cut), whole);
}
END_TEST

START_TEST(every_flipped_bit_changes_the_sum)
{
    unsigned char bytes[101];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37);
    uint32_t whole = crc32c(0, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_uint_ne(crc32c(0, bytes, sizeof bytes), whole);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("crc32c");
    tcase_add_test(tc, published_examples_have_their_published_sums);
    tcase_add_test(tc, the_sum_of_no_bytes_is_0);
    tcase_add_test(tc, a_sum_in_pieces_equals_the_sum_of_the_whole);
    tcase_add_test(tc, every_flipped_bit_changes_the_sum);
    Suite *s = suite_create("base/crc32c");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
