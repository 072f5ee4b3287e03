/* kernels/host/low_rank.h - an orthonormal basis for the columns of a matrix, for low-rank gradient
 * compression.
 *
 * PowerSGD (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for
 * distributed optimization", NeurIPS 2019, algorithm 1) runs one step of a subspace iteration on
 * the matrix M: P = M Q, orthogonalise P, Q = M^T P. Then P Q^T approximates M. All three products
 * are those of a linear layer (linear.h), with Q^T as the weight. */
#ifndef KERNELS_HOST_LOW_RANK_H
#define KERNELS_HOST_LOW_RANK_H

/* Orthonormalises `columns` [rows, rank], row-major, by modified Gram-Schmidt in double. A column
 * that is linearly dependent on earlier columns, to within rounding, becomes 0, so that P P^T is
 * always a projection. */
void orthogonalise(long rows, long rank, float *columns);

#endif
