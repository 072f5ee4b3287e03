#include "sim/cost/network.h"

#include "sim/plan/layout.h"

#include <math.h>
#include <string.h>

/* What NCCL gets out of a NIC when the cluster's file doesn't say: NDR's 50 GB/s are 48 to it. */
static const double NIC_EFFICIENCY = 0.96;

static bool is_pci(const struct level *node)
{
    return strncmp(node->fabric, "pcie", 4) == 0;
}

/* Rings of one node: NCCL's search result for the whole node, which NVSwitch gives any subset. */
static void use_node(struct comm_group *group, const struct level *node)
{
    int channels = node->channels > 0 ? node->channels : 2;
    double channel =
        node->channel_bytes_per_s > 0 ? node->channel_bytes_per_s : node->bytes_per_s / channels;
    group->num_channels = channels;
    group->intra_bytes_per_s = group->inter_bytes_per_s = channel;
    group->in_network = node->in_network_reduction && node->nvls_channels > 0;
    group->nvls_channels = node->nvls_channels;
    group->nvls_intra_bytes_per_s = node->nvls_intra_bytes_per_s;
    group->nvls_inter_bytes_per_s = HUGE_VAL;
}

/* How much narrower the wires get for traffic that leaves blocks of `size` at each level. */
static double oversubscription(const struct cluster *cluster, double nodes_spanned)
{
    double factor = 1;
    double block_nodes = 1;
    for (int i = 1; i < cluster->num_levels; i++) {
        block_nodes *= cluster->levels[i].size;
        if (nodes_spanned > block_nodes && cluster->levels[i].oversubscription > factor)
            factor = cluster->levels[i].oversubscription;
    }
    return factor;
}

/* Whether every switch reduces that traffic over so many nodes meets. */
static bool reduces_between(const struct cluster *cluster, double nodes_spanned)
{
    double block_nodes = 1;
    for (int i = 1; i < cluster->num_levels && nodes_spanned > block_nodes; i++) {
        block_nodes *= cluster->levels[i].size;
        if (!cluster->levels[i].in_network_reduction)
            return false;
    }
    return cluster->num_levels > 1;
}

/* What rings over nodes carry where they run through one: of the hops of its members, all but the
 * one over the NIC share the wires of a ring inside. */
static double through_node_bytes_per_s(const struct level *node, int ranks_per_node)
{
    struct comm_group inside = { 0 };
    use_node(&inside, node);
    return inside.num_channels * inside.intra_bytes_per_s * ranks_per_node / (ranks_per_node - 1);
}

/* NVSwitch sums in the nodes and the network's switches over them; the NICs are shared out over the
 * channels. */
static void use_nvls_over_nodes(struct comm_group *group, const struct level *node,
                                double nics_bytes_per_s)
{
    group->in_network = node->in_network_reduction && node->nvls_channels > 0;
    group->nvls_channels = node->nvls_channels;
    group->nvls_intra_bytes_per_s = node->nvls_intra_bytes_per_s;
    if (group->in_network)
        group->nvls_inter_bytes_per_s = nics_bytes_per_s / node->nvls_channels;
}

/* Rings over nodes: each member's share of the NICs, as two channels at least. A channel is as wide
 * inside a node as on the NIC that it goes on to. */
static void use_nics(struct comm_group *group, const struct system *system, int ranks_per_node,
                     double nodes_spanned)
{
    const struct cluster *cluster = &system->cluster;
    const struct level *net = &cluster->levels[cluster->num_levels > 1 ? 1 : 0];
    double nic =
        net->channel_bytes_per_s > 0 ? net->channel_bytes_per_s : NIC_EFFICIENCY * net->bytes_per_s;
    double nics = ranks_per_node * (net->nics_per_gpu > 0 ? net->nics_per_gpu : 1);
    if (net->efficiency > 0)
        nic *= net->efficiency;
    double total = nics * nic / oversubscription(cluster, nodes_spanned);
    if (ranks_per_node > 1)
        total = fmin(total, through_node_bytes_per_s(&cluster->levels[0], ranks_per_node));
    int channels = nics > 2 ? (int)ceil(nics) : 2;
    group->num_channels = channels;
    group->intra_bytes_per_s = group->inter_bytes_per_s = total / channels;
    group->sharp = reduces_between(cluster, nodes_spanned);
    if (group->sharp)
        use_nvls_over_nodes(group, &cluster->levels[0], total);
}

/* Of `size` ranks that lie over nodes as `span` says, the first and the last `nodes_spanned` apart.
 */
static struct comm_group group_over(const struct system *system, int size, struct span span,
                                    double nodes_spanned)
{
    const struct level *node = &system->cluster.levels[0];
    const struct profile *profile = &system->profile;
    struct comm_group group = {
        .num_ranks = size,
        .num_nodes = span.num_nodes,
        .arch = (enum gpu_arch)system->gpu.arch,
        .intra = is_pci(node) ? LINK_PCI : LINK_NVLINK,
        .amd_cpu = system->cluster.amd_cpu,
        .ll128 = !is_pci(node),
    };
    if (span.num_nodes == 1) {
        use_node(&group, node);
        group.bandwidth_factor = profile->intra_bandwidth_factor;
        group.latency_factor = profile->intra_latency_factor;
    } else {
        use_nics(&group, system, span.ranks_per_node, nodes_spanned);
        group.bandwidth_factor = profile->inter_bandwidth_factor;
        group.latency_factor = profile->inter_latency_factor;
    }
    return group;
}

struct comm_group network_group(const struct system *system, int stride, int size)
{
    int node_size = system->cluster.levels[0].size;
    return group_over(system, size, layout_span(stride, size, node_size),
                      (double)stride * size / node_size);
}

/* Every `stride`-th rank, `size` of them: an axis, or an equal part of one. */
struct members {
    int stride, size;
};

static struct members axis_members(const struct plan *plan, enum axis_id axis)
{
    return (struct members){ layout_stride(plan, axis), axis_degree(plan, axis) };
}

/* The worst group. Where groups line up with nodes, all are as the first. */
static struct span worst_span(const struct plan *plan, struct members of, int node_size)
{
    long long block = (long long)of.stride * of.size;
    if (node_size % block == 0 || (node_size % of.stride == 0 && block % node_size == 0))
        return layout_span(of.stride, of.size, node_size);
    return layout_worst_span(of.stride, of.size, plan_ranks(plan), node_size);
}

static double nodes_spanned(struct members of, int node_size)
{
    return (double)of.stride * of.size / node_size;
}

/* Members of both kinds, one of the second for each of the first. Where they share nodes, a node
 * has as many as the one kind has times those of the other. */
static struct comm_group joint_group(const struct system *system, const struct plan *plan,
                                     struct members first, struct members second)
{
    int node_size = system->cluster.levels[0].size;
    struct span a = worst_span(plan, first, node_size);
    struct span b = worst_span(plan, second, node_size);
    struct span both = { .ranks_per_node = a.ranks_per_node * b.ranks_per_node,
                         .num_nodes = a.num_nodes * b.num_nodes };
    return group_over(system, first.size * second.size, both,
                      fmax(nodes_spanned(first, node_size), nodes_spanned(second, node_size)));
}

/* Data: those who hold the same weights, a context group of each data rank. */
struct comm_group network_axis_group(const struct system *system, const struct plan *plan,
                                     enum axis_id axis)
{
    struct members of = axis_members(plan, axis);
    if (axis == AXIS_DATA && plan->cp > 1)
        return joint_group(system, plan, of, axis_members(plan, AXIS_CONTEXT));
    int node_size = system->cluster.levels[0].size;
    return group_over(system, of.size, worst_span(plan, of, node_size),
                      nodes_spanned(of, node_size));
}

/* Neighbours shard: context ranks first, as they are nearest, then data ranks. */
struct data_groups network_data_groups(const struct system *system, const struct plan *plan)
{
    int num_shards = plan_shards(plan);
    if (num_shards == plan_replicas(plan))
        return (struct data_groups){ network_axis_group(system, plan, AXIS_DATA),
                                     { .num_ranks = 1 } };
    struct members context = axis_members(plan, AXIS_CONTEXT);
    struct members data = axis_members(plan, AXIS_DATA);
    struct members near_context = context;
    struct members near_data = data;
    near_context.size = num_shards < context.size ? num_shards : context.size;
    near_data.size = num_shards / near_context.size;
    struct members far_context = { context.stride * near_context.size,
                                   context.size / near_context.size };
    struct members far_data = { data.stride * near_data.size, data.size / near_data.size };
    return (struct data_groups){ joint_group(system, plan, near_data, near_context),
                                 joint_group(system, plan, far_data, far_context) };
}

/* Across nodes, and out of a block, as soon as any two are. */
struct comm_group network_axis_pair(const struct system *system, const struct plan *plan,
                                    enum axis_id axis)
{
    int node_size = system->cluster.levels[0].size;
    struct members of = axis_members(plan, axis);
    bool crosses = worst_span(plan, of, node_size).num_nodes > 1;
    struct span pair = { .ranks_per_node = crosses ? 1 : 2, .num_nodes = crosses ? 2 : 1 };
    return group_over(system, 2, pair, nodes_spanned(of, node_size));
}

struct comm_group network_stage_pair(const struct system *system, const struct plan *plan)
{
    return network_axis_pair(system, plan, AXIS_PIPELINE);
}
