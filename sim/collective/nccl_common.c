/* Parts of NCCL's tuning model that several algorithms use. */
#include "sim/collective/nccl_common.h"

#include <assert.h>

const double nccl_tree_net_latency_s[NUM_PROTOCOLS] = { US(5.0), US(8.5), US(14.0) };

const struct nccl_rates *nccl_rates(const struct comm_group *group)
{
    return &generations[group->arch].nccl;
}

int nccl_node_class(const struct comm_group *group)
{
    return group->num_nodes <= 2 ? group->num_nodes - 1 : 2;
}

int nccl_ranks_per_node(const struct comm_group *group)
{
    return (group->num_ranks + group->num_nodes - 1) / group->num_nodes;
}

int nccl_floor_log2(int value)
{
    assert(value >= 1);
    int log2 = 0;
    while (value >>= 1)
        log2++;
    return log2;
}

double nccl_ring_steps(const struct comm_group *group, enum collective collective)
{
    double num_ranks = group->num_ranks;
    switch (collective) {
    case COLLECTIVE_ALL_REDUCE:
        return 2 * (num_ranks - 1);
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
        return num_ranks - 1;
    case COLLECTIVE_BROADCAST:
    case NUM_COLLECTIVES:
        break;
    }
    return num_ranks;
}

double nccl_bus_bytes_per_s(const struct comm_group *group)
{
    double channel_bytes_per_s =
        group->num_nodes <= 2 ? group->intra_bytes_per_s : group->inter_bytes_per_s;
    return group->num_channels * channel_bytes_per_s;
}

/* Within a node NCCL's table has one row per generation of GPUs. Between nodes its rows are CPUs:
 * Volta's row is for Intel, Ampere's for AMD. */
double nccl_ll_max_bytes_per_s(const struct comm_group *group)
{
    enum gpu_arch cpu_row = group->amd_cpu ? ARCH_AMPERE : ARCH_VOLTA;
    enum gpu_arch row = group->num_nodes == 1 ? group->arch : cpu_row;
    return generations[row].nccl.ll_bytes_per_s[nccl_node_class(group)];
}

/* The additional latency equals a ring's hop within a node. */
double nccl_rail_latency_s(const struct comm_group *group, enum protocol protocol)
{
    static const double nvlink_hop_s[NUM_PROTOCOLS] = { US(0.6), US(1.9), US(3.4) };
    return group->crosses_rails ? nvlink_hop_s[protocol] : 0;
}

double nccl_net_latency_s(const struct comm_group *group, enum protocol protocol,
                          double own_latency_s)
{
    double hop_s =
        nccl_ranks_per_node(group) == 1 ? nccl_tree_net_latency_s[protocol] : own_latency_s;
    return hop_s + nccl_rail_latency_s(group, protocol);
}

bool nccl_sharp_serves(const struct comm_group *group, enum collective collective)
{
    if (collective == COLLECTIVE_ALL_REDUCE)
        return true;
    return collective != COLLECTIVE_BROADCAST && nccl_ranks_per_node(group) <= group->num_channels;
}
