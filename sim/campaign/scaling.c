/* The number of parameters N and of tokens D of a training by published scaling laws. A loss law
 * gives the final loss, E + A / N^alpha + B / D^beta; a size law gives the best N for C FLOPs. */
#include "sim/campaign/scaling.h"

#include "base/length.h"

#include <math.h>
#include <stddef.h>

const char *const loss_law_names[] = { "corrected", "chinchilla", "c4", NULL };

const struct loss_law loss_laws[NUM_LOSS_LAWS] = {
    [LAW_CORRECTED] = { .least = 1.8172,
                        .of_size = 482.01,
                        .of_tokens = 2085.43,
                        .size_power = 0.3478,
                        .token_power = 0.3658,
                        .least_deviation = 0.03,
                        .source = "Besiroglu et al. 2024, Chinchilla Scaling: A replication "
                                  "attempt (arXiv:2404.10102), table 1" },
    /* The paper prints 1.69, 0.34 and 0.28, from which its printed optima do not follow. Besiroglu
     * et al. found these further digits in the paper's TeX source. */
    [LAW_CHINCHILLA] = { .least = 1.6934,
                         .of_size = 406.4,
                         .of_tokens = 410.7,
                         .size_power = 0.3392,
                         .token_power = 0.2849,
                         .source = "Hoffmann et al. 2022 (arXiv:2203.15556), approach 3, equation "
                                   "10, with the digits of its TeX source" },
    /* exp(0.6254804), exp(6.255414), exp(7.3049974) */
    [LAW_C4] = { .least = 1.8691437,
                 .of_size = 520.82495,
                 .of_tokens = 1487.7161,
                 .size_power = 0.3526596,
                 .token_power = 0.3526596,
                 .source = "Muennighoff et al. 2023 (arXiv:2305.16264), appendix A, fitted on C4" },
};

/* --- repeats ------------------------------------------------------------------------------- */

/* Muennighoff et al. 2023, appendix A: R*_D for tokens and R*_N for parameters. */
static const double lasting_repeats = 15.387756, lasting_excess = 5.309743;

/* The effective amount when the part beyond `base` counts less: a unit that is added after R times
 * `base` counts e^(-R/R*), with R* = `lasting`. */
static double with_decay(double base, double amount, double lasting)
{
    double repeats = amount / base - 1;
    return repeats > 0 ? base * (1 + lasting * -expm1(-repeats / lasting)) : amount;
}

double scaling_effective_tokens(struct training training)
{
    if (training.unique <= 0)
        return training.tokens;
    return with_decay(training.unique, training.tokens, lasting_repeats);
}

double scaling_effective_parameters(const struct loss_law *law, struct training training)
{
    if (training.unique <= 0)
        return training.parameters;
    double justified = scaling_size_for_tokens(law, fmin(training.unique, training.tokens));
    return with_decay(justified, training.parameters, lasting_excess);
}

/* --- losses -------------------------------------------------------------------------------- */

double scaling_loss(const struct loss_law *law, struct training training)
{
    double of_size =
        law->of_size / pow(scaling_effective_parameters(law, training), law->size_power);
    double of_tokens = law->of_tokens / pow(scaling_effective_tokens(training), law->token_power);
    return law->least + of_size + of_tokens;
}

struct loss_interval scaling_loss_interval(const struct loss_law *law, struct training training)
{
    /* half width of a 90 % normal interval in standard deviations */
    static const double deviations = 1.6449;
    const struct loss_law *corrected = &loss_laws[LAW_CORRECTED];
    double reach = deviations * corrected->least_deviation;
    double middle = scaling_loss(corrected, training), own = scaling_loss(law, training);
    double published = scaling_loss(&loss_laws[LAW_CHINCHILLA], training);
    return (struct loss_interval){ fmin(own, fmin(published, middle - reach)),
                                   fmax(own, fmax(published, middle + reach)) };
}

/* --- best sizes ---------------------------------------------------------------------------- */

/* G of scaling_best_size. */
static double size_factor(const struct loss_law *law)
{
    double ratio = law->size_power * law->of_size / (law->token_power * law->of_tokens);
    return pow(ratio, 1 / (law->size_power + law->token_power));
}

double scaling_best_size(const struct loss_law *law, double product)
{
    double power = law->token_power / (law->size_power + law->token_power);
    return size_factor(law) * pow(product, power);
}

/* Let `product` be N D at the best size. D = product / N = product^b / G, so product = (G D)^(1/b),
 * with b = alpha / (alpha + beta). */
double scaling_size_for_tokens(const struct loss_law *law, double tokens)
{
    double power = (law->size_power + law->token_power) / law->size_power;
    return scaling_best_size(law, pow(size_factor(law) * tokens, power));
}

double scaling_tokens(struct scaling_budget budget, double parameters)
{
    return budget.flops / (6 * parameters) - budget.served / 3;
}

static struct training training_of(struct scaling_budget budget, double log_size)
{
    double parameters = exp(log_size);
    return (struct training){ parameters, fmax(0, scaling_tokens(budget, parameters)),
                              budget.unique };
}

static double loss_at(const struct loss_law *law, struct scaling_budget budget, double log_size)
{
    struct training training = training_of(budget, log_size);
    return training.tokens > 0 ? scaling_loss(law, training) : HUGE_VAL;
}

/* Tries sizes from 1 to the largest that the FLOPs can train on one token: a grid brackets the
 * minimum, then golden-section search finds it. */
struct training scaling_best(const struct loss_law *law, struct scaling_budget budget)
{
    enum { CELLS = 400, TURNS = 60 };
    static const double section = 0.6180339887498949;
    double most = log(fmax(1, budget.flops / 6)), cell = most / CELLS;
    int best = 0;
    for (int i = 1; i <= CELLS; i++)
        if (loss_at(law, budget, i * cell) < loss_at(law, budget, best * cell))
            best = i;
    double low = fmax(0, (best - 1) * cell), high = fmin(most, (best + 1) * cell);
    for (int i = 0; i < TURNS; i++) {
        double left = high - section * (high - low), right = low + section * (high - low);
        if (loss_at(law, budget, left) < loss_at(law, budget, right))
            high = right;
        else
            low = left;
    }
    return training_of(budget, (low + high) / 2);
}

/* --- published sizes ----------------------------------------------------------------------- */

#define HOFFMANN     "Hoffmann et al. 2022 (arXiv:2203.15556), "
#define PF_DAY_FLOPS 8.64e19

/* Each power is that of a line through two rows of a table of Hoffmann et al., ln(N2 / N1) / ln(C2
 * / C1); the paper prints 0.50 and 0.49. The rows between agree with the lines within 0.5 %, except
 * the rows of 67 B, for which the lines give 68 and 69.5 B. */
const struct size_law size_laws[] = {
    { .name = "chinchilla-1",
      .summary = "lowest loss over training curves",
      .source = HOFFMANN "approach 1: the line through the first and last row of table 3",
      .flops = 1.92e19,
      .size = 400e6,
      .power = 0.4980317 }, /* second row: C = 1.30e28, N = 10e12 */
    { .name = "chinchilla-2",
      .summary = "lowest loss at the same FLOPs",
      .source = HOFFMANN "approach 2: the line through the first and last row of table A3",
      .flops = 1.84e19,
      .size = 400e6,
      .power = 0.4898454 }, /* second row: C = 1.75e28, N = 10e12 */
    { .name = "chinchilla-3",
      .summary = "fit of a loss law",
      .source = HOFFMANN "approach 3, equation 4 with the constants of equation 10",
      .loss = &loss_laws[LAW_CHINCHILLA] },
    { .name = "corrected",
      .summary = "the fit of chinchilla-3, repeated",
      .source = "Besiroglu et al. 2024 (arXiv:2404.10102), table 1",
      .loss = &loss_laws[LAW_CORRECTED] },
    { .name = "kaplan",
      .summary = "earlier fit, embeddings not counted",
      .source = "Kaplan et al. 2020 (arXiv:2001.08361), table 5: 1.3e9 C^0.73, C in PF-days",
      .flops = PF_DAY_FLOPS,
      .size = 1.3e9,
      .power = 0.73 },
};
const int num_size_laws = LENGTH(size_laws);

double scaling_law_size(const struct size_law *law, double flops)
{
    if (law->loss)
        return scaling_best_size(law->loss, flops / 6);
    return law->size * pow(flops / law->flops, law->power);
}

double scaling_batch_tokens(double flops)
{
    return 0.2920 * pow(flops, 0.3271);
}
