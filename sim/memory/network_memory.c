/* GPU memory that NCCL's communicators take. Names in parentheses are from NCCL's source. */
#include "sim/memory/network_memory.h"

#include "sim/collective/nccl_common.h"
#include "sim/cost/group_links.h"
#include "sim/cost/runtime.h"
#include "sim/exchange/exchange.h"
#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "sim/plan/ranks.h"

/* --- communicators of axes ----------------------------------------------------------------- */

/* NCCL's protocols LL, LL128 and Simple: 512 KiB + 4.6875 MiB + 4 MiB (init.cc). */
static const double buffers_bytes = 9.1875 * 1024 * 1024;

static double ring_bytes(const struct comm_group *group)
{
    return group->num_ranks < 2 ? 0 : group->num_channels * buffers_bytes;
}

static double axis_bytes(const struct system *system, const struct plan *plan, unsigned along)
{
    struct rank_group ranks = plan_group(plan, along);
    if (group_size(&ranks) < 2)
        return 0;
    struct comm_group group = network_group(system, &ranks);
    return ring_bytes(&group);
}

static double data_bytes(const struct system *system, const struct plan *plan)
{
    if (plan_replicas(plan) < 2)
        return 0;
    struct data_groups groups = network_data_groups(system, plan);
    return ring_bytes(&groups.shard) + ring_bytes(&groups.replicas);
}

static double axes_bytes(const struct system *system, const struct plan *plan)
{
    double bytes = data_bytes(system, plan);
    for (int axis = 0; axis < num_axes; axis++)
        if (axis != AXIS_DATA)
            bytes += axis_bytes(system, plan, 1u << axis);
    return bytes;
}

/* --- a communicator for every group -------------------------------------------------------- */

/* NCCL's buffers with their counters, in whole pages of 2 MiB at each end of a connection (p2p.cc:
 * CUDA_IPC_MIN). The ends take 2 and 10 MiB when the sender writes, and 6 MiB each when the
 * receiver reads. */
static const double connection_bytes = 12 * 1024 * 1024;

/* Number of a rank's connections per channel. Ring and tree use one from the previous rank, the
 * tree one from its next rank and, over several nodes, one from a rank on another node. A group of
 * two ranks has one connection for ring and tree and one for messages. */
static double num_connections(const struct comm_group *group)
{
    if (group->num_ranks == 2)
        return 2;
    return group->num_nodes > 1 ? 3 : 2;
}

/* NVLS has buffers in both directions, each of NCCL_STEPS x NVLS_CHUNKSIZE per member (nvls.cc:
 * ncclNvlsBufferSetup). */
static double switch_bytes(const struct comm_group *group)
{
    static const double steps_bytes = 8 * 128 * 1024.0;
    bool sums = nvls_available(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE) ||
                nvls_tree_available(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE);
    return sums ? 2.0 * group->nvls_channels * nccl_ranks_per_node(group) * steps_bytes : 0;
}

static double communicator_bytes(const struct comm_group *group)
{
    if (group->num_ranks < 2)
        return 0;
    return num_connections(group) * group->num_channels * connection_bytes + switch_bytes(group);
}

/* Bytes of the root communicator, which has one channel and from which the others are split. */
static double root_bytes(const struct comm_group *world)
{
    struct comm_group root = *world;
    root.num_channels = root.nvls_channels = 1;
    return communicator_bytes(&root);
}

/* Number of communicators between pairs of stages: up to four for the links of a middle stage, and
 * one for the tied embedding on the end stages. */
static int num_pairs(const struct plan *plan)
{
    if (plan->vpp > 1)
        return 4 + 1;
    return plan->pp == 2 ? 2 + 1 : 4;
}

static double pipeline_bytes(const struct system *system, const struct plan *plan)
{
    if (plan->pp < 2)
        return 0;
    struct rank_group stages = plan_group(plan, PIPELINE_RANKS);
    struct comm_group pair = network_pair(system, &stages, network_crosses(system, &stages));
    return num_pairs(plan) * communicator_bytes(&pair);
}

/* A gradient exchange other than the default adds a communicator of all data ranks. */
static double groups_bytes(const struct system *system, const struct plan *plan)
{
    if (plan_ranks(plan) < 2)
        return 0;
    struct comm_group world = network_plan_group(system, plan, ALL_RANKS);
    struct comm_group tensor = network_plan_group(system, plan, TENSOR_RANKS);
    struct comm_group data = network_plan_group(system, plan, replicated_axes());
    struct comm_group model = network_plan_group(system, plan, model_axes());
    int num_data = exchange_is_default(&plan->exchange) ? 1 : 2;
    return root_bytes(&world) + communicator_bytes(&world) + communicator_bytes(&tensor) +
           num_data * communicator_bytes(&data) + communicator_bytes(&model) +
           pipeline_bytes(system, plan);
}

double network_memory_bytes(const struct system *system, const struct plan *plan)
{
    if (system->stack.memory.connects_groups)
        return groups_bytes(system, plan);
    return stack_runtime(&system->stack)->has_channels ? axes_bytes(system, plan) : 0;
}
