/* cli/score/leave_out.h - `fit --leave-out`: predicts each source by a fit on the other sources. */
#ifndef CLI_SCORE_LEAVE_OUT_H
#define CLI_SCORE_LEAVE_OUT_H

#include "base/err.h"
#include "calibration/fit/fit_table.h"
#include "cli/input/options.h"

/* Prints the errors of one source, or of all; `-o` writes the errors of all as left_out.json. */
bool leave_out_show(const struct fit_table *table, const struct options *options, struct err *err);

#endif
