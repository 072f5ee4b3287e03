/* How fast averaging with neighbours makes the values of all ranks equal: the second singular value
 * of a gossip graph's matrix of weights. */
#include "sim/exchange/mixing.h"

#include <math.h>

const char *const mixing_graph_words[NUM_MIXING_GRAPHS + 1] = {
    [MIXING_RING] = "ring",
    [MIXING_GRID] = "grid",
    [MIXING_EXPONENTIAL] = "exp",
    [MIXING_ONE_PEER] = "one-peer",
};

static const double pi = 3.14159265358979323846;

/* A torus of rows x columns ranks, numbered row by row; a cycle is a torus with one row. */
struct torus {
    int rows, columns;
};

static struct torus torus_of(enum mixing_graph graph, int num_ranks)
{
    int rows = graph == MIXING_GRID ? mixing_grid_rows(num_ranks) : 1;
    return (struct torus){ rows, num_ranks / rows };
}

/* Offset of a neighbour; each coordinate is non-negative and below the torus' size. */
struct hop {
    int rows, columns;
};

struct hops {
    struct hop at[32];
    int count;
};

static int wrapped(int i, int n)
{
    return (i % n + n) % n;
}

/* Adds a neighbour unless it is the rank itself or already in the list; in a row of two, the left
 * and the right neighbour are the same. */
static void add_hop(struct hops *hops, struct torus torus, int rows, int columns)
{
    struct hop hop = { wrapped(rows, torus.rows), wrapped(columns, torus.columns) };
    if (hop.rows == 0 && hop.columns == 0)
        return;
    for (int i = 0; i < hops->count; i++)
        if (hops->at[i].rows == hop.rows && hops->at[i].columns == hop.columns)
            return;
    hops->at[hops->count++] = hop;
}

static int log2_ceil(int n)
{
    int bits = 0;
    while ((1LL << bits) < n)
        bits++;
    return bits;
}

static struct hops hops_of(enum mixing_graph graph, struct torus torus, int step)
{
    struct hops hops = { .count = 0 };
    int bits = log2_ceil(torus.columns);
    switch (graph) {
    case MIXING_GRID:
        add_hop(&hops, torus, 1, 0);
        add_hop(&hops, torus, -1, 0);
        add_hop(&hops, torus, 0, 1);
        add_hop(&hops, torus, 0, -1);
        break;
    case MIXING_RING:
        add_hop(&hops, torus, 0, 1);
        add_hop(&hops, torus, 0, -1);
        break;
    case MIXING_EXPONENTIAL:
        for (int bit = 0; bit < bits; bit++)
            add_hop(&hops, torus, 0, 1 << bit);
        break;
    case MIXING_ONE_PEER:
        add_hop(&hops, torus, 0, 1 << step % bits);
        break;
    case NUM_MIXING_GRAPHS:
        break;
    }
    return hops;
}

static int rank_at(struct torus torus, int rank, int rows, int columns)
{
    int row = wrapped(rank / torus.columns + rows, torus.rows);
    return row * torus.columns + wrapped(rank % torus.columns + columns, torus.columns);
}

struct mixing_peers mixing_peers(enum mixing_graph graph, int num_ranks, int rank, int step)
{
    struct torus torus = torus_of(graph, num_ranks);
    struct hops hops = hops_of(graph, torus, step);
    struct mixing_peers peers = { .count = hops.count, .weight = 1.0 / (hops.count + 1) };
    for (int i = 0; i < hops.count; i++) {
        struct hop hop = hops.at[i];
        peers.hears[i] = rank_at(torus, rank, hop.rows, hop.columns);
        peers.tells[i] = rank_at(torus, rank, -hop.rows, -hop.columns);
    }
    return peers;
}

bool mixing_accepts(enum mixing_graph graph, int num_ranks, struct err *err)
{
    if (graph != MIXING_GRID || mixing_grid_rows(num_ranks) > 1)
        return true;
    return err_set(err, ERR_INFEASIBLE, "exchange",
                   "%d ranks do not form a grid with two or more rows; use exchange=gossip:ring",
                   num_ranks);
}

int mixing_cycle(enum mixing_graph graph, int num_ranks)
{
    return graph == MIXING_ONE_PEER ? log2_ceil(num_ranks) : 1;
}

int mixing_grid_rows(int num_ranks)
{
    int rows = (int)sqrt((double)num_ranks);
    while (num_ranks % rows != 0)
        rows--;
    return rows;
}

/* The Fourier coefficient of the weights at a frequency. It is an eigenvalue of the matrix of
 * weights, as the Fourier modes of the torus are its eigenvectors. The modes are orthogonal, so the
 * coefficient's absolute value is a singular value. */
static double coefficient(struct torus torus, const struct hops *hops, int row, int column)
{
    double real = 1, imaginary = 0;
    for (int i = 0; i < hops->count; i++) {
        double turns = (double)row * hops->at[i].rows / torus.rows +
                       (double)column * hops->at[i].columns / torus.columns;
        double angle = 2 * pi * fmod(turns, 1);
        real += cos(angle);
        imaginary += sin(angle);
    }
    return hypot(real, imaginary) / (hops->count + 1);
}

/* The eigenvalue of the product of the matrices of all steps of a cycle. The matrices have the same
 * eigenvectors, so it is the product of their eigenvalues. */
static double cycle_coefficient(enum mixing_graph graph, struct torus torus, int row, int column)
{
    double product = 1;
    for (int step = 0; step < mixing_cycle(graph, torus.rows * torus.columns); step++) {
        struct hops hops = hops_of(graph, torus, step);
        product *= coefficient(torus, &hops, row, column);
    }
    return product;
}

/* Frequency 0 is the mean over ranks, which averaging keeps, so it is left out. A rounding error in
 * place of an exact 0 counts as 0. */
double mixing_second_singular(enum mixing_graph graph, int num_ranks)
{
    struct torus torus = torus_of(graph, num_ranks);
    double largest = 0;
    for (int i = 1; i < num_ranks; i++)
        largest =
            fmax(largest, cycle_coefficient(graph, torus, i / torus.columns, i % torus.columns));
    if (largest < 1e-12)
        return 0;
    return pow(largest, 1.0 / mixing_cycle(graph, num_ranks));
}

double mixing_rate(enum mixing_graph graph, int num_ranks)
{
    return mixing_second_singular(graph == MIXING_ONE_PEER ? MIXING_EXPONENTIAL : graph, num_ranks);
}
