/* calibration/rows/convert.h - a measured row -> the model, system and plan that it ran.
 *
 * A row is skipped, with a reason, when it lacks something that must be known; something with a
 * usual value is assumed, and the assumption is reported. */
#ifndef CALIBRATION_ROWS_CONVERT_H
#define CALIBRATION_ROWS_CONVERT_H

#include "base/arena.h"
#include "calibration/rows/runs.h"
#include "sim/cost/learned.h"
#include "sim/cost/match.h"
#include "sim/plan/plan.h"

enum { MAX_ASSUMPTIONS = 12 };

/* The kinds of measured memory, in this order: bytes that a framework's allocator has given out;
 * bytes that it has reserved; bytes that the driver reports, with contexts and NCCL's buffers. */
enum memory_kind { MEMORY_ALLOCATED, MEMORY_RESERVED, MEMORY_DRIVER };

/* Texts and arrays live in the arena of the systems, or are static. */
struct run_case {
    const struct run_row *row;
    const char *skip; /* why it cannot be predicted; "": all members below are set */
    struct system *system;
    const char *memory_stack; /* the stack whose memory constants are used: the row's own, unless
                                 match.json names another */
    struct model model;       /* with the batch and sequence length of the run */
    struct plan plan;         /* has passed plan_check and system_check */
    bool is_moe;
    enum memory_kind memory_kind; /* of the measured memory */
    bool is_fitted;               /* a constant of the system's profile or stack was fitted on it */
    const char *assumptions[MAX_ASSUMPTIONS];
    int num_assumptions;
};

/* The systems that rows ran on, each loaded once. Cases point into it: a fit may change the
 * profiles and stacks in it and predict again. */
struct run_systems;

/* `cluster` and `stack` replace those of match.json; NULL: use match.json. */
struct run_systems *run_systems_new(const char *cluster, const char *stack, struct err *err);
/* Applies what was learned from the user's runs to systems that are loaded from now on; borrowed.
 */
void run_systems_learn(struct run_systems *systems, const struct learned *learned);
void run_systems_free(struct run_systems *systems);

/* False only when a data file is faulty: a row that cannot be converted has a reason in `skip`. */
bool run_convert(struct run_systems *systems, const struct run_row *row, struct run_case *out,
                 struct err *err);

#endif
