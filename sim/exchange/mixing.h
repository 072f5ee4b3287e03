/* sim/exchange/mixing.h - graphs over which ranks average with neighbours, x_i = sum_j w_ij x_j,
 * and how fast their values become equal.
 *
 * The weights of every graph are doubly stochastic, so the mean over the ranks is kept. Every graph
 * looks the same from each rank (it is a Cayley graph of a cyclic group or of a product of two), so
 * its singular values are the absolute values of the Fourier transform of one rank's weights. */
#ifndef SIM_EXCHANGE_MIXING_H
#define SIM_EXCHANGE_MIXING_H

#include "base/err.h"

#include <stdbool.h>

enum mixing_graph {
    MIXING_RING, /* the rank before and the one after */
    /* the four neighbours in a torus that is as square as the number of ranks allows */
    MIXING_GRID,
    MIXING_EXPONENTIAL, /* the ranks at distances 1, 2, 4 ... (static exponential graph) */
    /* one of the distances 1, 2, 4 ... per step, in turn (one-peer exponential graph) */
    MIXING_ONE_PEER,
    NUM_MIXING_GRAPHS
};
extern const char *const mixing_graph_words[NUM_MIXING_GRAPHS + 1]; /* such as "ring" */

/* A rank's neighbours. The rank's own value and each received one have equal weight. */
struct mixing_peers {
    int hears[32]; /* distinct ranks from which this rank receives values */
    /* ranks to which it sends; tells[i] is as far away as hears[i], in the opposite direction */
    int tells[32];
    int count;     /* length of each list */
    double weight; /* w_ij = 1 / (count + 1), also for its own value */
};

/* Neighbours of `rank` among `num_ranks` (2 or more) in step `step`, from 0. */
struct mixing_peers mixing_peers(enum mixing_graph graph, int num_ranks, int rank, int step);

/* Whether the graph exists for `num_ranks` ranks; if not, ERR_INFEASIBLE. */
bool mixing_accepts(enum mixing_graph graph, int num_ranks, struct err *err);

/* Number of steps after which the graphs repeat: 1, or ceil(log2 n) for MIXING_ONE_PEER. */
int mixing_cycle(enum mixing_graph graph, int num_ranks);

/* Number of rows of the torus; it has num_ranks / rows columns, at least as many as rows. */
int mixing_grid_rows(int num_ranks);

/* beta: the second singular value of the weights, the largest fraction of a deviation from the mean
 * that one step leaves. For MIXING_ONE_PEER it is the geometric mean per step over a cycle, 0 if
 * the cycle averages exactly. It takes O(n x neighbours) operations. */
double mixing_second_singular(enum mixing_graph graph, int num_ranks);

/* The beta to use in rates of convergence. It is mixing_second_singular, except for
 * MIXING_ONE_PEER, where it is the value of the static exponential graph, which has the same
 * transient (Ying et al. 2021, theorem 2). */
double mixing_rate(enum mixing_graph graph, int num_ranks);

#endif
