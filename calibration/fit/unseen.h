/* calibration/fit/unseen.h - constants of a stack that was never measured.
 *
 * It is no ideal one: it has the median of what was found for stacks that were measured. The
 * median, because a family whose times were traced or composed stands far from the others, and
 * because it moves little when a source is left out. The spread between stacks is what it may be
 * off by. */
#ifndef CALIBRATION_FIT_UNSEEN_H
#define CALIBRATION_FIT_UNSEEN_H

#include "calibration/fit/fit_result.h"

enum { FEWEST_STACKS = 3 }; /* fewer tell no middle: the prior stays */

struct unseen {
    double value;
    double spread; /* standard deviation of the logarithm between stacks */
    int stacks;
};

/* From informed constants of the same key, those of the same files aside; false when there are
 * too few. */
bool unseen_find(const struct constant *of, const struct fit_result *results, int num_results,
                 struct unseen *out);

/* The values of a job of the middle. */
bool unseen_fill(const struct fit_result *earlier, int num_earlier, struct fit_result *out,
                 struct err *err);

/* Gives stacks that no row of the results ran on what an unseen stack has: of the keys that jobs of
 * the middle list. What else a fit finds of them, a launch's time for one, keeps its prior. */
void unseen_replace(struct fit_result *results, int num_results);

#endif
