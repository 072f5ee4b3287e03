/* Seconds of a collective: from a measured curve (time by message size) if the GPU's profile has
 * one, else by the fastest of NCCL's algorithms. */
#include "base/length.h"
#include "sim/collective/collective.h"

#include "sim/collective/measured_curve.h"
#include "sim/collective/nccl_common.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool have_same_curves(const struct comm_group *a, const struct comm_group *b)
{
    for (int i = 0; i < NUM_COLLECTIVES; i++)
        if (a->curves[i] != b->curves[i])
            return false;
    return a->message_curve == b->message_curve;
}

bool comm_groups_are_alike(const struct comm_group *a, const struct comm_group *b)
{
    return a->num_ranks == b->num_ranks && a->num_nodes == b->num_nodes && a->arch == b->arch &&
           a->intra == b->intra && a->amd_cpu == b->amd_cpu && a->ll128 == b->ll128 &&
           a->in_network == b->in_network && a->crosses_rails == b->crosses_rails &&
           a->sharp == b->sharp && a->num_channels == b->num_channels &&
           a->link_bytes_per_s == b->link_bytes_per_s &&
           a->intra_bytes_per_s == b->intra_bytes_per_s &&
           a->inter_bytes_per_s == b->inter_bytes_per_s && a->socket_ranks == b->socket_ranks &&
           a->socket_bytes_per_s == b->socket_bytes_per_s && a->nvls_channels == b->nvls_channels &&
           a->nvls_intra_bytes_per_s == b->nvls_intra_bytes_per_s &&
           a->nvls_inter_bytes_per_s == b->nvls_inter_bytes_per_s &&
           a->bandwidth_factor == b->bandwidth_factor && a->latency_factor == b->latency_factor &&
           a->expert_wait_s == b->expert_wait_s && have_same_curves(a, b);
}

const char *const collective_names[NUM_COLLECTIVES + 1] = {
    [COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [COLLECTIVE_ALL_GATHER] = "all_gather",
    [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_BROADCAST] = "broadcast",
};

/* The rows are in NCCL's order; of equally fast algorithms the first is chosen. */
#define TUNING "NCCL 2.30.7 src/graph/tuning.cc"
const struct collective_algo collective_algos[] = {
    { "tree", "a chain in each node, double binary trees over the nodes",
      TUNING "; Sanders et al. 2009", tree_available, tree_cost, NULL },
    { "ring", "n-1 steps around a ring, twice for all-reduce", TUNING "; Patarasuk and Yuan 2009",
      ring_available, ring_cost, NULL },
    { "collnet_direct", "the network's switches reduce; every rank uses its own network card",
      TUNING, collnet_direct_available, collnet_direct_cost, NULL },
    { "collnet_chain", "a chain in each node; the network's switches reduce", TUNING,
      collnet_chain_available, collnet_chain_cost, NULL },
    { "nvls", "NVSwitch reduces and multicasts, in one node or, with SHARP, between nodes", TUNING,
      nvls_available, nvls_cost, nvls_reached },
    { "nvls_tree", "NVSwitch in each node, a tree over the nodes", TUNING, nvls_tree_available,
      nvls_tree_cost, NULL },
    { "pat", "parallel aggregated trees, one rank per node", TUNING, pat_available, pat_cost,
      NULL },
};
#undef TUNING
const int num_collective_algos = LENGTH(collective_algos);

const struct collective_algo *collective_algo_find(const char *name)
{
    for (int i = 0; i < num_collective_algos; i++)
        if (strcmp(collective_algos[i].name, name) == 0)
            return &collective_algos[i];
    return NULL;
}

static void check(const struct comm_group *group, double message_bytes)
{
    assert(group->num_ranks >= 1);
    assert(group->num_nodes >= 1 && group->num_nodes <= group->num_ranks);
    assert(group->bandwidth_factor > 0 && group->latency_factor >= 0);
    assert(message_bytes >= 0 && isfinite(message_bytes));
    (void)group, (void)message_bytes;
}

static bool is_free(const struct comm_group *group, double message_bytes)
{
    return group->num_ranks == 1 || message_bytes == 0;
}

struct collective_choice collective_choose(const struct comm_group *group,
                                           enum collective collective, double message_bytes)
{
    check(group, message_bytes);
    struct collective_choice best = { .algo = NULL, .time_s = 0 };
    if (is_free(group, message_bytes))
        return best;

    for (int i = 0; i < num_collective_algos; i++) {
        struct collective_choice next = { .algo = &collective_algos[i] };
        for (int protocol = 0; protocol < NUM_PROTOCOLS; protocol++) {
            next.protocol = (enum protocol)protocol;
            if (!next.algo->available(group, collective, next.protocol))
                continue;
            next.algo->cost(group, collective, next.protocol, message_bytes, &next.latency_s,
                            &next.bytes_per_s);
            next.time_s = next.latency_s + message_bytes / next.bytes_per_s;
            if (!best.algo || next.time_s < best.time_s)
                best = next;
        }
    }
    assert(best.algo && best.bytes_per_s > 0);
    return best;
}

static double calibrated_s(const struct comm_group *group, double latency_s, double message_bytes,
                           double bytes_per_s)
{
    return latency_s * group->latency_factor +
           message_bytes / (bytes_per_s * group->bandwidth_factor);
}

static double modelled_s(const struct comm_group *group, enum collective collective,
                         double message_bytes)
{
    struct collective_choice choice = collective_choose(group, collective, message_bytes);
    if (!choice.algo)
        return 0;
    double reached = choice.algo->reached ? choice.algo->reached(group, collective) : 1;
    return calibrated_s(group, choice.latency_s, message_bytes, choice.bytes_per_s * reached);
}

/* The size clamped to the curve's range. */
static double nearest_bytes(const struct curve *curve, double message_bytes)
{
    double first_bytes = curve->points[0].bytes;
    double last_bytes = curve->points[curve->num_points - 1].bytes;
    return fmin(fmax(message_bytes, first_bytes), last_bytes);
}

static double measured_s(const struct comm_group *group, enum collective collective,
                         double message_bytes)
{
    const struct curve *curve = group->curves[collective];
    double end_bytes = nearest_bytes(curve, message_bytes);
    double time_s = curve_s(curve, message_bytes);
    if (end_bytes == message_bytes)
        return time_s;
    return time_s * modelled_s(group, collective, message_bytes) /
           modelled_s(group, collective, end_bytes);
}

double collective_s(const struct comm_group *group, enum collective collective,
                    double message_bytes)
{
    if (group->curves[collective] && !is_free(group, message_bytes))
        return measured_s(group, collective, message_bytes);
    return modelled_s(group, collective, message_bytes);
}

/* The latency of a send is 5 us inside a node and 10 us across the network, the ends of the usual
 * range; latency_factor corrects them. NCCL's channels together have about 0.8 of NVLink's
 * bandwidth (24 x 15 of 450 GB/s on H100); a copy between two GPUs reaches this rate. Between nodes
 * a rank uses the channels of its own network card; if the receiver is on another rail, the message
 * first crosses NVLink. */
static double modelled_message_s(const struct comm_group *group, double message_bytes)
{
    bool crosses_nodes = group->num_nodes > 1;
    double latency_s = US(5.0);
    if (crosses_nodes)
        latency_s = US(10.0) + nccl_rail_latency_s(group, PROTOCOL_SIMPLE);
    double channel_bytes_per_s =
        crosses_nodes ? group->inter_bytes_per_s : group->intra_bytes_per_s;
    assert(channel_bytes_per_s > 0);
    return calibrated_s(group, latency_s, message_bytes, group->num_channels * channel_bytes_per_s);
}

double point_to_point_s(const struct comm_group *group, double message_bytes)
{
    check(group, message_bytes);
    if (is_free(group, message_bytes))
        return 0;
    if (!group->message_curve)
        return modelled_message_s(group, message_bytes);
    double end_bytes = nearest_bytes(group->message_curve, message_bytes);
    return curve_s(group->message_curve, message_bytes) * modelled_message_s(group, message_bytes) /
           modelled_message_s(group, end_bytes);
}

/* NCCL's model gives a NIC 0.96 of its rate; many simultaneous sends reach only 0.8 of it. */
static const double all_to_all_nic_share = 0.8 / 0.96;

/* NCCL has no algorithm for an all-to-all, so it is modelled as simultaneous sends to each rank.
 * Inside a node the channels together have about 0.8 of NVLink's bandwidth; such exchanges reach
 * this rate. Between sockets all bytes that leave a socket share one link. Between nodes a rank has
 * an equal share of its node's NICs for the bytes that leave the node; bytes within the node are
 * faster and overlap. */
double all_to_all_s(const struct comm_group *group, double message_bytes)
{
    check(group, message_bytes);
    if (is_free(group, message_bytes))
        return 0;
    double part_bytes = message_bytes / group->num_ranks;
    if (group->socket_ranks > 0)
        return calibrated_s(group, US(5.0),
                            part_bytes * group->socket_ranks *
                                (group->num_ranks - group->socket_ranks),
                            group->socket_bytes_per_s);
    if (group->num_nodes == 1)
        return calibrated_s(group, US(5.0), part_bytes * (group->num_ranks - 1),
                            group->num_channels * group->intra_bytes_per_s);
    int in_node = nccl_ranks_per_node(group);
    double rank_bytes_per_s =
        all_to_all_nic_share * group->num_channels * group->inter_bytes_per_s / in_node;
    return calibrated_s(group, US(10.0), part_bytes * (group->num_ranks - in_node),
                        rank_bytes_per_s);
}
