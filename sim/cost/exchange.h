/* sim/cost/exchange.h - the time of a gradient exchange other than the library's all-reduce.
 *
 * Phases (sim/exchange/exchange.h) are timed as collectives and messages over the links between a
 * plan's data ranks; compression is timed as device memory traffic. */
#ifndef SIM_COST_EXCHANGE_H
#define SIM_COST_EXCHANGE_H

#include "sim/cost/group_links.h"
#include "sim/exchange/exchange.h"

struct exchange_ranks exchange_ranks(const struct system *system, const struct plan *plan);

/* The mean time per step to exchange a load. `averaging` is the share of steps that average over
 * all ranks (averaging_share). */
struct exchange_cost {
    double gradients_s; /* time of messages with gradients */
    double weights_s;   /* time of messages with weights */
    /* time of device memory traffic: writing and reading messages, averaging weights */
    double memory_s;
};
struct exchange_cost exchange_cost(const struct system *system, const struct plan *plan,
                                   const struct exchange_load *load, double averaging);

/* Bytes that a rank keeps for the exchange between steps, including message buffers. */
double exchange_memory_bytes(const struct system *system, const struct plan *plan,
                             const struct exchange_load *load);

#endif
