#include "sim/cost/packing.h"

#include "sim/cost/straggler.h"

#include <math.h>

/* Work of many documents is skewed: its third cumulant, (E Y^3 - 3 E Y^2 E Yl/M)/M a token with
 * Y = l^2 - L l, makes a skewness of 6.0 deviations for lengths of cv 1 and 5.7 for cv 1/2. Half of
 * a lognormal beside a constant half has 6: w = (1 + exp(s z - s^2/2))/2 with s^2 = ln(1 + 4 d^2).
 */
static double skewed(double deviation, double normal)
{
    double s2 = log1p(4 * deviation * deviation);
    return 0.5 * expm1(sqrt(s2) * normal - s2 / 2);
}

/* The deviation of the largest of n. It follows from quantiles of z, as w grows with z. */
static double skewed_spread(double deviation, double n)
{
    double above = maximum_quantile(n, 0.841345), below = maximum_quantile(n, 0.158655);
    return (skewed(deviation, above) - skewed(deviation, below)) / 2;
}

/* Stages pass microbatches on in order, each as long on every stage: a pipeline takes
 * T = sum w_j + f max w_j, f the passes of its fill (proportionate flow shop: Pinedo, Scheduling,
 * 6.1). With w_j of mean 1 and deviation d, and x and v the mean and deviation of the largest of m
 * above that mean,
 *
 *   E T = m + f (1 + x)      Var T = d^2 (m + 2 f) + f^2 v^2
 *
 * as the covariance of a sum and its maximum is one term's variance. The step waits for the largest
 * T of all data ranks. */
static double pipeline_wait(double deviation, const struct packing *p)
{
    double largest = skewed(deviation, expected_maximum(p->microbatches));
    double spread = p->fill * skewed_spread(deviation, p->microbatches);
    double mean = p->microbatches + p->fill * (1 + fmax(0, largest));
    double variance = deviation * deviation * (p->microbatches + 2 * p->fill) + spread * spread;
    double last = skewed(sqrt(variance) / mean, expected_maximum(p->data_ranks));
    return mean * (1 + fmax(0, last)) - p->microbatches - p->fill;
}

/* A context rank has two slices of a 2 cp-th of each sequence, far apart; every layer waits for the
 * rank with the most. */
static double context_wait(const struct model *model, const struct packing *p)
{
    double slice = model->seq / (2 * p->context_ranks);
    double slices = 2 * p->sequences;
    double deviation = sqrt(documents_variance(&model->documents, slice) / slices);
    return p->microbatches * fmax(0, skewed(deviation, expected_maximum(p->context_ranks)));
}

/* None has more than one document a sequence would give it. */
double packing_wait(const struct model *model, const struct packing *p)
{
    double seq = model->seq;
    double most = seq / documents_attended(&model->documents, seq) - 1;
    if (model->documents.mean <= 0 || most <= 0)
        return 0;
    double deviation = sqrt(documents_variance(&model->documents, seq) / p->sequences);
    double wait = pipeline_wait(deviation, p) + (p->context_ranks > 1 ? context_wait(model, p) : 0);
    return fmin(wait, (p->microbatches + p->fill) * most);
}
