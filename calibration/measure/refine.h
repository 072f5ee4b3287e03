/* calibration/measure/refine.h - scales a profile's kernel tables to a run's measurements. */
#ifndef CALIBRATION_MEASURE_REFINE_H
#define CALIBRATION_MEASURE_REFINE_H

#include "sim/cost/hardware.h"

/* Measured time divided by predicted time of the ops of each kind. The tables are scaled by these
 * factors. */
struct refinement {
    /* 1 if the kind was not measured, not predicted, or has no table */
    double factor[NUM_OP_KINDS];
};

/* Scales the profile's tables. `run` is the output of `run --json`; `ran` contains all ops of the
 * run. Shapes unlike those that ran keep their times. A kind of op whose factor is above 4 or below
 * 1/4 is taken to be disturbed and is not changed. A run whose ranks got less than quiet_core_share
 * of a core is refused. On error err->where is the missing or wrong key. */
bool refine_profile(const json_t *run, const struct ops *ran, struct profile *profile,
                    struct refinement *out, struct err *err);

#endif
