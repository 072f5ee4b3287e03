/* Counts the ways to divide layers over stages. */
#include "search/uneven/lattice.h"

#include <stdlib.h>
#include <string.h>

/* Adds one stage. ways[l] is the number of ways to divide l layers over the stages so far. A stage
 * with k layers is one way or, with `mixes`, k + 1 ways: one for each number of recomputed
 * layers. */
static void add_stage(double *ways, int layers, bool mixes)
{
    double once = 0;
    double more = 0;
    double before = ways[0];
    ways[0] = 0;
    for (int l = 1; l <= layers; l++) {
        once += before;
        more += once;
        before = ways[l];
        ways[l] = mixes ? once + more : once;
    }
}

double count_divisions(int layers, int stages, bool mixes)
{
    double *ways = arena_grow(NULL, (size_t)(layers + 1) * sizeof *ways);
    memset(ways, 0, (size_t)(layers + 1) * sizeof *ways);
    ways[0] = 1;
    for (int stage = 0; stage < stages; stage++)
        add_stage(ways, layers, mixes);
    double count = ways[layers];
    free(ways);
    return count;
}
