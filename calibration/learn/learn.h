/* calibration/learn/learn.h - learns a factor on a stack's predicted times from the user's own
 * runs.
 *
 * A row is one measured run, a source the publication or user that it comes from. The logarithm of
 * a row's measured / predicted time is modelled as its source's shift plus the row's own scatter.
 * Sources that were left out of the fit in turn (calibration/left_out.json) give both: shifts have
 * a t distribution (shift_prior_find), which differs between new stacks, new GPUs, and stacks and
 * GPUs that were measured. Scatter has a t distribution with two degrees of freedom, as a few rows
 * of a source are far off for reasons of their own: of 1, 1.5, 2, 3, 5 and 30 degrees, 2 are the
 * likeliest for every set of sources with one left out. So a row far from the others hardly counts
 * (Lange, Little and Taylor 1989, Robust statistical modeling using the t distribution).
 *
 * The shift is the sum of a part that a source's rows on all GPUs share and, for each GPU that was
 * never measured, a part that only its rows share (a hierarchical model: Gelman et al. 2013,
 * Bayesian Data Analysis, chapter 5). The first has the distribution of a new stack's shift. The
 * square of the second's scale is what a new GPU's shift has in excess of a new stack's. So rows on
 * one new GPU change the factors of other GPUs less than its own. On GPUs that were measured all
 * rows have the same shift.
 *
 * The factors are the means of the posterior distribution, computed on a grid. Dense models and
 * models with experts are learned separately; versions of one stack (stack_family) together. */
#ifndef CALIBRATION_LEARN_LEARN_H
#define CALIBRATION_LEARN_LEARN_H

#include "calibration/fit/source_shifts.h"
#include "sim/cost/learned.h"

/* In log time. */
struct learn_prior {
    struct shift_prior of[NUM_TIERS]; /* of the shift, by tier */
    double width[NUM_TIERS];          /* half width of its 90 % interval in predictions */
    double core;    /* scale of the t distribution of rows within a source: half of them lie within
                       0.8165 of it */
    double scatter; /* standard deviation of nine tenths of these rows */
    int sources;    /* number of sources from which they were computed */
};

/* If a run is faster or slower than predicted by more than this factor, its description is taken to
 * be wrong. */
extern const double most_learned_factor;

/* The prior from all sources except `without` (NULL: all); ERR_INPUT if too few are left. */
bool learn_prior_find(const struct source_shifts *shifts, const char *without,
                      struct learn_prior *out, struct err *err);

/* The change of a GPU's factor by its new rows. */
struct lesson {
    struct learned_stack *after; /* a member of the overlay */
    int gpu;                     /* index in its `gpus` */
    double ratio_before, error_before;
    int rows;       /* number of rows used in this call */
    double widths;  /* sum of the half widths of these rows' own scatter */
    double *ratios; /* measured / predicted times of the GPU's rows */
};

struct lessons {
    /* earlier corrections together with the new ones; the caller releases it */
    struct learned overlay;
    int num_earlier;   /* its first entries are those of `earlier` */
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
