/* search/partition/partition.h - which sharding each operator gets so that all together cost least.
 *
 * A problem is a graph: operators with a score for each sharding that they allow, and edges, along
 * which tensors pass, with a score for each pair. A layer's graph is nearly a chain, with residual
 * connections beside it and its end joined to its beginning, as layers are alike; so dynamic
 * programming from the first operator to the last has few states, and finds what integer
 * programming finds. Costs are compared, bytes are held against a budget. */
#ifndef SEARCH_PARTITION_PARTITION_H
#define SEARCH_PARTITION_PARTITION_H

#include "base/arena.h"
#include "base/err.h"
#include "search/integer_program.h"
#include "search/partition/sharding.h"

enum { MAX_OPERATORS = 16 };

struct partition_score {
    double cost;  /* seconds, or units */
    double comm;  /* of it, communication */
    double units; /* what is sent in units of S (n - 1) / n; S: the hidden states */
    double bytes; /* kept on one rank */
};

/* What an operator is of a layer. */
enum operator_role {
    OPERATOR_STREAM, /* norms and residuals */
    OPERATOR_FIRST,
    OPERATOR_SECOND, /* linear layers: from the stream, and back to it */
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
    int from, to;                                               /* operators */
    struct partition_score score[NUM_SHARDINGS][NUM_SHARDINGS]; /* [of from][of to] */
};

struct partition_problem {
    struct partition_operator *operators;
    int num_operators; /* up to MAX_OPERATORS */
    struct partition_edge *edges;
    int num_edges;
    double budget_bytes; /* of the sum of all bytes; HUGE_VAL: none */
};

/* One sharding for each operator, and the sum of all scores. */
struct partition {
    unsigned char of[MAX_OPERATORS]; /* enum sharding */
    struct partition_score total;
};

bool partition_allows(const struct partition_problem *problem, int operator_index,
                      enum sharding sharding);

/* Sums operators in order, then edges: `total` of both methods is this. */
struct partition_score partition_score(const struct partition_problem *problem,
                                       const unsigned char *of);
bool partition_fits(const struct partition_problem *problem, const struct partition_score *score);

/* Exact, and of equals always the same one. False when nothing fits the budget. */
bool partition_by_dynamic(const struct partition_problem *problem, struct partition *out);

/* The same optimum by integer programming: a binary for each operator and sharding, a flow for each
 * pair along an edge. `out` is filled where result->value is. */
bool partition_by_program(const struct partition_problem *problem,
                          const struct program_limits *limits, struct arena *arena,
                          struct partition *out, struct program_result *result, struct err *err);

#endif
