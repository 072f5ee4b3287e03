/* search/integer_program.h - linear programs with some integer columns, solved by GLPK.
 *
 * A solution minimises the cost and keeps every column and every row within its bounds. Only
 * integer_program.c includes glpk.h. Scale costs and rows to around 1: GLPK's tolerances are
 * absolute (1e-6 for integer columns, 1e-7 for rows).
 *
 * Threads: GLPK keeps its memory in an environment, one per thread if it is built reentrant, as
 * Debian's is. Each solve makes an environment and frees it, so several threads may solve at once
 * if integer_program_has_threads(). Where GLPK would abort the process, program_solve regains
 * control, frees the environment and fails with GLPK's message.
 *
 * The result does not contain GLPK's objective: the cost is summed from the rounded values. */
#ifndef SEARCH_INTEGER_PROGRAM_H
#define SEARCH_INTEGER_PROGRAM_H

#include "base/arena.h"
#include "base/err.h"

enum column_kind { COLUMN_CONTINUOUS, COLUMN_INTEGER, COLUMN_BINARY };

/* -HUGE_VAL and HUGE_VAL: no bound. The bounds of a binary column are ignored. */
struct program_column {
    enum column_kind kind;
    double lower, upper;
    double cost;
};

struct program_row {
    double lower, upper;
    int first_term, num_terms;
};

struct program_term {
    int column;
    double coefficient;
};

/* `{ 0 }` is empty; its arrays are malloc'ed and grow. Release it. */
struct integer_program {
    struct program_column *columns;
    struct program_row *rows;
    struct program_term *terms; /* terms of the first row, then of the second ... */
    int num_columns, num_rows, num_terms;
};

/* program_add_column and program_add_row return the index of what they add. program_add_term adds a
 * term to the newest row, at most once per column. */
int program_add_column(struct integer_program *program, struct program_column column);
int program_add_row(struct integer_program *program, double lower, double upper);
void program_add_term(struct integer_program *program, int column, double coefficient);
void program_release(struct integer_program *program);

/* Limits; 0: none. A time limit makes the result depend on the machine, a node limit does not. */
struct program_limits {
    double time_s;
    int nodes; /* opened nodes of the tree */
};

enum program_status {
    PROGRAM_OPTIMAL,
    PROGRAM_FEASIBLE,   /* a limit was reached, but there are a solution and a lower bound */
    PROGRAM_INFEASIBLE, /* proved infeasible */
    PROGRAM_UNKNOWN,    /* a limit was reached before a solution was found */
};

struct program_result {
    enum program_status status;
    bool timed_out;      /* the time limit was reached */
    const double *value; /* per column; values of integer columns are rounded; in the arena; NULL
                            without a solution */
    double cost;         /* cost of `value`, summed by this file */
    /* lower bound of every solution's cost, up to GLPK's tolerances; may be -HUGE_VAL */
    double bound;
    double gap; /* (cost - bound) / |cost|; 0 when optimal, HUGE_VAL without a solution */
    int nodes;
};

/* False when the program has no finite minimum, or GLPK failed (ERR_SYSTEM, msg = GLPK's
 * message). */
bool program_solve(const struct integer_program *program, const struct program_limits *limits,
                   struct arena *arena, struct program_result *out, struct err *err);

bool integer_program_has_threads(void);

#endif
