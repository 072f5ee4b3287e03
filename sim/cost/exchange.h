/* sim/cost/exchange.h - seconds that an exchange other than the library's all-reduce takes.
 *
 * Phases (sim/exchange/exchange.h) become collectives and messages over the wires that a plan's
 * data ranks have; compressing is traffic in device memory. */
#ifndef SIM_COST_EXCHANGE_H
#define SIM_COST_EXCHANGE_H

#include "sim/cost/network.h"
#include "sim/exchange/exchange.h"

struct exchange_ranks exchange_ranks(const struct system *system, const struct plan *plan);

/* One exchange of a load, a mean over steps of which the share `averaging` ends a period
 * (averaging_share). */
struct exchange_cost {
    double gradients_s; /* on the wire, of gradients */
    double weights_s;   /* on the wire, of weights */
    double memory_s;    /* of the device: messages made and read, weights averaged */
};
struct exchange_cost exchange_cost(const struct system *system, const struct plan *plan,
                                   const struct exchange_load *load, double averaging);

/* What a rank keeps for it from step to step, and needs for messages meanwhile. */
double exchange_memory_bytes(const struct system *system, const struct plan *plan,
                             const struct exchange_load *load);

#endif
