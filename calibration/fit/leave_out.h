/* calibration/fit/leave_out.h - errors of a source that no constant has seen.
 *
 * All jobs of fit.json run without the source's rows. A stack that no other row ran on then has
 * what an unseen stack has (calibration/fit/unseen.h), a GPU's constants fall back to their priors.
 */
#ifndef CALIBRATION_FIT_LEAVE_OUT_H
#define CALIBRATION_FIT_LEAVE_OUT_H

#include "calibration/fit/families.h"
#include "sim/engine/tier.h"

/* A scored configuration of the source. */
struct left_out_row {
    const char *id;
    enum tier tier; /* without the source */
    double error;   /* log(predicted / measured) */
    double width;   /* half width of a row's own scatter, in log time, by held-out rows of others */
    bool is_dense;
};

struct left_out {
    struct arena arena;
    const char *source;
    struct fit_result *results; /* of all jobs, without it */
    int num_results;
    struct left_out_row *rows;
    int num_rows;
    struct score dense;
};

/* Release in either case. ERR_USAGE when there is no such source. */
bool leave_out(const struct fit_table *table, const char *source, int jobs, struct left_out *out,
               struct err *err);
void left_out_release(struct left_out *left_out);

/* The tier of most of the source's dense rows. */
enum tier left_out_tier(const struct left_out *of);

#endif
