/* The cost of passing a tensor between two operators of a layer that have different shardings. A
 * unit is the bytes that a rank sends in an all-gather of the hidden states. */
#include "search/partition/layer_part.h"

#include "sim/engine/data_parallel.h"

/* A tensor on its way from one operator to another. */
struct passage {
    double bytes;
    struct reshard seconds, units;
};

static struct passage passage_of(const struct scorer *scorer, double bytes)
{
    const struct comm_group *group = &scorer->tensor;
    int ranks = scorer->of->plan->tp;
    return (struct passage){
        .bytes = bytes,
        .seconds = { collective_s(group, COLLECTIVE_ALL_REDUCE, bytes),
                     collective_s(group, COLLECTIVE_ALL_GATHER, bytes),
                     collective_s(group, COLLECTIVE_REDUCE_SCATTER, bytes),
                     all_to_all_s(group, bytes / ranks) },
        .units = reshard_units(bytes / scorer->hidden_bytes, ranks),
    };
}

/* Communication units of the forward, counted twice when the layer is recomputed. */
static double sent_forward(const struct scorer *scorer, const struct reshard *reshard,
                           enum sharding from, enum sharding to)
{
    int runs = scorer->of->plan->recompute == RECOMPUTE_FULL ? 2 : 1;
    return runs * reshard_cost(reshard, shardings[from].output, shardings[to].input);
}

static double sent_back(const struct reshard *reshard, enum sharding from, enum sharding to)
{
    return reshard_cost(reshard, shardings[to].input_gradient, shardings[from].output_gradient);
}

static double beside_s(const struct scorer *scorer, double compute, double comm)
{
    if (!scorer->overlaps || comm == 0)
        return comm;
    return overlapped_s(&scorer->of->system->profile, compute, comm) - compute;
}

/* Communication in the backward of a linear layer. The input is gathered again during the
 * input-gradient product; the input gradient, if it is a partial sum, is reduced during the
 * weight-gradient product. */
static double backward_comm_s(const struct scorer *scorer, int index, enum sharding from,
                              enum sharding to, const struct reshard *seconds)
{
    struct op op = layer_product_of(scorer, index, to);
    struct ops backward = layer_backward_of(scorer, &op);
    double gather_s =
        reshard_gathers(shardings[from].output, shardings[to].input) ? seconds->all_gather : 0;
    double reduce_s = sent_back(seconds, from, to);
    if (shardings[to].input_gradient != PLACED_PARTIAL)
        return gather_s + reduce_s;
    double weight_s = 0;
    for (int i = 0; i < backward.count; i++)
        if (backward.at[i].kind == OP_GEMM && backward.at[i].pass == PASS_BACKWARD_WEIGHT)
            weight_s = layer_alone_s(scorer, &backward.at[i]);
    return beside_s(scorer, layer_pass_s(scorer, backward, PASS_BACKWARD_INPUT), gather_s) +
           beside_s(scorer, weight_s, reduce_s);
}

/* Bytes of its input that a linear layer keeps: the whole input, or only this rank's part if the
 * input is gathered. */
static double input_bytes(const struct scorer *scorer, double bytes, enum sharding from,
                          enum sharding to)
{
    bool is_part = reshard_gathers(shardings[from].output, shardings[to].input) ||
                   shardings[to].input != PLACED_WHOLE;
    return (is_part ? bytes / scorer->of->plan->tp : bytes) * scorer->in_flight;
}

static struct partition_score linear_edge(const struct scorer *scorer, int index,
                                          const struct passage *passage, enum sharding from,
                                          enum sharding to)
{
    bool gathers = reshard_gathers(shardings[from].output, shardings[to].input);
    struct partition_score score = {
        .units = sent_forward(scorer, &passage->units, from, to) +
                 sent_back(&passage->units, from, to) + (gathers ? passage->units.all_gather : 0),
        .comm = sent_forward(scorer, &passage->seconds, from, to) +
                backward_comm_s(scorer, index, from, to, &passage->seconds),
    };
    score.cost = score.comm;
    if (scorer->of->plan->recompute != RECOMPUTE_FULL)
        score.bytes = input_bytes(scorer, passage->bytes, from, to);
    return score;
}

static struct partition_score other_edge(const struct scorer *scorer, const struct passage *passage,
                                         enum sharding from, enum sharding to)
{
    double seconds =
        sent_forward(scorer, &passage->seconds, from, to) + sent_back(&passage->seconds, from, to);
    double units =
        sent_forward(scorer, &passage->units, from, to) + sent_back(&passage->units, from, to);
    return (struct partition_score){ .cost = seconds, .comm = seconds, .units = units };
}

static void add_edge(const struct scorer *scorer, struct partition_problem *problem, int from,
                     int to)
{
    struct partition_edge *edge = &problem->edges[problem->num_edges++];
    struct passage passage = passage_of(scorer, layer_output_bytes(scorer, from));
    edge->from = from;
    edge->to = to;
    for (int i = 0; i < NUM_SHARDINGS; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            if (!partition_allows(problem, from, (enum sharding)i) ||
                !partition_allows(problem, to, (enum sharding)j))
                continue;
            edge->score[i][j] =
                layer_is_linear(scorer, to)
                    ? linear_edge(scorer, to, &passage, (enum sharding)i, (enum sharding)j)
                    : other_edge(scorer, &passage, (enum sharding)i, (enum sharding)j);
        }
}

/* The operator that produced a value; ops that only mark a value are skipped. */
static int operator_of(const struct scorer *scorer, int value)
{
    int maker = ops_maker(&scorer->whole, value);
    for (int i = 0; i < scorer->num_stretches && maker >= 0; i++) {
        const struct stretch *stretch = &scorer->stretches[i];
        if (maker >= stretch->first && maker < stretch->first + stretch->count)
            return i;
    }
    return maker < 0 ? scorer->num_stretches - 1
                     : operator_of(scorer, scorer->whole.at[maker].in.at[0]);
}

static const struct op *first_op(const struct scorer *scorer, int index)
{
    return &scorer->whole.at[scorer->stretches[index].first];
}

void layer_add_edges(const struct scorer *scorer, struct partition_problem *problem)
{
    int count = scorer->num_stretches;
    for (int i = 0; i < count; i++) {
        int next = (i + 1) % count;
        add_edge(scorer, problem, operator_of(scorer, first_op(scorer, next)->in.at[0]), next);
        for (int j = 1; j < first_op(scorer, i)->in.count; j++)
            add_edge(scorer, problem, operator_of(scorer, first_op(scorer, i)->in.at[j]), i);
    }
}
