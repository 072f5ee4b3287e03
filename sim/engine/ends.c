#include "sim/engine/ends.h"

enum { NOWHERE = -1 };

static bool is_before(const struct ends *ends, int a, int b)
{
    double a_s = ends->end_s[a];
    double b_s = ends->end_s[b];
    return a_s < b_s || (a_s == b_s && a < b);
}

static void put(struct ends *ends, int place, int slot)
{
    ends->slots[place] = slot;
    ends->place[slot] = place;
}

static void sift_up(struct ends *ends, int place)
{
    int slot = ends->slots[place];
    for (; place > 0 && is_before(ends, slot, ends->slots[(place - 1) / 2]);
         place = (place - 1) / 2)
        put(ends, place, ends->slots[(place - 1) / 2]);
    put(ends, place, slot);
}

static void sift_down(struct ends *ends, int place)
{
    int slot = ends->slots[place];
    for (int child = 2 * place + 1; child < ends->count; child = 2 * place + 1) {
        if (child + 1 < ends->count && is_before(ends, ends->slots[child + 1], ends->slots[child]))
            child++;
        if (!is_before(ends, ends->slots[child], slot))
            break;
        put(ends, place, ends->slots[child]);
        place = child;
    }
    put(ends, place, slot);
}

struct ends ends_new(size_t num_slots, struct arena *arena)
{
    struct ends ends = { .slots = ARENA_ARRAY(arena, int, num_slots),
                         .place = ARENA_ARRAY(arena, int, num_slots),
                         .end_s = ARENA_ARRAY(arena, double, num_slots) };
    for (size_t slot = 0; slot < num_slots; slot++)
        ends.place[slot] = NOWHERE;
    return ends;
}

bool ends_has(const struct ends *ends, int slot)
{
    return ends->place[slot] != NOWHERE;
}

void ends_set(struct ends *ends, int slot, double end_s)
{
    ends->end_s[slot] = end_s;
    if (!ends_has(ends, slot))
        put(ends, ends->count++, slot);
    sift_up(ends, ends->place[slot]);
    sift_down(ends, ends->place[slot]);
}

int ends_take(struct ends *ends)
{
    int first = ends->slots[0];
    ends->place[first] = NOWHERE;
    if (--ends->count > 0) {
        put(ends, 0, ends->slots[ends->count]);
        sift_down(ends, 0);
    }
    return first;
}
