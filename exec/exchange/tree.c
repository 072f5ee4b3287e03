/* An all-reduce as messages in a tree. */
#include "exec/exchange/exchanger_part.h"

/* A binomial tree with member 0 at its root: at distance d = 1, 2, 4 ... members at odd multiples
 * of d send their sum to the preceding even multiple (Thakur, Rabenseifner and Gropp 2005). */
static bool is_child(const struct group *group, int distance)
{
    return group->index % (2 * distance) == distance;
}

static bool has_child(const struct group *group, int distance)
{
    return group->index % (2 * distance) == 0 && group->index + distance < group->size;
}

static int sum_up(struct exchanger *e, struct group *group, struct span span)
{
    int distance = 1;
    struct span received = { e->received, span.count };
    for (; distance < group->size; distance *= 2) {
        if (is_child(group, distance))
            issue_send(e, group, group->index - distance, span);
        if (!has_child(group, distance))
            continue;
        issue_receive(e, group, group->index + distance, received);
        exchanger_add(e, span.at, received.at, span.count);
    }
    return distance / 2;
}

void tree_all_reduce(struct exchanger *e, struct group *group, struct span span)
{
    for (int distance = sum_up(e, group, span); distance > 0; distance /= 2) {
        if (is_child(group, distance))
            issue_receive(e, group, group->index - distance, span);
        if (has_child(group, distance))
            issue_send(e, group, group->index + distance, span);
    }
}
