/* sim/textbook/exchange.h - time of an exchange of data ranks by latency and bandwidth alone.
 *
 * Phases come from the list that the cost model and the executor read. Pure. */
#ifndef SIM_TEXTBOOK_EXCHANGE_H
#define SIM_TEXTBOOK_EXCHANGE_H

#include "sim/exchange/exchange.h"
#include "sim/textbook/communication.h"

/* The links of the data ranks, with a rank's own share of each. */
struct textbook_wires {
    struct textbook_link node, network;
    struct exchange_ranks ranks;
};

/* The link that carries a ring of `size` data ranks, `stride` apart. On one node it is the node's
 * link. Over several it is the sum of the NICs of the members in a node, at most the node's link,
 * as only one member sends to the next node. */
struct textbook_link textbook_ring_link(const struct textbook_wires *wires, int size, int stride);

/* The link of a phase: a ring's, but neighbours in a graph each use only a rank's own share. */
struct textbook_link textbook_phase_link(const struct textbook_wires *wires,
                                         const struct exchange_phase *phase);
double textbook_phase_s(const struct textbook_wires *wires, const struct exchange_phase *phase);

/* Seconds per step, as the mean over a period if there is one. */
double textbook_exchange_s(const struct textbook_wires *wires, const struct exchange *exchange,
                           const struct exchange_load *load);

#endif
