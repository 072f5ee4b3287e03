/* Makes lists of phases, and counts the bytes that they send. */
#include "sim/exchange/methods.h"

const char *const exchange_phase_words[NUM_PHASE_KINDS + 1] = {
    [PHASE_ALL_REDUCE] = "all_reduce",
    [PHASE_RING] = "ring",
    [PHASE_TREE] = "tree",
    [PHASE_SERVERS] = "servers",
    [PHASE_REDUCE_SCATTER] = "reduce_scatter",
    [PHASE_ALL_GATHER] = "all_gather",
    [PHASE_ALL_TO_ALL] = "all_to_all",
    [PHASE_PEERS] = "peers",
};

double exchange_elements(const struct exchange_load *load)
{
    double elements = 0;
    for (int i = 0; i < load->num_tensors; i++)
        elements += load->tensors[i].rows * load->tensors[i].columns * load->tensors[i].count;
    return elements;
}

double load_bytes(const struct exchange_load *load)
{
    return exchange_elements(load) * load->element_bytes;
}

/* Adds a phase unless the group has one member. */
static void add(struct exchange_phases *out, struct exchange_phase phase)
{
    if (phase.size > 1 && phase.bytes > 0)
        out->at[out->count++] = phase;
}

void add_phase(struct exchange_phases *out, enum exchange_phase_kind kind, int size, int stride,
               double bytes)
{
    add(out, (struct exchange_phase){ kind, EXCHANGE_GRADIENTS, size, stride, 0, bytes });
}

void add_weights_phase(struct exchange_phases *out, enum exchange_phase_kind kind, int size,
                       int stride, double bytes)
{
    add(out, (struct exchange_phase){ kind, EXCHANGE_WEIGHTS, size, stride, 0, bytes });
}

int exchange_group_size(const struct exchange *exchange, const struct exchange_ranks *ranks)
{
    int group = exchange->group > 0 ? exchange->group : ranks->per_node;
    return ranks->count % group == 0 ? group : 1;
}

bool group_divides(const struct exchange *exchange, int num_ranks, struct err *err)
{
    int group = exchange->group > 0 ? exchange->group : 1;
    if (num_ranks % group == 0 && num_ranks / group > 1)
        return true;
    return err_set(err, ERR_INFEASIBLE, "exchange",
                   "group=%d does not divide the %d data ranks into two or more groups", group,
                   num_ranks);
}

/* Bytes that one group of n members sends: a sum needs n - 1 summands sent and n - 1 sums
 * returned. */
static double group_wire_bytes(const struct exchange_phase *phase)
{
    double others = phase->size - 1;
    switch (phase->kind) {
    case PHASE_ALL_REDUCE:
    case PHASE_RING:
    case PHASE_TREE:
    case PHASE_SERVERS:
        return 2 * others * phase->bytes;
    case PHASE_REDUCE_SCATTER:
    case PHASE_ALL_TO_ALL:
        return others * phase->bytes;
    case PHASE_ALL_GATHER:
        return others * phase->size * phase->bytes;
    case PHASE_PEERS:
        return (double)phase->peers * phase->size * phase->bytes;
    case NUM_PHASE_KINDS:
        break;
    }
    return 0;
}

double phase_wire_bytes(const struct exchange_phase *phase, int num_ranks)
{
    int groups = num_ranks / phase->size;
    return group_wire_bytes(phase) * groups;
}

struct exchange_phases exchange_phases_of(const struct exchange *exchange,
                                          const struct exchange_load *load,
                                          const struct exchange_ranks *ranks, bool averages)
{
    struct exchange_phases phases = { .count = 0 };
    if (ranks->count > 1)
        exchange_method_of(exchange)->phases(exchange, load, ranks, averages, &phases);
    return phases;
}

struct exchange_phases exchange_phases(const struct exchange *exchange,
                                       const struct exchange_load *load,
                                       const struct exchange_ranks *ranks, int step)
{
    return exchange_phases_of(exchange, load, ranks, exchange_averages(exchange, step));
}

double exchange_wire_bytes(const struct exchange *exchange, const struct exchange_load *load,
                           const struct exchange_ranks *ranks, int step)
{
    struct exchange_phases phases = exchange_phases(exchange, load, ranks, step);
    double bytes = 0;
    for (int i = 0; i < phases.count; i++)
        bytes += phase_wire_bytes(&phases.at[i], ranks->count);
    return bytes;
}
