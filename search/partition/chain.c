/* A chain of products as a partition problem. A unit of communication is what a rank sends in an
 * all-gather of X. */
#include "search/partition/chain.h"

#include <math.h>

static struct partition_score units(double count)
{
    return (struct partition_score){ .cost = count, .comm = count, .units = count };
}

static struct reshard reshard_of(const struct chain *chain, double size)
{
    return chain->has_reduce_scatter ? reshard_units(size, chain->num_ranks)
                                     : reshard_units_all_reduce(size, chain->num_ranks);
}

/* Communication that belongs to one product: weight gradients are reduced if each rank has them
 * only for its own tokens, and so are partial sums at the chain's end. */
static double own_units(const struct chain *chain, int index, enum sharding sharding)
{
    const struct chain_product *product = &chain->products[index];
    struct reshard weight = reshard_of(chain, product->weight_size);
    struct reshard output = reshard_of(chain, product->output_size);
    bool is_last = index == chain->num_products - 1;
    double sent = sharding == SHARDING_SEQUENCE ? weight.all_reduce : 0;
    if (is_last && shardings[sharding].output == PLACED_PARTIAL)
        sent += output.all_reduce;
    return sent;
}

static double pair_units(const struct reshard *reshard, enum sharding from, enum sharding to)
{
    return reshard_cost(reshard, shardings[from].output, shardings[to].input) +
           reshard_cost(reshard, shardings[to].input_gradient, shardings[from].output_gradient);
}

struct partition_problem chain_problem(const struct chain *chain, struct arena *arena)
{
    int count = chain->num_products;
    struct partition_problem problem = {
        .operators = ARENA_ARRAY(arena, struct partition_operator, (size_t)count),
        .num_operators = count,
        .edges = ARENA_ARRAY(arena, struct partition_edge, (size_t)count),
        .num_edges = count - 1,
        .budget_bytes = HUGE_VAL,
    };
    for (int i = 0; i < count; i++) {
        struct partition_operator *to = &problem.operators[i];
        struct partition_edge *edge = &problem.edges[i];
        struct reshard reshard = reshard_of(chain, chain->products[i].output_size);
        to->name = chain->products[i].name;
        to->allowed = chain->products[i].allowed;
        edge->from = i;
        edge->to = i + 1;
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            to->score[j] = units(own_units(chain, i, (enum sharding)j));
            for (int k = 0; k < NUM_SHARDINGS; k++)
                edge->score[j][k] = units(pair_units(&reshard, (enum sharding)j, (enum sharding)k));
        }
    }
    return problem;
}
