/* calibration/refine.h - a profile's tables of kernels, scaled to a run's measurements. */
#ifndef CALIBRATION_REFINE_H
#define CALIBRATION_REFINE_H

#include "sim/cost/hardware.h"

/* How many times longer than predicted the ops of a kind took; the tables are scaled by it. */
struct refinement {
    double factor[NUM_OP_KINDS]; /* 1: nothing measured, nothing predicted, or no table */
};

/* `run` is what `run --json` prints, `ran` all ops of its lists. One run is little evidence: shapes
 * unlike those that ran keep their times, and a kind that is off by more than four times is taken
 * as disturbed and stays as it is. A run whose ranks got less than quiet_core_share of a core is
 * refused. where = the key that is missing or wrong. */
bool refine_profile(const json_t *run, const struct ops *ran, struct profile *profile,
                    struct refinement *out, struct err *err);

#endif
