/* sim/textbook/exchange.h - time of an exchange of data ranks by latency and bandwidth alone.
 *
 * Phases come from the list that cost model and executor read, too. Pure. */
#ifndef SIM_TEXTBOOK_EXCHANGE_H
#define SIM_TEXTBOOK_EXCHANGE_H

#include "sim/exchange/exchange.h"
#include "sim/textbook/communication.h"

/* Where data ranks sit, and what a rank has to itself of the links. */
struct textbook_wires {
    struct textbook_link node, network;
    struct exchange_ranks ranks;
};

/* The link that carries a ring of `size` data ranks, `stride` apart: the node's where all are in
 * one; else the cards of the members in a node together, up to the node's link, as one member alone
 * talks to the next node. */
struct textbook_link textbook_ring_link(const struct textbook_wires *wires, int size, int stride);

/* The same for a phase; neighbours in a graph have each what is theirs. */
struct textbook_link textbook_phase_link(const struct textbook_wires *wires,
                                         const struct exchange_phase *phase);
double textbook_phase_s(const struct textbook_wires *wires, const struct exchange_phase *phase);

/* One step; the mean over a period where there is one. */
double textbook_exchange_s(const struct textbook_wires *wires, const struct exchange *exchange,
                           const struct exchange_load *load);

#endif
