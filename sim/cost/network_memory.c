#include "sim/cost/network_memory.h"

#include "sim/cost/nccl.h"
#include "sim/cost/network.h"
#include "sim/cost/runtime.h"
#include "sim/exchange/exchange.h"

/* --- communicators of axes ------------------------------------------------------------------ */

/* LL, LL128 and Simple: 512 KiB + 4.6875 MiB + 4 MiB (init.cc). */
static const double buffers_bytes = 9.1875 * 1024 * 1024;

static double ring_bytes(const struct comm_group *group)
{
    return group->num_ranks < 2 ? 0 : group->num_channels * buffers_bytes;
}

static double axis_bytes(const struct system *system, const struct plan *plan, unsigned axes)
{
    struct rank_group ranks = plan_group(plan, axes);
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
    return axis_bytes(system, plan, TENSOR_RANKS) + axis_bytes(system, plan, CONTEXT_RANKS) +
           data_bytes(system, plan) + axis_bytes(system, plan, PIPELINE_RANKS);
}

/* --- a communicator for every group --------------------------------------------------------- */

/* The same with their counters, in whole pages of 2 MiB at either end (p2p.cc: CUDA_IPC_MIN): 2 and
 * 10 MiB where the sender writes, 6 and 6 where the receiver reads. */
static const double connection_bytes = 12 * 1024 * 1024;

/* From the ring's rank before; from the tree's, which are that one and the one behind, and another
 * node's. Two ranks have one for the ring and the tree, and one for messages. */
static double num_connections(const struct comm_group *group)
{
    if (group->num_ranks == 2)
        return 2;
    return group->num_nodes > 1 ? 3 : 2;
}

/* Both ways, NCCL_STEPS of NVLS_CHUNKSIZE for each member (nvls.cc: ncclNvlsBufferSetup). */
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

/* The bytes of the communicator with one channel, which the others are split off. */
static double root_bytes(const struct comm_group *world)
{
    struct comm_group root = *world;
    root.num_channels = root.nvls_channels = 1;
    return communicator_bytes(&root);
}

/* Links, of which a stage between others has four, and the tied embedding's on the ends. */
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

/* Exchanges have one of all data ranks beside the group's. */
static double groups_bytes(const struct system *system, const struct plan *plan)
{
    if (plan_ranks(plan) < 2)
        return 0;
    struct comm_group world = network_plan_group(system, plan, ALL_RANKS);
    struct comm_group tensor = network_plan_group(system, plan, TENSOR_RANKS);
    struct comm_group data = network_plan_group(system, plan, REPLICAS);
    struct comm_group model = network_plan_group(system, plan, MODEL_RANKS);
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
