#include "sim/exchange/methods.h"

void tree_phases(const struct exchange *exchange, const struct exchange_load *load,
                 const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)exchange, (void)averages;
    add_phase(out, PHASE_TREE, ranks->count, 1, load_bytes(load));
}
