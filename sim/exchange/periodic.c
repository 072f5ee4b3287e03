#include "sim/exchange/methods.h"

/* A global average takes the place of the step's gossip. */
void periodic_phases(const struct exchange *exchange, const struct exchange_load *load,
                     const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    if (averages)
        all_reduce_phases(exchange, load, ranks, averages, out);
    else
        gossip_phases(exchange, load, ranks, averages, out);
}
