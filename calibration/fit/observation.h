/* calibration/fit/observation.h - the rows on which constants are fitted, with their predictions. A
 * row is a measured run or micro-benchmark. */
#ifndef CALIBRATION_FIT_OBSERVATION_H
#define CALIBRATION_FIT_OBSERVATION_H

#include "calibration/fit/fit_table.h"
#include "calibration/fit/micro.h"
#include "calibration/score/predict.h"

struct observation {
    const char *source; /* rows with the same source are scored together */
    const char *id;     /* name in a file's "fitted_on" */
    const char *group;  /* rows of one group (configuration) are left out together */
    struct system *system;
    double measured_s;
    double weight;             /* weight of its squared error */
    int run;                   /* index of the run; -1: it is a micro-benchmark */
    const struct micro *micro; /* NULL: it is a run */
};

/* Rows of all kinds, with their own copies of systems, so that constants may be changed. */
struct observations {
    struct arena arena;
    struct observation *at;
    int count, room;
    struct run_systems *systems;
    struct run_case *cases;
    struct run_prediction *predictions;
    int num_cases;
    struct loaded_system *loaded; /* systems of micro-benchmarks */
};

/* One kind of measurement, a row of `observation_kinds`. */
struct observation_kind {
    const char *name;
    const char *summary;
    bool (*load)(const struct fit_rows *rows, struct observations *out, struct err *err);
};
extern const struct observation_kind observation_kinds[];
extern const int num_observation_kinds;

/* Loads all rows of a job. It fails if a set has no rows, if a row requested by id cannot be
 * predicted, or if a file is faulty; errors in fit.json name its line. Release the result also
 * after an error. */
bool observations_load(const struct fit_table *table, const struct fit_job *job,
                       struct observations *out, struct err *err);
void observations_release(struct observations *observations);

/* Sets the constant in every system that has it and returns the number of these systems. */
int observations_set(const struct observations *observations, const struct constant *constant,
                     double value);

/* Predicts the seconds of each row. The result does not depend on the number of threads, `jobs`. */
void observations_predict(const struct observations *observations, int jobs, double *out_s);

#endif
