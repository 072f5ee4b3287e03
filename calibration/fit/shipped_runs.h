/* calibration/fit/shipped_runs.h - predicts the shipped measured runs with the constants of a
 * fit. */
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

/* Predicts the rows (runs) of one source (publication), or of all if `source` is NULL; arrays live
 * in the arena. ERR_USAGE with the nearest name if there is no such source. Release the result also
 * after an error. */
bool shipped_runs_predict(const char *source, const struct fit_result *results, int num_results,
                          int jobs, struct arena *arena, struct shipped_runs *out, struct err *err);
void shipped_runs_release(struct shipped_runs *runs);

/* Loads only the rows. */
bool shipped_runs_load(struct arena *arena, struct run_rows *rows, struct err *err);

#endif
