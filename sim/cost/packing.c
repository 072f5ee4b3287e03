/* How long ranks wait for each other because packed documents give their microbatches unequal
 * attention work. Times are in units of the mean attention work of a microbatch. */
#include "sim/cost/packing.h"

#include "sim/cost/straggler.h"

#include <math.h>

/* The distribution of the attention work of a microbatch with several documents is skewed. Let l be
 * a document's length, E the expectation, M = E l, L = E l^2/M and Y = l^2 - L l
 * (models/documents.c). The third cumulant of the work is (E Y^3 - 3 E Y^2 E Yl/M)/M per token. So
 * work with relative deviation d has a skewness of 6.0 d if lengths have a coefficient of variation
 * of 1, and of 5.7 d for 1/2. The work is modelled by a variable with a skewness of 6 d, half
 * constant and half lognormal: w = (1 + exp(s z - s^2/2))/2 with z standard normal and s^2 = ln(1 +
 * 4 d^2). Returns w - 1 for d = `deviation` and z = `normal`. */
static double skewed(double deviation, double normal)
{
    double s2 = log1p(4 * deviation * deviation);
    return 0.5 * expm1(sqrt(s2) * normal - s2 / 2);
}

/* The standard deviation of the largest of n independent w (skewed). It follows from quantiles of
 * z, as w increases with z. */
static double skewed_spread(double deviation, double n)
{
    double above = maximum_quantile(n, 0.841345), below = maximum_quantile(n, 0.158655);
    return (skewed(deviation, above) - skewed(deviation, below)) / 2;
}

/* Stages run microbatches in order, and microbatch j takes the time w_j on every stage. A pipeline
 * then takes T = sum w_j + f max w_j, where f is the number of passes that fill it (proportionate
 * flow shop: Pinedo, Scheduling, 6.1). Let w_j have mean 1 and deviation d, and let the largest of
 * m exceed 1 by x on average, with deviation v. Then
 *
 *   E T = m + f (1 + x)      Var T = d^2 (m + 2 f) + f^2 v^2
 *
 * as the covariance of the sum and the maximum is the variance of one term. The step waits for the
 * largest T of all data ranks. */
static double pipeline_wait(double deviation, const struct packing *p)
{
    double largest = skewed(deviation, expected_maximum(p->microbatches));
    double spread = p->fill * skewed_spread(deviation, p->microbatches);
    double mean = p->microbatches + p->fill * (1 + fmax(0, largest));
    double variance = deviation * deviation * (p->microbatches + 2 * p->fill) + spread * spread;
    double last = skewed(sqrt(variance) / mean, expected_maximum(p->data_ranks));
    return mean * (1 + fmax(0, last)) - p->microbatches - p->fill;
}

/* Each sequence is cut into 2 cp slices, and a context rank has two distant ones. Every layer waits
 * for the context rank with the most work. */
static double context_wait(const struct model *model, const struct packing *p)
{
    double slice = model->seq / (2 * p->context_ranks);
    double slices = 2 * p->sequences;
    double deviation = sqrt(documents_variance(&model->documents, slice) / slices);
    return p->microbatches * fmax(0, skewed(deviation, expected_maximum(p->context_ranks)));
}

/* The wait has an upper limit, as no microbatch has more work than one with one document per
 * sequence. */
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
