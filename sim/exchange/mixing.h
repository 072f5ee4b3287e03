/* sim/exchange/mixing.h - graphs over which ranks average with neighbours alone, x_i = sum_j w_ij
 * x_j, and how fast that makes all of them equal.
 *
 * Every graph's weights are doubly stochastic, so the mean over the ranks never moves. Each is the
 * same seen from every rank (a Cayley graph of a cycle, or of the product of two), so that its
 * singular values are those of a Fourier transform of one rank's weights. */
#ifndef SIM_EXCHANGE_MIXING_H
#define SIM_EXCHANGE_MIXING_H

#include "base/err.h"

#include <stdbool.h>

enum mixing_graph {
    MIXING_RING,        /* the rank before and the one after */
    MIXING_GRID,        /* a torus as square as the ranks allow: left, right, above, below */
    MIXING_EXPONENTIAL, /* 1, 2, 4 ... ranks on (static exponential) */
    MIXING_ONE_PEER,    /* one of those in each step, in turn (one-peer exponential) */
    NUM_MIXING_GRAPHS
};
extern const char *const mixing_graph_words[NUM_MIXING_GRAPHS + 1]; /* "ring", "grid" ... */

/* Weights are uniform over a rank and those it hears. */
struct mixing_peers {
    int hears[32]; /* ranks whose values this one averages with its own, distinct */
    int tells[32]; /* ranks that hear this one; tells[i] is as far as hears[i], the other way */
    int count;     /* of either */
    double weight; /* w_ij, its own too: 1 / (count + 1) */
};

/* Neighbours of `rank` of `num_ranks` (2 or more) in step `step`, from 0. */
struct mixing_peers mixing_peers(enum mixing_graph graph, int num_ranks, int rank, int step);

/* Whether the graph is one for so many ranks (ERR_INFEASIBLE). */
bool mixing_accepts(enum mixing_graph graph, int num_ranks, struct err *err);

/* Steps after which the graph is the first again: 1, or ceil(log2 n) with one peer. */
int mixing_cycle(enum mixing_graph graph, int num_ranks);

/* The torus' rows; columns are num_ranks / rows, and no fewer. */
int mixing_grid_rows(int num_ranks);

/* beta: the second singular value of the weights, the largest of those of which no rank's value is
 * the mean; how much of a deviation from the mean one step leaves at most. One peer: of the product
 * over a cycle, the share that each of its steps has in it, 0 where the average is exact. Computed
 * in O(n x neighbours). */
double mixing_second_singular(enum mixing_graph graph, int num_ranks);

/* beta as the rates of convergence need it: the same, but of one-peer that of the static
 * exponential graph, whose transient it shares (Ying et al. 2021, theorem 2). */
double mixing_rate(enum mixing_graph graph, int num_ranks);

#endif
