/* NCCL's NVLS and NVLS-tree algorithms: latency and bandwidth by the formulas of NCCL's tuning
 * model. Words in brackets are names in NCCL's source. */
#include "sim/collective/nccl_common.h"

#include <math.h>

/* NVLS: the NVSwitch reduces and multicasts. It has only NCCL's Simple protocol. */
static const double intra_latency_s = US(25.0);
static const double net_latency_s = US(18.0);
static const double tree_net_latency_s = US(20.9);

/* Maximum number of ranks per node for an all-gather or reduce-scatter [NCCL_MAX_NVLS_ARITY,
 * device.h]. */
enum { MAX_ARITY = 32 };

/* NCCL requires more than two ranks in the node (ncclNvlsInit) and two channels. */
static bool switch_available(const struct comm_group *group, enum protocol protocol)
{
    return group->in_network && group->intra == LINK_NVLINK &&
           nccl_rates(group)->nvls_efficiency > 0 && group->nvls_channels >= 2 &&
           nccl_ranks_per_node(group) > 2 && protocol == PROTOCOL_SIMPLE;
}

/* Over several nodes NVLS needs SHARP in the network's switches too. */
bool nvls_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol)
{
    if (protocol != PROTOCOL_SIMPLE || collective == COLLECTIVE_BROADCAST)
        return false;
    if (group->num_nodes > 1 && !(group->sharp && nccl_sharp_serves(group, collective)))
        return false;
    if (collective != COLLECTIVE_ALL_REDUCE && nccl_ranks_per_node(group) > MAX_ARITY)
        return false;
    return switch_available(group, protocol);
}

bool nvls_tree_available(const struct comm_group *group, enum collective collective,
                         enum protocol protocol)
{
    return collective == COLLECTIVE_ALL_REDUCE && group->num_nodes > 1 &&
           switch_available(group, protocol);
}

/* Bandwidth of one channel inside a node. NCCL multiplies it by (nChannels - 1) / nChannels. The
 * two halves of an all-reduce overlap; the other collectives do not send the rank's own share. */
static double channel_bytes_per_s(const struct comm_group *group, enum collective collective)
{
    double num_channels = group->nvls_channels;
    double num_ranks = nccl_ranks_per_node(group);
    double one_way = group->nvls_intra_bytes_per_s * nccl_rates(group)->nvls_efficiency *
                     (num_channels - 1) / num_channels;
    return collective == COLLECTIVE_ALL_REDUCE ? one_way * 2
                                               : one_way * (num_ranks - 1) / num_ranks;
}

/* For an all-reduce NCCL converts bus bandwidth to algorithm bandwidth as for a ring; for other
 * collectives it uses the bus bandwidth. */
void nvls_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s)
{
    (void)protocol, (void)message_bytes;
    double bus = group->nvls_channels *
                 fmin(channel_bytes_per_s(group, collective), group->nvls_inter_bytes_per_s);
    *latency_s = intra_latency_s + (group->num_nodes > 1 ? net_latency_s : 0);
    *bytes_per_s = collective == COLLECTIVE_ALL_REDUCE
                       ? bus * group->num_ranks / nccl_ring_steps(group, collective)
                       : bus;
}

/* In an all-reduce of S bytes over k ranks each port sends S to the switches and receives its S/k
 * of the sum, then sends this S/k and receives S: (k + 1)/k S in each direction. So the bus
 * bandwidth, 2 (k - 1)/k S / time, is proportional to (k - 1)/(k + 1). NCCL uses one rate for all
 * k, that of a full node of 8 ranks. On one node of H200 (ml-engineering, network/README) 4, 5, 6
 * and 7 ranks reach 0.768, 0.876, 0.921 and 0.972 of the bandwidth of 8; the formula gives 0.771,
 * 0.857, 0.918 and 0.964. */
double nvls_reached(const struct comm_group *group, enum collective collective)
{
    const double full = (8 - 1) / (8 + 1.0);
    double num_ranks = nccl_ranks_per_node(group);
    if (collective != COLLECTIVE_ALL_REDUCE || group->num_nodes > 1)
        return 1;
    return fmin((num_ranks - 1) / (num_ranks + 1) / full, 1);
}

/* The message goes up and down a binary tree over the nodes, with NVLS inside each node. NCCL
 * doubles the rate between nodes when there are just two. */
void nvls_tree_cost(const struct comm_group *group, enum collective collective,
                    enum protocol protocol, double message_bytes, double *latency_s,
                    double *bytes_per_s)
{
    (void)message_bytes;
    double two_nodes_factor = group->num_nodes == 2 ? 2 : 1;
    double inter = group->nvls_inter_bytes_per_s * two_nodes_factor;
    double limit = nccl_rates(group)->nvls_tree_bytes_per_s[nccl_node_class(group)];
    double bus =
        group->nvls_channels * fmin(fmin(channel_bytes_per_s(group, collective), inter), limit);
    double hop_s = nccl_net_latency_s(group, protocol, tree_net_latency_s);
    *latency_s = intra_latency_s + 2 * nccl_floor_log2(group->num_nodes) * hop_s;
    *bytes_per_s = bus * group->num_ranks / nccl_ring_steps(group, collective);
}
