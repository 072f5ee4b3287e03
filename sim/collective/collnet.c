/* NCCL's CollNet-direct and CollNet-chain algorithms: latency and bandwidth by the formulas of
 * NCCL's tuning model. Words in brackets are names in NCCL's source. */
#include "sim/collective/nccl_common.h"

#include <math.h>

/* CollNet: the network's switches reduce (SHARP), so a message crosses the network once for any
 * number of nodes. It has only NCCL's Simple protocol. */
static const double direct_intra_latency_s = US(3.7);
static const double chain_intra_latency_s = US(2.8);
static const double direct_net_latency_s = US(31.0);
static const double chain_net_latency_s = US(30.0);

/* NCCL's "arity serialization latency", per other rank of the node. */
static const double arity_latency_s = US(0.4);

/* Maximum number of ranks per node for CollNet's algorithms [NCCL_MAX_DIRECT_ARITY + 1,
 * device.h]. */
enum { MAX_RANKS_PER_NODE = 8 };

static bool switches_available(const struct comm_group *group, enum protocol protocol)
{
    return group->sharp && protocol == PROTOCOL_SIMPLE && group->num_nodes > 1 &&
           nccl_ranks_per_node(group) <= MAX_RANKS_PER_NODE;
}

bool collnet_direct_available(const struct comm_group *group, enum collective collective,
                              enum protocol protocol)
{
    return switches_available(group, protocol) && nccl_sharp_serves(group, collective);
}

bool collnet_chain_available(const struct comm_group *group, enum collective collective,
                             enum protocol protocol)
{
    return switches_available(group, protocol) && collective == COLLECTIVE_ALL_REDUCE;
}

/* NCCL uses the rate inside the node for both algorithms and any number of nodes. */
static double bus_bytes_per_s(const struct comm_group *group)
{
    return group->num_channels * group->intra_bytes_per_s;
}

/* All-reduce runs at full speed if each rank has a network card. With f ranks per card it reaches
 * 2/(f + 1) of full speed [factor -= (factor - 1) / 2], and on Hopper and later 0.85 of that. */
static double direct_all_reduce_bytes_per_s(const struct comm_group *group)
{
    double ranks_per_nic = (double)nccl_ranks_per_node(group) / group->num_channels;
    double bus = bus_bytes_per_s(group) * 2 / (ranks_per_nic + 1);
    return nccl_rates(group)->collnet_efficiency * bus * 0.5;
}

/* Each rank of a node sends its part over its own network card and gets the other ranks' parts over
 * the node's links. */
void collnet_direct_cost(const struct comm_group *group, enum collective collective,
                         enum protocol protocol, double message_bytes, double *latency_s,
                         double *bytes_per_s)
{
    (void)message_bytes;
    int others = nccl_ranks_per_node(group) - 1;
    double intra_s = (others > 0 ? direct_intra_latency_s : 0) + others * arity_latency_s;
    *latency_s = 2 * intra_s + nccl_net_latency_s(group, protocol, direct_net_latency_s);
    *bytes_per_s = collective == COLLECTIVE_ALL_REDUCE
                       ? direct_all_reduce_bytes_per_s(group)
                       : nccl_ranks_per_node(group) *
                             fmin(group->intra_bytes_per_s, 0.9 * group->inter_bytes_per_s);
}

/* Data goes along a chain of the node's ranks to the rank with the network card, and back. */
void collnet_chain_cost(const struct comm_group *group, enum collective collective,
                        enum protocol protocol, double message_bytes, double *latency_s,
                        double *bytes_per_s)
{
    (void)collective, (void)message_bytes;
    int others = nccl_ranks_per_node(group) - 1;
    *latency_s = 2 * others * chain_intra_latency_s +
                 nccl_net_latency_s(group, protocol, chain_net_latency_s);
    *bytes_per_s = bus_bytes_per_s(group) * 0.5;
}
