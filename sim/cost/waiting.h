/* sim/cost/waiting.h - how long a step waits for other data ranks when not all of them synchronise
 * in it.
 *
 * The time x of each rank's step is random and independent of other ranks and steps; its standard
 * deviation is the unit of time here. A rank begins its next step when it and all ranks that it
 * sends to or receives from have ended this one: weights are too large to be buffered, so a message
 * needs both ends at the same time. The end times thus follow the max-plus recursion t_i <- max
 * over j of (t_j + x_j), where j is i or one of these ranks. Their growth per step, above the mean
 * of x, is the waiting (Baccelli et al. 1992, "Synchronization and Linearity", chapter 7). If each
 * rank waits for all n ranks, it is the expected maximum of n step times. If each rank waits only
 * for its neighbours, the waiting exceeds the expected maximum of these few, as each of them has
 * waited too. But it stays bounded as n grows.
 *
 * A permanently slow chip is not such a random delay: after some steps it delays all ranks that a
 * chain of neighbours connects to it, as much as with all-reduce (straggler_slowdown). */
#ifndef SIM_COST_WAITING_H
#define SIM_COST_WAITING_H

#include "sim/exchange/exchange.h"

/* The wait of gossip over a graph of two ranks or more, in standard deviations of a rank's step
 * time. The result is within 12 % of a simulation of the recursion
 * (tests/sim/cost/test_waiting.c). */
double gossip_wait(enum mixing_graph graph, int num_ranks);

/* The wait of an exchange that averages over all ranks in a share `averaging` of the steps. */
double exchange_wait(const struct exchange *exchange, int num_ranks, double averaging);

/* The number n of ranks for which waiting for all n ranks takes as long as this exchange's waiting.
 * It is the number of all ranks for all-reduce, and 1 if there is no waiting. */
double exchange_waits_for(const struct exchange *exchange, int num_ranks, double averaging);

#endif
