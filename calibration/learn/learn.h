/* calibration/learn/learn.h - a stack's ratio of times, learned from the user's own runs.
 *
 * The logarithm of a row's measured / predicted time is its source's shift plus the row's own
 * scatter, both normal. Leaving sources out in turn gives both variances: between sources, and
 * within them (calibration/left_out.json). n rows with mean y then shrink to the prior m as
 * (m / shift^2 + n y / scatter^2) / (1 / shift^2 + n / scatter^2), the normal-normal posterior
 * (Gelman et al., Bayesian Data Analysis, 2.5). Dense models and those with experts are learned
 * apart. */
#ifndef CALIBRATION_LEARN_LEARN_H
#define CALIBRATION_LEARN_LEARN_H

#include "calibration/fit/shifts.h"
#include "sim/cost/learned.h"

/* Standard deviations in log time. */
struct learn_prior {
    double shift;   /* between sources */
    double scatter; /* of rows within a source */
    int sources;    /* number of sources both were measured on */
};

enum { FEWEST_SHIFT_ROWS = 4 }; /* fewer rows of a source show no scatter */
/* A run this many times as fast or slow as predicted is not the run that was described. */
extern const double most_learned_factor;

/* From all sources but one (NULL: all); ERR_INPUT when too few are left. */
bool learn_prior_find(const struct source_shifts *shifts, const char *without,
                      struct learn_prior *out, struct err *err);

struct lesson {
    struct learned_stack *after; /* in the overlay */
    double ratio_before, error_before;
};

struct lessons {
    struct learned overlay; /* earlier lessons with the new ones; the caller releases it */
    struct lesson *at;      /* what changed; in the overlay's arena */
    int count;
    const char **reason; /* by case, why it was not used; "": it was */
    int used;
};

/* `predictions` are those of the shipped constants. `earlier`: what was learned before, the prior
 * of these runs; NULL: nothing. */
void learn_from(const struct run_case *cases, const struct run_prediction *predictions, int count,
                const struct learn_prior *prior, const struct learned *earlier,
                struct lessons *out);

#endif
