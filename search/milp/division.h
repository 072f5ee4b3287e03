/* search/milp/division.h - a pipeline's layers divided over its stages by integer programming.
 *
 * Each stage takes one of its choices: a number of layers, some of them recomputed. The program
 * minimises a surrogate: the sum of the stages' passes, plus the longest of them for every further
 * microbatch. It is no bound of a step's time and not exact either (uneven stages, messages), so
 * the caller times the few best divisions. Rows can say what a dynamic program over stages can't:
 * that all stages together have few types, recompute as many layers, or share the memory of their
 * host.
 *
 * The program has a binary for each choice of each stage, one of which is 1; their layers add up,
 * and choices that are for one place in the model begin where the stage before ends;
 * a column T is no less than any stage's pass. Branch and bound closes it because T is bounded on
 * both sides. From below: by the least pass with which the stages hold all layers, since the
 * relaxation spreads them in fractions. From above: in a division within a guess of the surrogate,
 * no pass exceeds the guess less the least possible sum, so longer choices get no column. Where the
 * optimum exceeds the guess, the program is solved again with a wider one: no guess is trusted. */
#ifndef SEARCH_MILP_DIVISION_H
#define SEARCH_MILP_DIVISION_H

#include "models/blocks.h"
#include "search/integer_program.h"
#include "search/uneven/joint.h"

enum { ANY_FIRST = -1 };

struct stage_choice {
    int layers, recomputed;
    int first;                    /* layers on stages before; ANY_FIRST: it does not matter */
    int of_kind[MAX_BLOCK_KINDS]; /* of its layers; all 0 where it does not matter */
    double pass_s;                /* forward and backward of one microbatch */
    double host_bytes;            /* of one rank, in the host's memory */
};

struct stage_choices {
    const struct stage_choice *at;
    int count;
};

struct division_problem {
    const struct stage_choices *stages;
    int num_stages, num_layers, num_microbatches;
    int most_types;                /* pairs of layers and recomputed layers; 0: any number */
    bool same_recompute;           /* all stages recompute as many layers, or all of theirs */
    double host_bytes;             /* of a node; HUGE_VAL: no limit */
    const struct host_node *nodes; /* checked against it */
    int num_nodes;
};

struct division {
    const int *choice; /* [stage], in the arena */
    double surrogate_s;
};

struct divisions {
    struct division *at; /* best first */
    int count;
    bool is_proved; /* no division that is left out has a smaller surrogate than the last */
    double bound_s; /* where the last could not be proved: no division that is left out is below
                       this */
    double gap; /* of the first: (surrogate - bound) / surrogate; 0 when proved, HUGE_VAL: none */
    bool timed_out;
    int nodes; /* of all trees */
};

double division_surrogate_s(const struct division_problem *problem, const int *choice);

/* The least sum of passes and the least longest pass of any division; HUGE_VAL: there is none. They
 * ignore the rows for types, recompute and hosts. */
double division_least_sum_s(const struct division_problem *problem);
double division_least_longest_s(const struct division_problem *problem);

/* Divisions that are not to be found again. */
struct excluded {
    const struct division *at;
    int count;
};

/* The best division that is not excluded, if its surrogate is no more than `guess_s`; HUGE_VAL:
 * any. Not found and PROGRAM_INFEASIBLE: there is none. `choice` has room for every stage. */
bool division_within(const struct division_problem *problem, const struct excluded *excluded,
                     double guess_s, const struct program_limits *limits, struct arena *arena,
                     int *choice, struct program_result *result, struct err *err);

/* The `most` best divisions. The limits hold for each solve. */
bool divisions_best(const struct division_problem *problem, int most,
                    const struct program_limits *limits, struct arena *arena, struct divisions *out,
                    struct err *err);

#endif
