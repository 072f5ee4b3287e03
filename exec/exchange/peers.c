#include "exec/exchange/exchanger_part.h"

/* Messages along one kind of edge at a time: whom a member tells and whom it hears are as far away,
 * on either side, so that in each turn all pass at once. */
void peers_average(struct exchanger *e, struct group *group, const float *own, struct span out)
{
    struct mixing_peers peers =
        mixing_peers((enum mixing_graph)e->exchange.graph, group->size, group->index, e->step);
    struct span received = { e->received, out.count };
    exchanger_copy(e, out.at, own, out.count);
    for (int i = 0; i < peers.count; i++) {
        issue_pass(e, group, peers.tells[i], own, peers.hears[i], received);
        exchanger_add(e, out.at, received.at, out.count);
    }
    exchanger_combine(e, (float)peers.weight, out.at, 0, out.at, out.at, out.count);
}
