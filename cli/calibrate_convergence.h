/* cli/calibrate_convergence.h - "calibrate --convergence RUN.json": fits the constants of
 * convergence on runs. */
#ifndef CLI_CALIBRATE_CONVERGENCE_H
#define CLI_CALIBRATE_CONVERGENCE_H

#include "base/err.h"
#include "cli/input/options.h"

/* Fits on --convergence's file and the files that follow it. Returns the exit code. */
int calibrate_convergence(const struct options *options, struct err *err);

#endif
