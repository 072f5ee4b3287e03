/* search/partition/partition.h - the sharding of each operator that minimises the total cost.
 *
 * A problem is a graph: operators with a score for each allowed sharding, and edges, along which
 * tensors pass, with a score for each pair of shardings. A layer's graph is nearly a chain: it also
 * has residual connections, and an edge from its last operator to its first, because all layers are
 * equal. So dynamic programming from the first operator to the last has few states, and finds the
 * same optimum as integer programming. Costs are minimised; bytes are limited by a budget. */
#ifndef SEARCH_PARTITION_PARTITION_H
#define SEARCH_PARTITION_PARTITION_H

#include "base/arena.h"
#include "base/err.h"
#include "search/integer_program.h"
#include "search/partition/sharding.h"

enum { MAX_OPERATORS = 64 };

struct partition_score {
    double cost;  /* in seconds, or in units */
    double comm;  /* the part of `cost` that is communication */
    double units; /* communication in units of S (n - 1) / n: S is the size of the hidden states, n
                     the number of ranks */
    double bytes; /* bytes kept on one rank */
};

/* An operator's role in a layer. */
enum operator_role {
    OPERATOR_STREAM, /* norms and residuals */
    OPERATOR_FIRST,
    OPERATOR_SECOND, /* OPERATOR_FIRST reads the residual stream, OPERATOR_SECOND writes to it */
    OPERATOR_CORE,   /* attention */
    OPERATOR_ACTIVATION,
};

struct partition_operator {
    const char *name;
    enum operator_role role;
    unsigned allowed; /* bit set of enum sharding */
    struct partition_score score[NUM_SHARDINGS];
};

struct partition_edge {
    int from, to;                                               /* indices of operators */
    struct partition_score score[NUM_SHARDINGS][NUM_SHARDINGS]; /* [of from][of to] */
};

struct partition_problem {
    struct partition_operator *operators;
    int num_operators; /* up to MAX_OPERATORS */
    struct partition_edge *edges;
    int num_edges;
    double budget_bytes; /* limit on the sum of all bytes; HUGE_VAL: none */
};

/* One sharding for each operator, and the sum of all scores. */
struct partition {
    unsigned char of[MAX_OPERATORS]; /* enum sharding */
    struct partition_score total;
};

bool partition_allows(const struct partition_problem *problem, int operator_index,
                      enum sharding sharding);
/* The number of partitions, without regard to memory. */
double partition_count(const struct partition_problem *problem);

/* Sums operators in order, then edges; both methods compute their total this way. */
struct partition_score partition_score(const struct partition_problem *problem,
                                       const unsigned char *of);
bool partition_fits(const struct partition_problem *problem, const struct partition_score *score);

/* Finds the exact optimum by dynamic programming, with deterministic ties. Returns false when
 * nothing fits the budget. */
bool partition_by_dynamic(const struct partition_problem *problem, struct partition *out);

/* Finds the `most` cheapest partitions that fit, cheapest first, by trying all; returns how many it
 * found. Meant for problems with few partitions (partition_count). */
int partition_cheapest(const struct partition_problem *problem, int most, struct partition *out);

/* The optimum by integer programming: one binary variable per operator and sharding, and one flow
 * per pair of shardings along an edge. `out` is filled when result->value is not NULL. */
bool partition_by_program(const struct partition_problem *problem,
                          const struct program_limits *limits, struct arena *arena,
                          struct partition *out, struct program_result *result, struct err *err);

#endif
