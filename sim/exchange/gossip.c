#include "sim/exchange/methods.h"

bool gossip_accepts(const struct exchange *exchange, int num_ranks, struct err *err)
{
    int group = exchange->group > 0 ? exchange->group : 1;
    return group_divides(exchange, num_ranks, err) &&
           mixing_accepts((enum mixing_graph)exchange->graph, num_ranks / group, err);
}

/* A group's gradients are summed first, so that its members hold the same weights; of these each
 * averages an equal part with the neighbouring groups', and hands it on to the others. */
void gossip_phases(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    int group = group_size(exchange, ranks);
    int groups = ranks->count / group;
    double bytes = load_bytes(load);
    add_phase(out, PHASE_ALL_REDUCE, group, 1, bytes);
    add_phase(out, PHASE_PEERS, groups, group, bytes / group);
    if (groups > 1)
        out->at[out->count - 1].peers =
            mixing_peers((enum mixing_graph)exchange->graph, groups, 0, 0).count;
    add_phase(out, PHASE_ALL_GATHER, group, 1, bytes / group);
}
