/* search/milp/division.h - a pipeline's layers divided over its stages by integer programming.
 *
 * Each stage takes one of its choices: a number of layers, of which some run again. What is least
 * is the surrogate, the sum of the stages' passes and the longest of them for every further
 * microbatch. It is no bound of a step's time and not exact either (uneven stages, messages), so
 * the few best divisions are for the caller to time. Rows can say what a dynamic program over
 * stages can't: that all stages together have few types, run as many layers again, or share the
 * memory of their host.
 *
 * The program has a binary for each choice of each stage, one of which is 1; their layers add up;
 * a column T is no less than any stage's pass. Branch and bound closes it because T is bounded on
 * both sides. Below: by the least pass with which the stages hold all layers, since the relaxation
 * spreads them in fractions. Above: a division within a guess of the surrogate has no pass beyond
 * what the guess leaves when the least possible sum is taken from it, and choices that take longer
 * are no columns. Where the optimum exceeds the guess it is made again with a wider one, so that
 * no guess is trusted. */
#ifndef SEARCH_MILP_DIVISION_H
#define SEARCH_MILP_DIVISION_H

#include "search/integer_program.h"

struct stage_choice {
    int layers, recomputed;
    double pass_s;     /* forward and backward of one microbatch */
    double host_bytes; /* of one rank, in the memory of its node's host */
};

struct stage_choices {
    const struct stage_choice *at;
    int count;
};

/* Ranks of each stage, [stage], on the nodes that have just these. */
struct host_node {
    const double *ranks;
};

struct division_problem {
    const struct stage_choices *stages;
    int num_stages, num_layers, num_microbatches;
    int most_types;                /* pairs of layers and recomputed; 0: any number */
    bool same_recompute;           /* all stages run as many layers again, or all of theirs */
    double host_bytes;             /* of a node; HUGE_VAL: no limit */
    const struct host_node *nodes; /* that are held against it */
    int num_nodes;
};

struct division {
    const int *choice; /* [stage], in the arena */
    double surrogate_s;
};

struct divisions {
    struct division *at; /* best first */
    int count;
    bool is_proved; /* no other division has a lesser surrogate than the last; none is left out */
    double bound_s; /* where the last could not be proved: no division that is left has less */
    double gap; /* of the first: (surrogate - bound) / surrogate; 0 when proved, HUGE_VAL: none */
    bool timed_out;
    int nodes; /* of all trees */
};

double division_surrogate_s(const struct division_problem *problem, const int *choice);

/* Of all divisions: the least sum of passes, and the least longest pass. HUGE_VAL: none. What the
 * rows for types, recompute and hosts say is not looked at. */
double division_least_sum_s(const struct division_problem *problem);
double division_least_longest_s(const struct division_problem *problem);

/* Ones that are not to be found again. */
struct excluded {
    const struct division *at;
    int count;
};

/* The best that is not excluded, if its surrogate is no more than `guess_s`; HUGE_VAL: any. Not
 * found and PROGRAM_INFEASIBLE: there is none. `choice` has room for a stage each. */
bool division_within(const struct division_problem *problem, const struct excluded *excluded,
                     double guess_s, const struct program_limits *limits, struct arena *arena,
                     int *choice, struct program_result *result, struct err *err);

/* The `most` best. The limits are those of each solve. */
bool divisions_best(const struct division_problem *problem, int most,
                    const struct program_limits *limits, struct arena *arena, struct divisions *out,
                    struct err *err);

#endif
