/* calibration/rows/convert.h - converts a measured row to the model, system and plan of its run.
 *
 * A row without a necessary value is skipped with a reason. If a value is missing that has a usual
 * one, the usual one is assumed and the assumption is reported. */
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
    const char *skip; /* why the row cannot be predicted; "": all members below are set */
    struct system *system;
    const char *memory_stack; /* the stack whose memory constants are used: the row's own, unless
                                 match.json names another */
    /* with the run's sequence length; its batch is the number of sequences that pass through the
     * pipeline before it drains */
    struct model model;
    int pipeline_runs; /* how often the pipeline fills and drains in a step */
    struct plan plan;  /* it has passed plan_check and system_check */
    bool is_moe;
    enum memory_kind memory_kind; /* kind of the measured memory */
    /* a constant of the system's profile or stack was fitted on this row */
    bool is_fitted;
    const char *assumptions[MAX_ASSUMPTIONS];
    int num_assumptions;
};

/* The systems on which rows ran, each loaded once. Cases point into it, so a fit can change
 * profiles and stacks here and predict again. */
struct run_systems;

/* `cluster` and `stack` replace those of match.json; NULL: use match.json. */
struct run_systems *run_systems_new(const char *cluster, const char *stack, struct err *err);
/* Applies learned corrections to all systems loaded after this call. `learned` is borrowed. */
void run_systems_learn(struct run_systems *systems, const struct learned *learned);
void run_systems_free(struct run_systems *systems);

/* Converts a row. False only if a data file is faulty; a row that cannot be converted has a reason
 * in `skip`. */
bool run_convert(struct run_systems *systems, const struct run_row *row, struct run_case *out,
                 struct err *err);

#endif
