#include "search/partition/partition.h"

struct listing {
    const struct partition_problem *problem;
    struct partition *best; /* up to `most` partitions, cheapest first; `count` of them are
                               filled */
    int most, count;
};

/* Inserts `found` in order of cost, after partitions of equal cost. */
static void insert(struct listing *list, const struct partition *found)
{
    int place = list->count;
    while (place > 0 && list->best[place - 1].total.cost > found->total.cost)
        place--;
    if (place == list->most)
        return;
    if (list->count < list->most)
        list->count++;
    for (int i = list->count - 1; i > place; i--)
        list->best[i] = list->best[i - 1];
    list->best[place] = *found;
}

/* Tries all shardings of operator i and all later operators. */
static void try_from(struct listing *list, struct partition *at, int i)
{
    if (i == list->problem->num_operators) {
        at->total = partition_score(list->problem, at->of);
        if (partition_fits(list->problem, &at->total))
            insert(list, at);
        return;
    }
    for (int j = 0; j < NUM_SHARDINGS; j++)
        if (partition_allows(list->problem, i, (enum sharding)j)) {
            at->of[i] = (unsigned char)j;
            try_from(list, at, i + 1);
        }
}

int partition_cheapest(const struct partition_problem *problem, int most, struct partition *out)
{
    struct listing list = { .problem = problem, .best = out, .most = most };
    struct partition at = { 0 };
    try_from(&list, &at, 0);
    return list.count;
}
