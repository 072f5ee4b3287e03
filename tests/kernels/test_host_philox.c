#include "kernels/host/philox.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* Random123's kat_vectors, "philox4x32 10". */
static const struct {
    uint32_t counter[4], key[2], words[4];
} known_answers[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};
enum { NUM_KNOWN = LENGTH(known_answers) };

static const struct draw draw = { .seed = 0x0123456789abcdef, .step = 7, .layer = 3, .op = 5 };

START_TEST(blocks_equal_the_reference_implementation)
{
    uint32_t words[4];
    philox4x32(known_answers[_i].counter, known_answers[_i].key, words);
    ck_assert_mem_eq(words, known_answers[_i].words, sizeof words);
}
END_TEST

START_TEST(element_e_is_word_e_mod_4_of_its_block)
{
    enum { N = 300 };
    uint64_t first = 0x3fffffff6; /* at this position the block number carries into the second word
                                     of the counter */
    uint32_t words[N], block[4];
    draw_words(&draw, first, N, words);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t at = (first + i) / 4;
        uint32_t counter[4] = { (uint32_t)at, (uint32_t)(at >> 32), 7, 3 << 16 | 5 };
        philox4x32(counter, (uint32_t[]){ 0x89abcdef, 0x01234567 }, block);
        ck_assert_uint_eq(words[i], block[(first + i) % 4]);
    }
}
END_TEST

START_TEST(drawing_in_pieces_equals_drawing_at_once)
{
    enum { N = 1000 };
    static const long cuts[] = { 0, 1, 2, 5, 66, 130, 131, 777, N };
    float normals[N], pieces[N];
    uint8_t keeps[N], kept_pieces[N];
    int64_t tokens[N], token_pieces[N];
    draw_normal(&draw, 2, 13, N, normals);
    draw_keeps(&draw, 0.3, 13, N, keeps);
    draw_tokens(&draw, 50257, 13, N, tokens);
    for (size_t i = 0; i + 1 < LENGTH(cuts); i++) {
        uint64_t first = 13 + (uint64_t)cuts[i];
        long n = cuts[i + 1] - cuts[i];
        draw_normal(&draw, 2, first, n, pieces + cuts[i]);
        draw_keeps(&draw, 0.3, first, n, kept_pieces + cuts[i]);
        draw_tokens(&draw, 50257, first, n, token_pieces + cuts[i]);
    }
    ck_assert_mem_eq(normals, pieces, sizeof normals);
    ck_assert_mem_eq(keeps, kept_pieces, sizeof keeps);
    ck_assert_mem_eq(tokens, token_pieces, sizeof tokens);
}
END_TEST

START_TEST(each_part_of_the_key_changes_the_drawn_words)
{
    const struct draw others[] = {
        { .seed = draw.seed + 1, .step = 7, .layer = 3, .op = 5 },
        { .seed = draw.seed + (1ull << 32), .step = 7, .layer = 3, .op = 5 },
        { .seed = draw.seed, .step = 8, .layer = 3, .op = 5 },
        { .seed = draw.seed, .step = 7, .layer = 4, .op = 5 },
        { .seed = draw.seed, .step = 7, .layer = 3, .op = 6 },
    };
    uint32_t words[64], other[64];
    draw_words(&draw, 0, 64, words);
    for (size_t i = 0; i < LENGTH(others); i++) {
        draw_words(&others[i], 0, 64, other);
        int equal = 0;
        for (int j = 0; j < 64; j++)
            equal += words[j] == other[j];
        ck_assert_int_eq(equal, 0);
    }
}
END_TEST

enum { DRAWS = 100000 };

/* The number of dropped values may differ from its mean by six standard deviations. */
START_TEST(dropout_drops_its_stated_share)
{
    static const double shares[] = { 0, 0.1, 0.5, 0.999 };
    static uint8_t keeps[DRAWS];
    double share = shares[_i], dropped = 0;
    draw_keeps(&draw, share, 0, DRAWS, keeps);
    for (long i = 0; i < DRAWS; i++)
        dropped += !keeps[i];
    ck_assert_double_le(fabs(dropped - DRAWS * share), 6 * sqrt(DRAWS * share * (1 - share)));
}
END_TEST

/* The estimate of the n-th moment of normal values has the variance ((2n-1)!! - moment^2) /
 * DRAWS. */
START_TEST(normal_numbers_have_the_moments_of_a_normal_distribution)
{
    static float values[DRAWS];
    double sums[5] = { 0 }, neighbours = 0;
    draw_normal(&draw, 3, 0, DRAWS, values);
    for (long i = 0; i < DRAWS; i++) {
        double value = (double)values[i] / 3, power = 1;
        for (int n = 1; n <= 4; n++)
            sums[n] += (power *= value);
        neighbours += i % 2 ? value * (double)values[i - 1] / 3 : 0;
    }
    double root = sqrt(DRAWS);
    ck_assert_double_le(fabs(sums[1]) / DRAWS, 6 * sqrt(1) / root);
    ck_assert_double_le(fabs(sums[2] / DRAWS - 1), 6 * sqrt(2) / root);
    ck_assert_double_le(fabs(sums[3]) / DRAWS, 6 * sqrt(15) / root);
    ck_assert_double_le(fabs(sums[4] / DRAWS - 3), 6 * sqrt(96) / root);
    ck_assert_double_le(fabs(neighbours) / DRAWS, 6 * sqrt(0.5) / root);
}
END_TEST

/* Checks the chi-square statistic of the counts, as in test_random.c. */
START_TEST(tokens_are_uniform_over_the_vocabulary)
{
    static const uint32_t vocabs[] = { 1, 2, 7, 1000 };
    static int64_t tokens[DRAWS];
    uint32_t vocab = vocabs[_i];
    int counts[1000] = { 0 };
    draw_tokens(&draw, vocab, 0, DRAWS, tokens);
    for (long i = 0; i < DRAWS; i++) {
        ck_assert(tokens[i] >= 0 && tokens[i] < vocab);
        counts[tokens[i]]++;
    }
    double expected = (double)DRAWS / vocab, chi_square = 0;
    for (uint32_t i = 0; i < vocab; i++)
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    ck_assert_double_le(fabs(chi_square - (vocab - 1)), 6 * sqrt(2 * (vocab - 1.0)));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_philox");
    TCase *tests = tcase_create("host_philox");
    tcase_add_loop_test(tests, blocks_equal_the_reference_implementation, 0, NUM_KNOWN);
    tcase_add_test(tests, element_e_is_word_e_mod_4_of_its_block);
    tcase_add_test(tests, drawing_in_pieces_equals_drawing_at_once);
    tcase_add_test(tests, each_part_of_the_key_changes_the_drawn_words);
    tcase_add_loop_test(tests, dropout_drops_its_stated_share, 0, 4);
    tcase_add_test(tests, normal_numbers_have_the_moments_of_a_normal_distribution);
    tcase_add_loop_test(tests, tokens_are_uniform_over_the_vocabulary, 0, 4);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
