/* sim/engine/ends.h - a heap of slots by the time their activity ends, the earliest on top.
 *
 * Ties go to the lower slot. */
#ifndef SIM_ENGINE_ENDS_H
#define SIM_ENGINE_ENDS_H

#include "base/arena.h"

#include <stdbool.h>

struct end {
    double end_s;
    int slot;
};

/* at[0] ends first, when count > 0. */
struct ends {
    struct end *at;
    int count;
    int *place; /* [slot] in `at`, or -1 */
};

/* Empty, with room for slots from 0 on; arrays in the arena. */
struct ends ends_new(size_t num_slots, struct arena *arena);

bool ends_has(const struct ends *ends, int slot);

/* Adds the slot, or moves it to its new place. */
void ends_set(struct ends *ends, struct end end);

/* Takes out the first. */
struct end ends_take(struct ends *ends);

#endif
