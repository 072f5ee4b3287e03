/* sim/engine/event_heap.h - a heap of the activities that run, ordered by the time at which they
 * end, the earliest first.
 *
 * Each activity has a number, its slot. Of activities that end at the same time, the one with the
 * lower slot comes first. */
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
    int *place; /* [slot] its index in `at`, or -1 */
};

/* An empty heap for slots 0 to num_slots - 1; its arrays are in the arena. */
struct event_heap event_heap_new(size_t num_slots, struct arena *arena);

bool event_heap_has(const struct event_heap *ends, int slot);

/* Adds an activity, or changes the end of the one that has this slot. */
void event_heap_set(struct event_heap *ends, struct end end);

/* Removes and returns the end of the activity that ends first. */
struct end event_heap_take(struct event_heap *ends);

#endif
