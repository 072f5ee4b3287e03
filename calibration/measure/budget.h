/* calibration/measure/budget.h - divides the time limit of a calibration among its parts. Each part
 * states its expected time beforehand, and gets less when earlier parts took longer than
 * expected. */
#ifndef CALIBRATION_MEASURE_BUDGET_H
#define CALIBRATION_MEASURE_BUDGET_H

#include <stdbool.h>

struct budget {
    double start_s, end_s; /* times by base/clock.h; the first part begins at start_s */
    double all_s, ahead_s; /* expected time of all parts, and of those not yet begun */
    double begun_s;        /* expected time of the parts that have begun */
};

/* Adds a part's expected time; call it before any part begins. */
void budget_expect(struct budget *budget, double seconds);

/* Time granted to the next part: its expected time, scaled down when the remaining parts no longer
 * fit; 0 when no time is left. */
double budget_take(struct budget *budget, double now_s, double expected_s);

/* Call it for a part that is skipped: its expected time becomes available to later parts. */
void budget_leave_out(struct budget *budget, double expected_s);

/* Time taken by the parts so far relative to the expected time, at least 1. Call it between
 * parts. */
double budget_pace(const struct budget *budget, double now_s);

/* Whether parts with an expected time of `expected_s` would end in time at the pace so far. */
bool budget_affords(const struct budget *budget, double now_s, double expected_s);

/* The remaining time of the calibration at the pace so far, at most until end_s, as parts are
 * skipped to end by then. Call it between parts. */
double budget_left_s(const struct budget *budget, double now_s);

/* The number of repeats that fit into a part's time, between `least` and `most`. */
int budget_repeats(double fitting, int least, int most);

/* The share of all expected time that has been taken, 0 to 1. */
double budget_done(const struct budget *budget);

#endif
