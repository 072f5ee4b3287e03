/* calibration/rows/convert_part.h - shared by the parts of run_convert; only convert.c and
 * convert_*.c include it.
 *
 * Each part fills its members of the case. False when the row cannot be converted: `reason` then
 * says why. */
#ifndef CALIBRATION_ROWS_CONVERT_PART_H
#define CALIBRATION_ROWS_CONVERT_PART_H

#include "calibration/rows/convert.h"

struct run_systems {
    struct arena arena;
    struct match_table match;
    const char *cluster, *stack;
    const struct learned *learned; /* NULL: nothing */
    struct loaded_pair *pairs;
    struct sized_system *sized;
};

/* A row under conversion. */
struct conversion {
    struct run_systems *systems;
    const struct run_row *row;
    struct run_case *out;
    const char *recompute; /* match.json's correction, else the row's own */
    bool spreads_experts;  /* match.json's, of a row that does not say ep */
    int optimizer;         /* enum optimizer, which match.json says */
};

/* Reports an assumption, unless it is "". `text` lives forever. */
void convert_assume(const struct conversion *of, const char *text);

static inline bool row_is_stated(double value)
{
    return value >= 0;
}

/* False, with "COLUMN REASON". */
bool row_skip(struct err *err, const char *column, const char *reason);
/* Reads a count that must be stated, and one that has a usual value. */
bool row_count(double value, const char *column, int *out, struct err *err);
bool row_count_or(double value, const char *column, int fallback, int *out, struct err *err);

/* calibration/rows/convert_system.c - the GPUs, their number and the software. `err`: a data file
 * is faulty. */
bool convert_system(struct conversion *of, struct err *reason, struct err *err);

/* calibration/rows/convert_model.c - dimensions of the row, options by the rules of match.json. */
bool convert_model(const struct conversion *of, struct err *reason);

/* calibration/rows/convert_plan.c - once system and model are known. */
bool convert_plan(const struct conversion *of, struct err *reason);

#endif
