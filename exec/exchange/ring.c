/* An all-reduce as messages around a ring. A span is a range of elements; it is cut into one part
 * per member. */
#include "exec/exchange/exchanger_part.h"

/* Returns the span of part number `part` modulo `parts`, as part numbers go around the ring. */
static struct span part_of(struct span span, int part, int parts)
{
    return span_part(span, part % parts, parts);
}

/* Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms". In step s member i sends the
 * partial sum of part i - s, receives part i - 1 - s and adds its own values to it. */
static void scatter_sums(struct exchanger *e, struct group *group, struct span span)
{
    int n = group->size, i = group->index;
    for (int s = 0; s < n - 1; s++) {
        struct span sent = part_of(span, i + n - s, n), summed = part_of(span, i + n - 1 - s, n);
        struct span received = { e->received, summed.count };
        issue_pass(e, group, (i + 1) % n, sent.at, (i + n - 1) % n, received);
        exchanger_add(e, summed.at, received.at, summed.count);
    }
}

/* Member i has the sum of part i + 1. The sums are passed around the ring once more. */
static void gather_sums(struct exchanger *e, struct group *group, struct span span)
{
    int n = group->size, i = group->index;
    for (int s = 0; s < n - 1; s++)
        issue_pass(e, group, (i + 1) % n, part_of(span, i + 1 + n - s, n).at, (i + n - 1) % n,
                   part_of(span, i + n - s, n));
}

void ring_all_reduce(struct exchanger *e, struct group *group, struct span span)
{
    scatter_sums(e, group, span);
    gather_sums(e, group, span);
}
