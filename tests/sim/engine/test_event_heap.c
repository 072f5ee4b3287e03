#include "tests/testing.h"

#include "sim/engine/event_heap.h"

#include <math.h>

enum { NUM_SLOTS = 64 };

static struct arena arena;

static void set_up(void)
{
    arena = (struct arena){ 0 };
}

static void tear_down(void)
{
    arena_release(&arena);
}

/* Draws one of few whole seconds, so that many slots end together. */
static double some_end_s(int slot)
{
    return slot * 7 % 5;
}

static void claim_taken_in_order(struct event_heap *ends, int count)
{
    struct end before = { .end_s = -HUGE_VAL };
    for (int i = 0; i < count; i++) {
        struct end end = event_heap_take(ends);
        ck_assert(!event_heap_has(ends, end.slot));
        if (before.end_s == end.end_s)
            ck_assert_int_lt(before.slot, end.slot);
        else
            ck_assert_double_lt(before.end_s, end.end_s);
        before = end;
    }
    ck_assert_int_eq(ends->count, 0);
}

START_TEST(an_empty_heap_has_no_next_event)
{
    struct event_heap ends = event_heap_new(NUM_SLOTS, &arena);
    ck_assert_int_eq(ends.count, 0);
    for (int slot = 0; slot < NUM_SLOTS; slot++)
        ck_assert(!event_heap_has(&ends, slot));
}
END_TEST

START_TEST(slots_are_returned_by_time_then_by_number)
{
    struct event_heap ends = event_heap_new(NUM_SLOTS, &arena);
    for (int slot = NUM_SLOTS - 1; slot >= 0; slot--)
        event_heap_set(&ends, (struct end){ some_end_s(slot), slot });
    claim_taken_in_order(&ends, NUM_SLOTS);
}
END_TEST

/* Changes the times of slots in the heap: even slots get earlier times, odd slots later ones. No
 * slot is in the heap twice. */
START_TEST(setting_a_slot_again_moves_it)
{
    struct event_heap ends = event_heap_new(NUM_SLOTS, &arena);
    for (int slot = 0; slot < NUM_SLOTS; slot++)
        event_heap_set(&ends, (struct end){ some_end_s(slot), slot });
    for (int slot = 0; slot < NUM_SLOTS; slot++)
        event_heap_set(&ends, (struct end){ some_end_s(slot) + (slot % 2 == 0 ? -3 : 3), slot });
    ck_assert_int_eq(ends.count, NUM_SLOTS);
    claim_taken_in_order(&ends, NUM_SLOTS);
}
END_TEST

START_TEST(a_returned_slot_can_be_set_again)
{
    struct event_heap ends = event_heap_new(NUM_SLOTS, &arena);
    event_heap_set(&ends, (struct end){ 1, 3 });
    event_heap_set(&ends, (struct end){ 2, 5 });
    ck_assert_int_eq(event_heap_take(&ends).slot, 3);
    event_heap_set(&ends, (struct end){ 4, 3 });
    ck_assert_int_eq(event_heap_take(&ends).slot, 5);
    ck_assert_int_eq(event_heap_take(&ends).slot, 3);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("ends");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, an_empty_heap_has_no_next_event);
    tcase_add_test(tc, slots_are_returned_by_time_then_by_number);
    tcase_add_test(tc, setting_a_slot_again_moves_it);
    tcase_add_test(tc, a_returned_slot_can_be_set_again);
    Suite *s = suite_create("sim/engine/event_heap");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
