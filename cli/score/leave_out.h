/* cli/leave_out.h - `fit --leave-out`: each source predicted by a fit that has not seen it. */
#ifndef CLI_LEAVE_OUT_H
#define CLI_LEAVE_OUT_H

#include "base/err.h"
#include "calibration/fit_table.h"
#include "cli/options.h"

/* Prints the errors of one source, or of all; `-o` keeps those of all as left_out.json. */
bool leave_out_show(const struct fit_table *table, const struct options *options, struct err *err);

#endif
