/* NCCL's tree algorithm: latency and bandwidth by the formulas of NCCL's tuning model. Words in
 * brackets are names in NCCL's source; quoted words are its comments. */
#include "sim/collective/nccl_common.h"

#include <math.h>

static const double base_latency_s[NUM_PROTOCOLS] = { US(6.8), US(14.0), US(8.4) };
static const double intra_latency_s[NUM_INTRA_LINKS][NUM_PROTOCOLS] = {
    [LINK_NVLINK] = { US(0.6), US(1.25), US(4.0) },
    [LINK_PCI] = { US(1.0), US(1.9), US(4.0) },
};

/* "Trees are not perfectly sticking to the model for medium sizes": the share of the bandwidth that
 * remains for messages of 64 B, 128 B ... 256 MiB [treeCorrectionFactor, whose 24th column NCCL
 * never reads]. Where the share rises with size (at most from 0.6 to 0.8), the predicted time falls
 * with size. */
enum { NUM_SIZE_CLASSES = 23, SMALLEST_CLASS_BYTES = 64 };
// clang-format off
static const double size_correction[NUM_PROTOCOLS][NUM_SIZE_CLASSES] = {
    [PROTOCOL_LL] =     { 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
                          0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0 },
    [PROTOCOL_LL128] =  { 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
                          0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0 },
    [PROTOCOL_SIMPLE] = { 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
                          0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9 },
};
// clang-format on

bool tree_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol)
{
    return collective == COLLECTIVE_ALL_REDUCE && (protocol != PROTOCOL_LL128 || group->ll128);
}

/* The factors are NCCL's "various model refinements": 0.92 of the channels' bandwidth; LL gets
 * 1/3.8 of that, LL128 7/9 within a node and 120/128 (its payload) between nodes. */
static double bus_bytes_per_s(const struct comm_group *group, enum protocol protocol)
{
    int node_class = nccl_node_class(group);
    double bus = fmin(nccl_bus_bytes_per_s(group) * 0.92,
                      group->num_channels * nccl_rates(group)->tree_bytes_per_s[node_class]);
    if (protocol == PROTOCOL_LL)
        return fmin(bus / 3.8, nccl_ll_max_bytes_per_s(group));
    if (protocol == PROTOCOL_LL128)
        return fmin(bus * (group->num_nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                    group->num_channels * nccl_rates(group)->tree_ll128_bytes_per_s[node_class]);
    return bus;
}

static double correction(enum protocol protocol, double message_bytes)
{
    double units = message_bytes / SMALLEST_CLASS_BYTES;
    if (units < 1)
        return 1;
    int size_class = ilogb(units);
    return size_class < NUM_SIZE_CLASSES ? size_correction[protocol][size_class] : 1;
}

/* The message goes up and down again through a chain of the ranks of each node and a binary tree
 * over the nodes. Each byte crosses a link once in each direction, so the message gets half of the
 * bus bandwidth. */
void tree_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s)
{
    (void)collective;
    double chain_s = (nccl_ranks_per_node(group) - 1) * intra_latency_s[group->intra][protocol];
    double hop_s = nccl_net_latency_s(group, protocol, nccl_tree_net_latency_s[protocol]);
    double nodes_s = nccl_floor_log2(group->num_nodes) * hop_s;
    *latency_s = base_latency_s[protocol] + 2 * (chain_s + nodes_s);
    *bytes_per_s = bus_bytes_per_s(group, protocol) * 0.5 * correction(protocol, message_bytes);
}
