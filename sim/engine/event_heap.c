/* A heap of the ends of running activities. */
#include "sim/engine/event_heap.h"

enum { NOWHERE = -1 };

static bool is_before(const struct end *a, const struct end *b)
{
    return a->end_s < b->end_s || (a->end_s == b->end_s && a->slot < b->slot);
}

static void put(struct event_heap *ends, int place, struct end end)
{
    ends->at[place] = end;
    ends->place[end.slot] = place;
}

static int sift_up(struct event_heap *ends, int place, struct end end)
{
    for (; place > 0 && is_before(&end, &ends->at[(place - 1) / 2]); place = (place - 1) / 2)
        put(ends, place, ends->at[(place - 1) / 2]);
    return place;
}

static int sift_down(struct event_heap *ends, int place, struct end end)
{
    for (int child = 2 * place + 1; child < ends->count; child = 2 * place + 1) {
        if (child + 1 < ends->count && is_before(&ends->at[child + 1], &ends->at[child]))
            child++;
        if (!is_before(&ends->at[child], &end))
            break;
        put(ends, place, ends->at[child]);
        place = child;
    }
    return place;
}

struct event_heap event_heap_new(size_t num_slots, struct arena *arena)
{
    struct event_heap ends = { .at = ARENA_ARRAY(arena, struct end, num_slots),
                               .place = ARENA_ARRAY(arena, int, num_slots) };
    for (size_t slot = 0; slot < num_slots; slot++)
        ends.place[slot] = NOWHERE;
    return ends;
}

bool event_heap_has(const struct event_heap *ends, int slot)
{
    return ends->place[slot] != NOWHERE;
}

void event_heap_set(struct event_heap *ends, struct end end)
{
    int hole = event_heap_has(ends, end.slot) ? ends->place[end.slot] : ends->count++;
    hole = sift_up(ends, hole, end);
    put(ends, sift_down(ends, hole, end), end);
}

struct end event_heap_take(struct event_heap *ends)
{
    struct end first = ends->at[0];
    ends->place[first.slot] = NOWHERE;
    if (--ends->count > 0) {
        struct end last = ends->at[ends->count];
        put(ends, sift_down(ends, 0, last), last);
    }
    return first;
}
