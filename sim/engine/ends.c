#include "sim/engine/ends.h"

enum { NOWHERE = -1 };

static bool is_before(const struct end *a, const struct end *b)
{
    return a->end_s < b->end_s || (a->end_s == b->end_s && a->slot < b->slot);
}

static void put(struct ends *ends, int place, struct end end)
{
    ends->at[place] = end;
    ends->place[end.slot] = place;
}

static int sift_up(struct ends *ends, int place, struct end end)
{
    for (; place > 0 && is_before(&end, &ends->at[(place - 1) / 2]); place = (place - 1) / 2)
        put(ends, place, ends->at[(place - 1) / 2]);
    return place;
}

static int sift_down(struct ends *ends, int place, struct end end)
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

struct ends ends_new(size_t num_slots, struct arena *arena)
{
    struct ends ends = { .at = ARENA_ARRAY(arena, struct end, num_slots),
                         .place = ARENA_ARRAY(arena, int, num_slots) };
    for (size_t slot = 0; slot < num_slots; slot++)
        ends.place[slot] = NOWHERE;
    return ends;
}

bool ends_has(const struct ends *ends, int slot)
{
    return ends->place[slot] != NOWHERE;
}

void ends_set(struct ends *ends, struct end end)
{
    int hole = ends_has(ends, end.slot) ? ends->place[end.slot] : ends->count++;
    hole = sift_up(ends, hole, end);
    put(ends, sift_down(ends, hole, end), end);
}

struct end ends_take(struct ends *ends)
{
    struct end first = ends->at[0];
    ends->place[first.slot] = NOWHERE;
    if (--ends->count > 0) {
        struct end last = ends->at[ends->count];
        put(ends, sift_down(ends, 0, last), last);
    }
    return first;
}
