/* sim/cost/muon.h - the matrices that Muon updates. A rank updates whole matrices, as a
 * Newton-Schulz step needs all of a matrix.
 *
 * Muon (Jordan et al. 2024; Moonlight, arXiv:2502.16982) keeps one momentum and makes the update of
 * a matrix nearly orthogonal. It updates the matrices of blocks, experts and routers among them;
 * Adam updates embedding, head, norms and biases. Each tensor rank treats its part of a matrix as a
 * matrix (Megatron Core's blockwise mode); data ranks that shard the state each take whole
 * matrices. */
#ifndef SIM_COST_MUON_H
#define SIM_COST_MUON_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <math.h>

/* A quantity (elements or seconds) of several matrices, each of which is assigned to one rank. */
struct dealt {
    double all, largest; /* sum over all matrices; value of the largest matrix */
};

/* An upper bound of the largest sum of one rank if matrices are assigned in descending order, each
 * to the rank with the smallest sum so far. Before a rank gets its last matrix, its sum is at most
 * the mean per rank of all other matrices (Graham 1969). With at least as many ranks as matrices
 * the bound is the largest matrix. */
static inline double dealt_most(struct dealt dealt, double count, int ranks)
{
    double others = (dealt.all - dealt.largest) / ranks;
    return count <= ranks ? dealt.largest : dealt.largest + others;
}

struct matrices {
    double count;
    struct dealt elements, newton_schulz_s;
};

/* The matrices of a rank; those of experts are separate, as they are assigned only to ranks that
 * hold the same experts. */
struct held_matrices {
    struct matrices shared, of_experts;
};

/* Five steps (Jordan et al. 2024) of X <- aX + (bA + cA^2) X with A = X X^T: for sides a <= b each
 * step takes 4 a^2 b + 2 a^3 FLOPs. */
enum { NEWTON_SCHULZ_STEPS = 5 };
double newton_schulz_flops(double rows, double columns);
double newton_schulz_s(const struct system *system, enum dtype dtype, double rows, double columns);

/* The trained weight matrices of the products in an op list (sequence of operations). Queries, keys
 * and values are separate matrices, and so is each expert's. */
struct held_matrices list_matrices(const struct system *system, const struct ops *forward,
                                   enum dtype dtype);

/* Adds the matrices of `of`, multiplied by `times`. */
void matrices_add(struct held_matrices *sum, const struct held_matrices *of, double times);

/* The number of elements on the rank that updates the most, and the seconds of the rank that takes
 * longest. */
double matrices_owned(const struct held_matrices *held, const struct plan *plan);
double matrices_newton_schulz_s(const struct held_matrices *held, const struct plan *plan);

#endif
