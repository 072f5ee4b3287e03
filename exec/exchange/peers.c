/* The average with a rank's neighbours in a gossip graph. */
#include "exec/exchange/exchanger_part.h"

/* Sends to and receives from all neighbours at once, so that no transfer waits for another. Values
 * are summed in the graph's order, not in the order of arrival. */
void peers_average(struct exchanger *e, struct group *group, const float *own, struct span out)
{
    struct mixing_peers peers =
        mixing_peers((enum mixing_graph)e->exchange.graph, group->size, group->index, e->step);
    issue_to_peers(e, group, &peers, own, out.count);
    exchanger_copy(e, out.at, own, out.count);
    for (int i = 0; i < peers.count; i++)
        exchanger_add(e, out.at, e->received + (size_t)i * out.count, out.count);
    exchanger_combine(e, (float)peers.weight, out.at, 0, out.at, out.at, out.count);
}
