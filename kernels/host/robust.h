/* kernels/host/robust.h - rules that combine the vectors of several ranks and tolerate arbitrary
 * vectors from a few of them, and the false vectors of hostile ranks in tests.
 *
 * `x` holds `count` vectors of n elements, one after the other. An element that is NaN counts as
 * infinitely large. */
#ifndef KERNELS_HOST_ROBUST_H
#define KERNELS_HOST_ROBUST_H

#include "kernels/host/philox.h"

/* out = scale times the mean of each element without its `trim` largest and `trim` smallest values;
 * 2 trim < count. The median has the largest trim, (count - 1) / 2. */
void robust_trimmed(long n, int count, const float *x, int trim, float scale, float *out);

/* squares[i count + j] = the squared distance between vectors i and j. */
void robust_distances(long n, int count, const float *x, double *squares);

/* Computes weights of the vectors, which sum to 1, from the squared distances between the vectors.
 * Krum (Blanchard et al. 2017, section 4) gives weight 1 to the vector with the least sum of
 * squared distances to its count - hostile - 2 nearest vectors. The geometric median is found by
 * Weiszfeld's iteration, smoothed near a vector (Pillutla, Kakade and Harchaoui 2022, algorithm 1).
 * A vector gets weight 0 if its distances from most others are not finite. */
void robust_krum(int count, int hostile, const double *squares, double *weights);
void robust_geometric_median(int count, const double *squares, double *weights);

/* out = scale times the weighted sum; vectors of weight 0 are not read. */
void robust_weighted(long n, int count, const float *x, const double *weights, float scale,
                     float *out);

/* The false vector that a hostile rank sends in place of x. */
enum falsity {
    FALSITY_FLIP,    /* -strength x */
    FALSITY_NOISE,   /* normal noise; its deviation is strength times the root mean square of x */
    FALSITY_SILENCE, /* zeros, as for a message that never arrives */
    NUM_FALSITIES
};
void falsify(long n, enum falsity falsity, float strength, const struct draw *draw, float *x);

#endif
