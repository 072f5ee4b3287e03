/* calibration/fit/leave_out.h - the prediction errors of one source when no constant is fitted on
 * its rows. A row is a measured run, and its source is the paper or log that states it.
 *
 * All jobs of fit.json run without the source's rows. A row's tier says whether the remaining rows
 * include its stack and its GPU. A stack that no other row ran on then gets the constants of an
 * unseen stack (calibration/fit/unseen.h), and a GPU that no other row ran on gets its priors. */
#ifndef CALIBRATION_FIT_LEAVE_OUT_H
#define CALIBRATION_FIT_LEAVE_OUT_H

#include "calibration/fit/stack_widths.h"
#include "sim/engine/tier.h"

/* One scored row of the source. */
struct left_out_row {
    const char *id;
    enum tier tier; /* the row's tier when the source is left out */
    double error;   /* log(predicted / measured) */
    /* half width of a row's own scatter, in log time, from held-out rows of other sources */
    double width;
    double slice; /* logarithm of the columns of a rank's slice (interval_slice) */
    bool is_dense;
};

struct left_out {
    struct arena arena;
    const char *source;
    struct fit_result *results; /* results of all jobs, fitted without the source */
    int num_results;
    struct left_out_row *rows;
    int num_rows;
    struct score dense;
};

/* Fits without the source and predicts its rows. ERR_USAGE if there is no such source. Release the
 * result also after an error. */
bool leave_out(const struct fit_table *table, const char *source, int jobs, struct left_out *out,
               struct err *err);
void left_out_release(struct left_out *left_out);

/* The tier of most of the source's dense rows. */
enum tier left_out_tier(const struct left_out *of);

#endif
