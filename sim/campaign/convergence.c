/* How many steps a method of gradient exchange needs compared with all-reduce. The transient is the
 * number of steps after which the method's additional error is below the noise of the gradients.
 * beta is the second singular value of a gossip graph, delta the share of a gradient's squared norm
 * that a compressor keeps, n the number of ranks. */
#include "sim/campaign/convergence.h"

#include "sim/exchange/robust.h"

#include <math.h>
#include <string.h>

/* Ying et al. 2021: ResNet-50 on 32 nodes over one-peer exponential graphs reached 76.27 % and
 * all-reduce 76.25 %, both in 14,074 steps on shuffled data; there n^3 beta^4 C^2 is 32^3 x (2/3)^4
 * x 3^2 = 58,254. Huang et al. 2022: ResNet-18 on 8 workers with 5 % top-k matched all-reduce on
 * CIFAR-10 (94.35 and 93.99 %) in about 200 epochs of 98 steps; there n^3 (1-delta)^2 / delta^4 is
 * 7.4e7. The symbols are explained in convergence.h. */
const struct convergence convergence_published = { .mixing_scale = 14074.0 / 58254,
                                                   .memory_scale = 200 * 98 / 7.4e7 };

struct exchange_use exchange_use_of(const struct exchange *exchange,
                                    const struct exchange_load *load, int num_ranks)
{
    int group = exchange_sums_in_groups(exchange) && exchange->group > 0 ? exchange->group : 1;
    return (struct exchange_use){ exchange, load, num_ranks, group, exchange->period };
}

double convergence_steps_to(double sigma, double eps, int num_ranks)
{
    return ceil(sigma * sigma / (num_ranks * eps * eps));
}

static bool is_named(const struct exchange_use *use, const char *name)
{
    return strcmp(exchange_method_of(use->exchange)->name, name) == 0;
}

static const struct compressor *compressor_of(const struct exchange_use *use)
{
    return exchange_method_of(use->exchange)->compressor;
}

static double bound_of(const struct exchange_use *use)
{
    return compressor_of(use)->bound(use->exchange, use->load);
}

double convergence_noise_factor(const struct convergence *convergence,
                                const struct exchange_use *use)
{
    if (robust_error(use->exchange, use->num_ranks) > 0)
        return HUGE_VAL;
    if (!compressor_of(use) || use->num_ranks == 1)
        return 1;
    double bound = bound_of(use);
    if (compressor_of(use)->is_unbiased)
        return 1 + bound / (1 - convergence->heterogeneity);
    if (use->exchange->memory == MEMORY_OFF && bound < 1)
        return HUGE_VAL;
    if (is_named(use, "ef21"))
        return use->num_ranks / (bound * bound * bound);
    return 1;
}

/* Sum of beta^k for k below the period; 1 / (1 - beta) for an infinite period. */
static double sum_of_powers(double beta, double period)
{
    if (beta >= 1)
        return period;
    return (1 - pow(beta, period)) / (1 - beta);
}

/* Number of groups that exchange with each other; the ranks of a group act as one. */
static int num_groups(const struct exchange_use *use)
{
    return use->num_ranks / use->group;
}

static double mixing_apart(double heterogeneity, const struct exchange_use *use)
{
    enum mixing_graph graph = (enum mixing_graph)use->exchange->graph;
    int groups = num_groups(use);
    double period = use->period > 0 ? use->period : HUGE_VAL;
    if (period <= 1 || groups == 1)
        return 0;
    double beta = is_named(use, "local") ? 1 : mixing_rate(graph, groups);
    double c = sum_of_powers(beta, period);
    double d = fmin(period, 1 / (1 - beta));
    return beta * beta * c * (1 - heterogeneity + heterogeneity * d);
}

static bool feeds_back(const struct exchange_use *use)
{
    return compressor_of(use) && !compressor_of(use)->is_unbiased && !is_named(use, "ef21") &&
           !is_named(use, "neolithic");
}

double convergence_apart(const struct convergence *convergence, const struct exchange_use *use)
{
    if (use->num_ranks == 1)
        return 0;
    if (!exchange_keeps_replicas_equal(use->exchange))
        return mixing_apart(convergence->heterogeneity, use);
    if (!feeds_back(use))
        return 0;
    double delta = bound_of(use);
    return (1 - delta) / (delta * delta);
}

/* Late gradients leave tau sums of n gradients unapplied, so A^2 (convergence.h) is tau / n; the
 * first sum arrives after tau steps. */
static double late_steps(const struct convergence *convergence, const struct exchange_use *use)
{
    double tau = use->exchange->staleness, n = use->num_ranks;
    return tau + convergence->mixing_scale * n * tau * tau;
}

/* n, the number of averaged gradients, is the number of groups for gossip and the number of ranks
 * for error feedback. */
double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange_use *use)
{
    double apart = convergence_apart(convergence, use);
    if (use->num_ranks > 1 && exchange_is_late(use->exchange))
        return late_steps(convergence, use);
    if (apart > 0 && exchange_keeps_replicas_equal(use->exchange))
        return convergence->memory_scale * pow(use->num_ranks, 3) * apart * apart;
    if (apart > 0)
        return convergence->mixing_scale * pow(num_groups(use), 3) * apart * apart;
    if (use->num_ranks == 1 || !is_named(use, "neolithic"))
        return 0;
    double delta = bound_of(use);
    double left = (1 - delta) / delta;
    return convergence->memory_scale * use->num_ranks * left * left;
}

double convergence_steps(const struct convergence *convergence, const struct exchange_use *use,
                         double all_reduce_steps)
{
    return all_reduce_steps * convergence_noise_factor(convergence, use) +
           convergence_transient_steps(convergence, use);
}

/* --- evidence from published runs ---------------------------------------------------------- */

const char *const steps_basis_names[] = {
    [STEPS_EXACT] = "exact",
    [STEPS_FITTED] = "fitted",
    [STEPS_PUBLISHED] = "published",
    [STEPS_BOUND] = "bound",
};

static const char own_runs[] = "formulas of theory with constants from the runs of --convergence";

/* Name of the published run from which the scale of this method's transient was taken. */
static const char *source_of_transient(const struct exchange_use *use)
{
    return exchange_keeps_replicas_equal(use->exchange)
               ? "the transient is over by the end, as in Huang et al. 2022 (ResNet-18 on "
                 "CIFAR-10, 8 workers, top-k of 5 %)"
               : "the transient is over by the end, as in Ying et al. 2021 (ResNet-50 on ImageNet, "
                 "one-peer graphs of 4 to 32 nodes)";
}

/* Name of the published run that compressed at least as strongly as `use`, on at least as many
 * ranks; NULL if there is none. QSGD sent 4 bits in buckets of 512. PowerSGD kept rank 4 of the
 * LSTM's matrices, which have 650 columns; in the worst case this keeps a share of 4/650. These
 * sizes are quoted from memory and not checked against the papers. */
static const char *source_of_compressor(const struct exchange_use *use)
{
    enum { MOST_RANKS = 16, LEAST_BITS = 4 };
    const double least_kept = 4.0 / 650;
    if (use->num_ranks > MOST_RANKS || use->exchange->memory == MEMORY_OFF)
        return NULL;
    if (is_named(use, "qsgd") && use->exchange->bits >= LEAST_BITS)
        return "as in Alistarh et al. 2017 (ImageNet, up to 16 GPUs, 4 bits)";
    if (is_named(use, "powersgd") && bound_of(use) >= least_kept)
        return "as in Vogels et al. 2019 (LSTM on WikiText-2, 16 workers, rank 4 of 650)";
    return NULL;
}

/* Name of the published run whose gradients were one step late on up to 64 ranks; NULL if gradients
 * are later than that or there are more ranks. Its sizes are quoted from memory and not checked
 * against the paper. */
static const char *source_of_late(const struct exchange_use *use)
{
    enum { MOST_RANKS = 64 };
    return use->exchange->staleness == 1 && use->num_ranks <= MOST_RANKS
               ? "as in Narayanan et al. 2021 (PipeDream-2BW: BERT and GPT of 24 layers on 64 "
                 "V100, "
                 "gradients one step late)"
               : NULL;
}

/* Whether the scale was fitted on the user's runs: it then differs from the shipped one. */
static bool is_fitted(const struct convergence *convergence, const struct exchange_use *use)
{
    if (exchange_keeps_replicas_equal(use->exchange))
        return convergence->memory_scale != convergence_published.memory_scale;
    return convergence->mixing_scale != convergence_published.mixing_scale;
}

struct steps_outlook convergence_outlook(const struct convergence *convergence,
                                         const struct exchange_use *use, double all_reduce_steps)
{
    /* relative rounding of a scale that was written to a file and read again */
    const double rounding = 1e-5;
    double transient = convergence_transient_steps(convergence, use);
    double most = convergence_steps(convergence, use, all_reduce_steps);
    struct steps_outlook out = { STEPS_BOUND, "", most, most };
    bool is_late = exchange_is_late(use->exchange) && use->num_ranks > 1;
    const char *compressed = is_late ? source_of_late(use) : source_of_compressor(use);
    if (most == all_reduce_steps)
        out.basis = STEPS_EXACT;
    else if (transient > 0 && !is_late && is_fitted(convergence, use))
        out = (struct steps_outlook){ STEPS_FITTED, own_runs, most, most };
    else if (compressed)
        out = (struct steps_outlook){ STEPS_PUBLISHED, compressed, all_reduce_steps, most };
    else if (transient > 0 && !is_late && transient <= all_reduce_steps * (1 + rounding))
        out = (struct steps_outlook){ STEPS_PUBLISHED, source_of_transient(use), all_reduce_steps,
                                      most };
    return out;
}
