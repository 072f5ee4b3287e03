/* search/milp/division.h - divides a pipeline's layers over its stages by integer programming.
 *
 * Each stage takes one of its choices: a number of layers, some of them recomputed. The program
 * minimises a surrogate: the sum of the stages' passes, plus the longest of them for every further
 * microbatch. With uneven stages or messages the surrogate is neither the time of a step nor a
 * bound of it, so the caller times the few best divisions. For orders other than 1F1B it minimises
 * a lower bound. Rows can express what a dynamic program over stages cannot: limits on the number
 * of stage types (stages of one type have equally many layers of each kind and recompute equally
 * many layers), on host memory that stages share, and the demand that all stages recompute equally
 * many layers.
 *
 * The program has a 0-1 column for each choice of each stage, exactly one of which is 1. The chosen
 * layers add up to the model's, and a choice that holds for one first layer only (`first`) is taken
 * only if the previous stage ends there. A column T is at least as long as every stage's pass
 * (forward and backward of one microbatch). Branch and bound can finish because T is bounded on
 * both sides. The lower bound of T is the least longest pass with which the stages hold all layers;
 * it is needed because the relaxation splits layers into fractions. The upper bound: if a
 * division's surrogate is within a guess, no pass exceeds the guess minus the least possible sum,
 * so longer choices get no column. If the optimum exceeds the guess, the program is solved again
 * with a larger guess. */
#ifndef SEARCH_MILP_DIVISION_H
#define SEARCH_MILP_DIVISION_H

#include "models/blocks.h"
#include "search/integer_program.h"
#include "search/uneven/joint.h"

enum { ANY_FIRST = -1 };

struct stage_choice {
    int layers, recomputed;
    int first;                    /* layers on earlier stages; ANY_FIRST: any number */
    int of_kind[MAX_BLOCK_KINDS]; /* number of its layers of each kind; all 0 if the kind does not
                                     matter */
    double pass_s;                /* all passes of one microbatch */
    /* Used only with in_any_order. weights_s: the part of pass_s for weight gradients. ahead_s: the
     * time until a microbatch arrives at the next stage. way_s: ahead_s plus the time from the
     * arrival of the microbatch's gradient until it reaches the previous stage. */
    double weights_s, ahead_s, way_s;
    double host_bytes; /* bytes of one rank in the host's memory */
};

struct stage_choices {
    const struct stage_choice *at;
    int count;
};

struct division_problem {
    const struct stage_choices *stages;
    int num_stages, num_layers, num_microbatches;
    bool in_any_order;   /* whether the surrogate is the lower bound for any order of passes
                            (uneven/composition.h), without gradient reductions and optimizer steps */
    int most_types;      /* maximum number of stage types; 0: any number */
    bool same_recompute; /* either all stages recompute the same number of layers, or each
                            recomputes all of its layers */
    double host_bytes;   /* limit per node; HUGE_VAL: no limit */
    const struct host_node *nodes; /* nodes whose hosts have this limit */
    int num_nodes;
};

struct division {
    const int *choice; /* [stage], in the arena */
    double surrogate_s;
};

struct divisions {
    struct division *at; /* best first */
    int count;
    bool is_proved; /* whether no division outside the list has a smaller surrogate than the last
                       one in it */
    double bound_s; /* if that is not proved: lower bound of the surrogates of divisions outside the
                       list */
    double gap;     /* gap of the first division: (surrogate - bound) / surrogate; 0 when proved,
                       HUGE_VAL: no division */
    bool timed_out;
    int nodes; /* branch-and-bound nodes of all solves */
};

double division_surrogate_s(const struct division_problem *problem, const int *choice);

/* The least sum of passes, and the least longest pass, of any division; HUGE_VAL: there is none.
 * Both ignore the rows for types, recompute and hosts. */
double division_least_sum_s(const struct division_problem *problem);
double division_least_longest_s(const struct division_problem *problem);

/* Divisions already found, to be excluded. */
struct excluded {
    const struct division *at;
    int count;
};

/* The best division that is not excluded, if its surrogate is at most `guess_s`; HUGE_VAL: any. If
 * the result is PROGRAM_INFEASIBLE, there is none. `choice` has one element per stage. */
bool division_within(const struct division_problem *problem, const struct excluded *excluded,
                     double guess_s, const struct program_limits *limits, struct arena *arena,
                     int *choice, struct program_result *result, struct err *err);

/* The `most` best divisions. The limits hold for each solve. */
bool divisions_best(const struct division_problem *problem, int most,
                    const struct program_limits *limits, struct arena *arena, struct divisions *out,
                    struct err *err);

#endif
