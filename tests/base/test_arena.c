#include "base/arena.h"
#include "tests/testing.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

static bool is_zero(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Sizes near the size of the first block (64 KiB), of the doubled blocks and of the largest
 * block. */
static const size_t sizes[] = { 0, 1, 15, 16, 17, 4096, 65535, 65536, 65537, 200000, 9000000 };
enum { NUM_SIZES = LENGTH(sizes) };

START_TEST(memory_of_any_size_is_zeroed_and_aligned_for_any_type)
{
    for (int round = 0; round < 3; round++) {
        unsigned char *at = arena_alloc(&arena, sizes[_i]);
        ck_assert_uint_eq((uintptr_t)at % _Alignof(max_align_t), 0);
        ck_assert(is_zero(at, sizes[_i]));
        memset(at, 0xff, sizes[_i]);
    }
}
END_TEST

START_TEST(allocations_do_not_overlap)
{
    unsigned char *blocks[1000];
    for (size_t i = 0; i < 1000; i++)
        blocks[i] = memset(arena_alloc(&arena, i), (int)(i % 251), i);
    for (size_t i = 0; i < 1000; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_eq(blocks[i][j], i % 251);
}
END_TEST

START_TEST(memory_is_zeroed_again_after_a_reset)
{
    struct arena_mark mark;
    arena_alloc(&arena, 8);
    mark = arena_mark(&arena);
    unsigned char *first = memset(arena_alloc(&arena, 100), 0xff, 100);
    arena_reset(&arena, mark);
    unsigned char *second = arena_alloc(&arena, 100);
    ck_assert_ptr_eq(first, second);
    ck_assert(is_zero(second, 100));
}
END_TEST

START_TEST(memory_before_the_mark_survives_a_reset)
{
    char *kept = arena_text(&arena, "kept");
    struct arena_mark mark = arena_mark(&arena);
    for (int i = 0; i < 100; i++)
        memset(arena_alloc(&arena, 10000), 0xff, 10000);
    arena_reset(&arena, mark);
    ck_assert_str_eq(kept, "kept");
}
END_TEST

START_TEST(a_mark_of_an_empty_arena_resets_it_to_empty)
{
    struct arena_mark mark = arena_mark(&arena);
    arena_alloc(&arena, 1);
    arena_reset(&arena, mark);
    ck_assert_ptr_null(arena.newest);
}
END_TEST

START_TEST(a_released_arena_is_usable_again)
{
    arena_text(&arena, "gone");
    arena_release(&arena);
    ck_assert_str_eq(arena_text(&arena, "new"), "new");
}
END_TEST

START_TEST(a_rewound_arena_reuses_its_newest_block)
{
    arena_alloc(&arena, 8);
    char *large = arena_alloc(&arena, 1 << 20);
    memset(large, 1, 1 << 20);
    arena_rewind(&arena);
    char *again = arena_alloc(&arena, 1 << 20);
    ck_assert_ptr_eq(again, large);
    ck_assert_int_eq(again[0] | again[(1 << 20) - 1], 0);
    arena_release(&arena);
    arena_rewind(&arena);
    ck_assert_ptr_null(arena.newest);
}
END_TEST

START_TEST(typed_macros_allocate_room_for_all_elements)
{
    double *numbers = ARENA_ARRAY(&arena, double, 1000);
    for (int i = 0; i < 1000; i++)
        numbers[i] = i;
    int *one = ARENA_NEW(&arena, int);
    *one = 1;
    ck_assert_double_eq(numbers[999], 999);
}
END_TEST

START_TEST(growing_keeps_the_contents)
{
    char *text = arena_grow(NULL, 4);
    memcpy(text, "abc", 4);
    text = arena_grow(text, 1 << 20);
    ck_assert_str_eq(text, "abc");
    free(text);
}
END_TEST

static void exit_with_3(size_t bytes)
{
    (void)bytes;
    exit(3);
}

/* The array grows one by one, and loses half of its elements now and then. */
START_TEST(an_extended_array_keeps_its_elements)
{
    int *numbers = NULL;
    size_t count = 0;
    for (int turn = 0; turn < 1000; turn++) {
        numbers = arena_extend(numbers, count, sizeof *numbers);
        numbers[count] = (int)count;
        count = turn % 100 == 99 ? count / 2 : count + 1;
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(numbers[i], (int)i);
    }
    free(numbers);
}
END_TEST

START_TEST(exhaustion_calls_the_hook)
{
    arena_on_exhaustion(exit_with_3);
    arena_alloc(&arena, SIZE_MAX - 100);
}
END_TEST

START_TEST(an_array_whose_size_overflows_is_exhaustion)
{
    arena_on_exhaustion(exit_with_3);
    arena_array(&arena, 16, SIZE_MAX / 8);
}
END_TEST

static void return_anyway(size_t bytes)
{
    (void)bytes;
}

START_TEST(a_hook_that_returns_aborts)
{
    arena_on_exhaustion(return_anyway);
    arena_alloc(&arena, SIZE_MAX);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("arena");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, memory_of_any_size_is_zeroed_and_aligned_for_any_type, 0, NUM_SIZES);
    tcase_add_test(tc, allocations_do_not_overlap);
    tcase_add_test(tc, memory_is_zeroed_again_after_a_reset);
    tcase_add_test(tc, memory_before_the_mark_survives_a_reset);
    tcase_add_test(tc, a_mark_of_an_empty_arena_resets_it_to_empty);
    tcase_add_test(tc, a_released_arena_is_usable_again);
    tcase_add_test(tc, a_rewound_arena_reuses_its_newest_block);
    tcase_add_test(tc, typed_macros_allocate_room_for_all_elements);
    tcase_add_test(tc, growing_keeps_the_contents);
    tcase_add_test(tc, an_extended_array_keeps_its_elements);
    tcase_add_exit_test(tc, exhaustion_calls_the_hook, 3);
    tcase_add_exit_test(tc, an_array_whose_size_overflows_is_exhaustion, 3);
    tcase_add_test_raise_signal(tc, a_hook_that_returns_aborts, SIGABRT);
    Suite *s = suite_create("base/arena");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
