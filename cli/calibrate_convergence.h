/* cli/calibrate_convergence.h - "calibrate --convergence RUN.json": see there. */
#ifndef CLI_CALIBRATE_CONVERGENCE_H
#define CLI_CALIBRATE_CONVERGENCE_H

#include "base/err.h"
#include "cli/options.h"

/* Of --convergence and the files behind it; the exit code. */
int calibrate_convergence(const struct options *options, struct err *err);

#endif
