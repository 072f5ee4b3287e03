/* sim/cost/muon.h - matrices that Muon updates: whole, as a step of Newton-Schulz needs all of one.
 *
 * Muon (Jordan et al. 2024; Moonlight, arXiv:2502.16982) keeps one momentum and makes the update of
 * a matrix nearly orthogonal. It updates the matrices of blocks, experts and routers among them;
 * embedding, head, norms and biases have Adam. Tensor ranks each update their own part (Megatron
 * Core's blockwise mode); data ranks that share the state take whole matrices. */
#ifndef SIM_COST_MUON_H
#define SIM_COST_MUON_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <math.h>

/* A quantity of whole matrices that are dealt to ranks. */
struct dealt {
    double all, largest; /* summed over all matrices; of the largest matrix */
};

/* Most that one of the ranks gets when each next matrix, largest first, goes to the rank with
 * least: when the last one came, that rank had no more than the mean of the others (Graham 1969).
 * With as many ranks as matrices it is the largest. */
static inline double dealt_most(struct dealt dealt, double count, int ranks)
{
    double others = (dealt.all - dealt.largest) / ranks;
    return count <= ranks ? dealt.largest : dealt.largest + others;
}

struct matrices {
    double count;
    struct dealt elements, newton_schulz_s;
};

/* Experts are dealt to the ranks that hold the same ones. */
struct held_matrices {
    struct matrices shared, of_experts;
};

/* Five steps (Jordan et al. 2024) of X <- aX + (bA + cA^2) X with A = X X^T: for sides a <= b each
 * takes 4 a^2 b + 2 a^3 FLOPs. */
enum { NEWTON_SCHULZ_STEPS = 5 };
double newton_schulz_flops(double rows, double columns);
double newton_schulz_s(const struct system *system, enum dtype dtype, double rows, double columns);

/* The trained matrices of a list's products; queries, keys and values are apart, as are experts. */
struct held_matrices list_matrices(const struct system *system, const struct ops *forward,
                                   enum dtype dtype);

/* Adds `times` the matrices of `of`. */
void matrices_add(struct held_matrices *sum, const struct held_matrices *of, double times);

/* Elements, and seconds, of the rank that updates most. */
double matrices_owned(const struct held_matrices *held, const struct plan *plan);
double matrices_newton_schulz_s(const struct held_matrices *held, const struct plan *plan);

#endif
