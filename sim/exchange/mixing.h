/* sim/exchange/mixing.h - graphs over which ranks average with neighbours, x_i = sum_j w_ij x_j,
 * and how fast that makes all ranks equal.
 *
 * Every graph's weights are doubly stochastic, so the mean over the ranks is kept. Each looks the
 * same from every rank (a Cayley graph of a cycle, or of the product of two), so its singular
 * values are the magnitudes of the Fourier transform of one rank's weights. */
#ifndef SIM_EXCHANGE_MIXING_H
#define SIM_EXCHANGE_MIXING_H

#include "base/err.h"

#include <stdbool.h>

enum mixing_graph {
    MIXING_RING,        /* the rank before and the one after */
    MIXING_GRID,        /* a torus as square as the ranks allow: left, right, above, below */
    MIXING_EXPONENTIAL, /* 1, 2, 4 ... ranks on (static exponential) */
    MIXING_ONE_PEER,    /* one of those distances per step, in turn (one-peer exponential) */
    NUM_MIXING_GRAPHS
};
extern const char *const mixing_graph_words[NUM_MIXING_GRAPHS + 1]; /* "ring", "grid" ... */

/* A rank's neighbours; weights are uniform over the rank and those it hears. */
struct mixing_peers {
    int hears[32]; /* ranks whose values this one averages with its own, distinct */
    int tells[32]; /* ranks that hear this one; tells[i] is as far as hears[i], in the other
                      direction */
    int count;     /* of either */
    double weight; /* w_ij, also of its own value: 1 / (count + 1) */
};

/* Neighbours of `rank` of `num_ranks` (2 or more) in step `step`, from 0. */
struct mixing_peers mixing_peers(enum mixing_graph graph, int num_ranks, int rank, int step);

/* Whether the graph exists for `num_ranks` ranks (ERR_INFEASIBLE). */
bool mixing_accepts(enum mixing_graph graph, int num_ranks, struct err *err);

/* Steps after which the graphs repeat: 1, or ceil(log2 n) with one peer. */
int mixing_cycle(enum mixing_graph graph, int num_ranks);

/* The torus' rows; it has num_ranks / rows columns, at least as many. */
int mixing_grid_rows(int num_ranks);

/* beta: the second singular value of the weights, the largest fraction of a deviation from the mean
 * that one step leaves. One peer: the geometric mean per step of the product over a cycle, 0 when
 * the average is exact. Computed in O(n x neighbours). */
double mixing_second_singular(enum mixing_graph graph, int num_ranks);

/* beta for rates of convergence: the same, but for one-peer the value of the static exponential
 * graph, which has the same transient (Ying et al. 2021, theorem 2). */
double mixing_rate(enum mixing_graph graph, int num_ranks);

#endif
