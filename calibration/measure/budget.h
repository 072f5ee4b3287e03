/* calibration/measure/budget.h - how long each part of a pass may take, so that the whole ends in
 * time: each part states its time beforehand, and gets less when others took more. */
#ifndef CALIBRATION_MEASURE_BUDGET_H
#define CALIBRATION_MEASURE_BUDGET_H

#include <stdbool.h>

struct budget {
    double start_s, end_s; /* on base/clock.h's clock; the first part begins at the start */
    double all_s, ahead_s; /* expected for all parts, and for those not yet begun */
    double begun_s;        /* expected for the parts begun */
};

/* States a part's time, before any part begins. */
void budget_expect(struct budget *budget, double seconds);

/* Time granted to the next part: what it asked for, scaled down when the rest no longer fits; 0
 * when no time is left. */
double budget_take(struct budget *budget, double now_s, double expected_s);

/* Skips a part instead of taking its time. */
void budget_leave_out(struct budget *budget, double expected_s);

/* Time taken by the parts so far relative to the expected time, at least 1. Call it between
 * parts. */
double budget_pace(const struct budget *budget, double now_s);

/* Whether parts that expect `expected_s` end in time at this pace. */
bool budget_affords(const struct budget *budget, double now_s, double expected_s);

/* The remaining time of the pass at this pace, at most until its end, as parts can be skipped to
 * keep that. Call it between parts. */
double budget_left_s(const struct budget *budget, double now_s);

/* The number of repeats that fit into a part's time, between `least` and `most`. */
int budget_repeats(double fitting, int least, int most);

/* The share of all expected time that has been taken, 0 to 1. */
double budget_done(const struct budget *budget);

#endif
