#include "base/arena.h"
#include "base/text.h"
#include "tests/testing.h"

#include <string.h>

static struct text text;

static void release(void)
{
    text_release(&text);
}

START_TEST(the_string_of_an_empty_text_is_empty)
{
    ck_assert_str_eq(text_get(&text), "");
}
END_TEST

START_TEST(text_is_appended_at_the_end)
{
    text_add(&text, "%d ranks", 8);
    text_add(&text, ", %s", "ring");
    ck_assert_str_eq(text_get(&text), "8 ranks, ring");
    ck_assert_uint_eq(text.length, strlen("8 ranks, ring"));
}
END_TEST

START_TEST(text_grows_beyond_its_first_allocation)
{
    for (int i = 0; i < 10000; i++)
        text_add(&text, "%04d ", i);
    ck_assert_uint_eq(strlen(text_get(&text)), 50000);
    ck_assert(strncmp(text_get(&text) + 49995, "9999 ", 5) == 0);
}
END_TEST

START_TEST(appending_nothing_gives_an_empty_string)
{
    text_add(&text, "%s", "");
    ck_assert_ptr_nonnull(text.at);
    ck_assert_str_eq(text.at, "");
}
END_TEST

START_TEST(a_text_that_is_kept_outlives_its_own_memory)
{
    struct arena arena = { 0 };
    text_add(&text, "%d ranks", 8);
    ck_assert_str_eq(text_keep(&text, &arena), "8 ranks");
    ck_assert_ptr_null(text.at);
    ck_assert_str_eq(text_keep(&text, &arena), "");
    arena_release(&arena);
}
END_TEST

START_TEST(columns_count_letters_and_not_bytes)
{
    ck_assert_int_eq(text_columns(""), 0);
    ck_assert_int_eq(text_columns("abc"), 3);
    ck_assert_int_eq(text_columns("█·é"), 3);
}
END_TEST

START_TEST(words_are_padded_to_columns_on_the_side_of_the_sign)
{
    text_add_padded(&text, "é·", 4);
    text_add_padded(&text, "█", -3);
    text_add_padded(&text, "wide", 2);
    text_add_padded(&text, "wide", -2);
    ck_assert_str_eq(text_get(&text), "é·    █widewide");
}
END_TEST

START_TEST(a_released_text_is_empty_and_usable)
{
    text_add(&text, "old");
    text_release(&text);
    ck_assert_str_eq(text_get(&text), "");
    text_add(&text, "new");
    ck_assert_str_eq(text_get(&text), "new");
}
END_TEST

static const char *const names[] = { "bandwidth", "latency", "memory", "tp" };

static const struct {
    const char *word;
    const char *nearest;
} slips[] = {
    { "bandwith", "bandwidth" },
    { "latencies", "latency" },
    { "memroy", "memory" },
    { "memory", "memory" },
    { "Latency", "latency" },
    { "tq", NULL },
    { "price", NULL },
    { "", NULL },
    { "band", NULL },
};
enum { NUM_SLIPS = LENGTH(slips) };

START_TEST(a_misspelled_name_finds_the_nearest_name)
{
    const char *nearest = text_nearest(slips[_i].word, names, LENGTH(names));
    if (slips[_i].nearest)
        ck_assert_str_eq(nearest, slips[_i].nearest);
    else
        ck_assert_ptr_null(nearest);
}
END_TEST

START_TEST(a_word_of_a_thousand_letters_has_no_nearest_name)
{
    char word[1001];
    memset(word, 'a', 1000);
    word[1000] = '\0';
    ck_assert_ptr_null(text_nearest(word, names, 4));
}
END_TEST

START_TEST(an_empty_list_has_no_nearest_name)
{
    ck_assert_ptr_null(text_nearest("memory", names, 0));
}
END_TEST

START_TEST(ends_in_is_true_only_for_endings_of_the_text)
{
    ck_assert(text_ends_in("plan.json", ".json") && text_ends_in(".json", ".json"));
    ck_assert(!text_ends_in("json", ".json") && !text_ends_in("plan.json5", ".json"));
    ck_assert(text_ends_in("", ""));
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("text");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, the_string_of_an_empty_text_is_empty);
    tcase_add_test(tc, text_is_appended_at_the_end);
    tcase_add_test(tc, text_grows_beyond_its_first_allocation);
    tcase_add_test(tc, appending_nothing_gives_an_empty_string);
    tcase_add_test(tc, a_text_that_is_kept_outlives_its_own_memory);
    tcase_add_test(tc, columns_count_letters_and_not_bytes);
    tcase_add_test(tc, words_are_padded_to_columns_on_the_side_of_the_sign);
    tcase_add_test(tc, a_released_text_is_empty_and_usable);
    tcase_add_loop_test(tc, a_misspelled_name_finds_the_nearest_name, 0, NUM_SLIPS);
    tcase_add_test(tc, a_word_of_a_thousand_letters_has_no_nearest_name);
    tcase_add_test(tc, an_empty_list_has_no_nearest_name);
    tcase_add_test(tc, ends_in_is_true_only_for_endings_of_the_text);
    Suite *s = suite_create("base/text");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
