/* Rules that replace the mean of the ranks' gradients and tolerate hostile ranks: how many each
 * rule tolerates, its error factor kappa, and its memory traffic. n is the number of ranks, f that
 * of hostile ranks. */
#include "sim/exchange/robust.h"

#include "sim/exchange/methods.h"

#include <math.h>

/* The largest number f of hostile ranks among n ranks with n > 2 f. */
static int less_than_half(int num_ranks)
{
    return (num_ranks - 1) / 2;
}

/* The largest f with n > 2 f + 2 (Blanchard et al. 2017, proposition 1); negative if there is
 * none. */
static int less_than_half_without_two(int num_ranks)
{
    return num_ranks > 2 ? (num_ranks - 3) / 2 : -1;
}

/* kappa of each rule as a function of r = f / (n - 2 f), from Allouah et al. 2023, "Fixing by
 * mixing", table 1. No rule has a kappa below r. */
static double ratio(int num_ranks, int hostile)
{
    return (double)hostile / (num_ranks - 2 * hostile);
}

static double median_error(int num_ranks, int hostile)
{
    return 4 * pow(1 + ratio(num_ranks, hostile), 2);
}

static double trimmed_error(int num_ranks, int hostile)
{
    double r = ratio(num_ranks, hostile);
    return 6 * r * (1 + r);
}

static double krum_error(int num_ranks, int hostile)
{
    return 6 * (1 + ratio(num_ranks, hostile));
}

const struct robust_rule coordinate_median = { ROBUST_MEDIAN, false, "n > 2 f", less_than_half,
                                               median_error };
const struct robust_rule trimmed_mean = { ROBUST_TRIMMED, false, "n > 2 f", less_than_half,
                                          trimmed_error };
const struct robust_rule krum = { ROBUST_KRUM, true, "n > 2 f + 2", less_than_half_without_two,
                                  krum_error };
const struct robust_rule geometric_median = { ROBUST_GEOMEDIAN, true, "n > 2 f", less_than_half,
                                              median_error };

int robust_hostile(const struct exchange *exchange, int num_ranks)
{
    const struct robust_rule *rule = exchange_method_of(exchange)->rule;
    return exchange->hostile >= 0 ? exchange->hostile : rule->most_hostile(num_ranks);
}

double robust_error(const struct exchange *exchange, int num_ranks)
{
    const struct robust_rule *rule = exchange_method_of(exchange)->rule;
    if (!rule || num_ranks == 1)
        return 0;
    return rule->error(num_ranks, robust_hostile(exchange, num_ranks));
}

bool robust_accepts(const struct exchange *exchange, int num_ranks, struct err *err)
{
    const struct exchange_method *method = exchange_method_of(exchange);
    int most = method->rule->most_hostile(num_ranks);
    int hostile = exchange->hostile >= 0 ? exchange->hostile : 0;
    if (hostile <= most)
        return true;
    if (most < 0)
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "exchange=%s needs %s: more than the %d data ranks", method->name,
                       method->rule->condition, num_ranks);
    return err_set(err, ERR_INFEASIBLE, "exchange",
                   "exchange=%s:%d needs %s; of %d data ranks at most %d may be hostile",
                   method->name, hostile, method->rule->condition, num_ranks, most);
}

double robust_distance_bytes(int num_ranks)
{
    return (double)sizeof(double) * num_ranks * num_ranks;
}

/* The gradients of all ranks are read for this rank's part and the result is written. Rules that
 * weigh ranks also read them once before, for the distances. */
double robust_traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int num_ranks)
{
    const struct robust_rule *rule = exchange_method_of(exchange)->rule;
    double all = load_bytes(load), part = all / num_ranks;
    return (rule->weighs_ranks ? all : 0) + all + part;
}

void robust_phases(const struct exchange *exchange, const struct exchange_load *load,
                   const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    int n = ranks->count;
    add_phase(out, PHASE_ALL_TO_ALL, n, 1, load_bytes(load));
    if (exchange_method_of(exchange)->rule->weighs_ranks)
        add_phase(out, PHASE_ALL_REDUCE, n, 1, robust_distance_bytes(n));
    add_phase(out, PHASE_ALL_GATHER, n, 1, load_bytes(load) / n);
}
