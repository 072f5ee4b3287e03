/* calibration/budget.h - how long each part of a pass may take, so that the whole ends in time:
 * each part states its time beforehand, and gets less when others took more. */
#ifndef CALIBRATION_BUDGET_H
#define CALIBRATION_BUDGET_H

#include <stdbool.h>

struct budget {
    double start_s, end_s; /* on base/clock.h's clock; the first part begins at the start */
    double all_s, ahead_s; /* expected for all parts, and for those that have not begun */
    double begun_s;        /* expected for those that have */
};

/* States a part's time, before any part begins. */
void budget_expect(struct budget *budget, double seconds);

/* Time granted to the next part: what it asked for, scaled down when the rest no longer fits; 0
 * when no time is left. */
double budget_take(struct budget *budget, double now_s, double expected_s);

/* Leaves a part out instead of taking its time. */
void budget_leave_out(struct budget *budget, double expected_s);

/* How many times longer than expected the parts so far took, at least 1. No part is under way. */
double budget_pace(const struct budget *budget, double now_s);

/* Whether parts that expect so much end in time, at this pace. */
bool budget_affords(const struct budget *budget, double now_s, double expected_s);

/* The pass still takes so long, at this pace: no longer than to its end, as parts can be left out
 * to keep that. No part is under way. */
double budget_left_s(const struct budget *budget, double now_s);

/* Repeats that fit into a part's time, within limits. */
int budget_repeats(double fitting, int least, int most);

/* The share of all expected time that has been taken, 0 to 1. */
double budget_done(const struct budget *budget);

#endif
