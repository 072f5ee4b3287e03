/* calibration/fit/fit_table.h - calibration/fit.json: which constants are fitted on which rows
 * (measured runs or micro-benchmarks).
 *
 * Jobs run in order; later jobs use the results of earlier ones. Each run of `fit` starts from the
 * priors and not from constants that an earlier run wrote, so it reproduces the shipped files. */
#ifndef CALIBRATION_FIT_FIT_TABLE_H
#define CALIBRATION_FIT_FIT_TABLE_H

#include "base/arena.h"
#include "base/json.h"
#include "calibration/fit/constant.h"
#include "sim/cost/error_widths.h"

/* One constant to fit. Its prior is the start; prior and bounds are above 0. */
struct fit_constant {
    struct constant constant;
    double prior, min, max;
    const char *source; /* where prior and bounds come from; may be "" */
};

/* Selects rows with this text in a column, or with a number from min to max. */
struct fit_filter {
    const char *column;
    const char *text; /* NULL: the column is a number */
    double min, max;
};

/* Rows of one measured file. Each gets an equal part of `weight`. */
struct fit_rows {
    char kind[24];    /* a name in observation_kinds */
    char data[256];   /* file in calibration/measured, or a path beginning with . or / */
    char name[40];    /* name in reports; "": the rows' source, or the file */
    char source[40];  /* only rows of this source_key; "": all */
    char cluster[48]; /* cluster on which micro-benchmarks ran; else "" */
    char stack[48];   /* stack whose attention kernel ran */
    int sample, seed; /* number of rows drawn at random; 0: all */
    double weight;
    const char **ids; /* ids of the rows; NULL: all */
    int num_ids;
    struct fit_filter *filters; /* filters that each row must pass */
    int num_filters;
    char where[48]; /* place in the file for messages, such as "jobs[0].rows[1]" */
};

struct fit_job {
    char name[40];
    char summary[256];
    double prior_weight; /* weight of a constant's deviation, log(constant / prior), relative to the
                            errors of rows */
    double loss_scale;   /* errors above this count by their size instead of their square */
    double cutoff;       /* errors above this have the effect of this error */
    /* the job has no rows; its constants are medians over other stacks
     * (calibration/fit/unseen.h) */
    bool is_middle;
    struct fit_constant *constants;
    int num_constants;
    struct fit_rows *rows;
    int num_rows;
};

/* A curve of a profile's "collectives" (calibration/fit/curve_fit.h). */
struct fit_curve {
    char file[64];      /* in the form "profiles/NAME" */
    struct curve curve; /* the curve without times; its sizes are the knots */
    struct fit_job job; /* only its rows are used */
};

/* Rules of the interval widths (calibration/fit/widths.h). */
struct width_rules {
    double prior_rows; /* weight of a prior in rows; 0: intervals are not fitted */
    double cutoff;     /* errors above this count as this error */
    struct error_widths prior;
};

/* A layout that is known to have run, and so did not run out of memory
 * (calibration/fit/held_peaks.h). */
struct fit_ran {
    char stack[48], cluster[48], model[48], layout[256];
    int gpus, seq;
    double batch; /* in sequences */
};

struct fit_table {
    struct arena arena;
    struct width_rules intervals;
    struct json_file file; /* for messages */
    struct fit_job *jobs;
    int num_jobs;
    struct fit_curve *curves;
    int num_curves;
    struct fit_ran *ran;
    int num_ran;
    const char *left_out; /* source whose rows have weight 0; NULL: none; not read from the file */
};

/* Loads a table; `path` NULL: the shipped one. A faulty file is ERR_INPUT with FILE:LINE: key.
 * Release the table also after an error. */
bool fit_table_load(const char *path, struct fit_table *out, struct err *err);
void fit_table_release(struct fit_table *table);

/* The job with this name. NULL if there is none; the error (ERR_USAGE) names the nearest one. */
const struct fit_job *fit_table_find(const struct fit_table *table, const char *name,
                                     struct err *err);

/* Keys of the file, for the reference page. */
extern const struct field fit_table_fields[], fit_job_fields[], fit_constant_fields[],
    fit_rows_fields[], fit_curve_fields[], width_rules_fields[], fit_ran_fields[];
extern const size_t num_fit_table_fields, num_fit_job_fields, num_fit_constant_fields,
    num_fit_rows_fields, num_fit_curve_fields, num_width_rules_fields, num_fit_ran_fields;

#endif
