/* The time and memory of a gradient exchange other than the library's all-reduce. A method of
 * exchange is a list of phases (sim/exchange/exchange.h), each a collective or messages between
 * data ranks; compression is timed as memory traffic. */
#include "sim/cost/exchange.h"

#include "sim/cost/compute.h"
#include "sim/exchange/robust.h"
#include "sim/plan/layout.h"
#include "sim/plan/ranks.h"

#include <math.h>

/* The placement of a plan's data ranks. */
struct wires {
    const struct system *system;
    const struct plan *plan;
    struct exchange_ranks ranks;
    int stride;    /* distance between neighbouring data ranks, in ranks of the job */
    int node_size; /* ranks of the job in a node */
};

struct exchange_ranks exchange_ranks(const struct system *system, const struct plan *plan)
{
    struct span span = layout_axis_span(plan, AXIS_DATA, system->cluster.levels[0].size);
    return (struct exchange_ranks){ plan->dp, span.ranks_per_node };
}

static struct wires wires_of(const struct system *system, const struct plan *plan)
{
    int node_size = system->cluster.levels[0].size;
    return (struct wires){
        .system = system,
        .plan = plan,
        .ranks = exchange_ranks(system, plan),
        .stride = layout_stride(plan, AXIS_DATA),
        .node_size = node_size < system->num_gpus ? node_size : system->num_gpus,
    };
}

/* --- messages ------------------------------------------------------------------------------ */

/* A group of two data ranks, on different nodes if `crosses`. */
static struct comm_group pair_of(const struct wires *wires, bool crosses)
{
    struct rank_group data = plan_group(wires->plan, DATA_RANKS);
    return network_pair(wires->system, &data, crosses);
}

static double nics_per_gpu(const struct wires *wires)
{
    const struct cluster *cluster = &wires->system->cluster;
    double nics = cluster->levels[cluster->num_levels > 1 ? 1 : 0].nics_per_gpu;
    return nics > 0 ? nics : 1;
}

/* Time of `count` messages that a rank sends one after another to other nodes, while the ranks of
 * its node together send `flows` messages at a time. point_to_point_s assumes that every rank of
 * the node sends and gives each an equal share of the network cards. With fewer senders each gets a
 * larger share, at most one card. */
static double crossing_s(const struct wires *wires, double count, double flows, double bytes)
{
    if (count <= 0)
        return 0;
    struct comm_group pair = pair_of(wires, true);
    double own = count * fmin(nics_per_gpu(wires), 1);
    double sent_bytes = bytes * fmax(own, flows / wires->node_size);
    return count * point_to_point_s(&pair, sent_bytes / count);
}

static double inside_s(const struct wires *wires, double count, double bytes)
{
    if (count <= 0)
        return 0;
    struct comm_group pair = pair_of(wires, false);
    return count * point_to_point_s(&pair, bytes);
}

/* Distance, in ranks of the job, between members whose indices differ by `hop`. */
static long long distance(const struct wires *wires, const struct exchange_phase *phase, int hop)
{
    return (long long)hop * phase->stride * wires->stride;
}

static bool is_in_node(const struct wires *wires, long long rank, long long other)
{
    return rank / wires->node_size == other / wires->node_size;
}

/* --- gossip -------------------------------------------------------------------------------- */

/* The number of messages from a rank of the first node that leave the node. */
static int num_crossing(const struct wires *wires, const struct exchange_phase *phase, int rank,
                        int step)
{
    enum mixing_graph graph = (enum mixing_graph)wires->plan->exchange.graph;
    int member = rank / wires->stride % wires->ranks.count / phase->stride % phase->size;
    struct mixing_peers peers = mixing_peers(graph, phase->size, member, step);
    int crossing = 0;
    for (int i = 0; i < peers.count; i++)
        crossing +=
            !is_in_node(wires, rank, rank + distance(wires, phase, peers.tells[i] - member));
    return crossing;
}

/* Ranks send to all neighbours at once over shared links; the step waits for the rank that sends
 * the most over the network. */
static double peers_s(const struct wires *wires, const struct exchange_phase *phase, int step)
{
    int most = 0, flows = 0;
    for (int rank = 0; rank < wires->node_size; rank++) {
        int crossing = num_crossing(wires, phase, rank, step);
        most = crossing > most ? crossing : most;
        flows += crossing;
    }
    return crossing_s(wires, most, flows, phase->bytes) +
           inside_s(wires, phase->peers - most, phase->bytes);
}

/* --- sums ---------------------------------------------------------------------------------- */

/* Whether a member whose index i is a multiple of `every` can be on a different node than member i
 * + `hop`. */
static bool crosses(const struct wires *wires, const struct exchange_phase *phase, int hop,
                    int every)
{
    for (int member = 0; member + hop < phase->size; member += every) {
        long long rank = distance(wires, phase, member);
        if (!is_in_node(wires, rank, rank + distance(wires, phase, hop)))
            return true;
    }
    return false;
}

/* Time of one message between members whose indices differ by `hop`. Each group with ranks on a
 * node sends one message that leaves the node. */
static double hop_s(const struct wires *wires, const struct exchange_phase *phase, int hop,
                    int every, double bytes)
{
    if (!crosses(wires, phase, hop, every))
        return inside_s(wires, 1, bytes);
    double flows = fmin(wires->node_size, (double)distance(wires, phase, 1));
    return crossing_s(wires, 1, flows, bytes);
}

/* Each round moves 1/n of the bytes over every link of the ring at once, and all ranks wait for the
 * slowest link. */
static double ring_s(const struct wires *wires, const struct exchange_phase *phase)
{
    double rounds = 2.0 * (phase->size - 1);
    return rounds * hop_s(wires, phase, 1, 1, phase->bytes / phase->size);
}

/* In round k, members at distance 2^k exchange messages; then the rounds run in reverse order. */
static double tree_s(const struct wires *wires, const struct exchange_phase *phase)
{
    double up_s = 0;
    for (int hop = 1; hop < phase->size; hop *= 2)
        up_s += hop_s(wires, phase, hop, 2 * hop, phase->bytes);
    return 2 * up_s;
}

/* A server receives one part from each other member, then sends one to each. The time of a node's
 * network cards is determined by the larger of two amounts: bytes that arrive at its servers, and
 * bytes that its members send to servers on other nodes. */
static double servers_s(const struct wires *wires, const struct exchange_phase *phase)
{
    double part_bytes = phase->bytes / phase->peers;
    double in_node = fmax(1, floor((double)wires->ranks.per_node / phase->stride));
    double nodes = ceil(phase->size / in_node);
    if (nodes == 1)
        return 2 * inside_s(wires, phase->size - 1, part_bytes);
    double far = phase->size - in_node;
    double arriving = ceil(phase->peers / nodes) * far;
    double leaving = in_node * (phase->peers - floor(phase->peers / nodes));
    double flows = fmax(arriving, leaving) * wires->node_size / in_node;
    return 2 *
           (crossing_s(wires, far, flows, part_bytes) + inside_s(wires, in_node - 1, part_bytes));
}

static struct comm_group phase_group(const struct wires *wires, const struct exchange_phase *phase)
{
    struct members part = { wires->stride * phase->stride, phase->size };
    struct rank_group ranks = group_along(part, plan_ranks(wires->plan));
    return network_group(wires->system, &ranks);
}

static double all_to_all_phase_s(const struct wires *wires, const struct exchange_phase *phase)
{
    struct comm_group group = phase_group(wires, phase);
    return all_to_all_s(&group, phase->bytes);
}

static double collective_phase_s(const struct wires *wires, const struct exchange_phase *phase,
                                 enum collective collective)
{
    struct comm_group group = phase_group(wires, phase);
    double messages = collective == COLLECTIVE_ALL_GATHER ? phase->size : 1;
    return collective_s(&group, collective, messages * phase->bytes);
}

static double phase_s(const struct wires *wires, const struct exchange_phase *phase, int step)
{
    switch (phase->kind) {
    case PHASE_ALL_REDUCE:
        return collective_phase_s(wires, phase, COLLECTIVE_ALL_REDUCE);
    case PHASE_RING:
        return ring_s(wires, phase);
    case PHASE_TREE:
        return tree_s(wires, phase);
    case PHASE_SERVERS:
        return servers_s(wires, phase);
    case PHASE_REDUCE_SCATTER:
        return collective_phase_s(wires, phase, COLLECTIVE_REDUCE_SCATTER);
    case PHASE_ALL_GATHER:
        return collective_phase_s(wires, phase, COLLECTIVE_ALL_GATHER);
    case PHASE_ALL_TO_ALL:
        return all_to_all_phase_s(wires, phase);
    case PHASE_PEERS:
        return peers_s(wires, phase, step);
    case NUM_PHASE_KINDS:
        break;
    }
    return 0;
}

/* --- a step -------------------------------------------------------------------------------- */

/* Memory traffic of averaging, which reads a rank's own weights and those of its neighbours and
 * writes the average. */
static double averaging_bytes(const struct exchange_phases *phases)
{
    for (int i = 0; i < phases->count; i++)
        if (phases->at[i].kind == PHASE_PEERS)
            return (2.0 + phases->at[i].peers) * phases->at[i].bytes;
    return 0;
}

/* Memory traffic of late gradients (exchange=async). Each step makes three copies, which each read
 * and write: its gradients to the buffer that is summed during the next step, the finished sum to
 * the queue of waiting gradients, and the oldest gradients of the queue to the update. */
static double late_traffic_bytes(const struct exchange_load *load)
{
    enum { COPIES = 3 };
    return 2.0 * COPIES * exchange_elements(load) * load->element_bytes;
}

static double memory_s(const struct wires *wires, const struct exchange_load *load,
                       const struct exchange_phases *phases)
{
    const struct exchange *exchange = &wires->plan->exchange;
    const struct compressor *compressor = exchange_method_of(exchange)->compressor;
    double bytes = averaging_bytes(phases);
    if (compressor)
        bytes += compressor->traffic_bytes(exchange, load, wires->ranks.count - 1);
    if (exchange_is_late(exchange))
        bytes += late_traffic_bytes(load);
    if (exchange_method_of(exchange)->rule)
        bytes += robust_traffic_bytes(exchange, load, wires->ranks.count);
    return bytes > 0 ? traffic_s(&wires->system->gpu, &wires->system->profile, bytes, 1) : 0;
}

/* Adds `weight` times the cost of one step, which averages over all ranks if `averages`. */
static void add_step(const struct wires *wires, const struct exchange_load *load, bool averages,
                     int step, double weight, struct exchange_cost *sum)
{
    struct exchange_phases phases =
        exchange_phases_of(&wires->plan->exchange, load, &wires->ranks, averages);
    for (int i = 0; i < phases.count; i++) {
        bool of_weights = phases.at[i].object == EXCHANGE_WEIGHTS;
        *(of_weights ? &sum->weights_s : &sum->gradients_s) +=
            weight * phase_s(wires, &phases.at[i], step);
    }
    sum->memory_s += weight * memory_s(wires, load, &phases);
}

static int num_groups(const struct wires *wires)
{
    int group = wires->plan->exchange.group;
    return group > 0 ? wires->ranks.count / group : wires->ranks.count;
}

/* The mean over steps. A share `averaging` of the steps averages over all ranks; in the other steps
 * a gossip graph that changes from step to step goes through its whole cycle. */
struct exchange_cost exchange_cost(const struct system *system, const struct plan *plan,
                                   const struct exchange_load *load, double averaging)
{
    struct wires wires = wires_of(system, plan);
    struct exchange_cost mean = { 0 };
    int turns = mixing_cycle((enum mixing_graph)plan->exchange.graph, num_groups(&wires));
    for (int turn = 0; turn < turns; turn++) {
        add_step(&wires, load, true, turn, averaging / turns, &mean);
        if (averaging < 1)
            add_step(&wires, load, false, turn, (1 - averaging) / turns, &mean);
    }
    return mean;
}

/* The sum of the following buffers, as far as the method has them: the compressor's copies; late
 * gradients that wait or are being summed; the messages of all ranks if gradients are all-gathered;
 * for a robust rule, all ranks' gradients of one part; for gossip, the weights of all neighbours
 * and, if averaging overlaps the backward, the average to which the update is added. */
double exchange_memory_bytes(const struct system *system, const struct plan *plan,
                             const struct exchange_load *load)
{
    const struct exchange *exchange = &plan->exchange;
    const struct compressor *compressor = exchange_method_of(exchange)->compressor;
    struct exchange_ranks ranks = exchange_ranks(system, plan);
    struct exchange_phases phases = exchange_phases_of(exchange, load, &ranks, false);
    const struct robust_rule *rule = exchange_method_of(exchange)->rule;
    double bytes = 0, received = 0;
    for (int i = 0; i < phases.count; i++) {
        const struct exchange_phase *phase = &phases.at[i];
        if (phase->kind == PHASE_PEERS)
            bytes = phase->bytes * (phase->peers + (exchange->combine == COMBINE_BESIDE));
        if (phase->kind == PHASE_ALL_TO_ALL)
            received = phase->bytes;
        if (phase->kind == PHASE_ALL_GATHER && phase->object == EXCHANGE_GRADIENTS && !rule)
            bytes = phase->bytes * phase->size;
    }
    if (compressor && exchange->memory == MEMORY_ON)
        bytes += compressor->copies * exchange_elements(load) * load->element_bytes;
    if (exchange_is_late(exchange))
        bytes += (1 + exchange->staleness) * exchange_elements(load) * load->element_bytes;
    return bytes + received;
}
