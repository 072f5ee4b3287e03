/* calibration/fit/unseen.h - constants of a stack that was never measured.
 *
 * Its constants are the medians of those that were fitted for measured stacks. The median is used
 * because it changes little when one stack is unusual or when one source (publication) is left out
 * of the fit. The spread between stacks is the error to expect. */
#ifndef CALIBRATION_FIT_UNSEEN_H
#define CALIBRATION_FIT_UNSEEN_H

#include "calibration/fit/fit_result.h"

enum { FEWEST_STACKS = 2 }; /* with fewer stacks the prior is used instead of the median */

struct unseen {
    double value;
    double spread; /* standard deviation of the logarithm between stacks */
    int stacks;
};

/* The median, over other files, of the constants with the same key that measured rows have
 * determined; false if there are too few. */
bool unseen_find(const struct constant *of, const struct fit_result *results, int num_results,
                 struct unseen *out);

/* Fills in the values of a job with is_middle (fit_table.h). */
bool unseen_fill(const struct fit_result *earlier, int num_earlier, struct fit_result *out,
                 struct err *err);

/* For stacks on which no row ran: the constants whose keys are listed by jobs with is_middle become
 * those of an unseen stack. Other fitted constants of these stacks, such as the time of a launch,
 * keep their priors. */
void unseen_replace(struct fit_result *results, int num_results);

#endif
