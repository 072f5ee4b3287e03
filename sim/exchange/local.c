#include "sim/exchange/methods.h"

void local_phases(const struct exchange *exchange, const struct exchange_load *load,
                  const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    if (averages)
        all_reduce_phases(exchange, load, ranks, averages, out);
}
