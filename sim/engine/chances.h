/* sim/engine/chances.h - how likely each of several plans is the fastest.
 *
 * The errors of calibrated constants are the same for all plans on one system. So a draw gives each
 * class of a step's time (computing, tensor collectives, the bubble ...) one factor, normal in log
 * time, which multiplies that part of every plan. The factor has a quarter of the variance that the
 * stack's interval widths state. For a stack or a GPU that was never measured, the factor of
 * computing also has the variance of the error that all its runs have in common (tier.h). The rest
 * of the variance is independent for each plan. A quarter was chosen because on measured runs
 * (calibration/score/choice.h) the Brier score is 0.25 with a quarter and 0.29 with three quarters.
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

/* out[i] is the share of the draws in which plan i is the fastest; the shares add up to 1. The seed
 * is fixed, so equal arguments give equal shares. */
void chances_of_best(const struct system *system, const struct rival_time *rivals, int count,
                     double *out);

/* The two kinds of error, as half widths of 90 % intervals of log time. chance_class_width: the
 * error of the factor of class k > 0. chance_own_width: a plan's own error, from its
 * interval_shares. */
double chance_class_width(const struct system *system, int k);
double chance_own_width(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS]);

#endif
