/* calibration/measure/refine.h - scales a profile's kernel tables to a run's measurements. */
#ifndef CALIBRATION_MEASURE_REFINE_H
#define CALIBRATION_MEASURE_REFINE_H

#include "sim/cost/hardware.h"

/* Measured time / predicted time of the ops of each kind; the tables are scaled by it. */
struct refinement {
    double factor[NUM_OP_KINDS]; /* 1: not measured, not predicted, or no table */
};

/* `run` is the output of `run --json`, `ran` all ops of its lists. One run is little evidence:
 * shapes unlike those that ran keep their times, and a kind that is off by more than a factor of
 * four counts as disturbed and is left unchanged. A run whose ranks got less than quiet_core_share
 * of a core is refused; where = the missing or wrong key. */
bool refine_profile(const json_t *run, const struct ops *ran, struct profile *profile,
                    struct refinement *out, struct err *err);

#endif
