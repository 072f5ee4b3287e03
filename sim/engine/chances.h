/* sim/engine/chances.h - how likely each of several plans is the fastest.
 *
 * Constants are off alike for all plans on one system: a draw gives each class of a step's time
 * (computing, tensor collectives, the bubble ...) one factor, normal in log time, and every plan's
 * parts take it. That has a quarter of the variance of the stack's error widths, and the shift of a
 * stack or a GPU that was never measured, which is of computing. The rest is each plan's own. A
 * quarter, because on measured runs of one question (calibration/score/choice.h) the Brier score is
 * 0.25 with it and 0.29 with three quarters: constants that were fitted have left little in common.
 */
#ifndef SIM_ENGINE_CHANCES_H
#define SIM_ENGINE_CHANCES_H

#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"

struct rival_time {
    double step_s;
    const struct time_parts *parts;
};

enum { CHANCE_DRAWS = 1000 };

/* Shares of the draws in which each is the fastest; the same seed, the same draws. They add up
 * to 1.
 */
void chances_of_best(const struct system *system, const struct rival_time *rivals, int count,
                     double *out);

/* The two sorts of error, as half widths in log time that hold nine in ten: of the factor of class
 * k > 0, and of what is a rival's own, by its interval_shares. */
double chance_class_width(const struct system *system, int k);
double chance_own_width(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS]);

#endif
