/* calibration/learn/learn.h - learns a factor on a stack's predicted times from the user's own
 * runs.
 *
 * A row is one measured run, a source the publication or user that it comes from. The logarithm of
 * a row's measured / predicted time is modelled as its source's shift plus the row's own scatter,
 * both normal. Leaving sources out in turn gives both variances: between sources, and within them
 * (calibration/left_out.json). The mean y of n rows is combined with the prior mean m to (m /
 * shift^2 + n y / scatter^2) / (1 / shift^2 + n / scatter^2), the normal-normal posterior (Gelman
 * et al., Bayesian Data Analysis, 2.5). Dense models and models with experts are learned
 * separately.
 *
 * For a stack or a GPU that was never measured, the prior's shift is that of its interval
 * (interval_source_error), which differs between new stacks and new GPUs. */
#ifndef CALIBRATION_LEARN_LEARN_H
#define CALIBRATION_LEARN_LEARN_H

#include "calibration/fit/shifts.h"
#include "sim/cost/learned.h"

/* Standard deviations in log time. */
struct learn_prior {
    double shift;   /* between sources; used for stacks and GPUs that were measured */
    double scatter; /* of rows within a source */
    int sources;    /* number of sources from which both were computed */
};

enum { FEWEST_SHIFT_ROWS = 4 }; /* a source with fewer rows is not used for `scatter` */
/* If a run is faster or slower than predicted by more than this factor, its description is taken to
 * be wrong. */
extern const double most_learned_factor;

/* The prior from all sources except `without` (NULL: all); ERR_INPUT if too few are left. */
bool learn_prior_find(const struct source_shifts *shifts, const char *without,
                      struct learn_prior *out, struct err *err);

struct lesson {
    struct learned_stack *after; /* a member of the overlay */
    double ratio_before, error_before;
};

struct lessons {
    /* earlier corrections together with the new ones; the caller releases it */
    struct learned overlay;
    struct lesson *at; /* the changes; the array is in the overlay's arena */
    int count;
    const char **reason; /* per case, the reason why it was not used; "": it was used */
    int used;
};

/* `predictions` are made with the shipped constants. `earlier` has what was learned before, which
 * is the prior for these runs; NULL: nothing. */
void learn_from(const struct run_case *cases, const struct run_prediction *predictions, int count,
                const struct learn_prior *prior, const struct learned *earlier,
                struct lessons *out);

#endif
