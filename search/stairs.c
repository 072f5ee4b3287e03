/* The stairs are known plans, sorted by memory. Each plan needs more memory than the one before and
 * is faster. */
#include "search/sweep.h"

#include <stdlib.h>
#include <string.h>

/* Number of stairs that need at most `bytes`. */
static size_t num_within(const struct stairs *stairs, double bytes)
{
    size_t low = 0, high = stairs->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stairs->at[middle].bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void stairs_add(struct stairs *stairs, double bytes, double step_s)
{
    size_t index = num_within(stairs, bytes);
    if (index > 0 && stairs->at[index - 1].step_s <= step_s)
        return;
    if (index > 0 && stairs->at[index - 1].bytes == bytes)
        index--;
    /* Removes the stairs from `index` to `end`, which need no less memory than the new one and are
     * no faster. */
    size_t end = index;
    while (end < stairs->count && stairs->at[end].step_s >= step_s)
        end++;
    stairs->at = arena_extend(stairs->at, stairs->count, sizeof *stairs->at);
    memmove(&stairs->at[index + 1], &stairs->at[end], (stairs->count - end) * sizeof *stairs->at);
    stairs->at[index] = (struct stair){ bytes, step_s };
    stairs->count += index + 1 - end;
}

/* Whether a known plan needs at most these bytes and is faster than step_s. A tolerance is needed,
 * as a bound is summed in another order than the step time, and the repeating rounds of a pipeline
 * are equal only up to rounding. */
bool stairs_beat(const struct stairs *stairs, double bytes, double step_s)
{
    const double rounding = 1e-7;
    size_t within = num_within(stairs, bytes);
    return within > 0 && stairs->at[within - 1].step_s < step_s * (1 - rounding);
}

void stairs_release(struct stairs *stairs)
{
    free(stairs->at);
    *stairs = (struct stairs){ 0 };
}
