/* calibration/fit/fit_table.h - calibration/fit.json: which constants are fitted on which rows.
 *
 * Jobs run in order; later ones use the results of earlier ones. A job starts from its priors,
 * never from its own constants of an earlier fit, so a fit reproduces the shipped files. */
#ifndef CALIBRATION_FIT_FIT_TABLE_H
#define CALIBRATION_FIT_FIT_TABLE_H

#include "base/arena.h"
#include "base/json.h"
#include "calibration/fit/constant.h"
#include "sim/cost/error_widths.h"

/* One constant to fit, starting at its prior, between its bounds, all above 0. */
struct fit_constant {
    struct constant constant;
    double prior, min, max;
    const char *source; /* where prior and bounds come from; "" */
};

/* Selects rows with this text in this column, or with a number from min to max. */
struct fit_filter {
    const char *column;
    const char *text; /* NULL: a number */
    double min, max;
};

/* Rows of one measured file. Their `weight` is shared evenly. */
struct fit_rows {
    char kind[24];    /* of observation_kinds */
    char data[256];   /* file in calibration/measured, or a path beginning with . or / */
    char name[40];    /* name in reports; "": the rows' source, or the file */
    char source[40];  /* only rows of this source_key; "": all */
    char cluster[48]; /* cluster that micro-benchmarks ran on; "" */
    char stack[48];   /* stack whose attention kernel ran */
    int sample, seed; /* number of rows drawn at random; 0: all */
    double weight;
    const char **ids; /* ids of the rows; NULL: all */
    int num_ids;
    struct fit_filter *filters; /* filters that all rows pass */
    int num_filters;
    char where[48]; /* "jobs[0].rows[1]", for messages */
};

struct fit_job {
    char name[40];
    char summary[256];
    double prior_weight; /* weight of one unit of log(constant / prior) */
    double loss_scale;   /* larger errors count by size, not by square */
    double cutoff;       /* larger errors have no further effect */
    bool is_middle; /* no rows: the middle of what other stacks have (calibration/fit/unseen.h) */
    struct fit_constant *constants;
    int num_constants;
    struct fit_rows *rows;
    int num_rows;
};

/* A curve of a profile's "collectives" (calibration/fit/curve_fit.h). */
struct fit_curve {
    char file[64];      /* "profiles/NAME" */
    struct curve curve; /* without its times: the sizes are the knots */
    struct fit_job job; /* rows alone */
};

/* Rules of the interval widths (calibration/fit/widths.h). */
struct width_rules {
    double prior_rows; /* number of rows that a prior counts as; 0: intervals are not fitted */
    double cutoff;     /* larger errors count as this */
    struct error_widths prior;
};

struct fit_table {
    struct arena arena;
    struct width_rules intervals;
    struct json_file file; /* for messages */
    struct fit_job *jobs;
    int num_jobs;
    struct fit_curve *curves;
    int num_curves;
    const char *left_out; /* source whose rows count for nothing; NULL: none; not in the file */
};

/* NULL: the shipped one. A fault is ERR_INPUT with FILE:LINE: key. Release it in either case. */
bool fit_table_load(const char *path, struct fit_table *out, struct err *err);
void fit_table_release(struct fit_table *table);

/* NULL, with the nearest name in the error (ERR_USAGE), when no job has that name. */
const struct fit_job *fit_table_find(const struct fit_table *table, const char *name,
                                     struct err *err);

/* Keys of the file, for the reference page. */
extern const struct field fit_table_fields[], fit_job_fields[], fit_constant_fields[],
    fit_rows_fields[], fit_curve_fields[], width_rules_fields[];
extern const size_t num_fit_table_fields, num_fit_job_fields, num_fit_constant_fields,
    num_fit_rows_fields, num_fit_curve_fields, num_width_rules_fields;

#endif
