/* calibration/fit/shipped_runs.h - the measured runs that are shipped, predicted with constants
 * that a fit found. */
#ifndef CALIBRATION_FIT_SHIPPED_RUNS_H
#define CALIBRATION_FIT_SHIPPED_RUNS_H

#include "calibration/fit/fit.h"

struct shipped_runs {
    struct run_systems *systems;
    struct run_rows rows;
    struct run_case *cases;
    struct run_prediction *predictions;
    struct scores scores;
};

/* Rows of one source, or of all where it is NULL; arrays live in the arena. ERR_USAGE, with the
 * nearest name, when no row is of the source. Release in either case. */
bool shipped_runs_predict(const char *source, const struct fit_result *results, int num_results,
                          int jobs, struct arena *arena, struct shipped_runs *out, struct err *err);
void shipped_runs_release(struct shipped_runs *runs);

/* The rows alone. */
bool shipped_runs_load(struct arena *arena, struct run_rows *rows, struct err *err);

#endif
