/* tests/sim/plan/feature_axis.h - a parallel axis that no framework has. It shows that a new axis
 * needs only a file with its row, and a line in a table of axes. */
#ifndef TESTS_SIM_PLAN_FEATURE_AXIS_H
#define TESTS_SIM_PLAN_FEATURE_AXIS_H

#include "sim/plan/axis.h"

enum { AXIS_FEATURE = NUM_NAMED_AXES };
extern const struct axis feature_axis;

#endif
