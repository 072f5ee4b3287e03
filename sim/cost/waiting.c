/* How long ranks wait for each other if a step averages only with neighbours (gossip) or seldom
 * with all ranks. */
#include "sim/cost/waiting.h"

#include "sim/cost/straggler.h"

#include <math.h>

/* Standard deviation of the maximum of n standard normals: half the distance between its quantiles
 * at plus and minus one standard deviation. */
static double deviation_of_maximum(double n)
{
    return (maximum_quantile(n, 0.841345) - maximum_quantile(n, 0.158655)) / 2;
}

/* Let E and d be the mean and the standard deviation of the maximum of m standard normals. If the
 * end times of a rank and its neighbours, m in all, were independent with deviation s, the latest
 * would be s E after their mean, with deviation s d. The rank's own next step adds variance 1, so
 * s^2 = s^2 d^2 + 1, and the times grow by s E = E / sqrt(1 - d^2) per step. */
static double endless_wait(double m)
{
    double deviation = deviation_of_maximum(m);
    return expected_maximum(m) / sqrt(1 - deviation * deviation);
}

static bool contains(const int *ranks, int count, int rank)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* The number of ranks from which a rank receives or to which it sends in a step, averaged over the
 * cycle of a graph that changes. */
static double mean_met(enum mixing_graph graph, int num_ranks)
{
    int cycle = mixing_cycle(graph, num_ranks), met = 0;
    for (int step = 0; step < cycle; step++) {
        struct mixing_peers peers = mixing_peers(graph, num_ranks, 0, step);
        met += peers.count;
        for (int i = 0; i < peers.count; i++)
            met += !contains(peers.hears, peers.count, peers.tells[i]);
    }
    return (double)met / cycle;
}

/* The wait is at most that for all n ranks, the expected maximum of n, and at most endless_wait,
 * which holds for many ranks. The two are combined with the exponent that fits simulations best. */
double gossip_wait(enum mixing_graph graph, int num_ranks)
{
    static const double power = 3;
    double endless = endless_wait(1 + mean_met(graph, num_ranks));
    double all = expected_maximum(num_ranks);
    return pow(pow(endless, -power) + pow(all, -power), -1 / power);
}

/* The ranks of a group act as one: they wait for each other in every step, so a group is as slow as
 * its slowest rank. */
static double group_wait(const struct exchange *exchange, int num_ranks)
{
    int group = exchange->group > 1 ? exchange->group : 1;
    if (num_ranks / group < 2)
        return expected_maximum(num_ranks);
    double among = gossip_wait((enum mixing_graph)exchange->graph, num_ranks / group);
    double wait = group > 1 ? expected_maximum(group) + deviation_of_maximum(group) * among : among;
    return fmin(wait, expected_maximum(num_ranks));
}

/* One step in H averages over all ranks. Without messages in the other steps, the deviation of the
 * time of H steps is sqrt(H), and all ranks wait once in H steps. Otherwise one step in H waits for
 * all ranks and the others wait for neighbours. */
double exchange_wait(const struct exchange *exchange, int num_ranks, double averaging)
{
    const struct exchange_load one = { &(struct exchange_tensor){ 1, 1, 1 }, 1, 1 };
    struct exchange_ranks ranks = { num_ranks, 1 };
    double all = expected_maximum(num_ranks);
    if (exchange_keeps_replicas_equal(exchange))
        return all;
    double averaged = exchange->period > 0 ? averaging : 0;
    if (exchange_phases_of(exchange, &one, &ranks, false).count == 0)
        return all * sqrt(averaged);
    return averaged * all + (1 - averaged) * group_wait(exchange, num_ranks);
}

double exchange_waits_for(const struct exchange *exchange, int num_ranks, double averaging)
{
    double wait = exchange_wait(exchange, num_ranks, averaging);
    return wait < expected_maximum(num_ranks) ? maximum_count(wait) : num_ranks;
}
