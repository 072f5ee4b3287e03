#include "sim/exchange/methods.h"

bool hierarchical_accepts(const struct exchange *exchange, int num_ranks, struct err *err)
{
    return exchange->group == 0 || group_divides(exchange, num_ranks, err);
}

/* After a reduce-scatter within the node, each member all-reduces its part with the members of the
 * same index on other nodes. So each rank's network card carries only that rank's part. */
void hierarchical_phases(const struct exchange *exchange, const struct exchange_load *load,
                         const struct exchange_ranks *ranks, bool averages,
                         struct exchange_phases *out)
{
    (void)averages;
    int group = exchange_group_size(exchange, ranks);
    double bytes = load_bytes(load);
    add_phase(out, PHASE_REDUCE_SCATTER, group, 1, bytes);
    add_phase(out, PHASE_ALL_REDUCE, ranks->count / group, group, bytes / group);
    add_phase(out, PHASE_ALL_GATHER, group, 1, bytes / group);
}
