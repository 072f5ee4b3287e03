/* Lists of families, which are sets of plans that differ only in recompute and ZeRO. */
#include "search/families.h"

#include "base/statistics.h"

#include <stdlib.h>
#include <string.h>

void families_add(struct families *families, struct family family)
{
    families->at = arena_extend(families->at, families->count, sizeof *families->at);
    families->at[families->count++] = family;
}

static int compare_families(const void *a, const void *b)
{
    const struct family *left = a;
    const struct family *right = b;
    int by_floor = numbers_order(left->floor_s, right->floor_s);
    int by_block = numbers_order((double)left->block, (double)right->block);
    return by_floor ? by_floor : by_block ? by_block : left->split - right->split;
}

void families_sort(struct family *at, size_t count)
{
    if (count > 0)
        qsort(at, count, sizeof *at, compare_families);
}

struct families families_join(struct families *found, int jobs, struct arena *arena)
{
    struct families all = { 0 };
    size_t count = 0;
    for (int i = 0; i < jobs; i++)
        count += found[i].count;
    all.at = ARENA_ARRAY(arena, struct family, count);
    for (int i = 0; i < jobs; i++) {
        if (found[i].count > 0)
            memcpy(&all.at[all.count], found[i].at, found[i].count * sizeof *found[i].at);
        all.count += found[i].count;
        free(found[i].at);
        found[i] = (struct families){ 0 };
    }
    families_sort(all.at, all.count);
    return all;
}
