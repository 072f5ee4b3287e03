#include "search/partition/sharding.h"

#include <assert.h>

const struct sharding_info shardings[NUM_SHARDINGS] = {
    [SHARDING_COLUMN] = { "column", "each rank has some columns of the weights and of the output",
                          PLACED_WHOLE, PLACED_HIDDEN, PLACED_HIDDEN, PLACED_PARTIAL },
    [SHARDING_ROW] = { "row",
                       "each rank has some rows of the weights, and computes partial sums of the "
                       "output",
                       PLACED_HIDDEN, PLACED_PARTIAL, PLACED_WHOLE, PLACED_HIDDEN },
    [SHARDING_REPLICATED] = { "replicated", "every rank computes the whole operator", PLACED_WHOLE,
                              PLACED_WHOLE, PLACED_WHOLE, PLACED_WHOLE },
    [SHARDING_SEQUENCE] = { "sequence", "each rank has some tokens and all weights",
                            PLACED_SEQUENCE, PLACED_SEQUENCE, PLACED_SEQUENCE, PLACED_SEQUENCE },
    [SHARDING_HIDDEN] = { "hidden", "each rank has some heads, or some of the values of each token",
                          PLACED_HIDDEN, PLACED_HIDDEN, PLACED_HIDDEN, PLACED_HIDDEN },
};

double reshard_cost(const struct reshard *reshard, enum tensor_placement from,
                    enum tensor_placement to)
{
    assert(to != PLACED_PARTIAL);
    if (from == to || from == PLACED_WHOLE)
        return 0;
    if (from == PLACED_PARTIAL)
        return to == PLACED_WHOLE ? reshard->all_reduce : reshard->reduce_scatter;
    return to == PLACED_WHOLE ? reshard->all_gather : reshard->all_to_all;
}

const char *reshard_name(enum tensor_placement from, enum tensor_placement to)
{
    if (from == to || from == PLACED_WHOLE)
        return "";
    if (from == PLACED_PARTIAL)
        return to == PLACED_WHOLE ? "all-reduce" : "reduce-scatter";
    return to == PLACED_WHOLE ? "all-gather" : "all-to-all";
}

bool reshard_gathers(enum tensor_placement from, enum tensor_placement to)
{
    return to == PLACED_WHOLE && (from == PLACED_HIDDEN || from == PLACED_SEQUENCE);
}

struct reshard reshard_units(double size, int num_ranks)
{
    return (struct reshard){ 2 * size, size, size, size / num_ranks };
}

struct reshard reshard_units_all_reduce(double size, int num_ranks)
{
    return (struct reshard){ 2 * size, size, 2 * size, size / num_ranks };
}
