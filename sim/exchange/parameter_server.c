#include "sim/exchange/methods.h"

bool server_accepts(const struct exchange *exchange, int num_ranks, struct err *err)
{
    if (exchange->servers <= num_ranks)
        return true;
    return err_set(err, ERR_INFEASIBLE, "exchange",
                   "exchange=%s:%s%d has more servers than the %d data ranks",
                   exchange_method_of(exchange)->name, exchange_is_late(exchange) ? "servers=" : "",
                   exchange->servers, num_ranks);
}

void server_phases(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    add_phase(out, PHASE_SERVERS, ranks->count, 1, load_bytes(load));
    out->at[out->count - 1].peers = exchange->servers;
}
