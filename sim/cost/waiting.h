/* sim/cost/waiting.h - how long a step waits for other data ranks when not all of them meet in it.
 *
 * Each rank's step takes a time of its own, independent of the others' and of its last one, with
 * standard deviation 1 here; a rank begins the next one when all that it hears, and all that it
 * tells, have ended this one: weights are more than is under way unread, so a message needs both
 * its ends. So the ends follow the max-plus recursion t_i <- max over i and those of t_j + x_j,
 * whose growth a step, above the mean of x, is the waiting (Baccelli et al. 1992, "Synchronization
 * and Linearity", chapter 7). With everybody it is the expected maximum of n; with neighbours it is
 * more than theirs alone, as each of them has waited too, but does not grow with n without end.
 *
 * A chip that is slow for good is no such chance: it holds up every rank that a chain of neighbours
 * joins to it, in the end as much as with all-reduce (straggler_slowdown). */
#ifndef SIM_COST_WAITING_H
#define SIM_COST_WAITING_H

#include "sim/exchange/exchange.h"

/* The wait of gossip over a graph, in standard deviations of a rank's step; two ranks or more.
 * Within 12 % of simulated growth, which tests/test_waiting.c states. */
double gossip_wait(enum mixing_graph graph, int num_ranks);

/* The wait of an exchange that averages all ranks in a share of the steps, `averaging`. */
double exchange_wait(const struct exchange *exchange, int num_ranks, double averaging);

/* How many ranks all waiting for each other would wait as long: all where all do, 1 for none. */
double exchange_waits_for(const struct exchange *exchange, int num_ranks, double averaging);

#endif
