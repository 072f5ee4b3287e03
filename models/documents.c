/* Moments of the lengths of documents that are packed into sequences, and the mean and variance of
 * a token's attention work. E is the expectation over documents. */
#include "models/documents.h"

#include <math.h>

/* Sums of powers of the documents' lengths. */
struct sums {
    double count, first, second, third, fourth;
};

static void add(struct sums *sums, double length, double times)
{
    double square = length * length;
    sums->count += times;
    sums->first += times * length;
    sums->second += times * square;
    sums->third += times * square * length;
    sums->fourth += times * square * square;
}

struct documents documents_of_lengths(const double *lengths, const double *times, size_t count,
                                      double seq)
{
    struct sums sums = { 0 };
    for (size_t i = 0; i < count; i++) {
        double whole = floor(lengths[i] / seq), rest = lengths[i] - whole * seq;
        if (whole > 0)
            add(&sums, seq, times[i] * whole);
        if (rest > 0)
            add(&sums, rest, times[i]);
    }
    double mean = sums.first / sums.count;
    return (struct documents){ .mean = mean,
                               .square = sums.second / sums.count / pow(mean, 2),
                               .cube = sums.third / sums.count / pow(mean, 3),
                               .fourth = sums.fourth / sums.count / pow(mean, 4) };
}

struct documents documents_of_spread(double mean, double cv)
{
    double c = cv * cv;
    return (struct documents){ .mean = mean,
                               .square = 1 + c,
                               .cube = (1 + c) * (1 + 2 * c),
                               .fourth = (1 + c) * (1 + 2 * c) * (1 + 3 * c) };
}

double documents_attended(const struct documents *documents, double seq)
{
    return documents->mean > 0 ? fmin(seq, documents->mean * documents->square) : seq;
}

/* A token's attention work is its position in its document. Let l be a document's length, M = E l,
 * L = E l^2/M and r_k = E l^k/M^k. The work of c consecutive tokens has the mean c L/2.
 *
 * c tokens of many documents are a renewal process in which a document of length l contributes
 * l^2/2; the variance of the sum is (c/M) Var(l^2 - L l)/4 (Smith 1955, renewal-reward). If c
 * tokens lie within one document, they have nearly the same position, with mean L/2 and mean square
 * E l^3/(3 M). Variance over squared mean is then, for c tokens of many or of few documents:
 *
 *   many  (M/c) (r_4 - 2 r_2 r_3 + r_2^3) / r_2^2      few  4 r_3/(3 r_2^2) - 1
 *
 * Both limits are joined as 1 / (1/many + 1/few). */
double documents_variance(const struct documents *d, double tokens)
{
    if (d->mean <= 0)
        return 0;
    double square = d->square * d->square;
    double many =
        d->mean / tokens * (d->fourth - 2 * d->square * d->cube + square * d->square) / square;
    double few = 4 * d->cube / (3 * square) - 1;
    return many <= 0 || few <= 0 ? 0 : many * few / (many + few);
}
