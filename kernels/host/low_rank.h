/* kernels/host/low_rank.h - a basis for the columns of a matrix, for gradients of low rank.
 *
 * PowerSGD (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for
 * distributed optimization", NeurIPS 2019, algorithm 1) is one step of subspace iteration from the
 * step before: P = M Q, P orthogonalised, Q = M^T P, and P Q^T stands for M. Both products, and the
 * third, are those of a linear layer (linear.h), with Q^T as the weight. */
#ifndef KERNELS_HOST_LOW_RANK_H
#define KERNELS_HOST_LOW_RANK_H

/* columns [rows, rank], row-major: modified Gram and Schmidt, in double. A column that depends on
 * those before it, to within rounding, becomes 0, so that P P^T is always a projection. */
void orthogonalise(long rows, long rank, float *columns);

#endif
