/* sim/textbook/exchange.h - time of an exchange of data ranks by latency and bandwidth alone.
 *
 * What a method sends is the list of phases that cost model and executor read, too. Pure. */
#ifndef SIM_TEXTBOOK_EXCHANGE_H
#define SIM_TEXTBOOK_EXCHANGE_H

#include "sim/exchange/exchange.h"
#include "sim/textbook/communication.h"

/* Where data ranks sit. */
struct textbook_wires {
    struct textbook_link node, network;
    struct exchange_ranks ranks;
};

/* The link that a phase's members talk over: within a node where all of them are in one. */
const struct textbook_link *textbook_phase_link(const struct textbook_wires *wires,
                                                const struct exchange_phase *phase);
double textbook_phase_s(const struct textbook_wires *wires, const struct exchange_phase *phase);

/* One step; the mean over a period where there is one. */
double textbook_exchange_s(const struct textbook_wires *wires, const struct exchange *exchange,
                           const struct exchange_load *load);

#endif
