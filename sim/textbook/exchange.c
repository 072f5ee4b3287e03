/* Time of a gradient exchange by latency and bandwidth alone. An exchange is a list of phases, each
 * a collective or messages. */
#include "sim/textbook/exchange.h"

#include <math.h>

static bool is_in_node(const struct textbook_wires *wires, int size, int stride)
{
    return (size - 1) * stride < wires->ranks.per_node;
}

/* Ring members on the same node are consecutive; messages between them use the node's link. */
struct textbook_link textbook_ring_link(const struct textbook_wires *wires, int size, int stride)
{
    if (is_in_node(wires, size, stride))
        return wires->node;
    struct textbook_link link = wires->network;
    int members = wires->ranks.per_node / stride; /* ring members per node */
    link.bytes_per_s = fmin(fmax(1, members) * link.bytes_per_s, wires->node.bytes_per_s);
    return link;
}

struct textbook_link textbook_phase_link(const struct textbook_wires *wires,
                                         const struct exchange_phase *phase)
{
    if (phase->kind == PHASE_PEERS && !is_in_node(wires, phase->size, phase->stride))
        return wires->network;
    return textbook_ring_link(wires, phase->size, phase->stride);
}

/* Time of one phase. An unnamed algorithm is taken as a ring. The buffer of a gather is the bytes
 * of all members. In gossip a rank sends to its d neighbours one after another: d (alpha + S/B),
 * with latency alpha, S bytes and bandwidth B. Assran et al. 2019, section 3 (gossip). */
double textbook_phase_s(const struct textbook_wires *wires, const struct exchange_phase *phase)
{
    const struct textbook_link link = textbook_phase_link(wires, phase);
    switch (phase->kind) {
    case PHASE_ALL_REDUCE:
    case PHASE_RING:
        return textbook_ring_all_reduce_s(&link, phase->size, phase->bytes);
    case PHASE_TREE:
        return textbook_tree_all_reduce_s(&link, phase->size, phase->bytes);
    case PHASE_SERVERS:
        return textbook_parameter_server_s(&link, phase->size, phase->peers, phase->bytes);
    case PHASE_REDUCE_SCATTER:
        return textbook_ring_reduce_scatter_s(&link, phase->size, phase->bytes);
    case PHASE_ALL_TO_ALL:
        return (phase->size - 1) * textbook_message_s(&link, phase->bytes / phase->size);
    case PHASE_ALL_GATHER:
        return textbook_ring_all_gather_s(&link, phase->size, phase->size * phase->bytes);
    case PHASE_PEERS:
        return phase->peers * textbook_message_s(&link, phase->bytes);
    case NUM_PHASE_KINDS:
        break;
    }
    return 0;
}

static double phases_s(const struct textbook_wires *wires, const struct exchange *exchange,
                       const struct exchange_load *load, bool averages)
{
    struct exchange_phases phases = exchange_phases_of(exchange, load, &wires->ranks, averages);
    double sum_s = 0;
    for (int i = 0; i < phases.count; i++)
        sum_s += textbook_phase_s(wires, &phases.at[i]);
    return sum_s;
}

/* With period H, one step in H averages over all ranks: the mean time is 1/H of that step's time
 * plus (H-1)/H of the other steps' time. Stich 2019 (Local SGD); Chen et al. 2021 (Gossip-PGA). */
double textbook_exchange_s(const struct textbook_wires *wires, const struct exchange *exchange,
                           const struct exchange_load *load)
{
    double period = exchange->period > 0 ? exchange->period : 1;
    double average_s = phases_s(wires, exchange, load, true);
    double other_s = phases_s(wires, exchange, load, false);
    return (average_s + (period - 1) * other_s) / period;
}
