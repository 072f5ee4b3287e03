/* The bytes that data ranks send per step under all-reduce. */
#include "exec/run/data_bytes.h"

/* Bytes that all data ranks together send in one collective; `bytes` as in struct
 * exchange_phase. */
static double call_bytes(const struct group *data, enum exchange_phase_kind kind, double bytes)
{
    struct exchange_phase phase = { kind, EXCHANGE_GRADIENTS, data->size, 1, 0, bytes };
    return phase_wire_bytes(&phase, data->size);
}

/* Bytes of a reduction of fp32 sums; with ZeRO each rank gets its own part. */
static double reduced_bytes(const struct group *data, const struct store *store)
{
    enum exchange_phase_kind kind =
        store_cuts(store, STATE_OPTIMIZER) ? PHASE_REDUCE_SCATTER : PHASE_ALL_REDUCE;
    return call_bytes(data, kind, (double)sizeof(float) * (double)store->padded);
}

static double gathered_bytes(const struct machine *m, const struct group *data,
                             const struct store *store)
{
    double shard_bytes = (double)machine_bytes(m, (double)store_updated(store));
    return call_bytes(data, PHASE_ALL_GATHER, shard_bytes);
}

static double pass_bytes(const struct rank *rank, const struct group *data,
                         const struct chunk *chunk, const struct pass_steps *steps)
{
    double bytes = 0;
    for (int i = 0; i < steps->count; i++) {
        enum step_op op = steps->at[i].op;
        if (op != STEP_GATHER && op != STEP_REDUCE)
            continue;
        const struct store *store = chunk->units[steps->at[i].index];
        if (store)
            bytes += op == STEP_GATHER ? gathered_bytes(&rank->machine, data, store)
                                       : reduced_bytes(data, store);
    }
    return bytes;
}

static double instr_bytes(const struct rank *rank, const struct group *data,
                          const struct instr *instr)
{
    if (instr->chunk < 0)
        return 0;
    const struct chunk *chunk = &rank->chunks[rank_round(rank, instr->chunk)];
    double bytes = 0;
    if (instr->op < (enum opcode)NUM_PASSES)
        return pass_bytes(rank, data, chunk, &chunk->passes[instr->op]);
    for (int s = 0; s < chunk->num_stores; s++) {
        if (instr->op == INSTR_REDUCE_GRAD)
            bytes += reduced_bytes(data, chunk->stores[s]);
        if (instr->op == INSTR_GATHER_PARAM)
            bytes += gathered_bytes(&rank->machine, data, chunk->stores[s]);
    }
    return bytes;
}

double data_step_bytes(const struct rank *rank)
{
    const struct group *data = rank_group(rank, GROUP_DATA);
    double bytes = 0;
    for (int i = 0; data && i < rank->list->count; i++)
        bytes += instr_bytes(rank, data, &rank->list->at[i]);
    return bytes;
}
