/* sim/exchange/robust.h - rules that replace the mean of the ranks' gradients and tolerate ranks
 * that send wrong gradients.
 *
 * Every rank applies the rule to an equal part of the elements of all gradients and sends the
 * result to all ranks. This sends as many bytes as all-reduce. Hostile ranks falsify their own
 * gradients. The parts that they compute for others are assumed correct, as the papers assume of
 * their server. */
#ifndef SIM_EXCHANGE_ROBUST_H
#define SIM_EXCHANGE_ROBUST_H

#include "sim/exchange/exchange.h"
#include "sim/exchange/robust_rule.h"

/* f, the number of hostile ranks of an exchange: the given number, or the largest that the rule
 * admits. */
int robust_hostile(const struct exchange *exchange, int num_ranks);
/* kappa (robust_rule.h) at that f; 0 for methods without a rule, and if the rule is the mean. */
double robust_error(const struct exchange *exchange, int num_ranks);
/* Bytes of the squared distances between all ranks, which are summed over the parts for a rule with
 * `weighs_ranks`. */
double robust_distance_bytes(int num_ranks);

/* Device memory traffic in bytes of one rank that applies the rule to its part of `num_ranks`
 * gradients. */
double robust_traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int num_ranks);

#endif
