/* calibration/rows/convert_part.h - functions and data shared by the files that implement
 * run_convert; only convert.c and convert_*.c include it.
 *
 * Each function fills some members of the case. It returns false if the row cannot be converted,
 * with the reason in `reason`. */
#ifndef CALIBRATION_ROWS_CONVERT_PART_H
#define CALIBRATION_ROWS_CONVERT_PART_H

#include "calibration/rows/convert.h"

struct run_systems {
    struct arena arena;
    struct match_table match;
    const char *cluster, *stack;
    const struct learned *learned; /* NULL: nothing was learned */
    struct loaded_pair *pairs;
    struct sized_system *sized;
};

/* A row under conversion. */
struct conversion {
    struct run_systems *systems;
    const struct run_row *row;
    struct run_case *out;
    const char *recompute; /* recompute by a rule of match.json, else the row's own */
    /* by a rule of match.json: if the row does not state ep, it is the number of data ranks */
    bool spreads_experts;
    /* by a rule of match.json: sequences of a data rank after which the pipeline drains; 0: all */
    int local_batch;
    double capacity;  /* capacity factor of experts, by a rule of match.json; 0: none */
    unsigned overlap; /* set of enum overlap that a rule of match.json adds to the stack's */
    int routing;      /* enum routing_kind of models with experts, by a rule of match.json */
    int optimizer;    /* enum optimizer, by a rule of match.json */
};

/* Reports an assumption, unless it is "". `text` must not be freed. */
void convert_assume(const struct conversion *of, const char *text);

static inline bool row_is_stated(double value)
{
    return value >= 0;
}

/* Sets the error "COLUMN REASON" and returns false. */
bool row_skip(struct err *err, const char *column, const char *reason);
/* row_count reads a count that the row must state. row_count_or reads a count that has a usual
 * value. */
bool row_count(double value, const char *column, int *out, struct err *err);
bool row_count_or(double value, const char *column, int fallback, int *out, struct err *err);

/* calibration/rows/convert_system.c - sets the GPUs, their number and the software. `err` is set if
 * a data file is faulty. */
bool convert_system(struct conversion *of, struct err *reason, struct err *err);

/* calibration/rows/convert_model.c - sets dimensions from the row and options by the rules of
 * match.json. */
bool convert_model(const struct conversion *of, struct err *reason);

/* calibration/rows/convert_plan.c - sets the plan, once system and model are known. */
bool convert_plan(const struct conversion *of, struct err *reason);

#endif
