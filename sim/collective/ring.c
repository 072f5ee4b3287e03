/* NCCL's ring algorithm: latency and bandwidth by the formulas of NCCL's tuning model. Words in
 * brackets are names in NCCL's source. */
#include "sim/collective/nccl_common.h"

#include <math.h>

static const double base_latency_s[NUM_PROTOCOLS] = { US(6.6), US(14.0), US(8.4) };
static const double intra_latency_s[NUM_INTRA_LINKS][NUM_PROTOCOLS] = {
    [LINK_NVLINK] = { US(0.6), US(1.9), US(3.4) },
    [LINK_PCI] = { US(1.0), US(2.5), US(5.7) },
};
static const double net_latency_s[NUM_PROTOCOLS] = { US(2.7), US(4.0), US(14.0) };

bool ring_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol)
{
    (void)collective;
    return protocol != PROTOCOL_LL128 || group->ll128;
}

/* LL sends a flag with every four bytes, so half of the traffic is data; LL128 has a flag in every
 * 128 bytes and reaches 0.92 of the bandwidth in NCCL's model. The GPU's threads copy the data of
 * both, which limits their bandwidth. */
static double bus_bytes_per_s(const struct comm_group *group, enum protocol protocol)
{
    double bus = nccl_bus_bytes_per_s(group);
    if (protocol == PROTOCOL_LL)
        return fmin(bus * 0.5, nccl_ll_max_bytes_per_s(group));
    if (protocol == PROTOCOL_LL128)
        return fmin(bus * 0.92, group->num_channels * nccl_rates(group)->ring_ll128_bytes_per_s);
    return bus;
}

/* Shortest time of the host's proxy thread per step between nodes: 1 us, or 2 us with an AMD CPU
 * [getNetOverhead], times three with the Simple protocol, which posts three operations. */
static double net_overhead_s(const struct comm_group *group, enum protocol protocol)
{
    if (group->num_nodes == 1)
        return 0;
    double post_s = group->amd_cpu ? US(2.0) : US(1.0);
    return protocol == PROTOCOL_SIMPLE ? 3 * post_s : post_s;
}

/* Hops run one after another around the ring. Each round has one hop between nodes per node,
 * without the hop that closes the ring. */
static double rounds_latency_s(const struct comm_group *group, enum collective collective,
                               enum protocol protocol)
{
    double num_rounds = collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double net_steps = num_rounds * (group->num_nodes - 1);
    double intra_steps = nccl_ring_steps(group, collective) - net_steps;
    double intra_s = fmax(intra_latency_s[group->intra][protocol], net_overhead_s(group, protocol));
    return intra_steps * intra_s +
           net_steps * nccl_net_latency_s(group, protocol, net_latency_s[protocol]);
}

/* In one node every channel visits the ranks in the same order [sameChannels], so the message is
 * pipelined and only the latency of one hop counts. Between nodes the channels enter at different
 * NICs, so their orders differ, and NCCL counts one hop per rank. With Simple, a hop has the
 * latency of a whole chunk, as in NCCL's tree. */
static double broadcast_latency_s(const struct comm_group *group, enum protocol protocol)
{
    if (group->num_nodes == 1)
        return intra_latency_s[group->intra][protocol];
    double hop_s =
        protocol == PROTOCOL_SIMPLE ? nccl_tree_net_latency_s[protocol] : net_latency_s[protocol];
    return nccl_ring_steps(group, COLLECTIVE_BROADCAST) *
           (hop_s + nccl_rail_latency_s(group, protocol));
}

/* "Plateau effect of ring": between nodes, an all-reduce with Simple whose channels carry at least
 * 64 bytes per rank has a longer latency, by a factor that NCCL fitted. */
static double plateau_factor(const struct comm_group *group, enum collective collective,
                             enum protocol protocol, double message_bytes)
{
    double chunk_bytes = message_bytes / ((double)group->num_channels * group->num_ranks);
    bool on_plateau = collective == COLLECTIVE_ALL_REDUCE && protocol == PROTOCOL_SIMPLE &&
                      group->num_nodes > 1 && chunk_bytes >= 64;
    if (!on_plateau)
        return 1;
    return nccl_rates(group)->ring_plateau;
}

/* Each of the steps moves 1/n of the message over every link at once. */
void ring_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s)
{
    double hops_s = collective == COLLECTIVE_BROADCAST
                        ? broadcast_latency_s(group, protocol)
                        : rounds_latency_s(group, collective, protocol);
    *latency_s = (base_latency_s[protocol] + hops_s) *
                 plateau_factor(group, collective, protocol, message_bytes);
    *bytes_per_s =
        bus_bytes_per_s(group, protocol) * group->num_ranks / nccl_ring_steps(group, collective);
}
