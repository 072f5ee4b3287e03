/* tests/sim/plan/feature_axis.h - an axis that no framework has, to show what a further one takes:
 * a file with its row, and a line in a table of axes. */
#ifndef TESTS_SIM_PLAN_FEATURE_AXIS_H
#define TESTS_SIM_PLAN_FEATURE_AXIS_H

#include "sim/plan/axis.h"

enum { AXIS_FEATURE = NUM_NAMED_AXES };
extern const struct axis feature_axis;

#endif
