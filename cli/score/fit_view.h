/* cli/score/fit_view.h - prints results of fits as text or JSON. */
#ifndef CLI_SCORE_FIT_VIEW_H
#define CLI_SCORE_FIT_VIEW_H

#include "calibration/fit/fitted_file.h"

/* Prints each job's constants, errors and correlations, then curves and intervals. */
void fit_print(const struct findings *found);

/* Prints {"jobs": [...]}, with "curves" and "intervals" if they were fitted. */
void fit_print_json(const struct findings *found);

#endif
