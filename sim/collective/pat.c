/* NCCL's PAT algorithm: latency and bandwidth by the formulas of NCCL's tuning model. Words in
 * brackets are names in NCCL's source. */
#include "sim/collective/nccl_common.h"

static const double base_latency_s = US(8.0);

/* Latency per rank. NCCL's comment: "still a linear part; hopefully we'll manage to remove it". */
static const double rank_latency_s = US(2.8);

/* NCCL has had PAT since version 2.23; by default it uses PAT only with one rank per node
 * [ncclPatEnable]. */
bool pat_available(const struct comm_group *group, enum collective collective,
                   enum protocol protocol)
{
    return (collective == COLLECTIVE_ALL_GATHER || collective == COLLECTIVE_REDUCE_SCATTER) &&
           protocol == PROTOCOL_SIMPLE && group->num_ranks == group->num_nodes;
}

/* Parallel aggregated trees take log2(nodes) steps, rounded down; the latency of a step is that of
 * a hop of the tree algorithm, divided by 3.5. With one rank per node, ranks and nodes are equally
 * many. The bandwidth is three quarters of the bus bandwidth and is not converted to algorithm
 * bandwidth. */
void pat_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
              double message_bytes, double *latency_s, double *bytes_per_s)
{
    (void)collective, (void)message_bytes;
    double hop_s = nccl_net_latency_s(group, protocol, nccl_tree_net_latency_s[protocol]) / 3.5;
    *latency_s = base_latency_s + nccl_floor_log2(group->num_nodes) * hop_s +
                 group->num_ranks * rank_latency_s;
    *bytes_per_s = nccl_bus_bytes_per_s(group) * 0.75;
}
