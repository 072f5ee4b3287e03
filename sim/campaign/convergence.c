#include "sim/campaign/convergence.h"

#include <math.h>
#include <string.h>

/* Ying et al. 2021: ResNet-50 on 32 nodes over one-peer exponential graphs reached all-reduce's
 * accuracy (76.27 and 76.25 %) in 14,074 steps, where n^3 beta^4 C^2 D^2 is 524,288. Huang et al.
 * 2022: ResNet-18 on 8 workers with 5 % top-k reached it on CIFAR-10 (94.35 and 93.99 %) in about
 * 200 epochs of 98 steps, where n^3 (1-delta)^2 / delta^4 is 7.4e7. */
struct convergence convergence_published(double steps)
{
    return (struct convergence){ .steps = steps,
                                 .mixing_scale = 14074.0 / 524288,
                                 .memory_scale = 200 * 98 / 7.4e7 };
}

double convergence_steps_to(double sigma, double eps, int num_ranks)
{
    return ceil(sigma * sigma / (num_ranks * eps * eps));
}

static bool is_named(const struct exchange *exchange, const char *name)
{
    return strcmp(exchange_method_of(exchange)->name, name) == 0;
}

double convergence_noise_factor(const struct exchange *exchange, const struct exchange_load *load,
                                int num_ranks)
{
    const struct compressor *compressor = exchange_method_of(exchange)->compressor;
    if (!compressor)
        return 1;
    double bound = compressor->bound(exchange, load);
    if (compressor->is_unbiased)
        return 1 + bound;
    if (exchange->memory == MEMORY_OFF && bound < 1)
        return HUGE_VAL;
    if (is_named(exchange, "ef21"))
        return num_ranks / (bound * bound * bound);
    return 1;
}

/* Sum of beta^k for k below the period; 1 / (1 - beta) of an endless one. */
static double drift(double beta, double period)
{
    if (beta >= 1)
        return period;
    return (1 - pow(beta, period)) / (1 - beta);
}

static double mixing_transient(const struct exchange *exchange, int num_ranks)
{
    bool has_graph = !is_named(exchange, "local");
    int groups = exchange->group > 0 ? num_ranks / exchange->group : num_ranks;
    double beta = has_graph ? mixing_rate((enum mixing_graph)exchange->graph, groups) : 1;
    double period = exchange->period > 0 ? exchange->period : HUGE_VAL;
    if (period == 1 || groups == 1)
        return 0;
    double c = drift(beta, period);
    double d = fmin(period, 1 / (1 - beta));
    return pow(groups, 3) * pow(beta, 4) * c * c * d * d;
}

static double memory_transient(const struct exchange *exchange, const struct exchange_load *load,
                               int num_ranks)
{
    const struct compressor *compressor = exchange_method_of(exchange)->compressor;
    double delta = compressor->bound(exchange, load);
    if (compressor->is_unbiased || is_named(exchange, "ef21"))
        return 0;
    double left = (1 - delta) * (1 - delta);
    if (is_named(exchange, "neolithic"))
        return num_ranks * left / (delta * delta);
    return pow(num_ranks, 3) * left / pow(delta, 4);
}

double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange *exchange,
                                   const struct exchange_load *load, int num_ranks)
{
    if (exchange_method_of(exchange)->compressor)
        return convergence->memory_scale * memory_transient(exchange, load, num_ranks);
    if (exchange_keeps_replicas_equal(exchange) || num_ranks == 1)
        return 0;
    return convergence->mixing_scale * mixing_transient(exchange, num_ranks);
}

double convergence_steps(const struct convergence *convergence, const struct exchange *exchange,
                         const struct exchange_load *load, int num_ranks)
{
    return convergence->steps * convergence_noise_factor(exchange, load, num_ranks) +
           convergence_transient_steps(convergence, exchange, load, num_ranks);
}
