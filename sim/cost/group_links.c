/* The links of a group of ranks. A span says on how many nodes a group is, and how many of its
 * ranks are on each; its reach says how far it extends, counted in ranks of the job. A rail is the
 * network that connects the same network card of all nodes. */
#include "sim/cost/group_links.h"

#include "sim/plan/layout.h"

#include <math.h>
#include <string.h>

/* Share of a network card's (NIC's) rate that is assumed unless the cluster's file states one; NCCL
 * takes 48 of NDR's 50 GB/s. */
static const double nic_efficiency = 0.96;

static bool is_pci(const struct level *node)
{
    return strncmp(node->fabric, "pcie", 4) == 0;
}

/* The share of a GPU's bandwidth that `members` GPUs of a node can use among themselves. In a full
 * mesh each GPU has one link to every other, so a ring of few GPUs uses only few of a GPU's links;
 * two GPUs have only one link between them. */
static double reached_of_mesh(const struct level *node, int members)
{
    double links = members - 1.0;
    if (node->link_bytes_per_s <= 0 || members < 2)
        return 1;
    return fmin(1, links * node->link_bytes_per_s / node->bytes_per_s);
}

/* Bandwidth of one ring channel inside a node. A ring over the GPUs of several sockets has its
 * share of the link between them, up to the rate of one channel. */
static double node_channel_bytes_per_s(const struct level *node, int members, double socket_share)
{
    int channels = node->channels > 0 ? node->channels : 2;
    if (socket_share > 0)
        return fmin(node->socket_channel_bytes_per_s,
                    socket_share * node->socket_bytes_per_s / channels);
    double channel =
        node->channel_bytes_per_s > 0 ? node->channel_bytes_per_s : node->bytes_per_s / channels;
    return channel * reached_of_mesh(node, members);
}

/* Sets the rings inside a node to NCCL's search result for the whole node. With NVSwitch this
 * result holds for any subset of the node's GPUs; in a mesh a subset gets a part of the
 * bandwidth. */
static void use_node(struct comm_group *group, const struct level *node, int members,
                     double socket_share)
{
    int channels = node->channels > 0 ? node->channels : 2;
    double channel = node_channel_bytes_per_s(node, members, socket_share);
    group->num_channels = channels;
    group->intra_bytes_per_s = group->inter_bytes_per_s = channel;
    group->in_network = node->in_network_reduction && node->nvls_channels > 0;
    group->nvls_channels = node->nvls_channels;
    group->nvls_intra_bytes_per_s = node->nvls_intra_bytes_per_s;
    group->nvls_inter_bytes_per_s = HUGE_VAL;
}

/* How far a group extends over several nodes, in ranks of the job. */
struct reach {
    double ranks; /* ranks from its first rank to the start of the next group */
    double total; /* ranks of all groups of this shape, which are adjacent */
    double hop;   /* ranks to the next member on another node: at least a node's ranks */
    bool crosses_rails;
    /* the share of the link between a node's sockets that this group gets, as all groups of its
     * shape use the link at once; 0: its members on a node are attached to one socket */
    double socket_share;
    /* used if socket_share is not 0: the number of a node's members that are attached to one
     * socket */
    int socket_ranks;
};

/* Whether traffic of some group leaves a block, the nodes below one switch of a level. If groups do
 * not fill blocks evenly, some of them lie in two blocks, and the step waits for those: for example
 * groups of 12 or of 20 nodes with blocks of 16. */
static bool leaves_blocks(struct reach reach, double block_ranks)
{
    return reach.total > block_ranks && fmod(block_ranks, reach.ranks) > 0;
}

/* The factor by which bandwidth falls for traffic that leaves blocks. Each rank sends to the member
 * one hop ahead, so the ranks within a hop of the block's end send out of it, a share f = hop /
 * block. With oversubscription o they share uplinks with 1/o of the bandwidth of all the block's
 * network cards. So a card of bandwidth B gets B / (o f), at most B. Rings over neighbouring nodes
 * leave a block once, so their f is small. */
static double oversubscription(const struct cluster *cluster, struct reach reach)
{
    double factor = 1;
    double block_ranks = cluster->levels[0].size;
    for (int i = 1; i < cluster->num_levels; i++) {
        block_ranks *= cluster->levels[i].size;
        double share = fmin(1, reach.hop / block_ranks);
        if (leaves_blocks(reach, block_ranks))
            factor = fmax(factor, cluster->levels[i].oversubscription * share);
    }
    return factor;
}

/* Whether all switches between the members of a group on several nodes can reduce. */
static bool reduces_between(const struct cluster *cluster, struct reach reach)
{
    double block_ranks = cluster->levels[0].size;
    for (int i = 1; i < cluster->num_levels && leaves_blocks(reach, block_ranks); i++) {
        block_ranks *= cluster->levels[i].size;
        if (!cluster->levels[i].in_network_reduction)
            return false;
    }
    return cluster->num_levels > 1;
}

/* Bandwidth inside a node that rings over several nodes get. The members on a node share the node's
 * rings for all their hops except the hop over the network card. A single member uses the node's
 * rings at most once, to reach another rail. */
static double through_node_bytes_per_s(const struct level *node, int ranks_per_node,
                                       double socket_share)
{
    struct comm_group inside = { 0 };
    use_node(&inside, node, ranks_per_node, socket_share);
    double ring = inside.num_channels * inside.intra_bytes_per_s;
    return ranks_per_node > 1 ? ring * ranks_per_node / (ranks_per_node - 1) : ring;
}

/* NVSwitch sums within the nodes, the network's switches across them; the channels share the
 * NICs. */
static void use_nvls_over_nodes(struct comm_group *group, const struct level *node,
                                double nics_bytes_per_s)
{
    group->in_network = node->in_network_reduction && node->nvls_channels > 0;
    group->nvls_channels = node->nvls_channels;
    group->nvls_intra_bytes_per_s = node->nvls_intra_bytes_per_s;
    if (group->in_network)
        group->nvls_inter_bytes_per_s = nics_bytes_per_s / node->nvls_channels;
}

/* The bandwidth of rings over nodes per NIC. A channel uses one NIC, so a NIC carries its equal
 * share of the channels, at least one. NCCL's search gives a channel the highest speed of its table
 * that all NICs support [speedArrayInter: 48 GB/s of NDR's 50], and divides the speed of a single
 * NIC between two channels [ncclTopoDupChannels halves bwInter] (NCCL 2.30.7
 * src/graph/search.cc). */
static double nic_bytes_per_s(const struct level *net, double nics_of_node)
{
    if (net->channel_bytes_per_s <= 0)
        return nic_efficiency * net->bytes_per_s;
    return fmax(1, net->channels / nics_of_node) * net->channel_bytes_per_s;
}

/* Sets rings over nodes. Their bandwidth is the members' share of a node's NICs, divided over at
 * least two channels; the node with the fewest members limits the group. A channel has the same
 * rate inside a node as on its NIC. */
static void use_nics(struct comm_group *group, const struct system *system, struct span span,
                     struct reach reach)
{
    const struct cluster *cluster = &system->cluster;
    const struct level *net = &cluster->levels[cluster->num_levels > 1 ? 1 : 0];
    double nics_per_gpu = net->nics_per_gpu > 0 ? net->nics_per_gpu : 1;
    double nics = span.fewest_in_node * nics_per_gpu;
    double nic = nic_bytes_per_s(net, nics_per_gpu * cluster->levels[0].size);
    if (net->efficiency > 0)
        nic *= net->efficiency;
    double total = nics * nic / oversubscription(cluster, reach);
    group->crosses_rails = reach.crosses_rails && group->intra == LINK_NVLINK;
    if (span.ranks_per_node > 1 || group->crosses_rails)
        total = fmin(total, through_node_bytes_per_s(&cluster->levels[0], span.ranks_per_node,
                                                     reach.socket_share));
    int channels = nics > 2 ? (int)ceil(nics) : 2;
    group->num_channels = channels;
    group->intra_bytes_per_s = group->inter_bytes_per_s = total / channels;
    group->sharp = reduces_between(cluster, reach);
    if (group->sharp)
        use_nvls_over_nodes(group, &cluster->levels[0], total);
}

/* Sets the curves that were measured with the same number of ranks and nodes on the same fabric, if
 * there are any. */
static void use_curves(struct comm_group *group, const struct system *system)
{
    const struct profile *profile = &system->profile;
    const struct cluster *cluster = &system->cluster;
    const struct level *wires = &cluster->levels[group->num_nodes > 1 && cluster->num_levels > 1];
    for (int i = 0; i < profile->num_curves; i++) {
        const struct curve *curve = &profile->curves[i];
        if (curve->num_ranks == group->num_ranks && curve->num_nodes == group->num_nodes &&
            strcmp(curve->fabric, wires->fabric) == 0)
            *(curve->collective == CURVE_POINT_TO_POINT ? &group->message_curve
                                                        : &group->curves[curve->collective]) =
                curve;
    }
}

/* A group of `size` ranks, placed on nodes by `span` and `reach`. */
static struct comm_group group_over(const struct system *system, int size, struct span span,
                                    struct reach reach)
{
    const struct level *node = &system->cluster.levels[0];
    const struct profile *profile = &system->profile;
    struct comm_group group = {
        .num_ranks = size,
        .num_nodes = span.num_nodes,
        .arch = (enum gpu_arch)system->gpu.arch,
        .intra = is_pci(node) ? LINK_PCI : LINK_NVLINK,
        .amd_cpu = system->cluster.amd_cpu,
        .link_bytes_per_s = node->bytes_per_s,
        .ll128 = !is_pci(node),
    };
    if (span.num_nodes == 1) {
        use_node(&group, node, size, reach.socket_share);
        group.socket_ranks = reach.socket_ranks;
        group.socket_bytes_per_s = reach.socket_share * node->socket_bytes_per_s;
        group.bandwidth_factor = profile->intra_bandwidth_factor;
        group.latency_factor = profile->intra_latency_factor;
    } else {
        use_nics(&group, system, span, reach);
        group.bandwidth_factor = profile->inter_bandwidth_factor;
        group.latency_factor = profile->inter_latency_factor;
        group.expert_wait_s = profile->expert_wait_s;
    }
    use_curves(&group, system);
    return group;
}

/* Whether groups align with nodes, so that all of them are spread over nodes in the same way. */
static bool are_aligned(struct members of, int node_size)
{
    long long block = (long long)of.stride * of.size;
    return of.size == 1 || of.stride % node_size == 0 || node_size % block == 0 ||
           (node_size % of.stride == 0 && block % node_size == 0);
}

/* The span of the set that is spread most widely over nodes, among all sets of the same shape. */
static struct span worst_span(struct members of, int num_ranks, int node_size)
{
    if (are_aligned(of, node_size))
        return layout_span(of.stride, of.size, node_size);
    return layout_worst_span(of.stride, of.size, num_ranks, node_size);
}

/* The span of a set of members over sockets instead of nodes. A node whose file states no sockets
 * counts as one socket. */
static struct span socket_span(const struct system *system, struct members of, int num_ranks)
{
    int socket_size = system->cluster.levels[0].socket_size;
    if (socket_size == 0)
        return (struct span){ .ranks_per_node = of.size, .num_nodes = 1 };
    return worst_span(of, num_ranks, socket_size);
}

/* A group is the Cartesian product of its sets of members (struct rank_group). So its number of
 * nodes is the product of the sets' numbers of nodes, and so is its number of ranks on a node. The
 * set with the longest reach determines the group's reach: all other members lie between its
 * members. */
struct comm_group network_group(const struct system *system, const struct rank_group *group)
{
    int node_size = system->cluster.levels[0].size;
    struct span span = { .ranks_per_node = 1, .num_nodes = 1, .fewest_in_node = 1 };
    struct reach reach = { .ranks = 1, .total = group->num_ranks, .hop = node_size };
    bool crosses_sockets = false;
    int socket_ranks = 1;
    for (int i = 0; i < group->num_sets; i++) {
        struct members set = group->sets[i];
        struct span own = worst_span(set, group->num_ranks, node_size);
        span.ranks_per_node *= own.ranks_per_node;
        span.fewest_in_node *= own.fewest_in_node;
        span.num_nodes *= own.num_nodes;
        reach.ranks = fmax(reach.ranks, (double)set.stride * set.size);
        reach.hop = fmax(reach.hop, set.stride);
        reach.crosses_rails = reach.crosses_rails || !are_aligned(set, node_size);
        struct span below = socket_span(system, set, group->num_ranks);
        crosses_sockets = crosses_sockets || below.num_nodes > 1;
        socket_ranks *= below.ranks_per_node;
    }
    if (crosses_sockets) {
        reach.socket_share = span.ranks_per_node / fmin(node_size, group->num_ranks);
        reach.socket_ranks = socket_ranks;
    }
    return group_over(system, group_size(group), span, reach);
}

struct comm_group network_plan_group(const struct system *system, const struct plan *plan,
                                     unsigned along)
{
    struct rank_group group = plan_group(plan, along);
    return network_group(system, &group);
}

static struct data_groups data_groups(const struct system *system, struct rank_group shard,
                                      struct rank_group replicas)
{
    struct data_groups groups = { network_group(system, &shard), { .num_ranks = 1 } };
    if (group_size(&replicas) > 1)
        groups.replicas = network_group(system, &replicas);
    return groups;
}

struct data_groups network_data_groups(const struct system *system, const struct plan *plan)
{
    return data_groups(system, shard_ranks(plan), shard_replicas(plan));
}

struct data_groups network_expert_data_groups(const struct system *system, const struct plan *plan)
{
    return data_groups(system, expert_shard_ranks(plan), expert_shard_replicas(plan));
}

static struct members only_set(const struct rank_group *group)
{
    return group->num_sets > 0 ? group->sets[0] : (struct members){ 1, 1 };
}

bool network_crosses(const struct system *system, const struct rank_group *group)
{
    int node_size = system->cluster.levels[0].size;
    return worst_span(only_set(group), group->num_ranks, node_size).num_nodes > 1;
}

/* The share of the link between two sockets that a pair of neighbouring members gets; 0 if no pair
 * crosses. As many pairs cross as there are ranks from one member to the next, but at most as many
 * as a socket has. */
static double pair_share(const struct system *system, struct members of, int num_ranks)
{
    int socket_size = system->cluster.levels[0].socket_size;
    bool crosses = socket_span(system, of, num_ranks).num_nodes > 1;
    return crosses ? 1 / fmin(of.stride, socket_size) : 0;
}

/* The two ranks are on one rail only if they are whole nodes apart. The pair is taken to leave a
 * block if any pair of the group does. */
struct comm_group network_pair(const struct system *system, const struct rank_group *group,
                               bool crosses)
{
    struct members of = only_set(group);
    int in_node = crosses ? 1 : 2;
    struct span pair = { .ranks_per_node = in_node,
                         .num_nodes = crosses ? 2 : 1,
                         .fewest_in_node = in_node };
    struct reach reach = { .ranks = (double)of.stride * of.size,
                           .total = group->num_ranks,
                           .hop = fmax(of.stride, system->cluster.levels[0].size),
                           .crosses_rails = of.stride % system->cluster.levels[0].size != 0,
                           .socket_share = pair_share(system, of, group->num_ranks) };
    return group_over(system, 2, pair, reach);
}

bool network_boundary_crosses(const struct system *system, const struct rank_group *stages,
                              int stage)
{
    int node_size = system->cluster.levels[0].size;
    struct members of = only_set(stages);
    if (!network_crosses(system, stages))
        return false;
    /* an aligned group over several nodes fills these nodes, so its last rank is the last of a
     * node */
    return !are_aligned(of, node_size) || (long long)(stage + 1) * of.stride % node_size == 0 ||
           of.stride % node_size == 0;
}
