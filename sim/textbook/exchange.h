/* sim/textbook/exchange.h - time of an exchange of data ranks by latency and bandwidth alone.
 *
 * The phases of an exchange are the same list that the cost model and the executor use. Every
 * function is pure. */
#ifndef SIM_TEXTBOOK_EXCHANGE_H
#define SIM_TEXTBOOK_EXCHANGE_H

#include "sim/exchange/exchange.h"
#include "sim/textbook/communication.h"

/* The links between data ranks, with the bandwidth of one rank. */
struct textbook_wires {
    struct textbook_link node, network;
    struct exchange_ranks ranks;
};

/* The link that carries a ring of `size` data ranks, `stride` apart. On one node it is the node's
 * link. Over several nodes, only one member per node sends to the next node; it can use the network
 * cards of all members on its node, but no more than the node's link. */
struct textbook_link textbook_ring_link(const struct textbook_wires *wires, int size, int stride);

/* The link of a phase. It is the link of a ring, except in gossip, where each rank has only its own
 * network card. */
struct textbook_link textbook_phase_link(const struct textbook_wires *wires,
                                         const struct exchange_phase *phase);
double textbook_phase_s(const struct textbook_wires *wires, const struct exchange_phase *phase);

/* Seconds per step; the mean over a period if the exchange has one. */
double textbook_exchange_s(const struct textbook_wires *wires, const struct exchange *exchange,
                           const struct exchange_load *load);

#endif
