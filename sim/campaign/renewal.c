/* The share of a run's time that is kept despite failures. M is the mean time between failures, t
 * the compute time between two checkpoints, C the time for which the run stops to take one, R the
 * time of a restart, W the time from that stop until the checkpoint can be used. renewal.h derives
 * the formulas. */
#include "sim/campaign/renewal.h"

#include <math.h>

/* --- one level ----------------------------------------------------------------------------- */

/* Mean time until a period of `length_s` without a failure has ended. */
static double undisturbed_s(double mtbf_s, double length_s)
{
    return mtbf_s * expm1(length_s / mtbf_s);
}

static double kept_on_one_level(const struct renewal *of, double interval_s)
{
    double redone_s = of->restart_s + of->pending_s;
    double cycle_s =
        exp(redone_s / of->mtbf_s) * undisturbed_s(of->mtbf_s, interval_s + of->blocked_s);
    return interval_s / cycle_s;
}

/* With u = t/M and c = C/M the condition in renewal.h is g(u) = u + c + log(1 - u) = 0. g falls and
 * is concave, so Newton's method from the right of the root converges to it. g is negative at
 * sqrt(2 c) and at 1 - e^-(1 + c); the smaller one is the start. */
double renewal_optimum_s(double mtbf_s, double blocked_s)
{
    enum { MOST_STEPS = 100 };
    double c = blocked_s / mtbf_s;
    double u = fmin(sqrt(2 * c), -expm1(-(1 + c)));
    for (int i = 0; i < MOST_STEPS && u > 0; i++) {
        double value = u + c + log1p(-u);
        double next = u + value * (1 - u) / u; /* g' = -u / (1 - u) */
        if (!(next < u))
            break;
        u = next;
    }
    return u * mtbf_s;
}

/* --- two levels ---------------------------------------------------------------------------- */

/* A failure of the first kind leaves the checkpoints in memory intact; recovery takes R1 and may be
 * interrupted by another failure. A failure of the second kind, a share q of all, loses the
 * checkpoints in memory; recovery takes R2 and repeats all intervals since the last checkpoint in
 * storage. Let p be the probability of no failure within an interval, m the mean time until its end
 * or a failure, and D the probability that a recovery of the first kind ends without a failure of
 * the second. The interval that begins d intervals after the last checkpoint in storage takes
 *
 *     F_d = a + b (F_0 + ... + F_(d-1)) = a (1 + b)^d,   b = (1 - p) q / (p D),
 *     a = (m + (1 - p) ((1 - q) m(R1) + q M (e^(R2/M) - 1)) / D) / p
 *
 * The next checkpoint in storage counts W2 after the nth interval, so d goes from x = W2/L to x + n
 * - 1 (L: length of an interval), and n intervals take a (1 + b)^x ((1 + b)^n - 1) / b. */
static double kept_on_two_levels(const struct renewal *of, double interval_s)
{
    double mtbf_s = of->mtbf_s, q = of->deep.share, n = of->deep.every;
    double length_s = interval_s + of->blocked_s;
    double near_s = of->restart_s + of->pending_s;
    double p = exp(-length_s / mtbf_s), f = -expm1(-length_s / mtbf_s);
    double p_near = exp(-near_s / mtbf_s), f_near = -expm1(-near_s / mtbf_s);
    double d = p_near + f_near * q;
    double recovery_s =
        ((1 - q) * mtbf_s * f_near + q * undisturbed_s(mtbf_s, of->deep.restart_s)) / d;
    double a = f * (mtbf_s + recovery_s) / p; /* f = m / M */
    double b = f * q / (p * d);
    double begun = of->deep.pending_s / length_s; /* x */
    double growth = b > 0 ? exp(begun * log1p(b)) * expm1(n * log1p(b)) / b : n;
    return n * interval_s / (growth * a);
}

double renewal_kept(const struct renewal *renewal, double interval_s)
{
    double kept = renewal->deep.share > 0 ? kept_on_two_levels(renewal, interval_s)
                                          : kept_on_one_level(renewal, interval_s);
    return isfinite(kept) ? kept : 0;
}

/* Golden-section search on the logarithm of the interval; the kept share has a single maximum. */
static double best_between(const struct renewal *renewal, double low_s, double high_s)
{
    enum { CUTS = 60 };
    const double golden = 0.6180339887498949;
    double low = log(low_s), high = log(high_s);
    double a = high - golden * (high - low), b = low + golden * (high - low);
    double kept_a = renewal_kept(renewal, exp(a)), kept_b = renewal_kept(renewal, exp(b));
    for (int i = 0; i < CUTS && high - low > 1e-6; i++)
        if (kept_a < kept_b) {
            low = a;
            a = b;
            kept_a = kept_b;
            b = low + golden * (high - low);
            kept_b = renewal_kept(renewal, exp(b));
        } else {
            high = b;
            b = a;
            kept_b = kept_a;
            a = high - golden * (high - low);
            kept_a = renewal_kept(renewal, exp(a));
        }
    return exp((low + high) / 2);
}

/* The best interval for a given deep.every. */
static double choose_interval(const struct renewal *renewal, double least_s)
{
    double written_s = fmax(renewal->pending_s, renewal->deep.pending_s / renewal->deep.every);
    double low_s = fmax(least_s, written_s);
    double high_s = fmax(10 * low_s, renewal->mtbf_s);
    return best_between(renewal, low_s, high_s);
}

double renewal_choose(struct renewal *renewal, double least_s)
{
    enum { MOST_EVERY = 1 << 16 };
    if (!(renewal->deep.share > 0))
        return fmax(renewal_optimum_s(renewal->mtbf_s, renewal->blocked_s),
                    fmax(renewal->pending_s, least_s));
    double best_s = 0, best_kept = -1;
    int best_every = 1;
    for (int every = 1; every <= MOST_EVERY; every *= 2) {
        renewal->deep.every = every;
        double interval_s = choose_interval(renewal, least_s);
        double kept = renewal_kept(renewal, interval_s);
        if (kept < best_kept)
            break;
        best_kept = kept;
        best_s = interval_s;
        best_every = every;
    }
    renewal->deep.every = best_every;
    return best_s;
}
