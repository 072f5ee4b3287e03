/* sim/exchange/methods.h - functions that the methods' files provide to the table in methods.c;
 * only these files include it. */
#ifndef SIM_EXCHANGE_METHODS_H
#define SIM_EXCHANGE_METHODS_H

#include "sim/exchange/exchange.h"
#include "sim/exchange/robust_rule.h"

typedef void add_phases(const struct exchange *exchange, const struct exchange_load *load,
                        const struct exchange_ranks *ranks, bool averages,
                        struct exchange_phases *out);
typedef bool accept_ranks(const struct exchange *exchange, int num_ranks, struct err *err);

add_phases all_reduce_phases, ring_phases, tree_phases, hierarchical_phases, server_phases,
    gossip_phases, local_phases, periodic_phases, gathered_phases, power_phases, robust_phases;
accept_ranks hierarchical_accepts, server_accepts, gossip_accepts, robust_accepts;
extern const struct compressor quantiser, largest_elements, largest_changes, largest_in_rounds,
    low_rank;
extern const struct robust_rule coordinate_median, trimmed_mean, krum, geometric_median;

/* Bytes of a load without compression. */
double load_bytes(const struct exchange_load *load);
/* Each function adds a phase that exchanges gradients, or weights, within every group of `size`
 * ranks that are `stride` apart. */
void add_phase(struct exchange_phases *out, enum exchange_phase_kind kind, int size, int stride,
               double bytes);
void add_weights_phase(struct exchange_phases *out, enum exchange_phase_kind kind, int size,
                       int stride, double bytes);
/* Whether group= divides the ranks into two or more groups. */
bool group_divides(const struct exchange *exchange, int num_ranks, struct err *err);

#endif
