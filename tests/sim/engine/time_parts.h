/* tests/sim/engine/time_parts.h - checks the parts of a step's time. */
#ifndef TESTS_SIM_ENGINE_TIME_PARTS_H
#define TESTS_SIM_ENGINE_TIME_PARTS_H

#include "sim/engine/simulate.h"

/* Checks that no part is negative and that they sum to the step; `what` is for the message. */
void check_time_parts(const struct prediction *p, const char *what);

#endif
