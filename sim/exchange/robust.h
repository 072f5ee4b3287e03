/* sim/exchange/robust.h - rules that replace the mean of the ranks' gradients, so that some ranks
 * may send anything.
 *
 * Every rank applies the rule to an equal part of the elements of all gradients and sends the
 * result to all: as many bytes as all-reduce. Hostile ranks falsify their own gradients; the parts
 * that they compute for others are taken to be right, as the papers take their server. */
#ifndef SIM_EXCHANGE_ROBUST_H
#define SIM_EXCHANGE_ROBUST_H

#include "sim/exchange/exchange.h"
#include "sim/exchange/robust_rule.h"

/* The f of an exchange: the given number, or the most that the rule admits. */
int robust_hostile(const struct exchange *exchange, int num_ranks);
/* kappa at that f; 0 for methods without a rule, and where the rule is the mean. */
double robust_error(const struct exchange *exchange, int num_ranks);
/* Bytes of the squared distances between all ranks that a rule with `weighs_ranks` sums. */
double robust_distance_bytes(int num_ranks);

/* Device memory traffic in bytes of one rank that applies the rule to its part of `num_ranks`
 * gradients. */
double robust_traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int num_ranks);

#endif
