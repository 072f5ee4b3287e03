/* sim/engine/event_heap.h - a heap of slots by the time their activity ends, the earliest on top.
 *
 * Ties go to the lower slot. */
#ifndef SIM_ENGINE_EVENT_HEAP_H
#define SIM_ENGINE_EVENT_HEAP_H

#include "base/arena.h"

#include <stdbool.h>

struct end {
    double end_s;
    int slot;
};

/* at[0] ends first, when count > 0. */
struct event_heap {
    struct end *at;
    int count;
    int *place; /* [slot] in `at`, or -1 */
};

/* Empty, with room for slots from 0 on; arrays in the arena. */
struct event_heap event_heap_new(size_t num_slots, struct arena *arena);

bool event_heap_has(const struct event_heap *ends, int slot);

/* Adds the slot, or moves it to its new place. */
void event_heap_set(struct event_heap *ends, struct end end);

/* Takes out the first. */
struct end event_heap_take(struct event_heap *ends);

#endif
