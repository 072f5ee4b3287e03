#include "sim/exchange/methods.h"

/* Compressed messages cannot be summed on the way, so each one goes to every rank. */
void gathered_phases(const struct exchange *exchange, const struct exchange_load *load,
                     const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    double bytes = exchange_method_of(exchange)->compressor->message_bytes(exchange, load);
    int rounds = exchange->rounds > 0 ? exchange->rounds : 1;
    for (int round = 0; round < rounds; round++)
        add_phase(out, PHASE_ALL_GATHER, ranks->count, 1, bytes);
}
