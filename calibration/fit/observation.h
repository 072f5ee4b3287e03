/* calibration/fit/observation.h - the rows that constants are fitted on: measured times, and
 * simsearch's prediction of each. */
#ifndef CALIBRATION_FIT_OBSERVATION_H
#define CALIBRATION_FIT_OBSERVATION_H

#include "calibration/fit/fit_table.h"
#include "calibration/fit/micro.h"
#include "calibration/score/predict.h"

struct observation {
    const char *source; /* rows with the same source are judged together */
    const char *id;     /* what "fitted_on" names */
    const char *group;  /* rows of one group (configuration) are left out together */
    struct system *system;
    double measured_s;
    double weight;             /* of its squared error */
    int run;                   /* index of the case; -1: a micro-benchmark */
    const struct micro *micro; /* NULL: a run */
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
    struct loaded_system *loaded; /* of micro-benchmarks */
};

/* One kind of measurement; all of them are in `observation_kinds`. */
struct observation_kind {
    const char *name;
    const char *summary;
    bool (*load)(const struct fit_rows *rows, struct observations *out, struct err *err);
};
extern const struct observation_kind observation_kinds[];
extern const int num_observation_kinds;

/* All rows of a job. Errors are: a set without rows, a row requested by id that cannot be
 * predicted, and a faulty file; a fault of fit.json has its line. Release in either case. */
bool observations_load(const struct fit_table *table, const struct fit_job *job,
                       struct observations *out, struct err *err);
void observations_release(struct observations *observations);

/* Sets the constant in every system that has it, and returns how many do. */
int observations_set(const struct observations *observations, const struct constant *constant,
                     double value);

/* Predicts the seconds of each row. The same on any number of jobs (threads). */
void observations_predict(const struct observations *observations, int jobs, double *out_s);

#endif
