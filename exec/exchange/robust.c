/* Byzantine-robust aggregation rules: each rank receives its part of all ranks' gradients, combines
 * them, and sends the result to all. Rules that weigh whole gradients first sum the squared
 * distances of all parts. */
#include "sim/exchange/robust.h"

#include "exec/exchange/methods.h"

static const struct robust_rule *rule_of(const struct exchange *exchange)
{
    return exchange_method_of(exchange)->rule;
}

static size_t num_distances(const struct exchange_ranks *ranks)
{
    return (size_t)ranks->count * (size_t)ranks->count;
}

/* The distances in fp64, and one weight per rank. */
double robust_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks)
{
    double doubles = (double)num_distances(ranks) + ranks->count;
    return exchange_elements(load) + (rule_of(exchange)->weighs_ranks ? 2 * doubles : 0);
}

bool robust_open(struct exchanger *e, struct err *err)
{
    size_t doubles = num_distances(&e->on.ranks) + (size_t)e->on.ranks.count;
    if (!(e->received = exchanger_take(e, e->padded, err)))
        return false;
    if (!rule_of(&e->exchange)->weighs_ranks)
        return true;
    e->distances = (double *)(void *)exchanger_take(e, 2 * doubles, err);
    return e->distances != NULL;
}

/* Receives every rank's values of this rank's part, in the order of the ranks. */
static void receive_parts(struct exchanger *e, const float *gradients, size_t count)
{
    issue_call(e, (struct comm_call){ .kind = COMM_ALL_TO_ALL,
                                      .group = e->on.groups->all,
                                      .in = gradients,
                                      .out = e->received,
                                      .count = count,
                                      .element = ELEMENT_FP32 });
}

/* Averages each element over the ranks, after dropping its largest and smallest values: the trimmed
 * mean drops as many of each as there may be hostile ranks, the median all but the middle one or
 * two. */
static void combine_elements(struct exchanger *e, struct span part)
{
    int n = e->on.ranks.count;
    bool is_median = rule_of(&e->exchange)->kind == ROBUST_MEDIAN;
    struct robust_trim_args args = { .n = (long)part.count,
                                     .count = n,
                                     .trim =
                                         is_median ? (n - 1) / 2 : robust_hostile(&e->exchange, n),
                                     .x = e->received,
                                     .scale = (float)n,
                                     .out = part.at };
    e->on.kernel_api->robust_trim(e->on.kernels, e->on.stream, &args);
}

static void sum_distances(struct exchanger *e, size_t count)
{
    struct robust_measure_args args = { (long)count, e->on.ranks.count, e->received, e->distances };
    e->on.kernel_api->robust_measure(e->on.kernels, e->on.stream, &args);
    issue_call(e, (struct comm_call){ .kind = COMM_ALL_REDUCE,
                                      .group = e->on.groups->all,
                                      .in = e->distances,
                                      .out = e->distances,
                                      .count = num_distances(&e->on.ranks),
                                      .element = ELEMENT_FP64,
                                      .reduction = REDUCTION_SUM });
}

/* All ranks have the same distances, so they find the same weights. */
static void combine_gradients(struct exchanger *e, struct span part)
{
    int n = e->on.ranks.count;
    double *weights = e->distances + num_distances(&e->on.ranks);
    struct robust_weigh_args weigh = { .count = n,
                                       .hostile = robust_hostile(&e->exchange, n),
                                       .picks_one = rule_of(&e->exchange)->kind == ROBUST_KRUM,
                                       .squares = e->distances,
                                       .weights = weights };
    struct robust_mix_args mix = { (long)part.count, n, e->received, weights, (float)n, part.at };
    sum_distances(e, part.count);
    e->on.kernel_api->robust_weigh(e->on.kernels, e->on.stream, &weigh);
    e->on.kernel_api->robust_mix(e->on.kernels, e->on.stream, &mix);
}

/* The result replaces a sum, so it is the number of ranks times the rule's mean. */
void robust_sum(struct exchanger *e, float *gradients)
{
    struct group *all = e->on.groups->all;
    struct span part = span_part((struct span){ gradients, e->padded }, all->index, all->size);
    receive_parts(e, gradients, part.count);
    if (rule_of(&e->exchange)->weighs_ranks)
        combine_gradients(e, part);
    else
        combine_elements(e, part);
    phase_run(e, &e->phases.at[e->phases.count - 1], &part);
}
