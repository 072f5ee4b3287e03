/* Gossip: ranks average their weights with neighbours in a graph. */
#include "sim/exchange/methods.h"

bool gossip_accepts(const struct exchange *exchange, int num_ranks, struct err *err)
{
    int group = exchange->group > 0 ? exchange->group : 1;
    return group_divides(exchange, num_ranks, err) &&
           mixing_accepts((enum mixing_graph)exchange->graph, num_ranks / group, err);
}

/* The members of a group sum their gradients first, so they hold the same weights. Each member then
 * averages an equal part of the weights with the members of the same index in other groups, and the
 * group gathers the parts. */
static void add_phases_of_groups(const struct exchange *exchange, const struct exchange_load *load,
                                 const struct exchange_ranks *ranks, enum exchange_phase_kind kind,
                                 struct exchange_phases *out)
{
    int group = exchange_group_size(exchange, ranks);
    int groups = ranks->count / group;
    double bytes = load_bytes(load);
    add_phase(out, PHASE_ALL_REDUCE, group, 1, bytes);
    add_weights_phase(out, kind, groups, group, bytes / group);
    if (kind == PHASE_PEERS && groups > 1)
        out->at[out->count - 1].peers =
            mixing_peers((enum mixing_graph)exchange->graph, groups, 0, 0).count;
    add_weights_phase(out, PHASE_ALL_GATHER, group, 1, bytes / group);
}

void gossip_phases(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    add_phases_of_groups(exchange, load, ranks, PHASE_PEERS, out);
}

/* A step that ends a period averages over all ranks instead of neighbours. */
void periodic_phases(const struct exchange *exchange, const struct exchange_load *load,
                     const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    enum exchange_phase_kind kind = averages ? PHASE_ALL_REDUCE : PHASE_PEERS;
    add_phases_of_groups(exchange, load, ranks, kind, out);
}
