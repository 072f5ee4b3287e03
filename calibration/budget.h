/* calibration/budget.h - how long the parts of a pass may take, so that the whole of it ends in
 * time: each says beforehand what it takes, and gets less when others took more. */
#ifndef CALIBRATION_BUDGET_H
#define CALIBRATION_BUDGET_H

#include <stdbool.h>

struct budget {
    double start_s, end_s; /* on base/clock.h's clock; the first part begins at the start */
    double all_s, ahead_s; /* expected of all parts, and of those that have not begun */
    double begun_s;        /* expected of those that have */
};

/* Beforehand, for every part. */
void budget_expect(struct budget *budget, double seconds);

/* When a part begins of which `expected_s` were expected: those, or its share of what is left when
 * that is less than what is ahead; 0 when nothing is. */
double budget_take(struct budget *budget, double now_s, double expected_s);

/* Instead of taking it: the part is left out. */
void budget_leave_out(struct budget *budget, double expected_s);

/* How many times longer than expected the parts so far took, 1 or more; when none is under way. */
double budget_pace(const struct budget *budget, double now_s);

/* Whether parts of which so much was expected end in time, at this pace. */
bool budget_affords(const struct budget *budget, double now_s, double expected_s);

/* What is left, at this pace, when none is under way: no more than until the end, while parts can
 * be left out to keep it. */
double budget_left_s(const struct budget *budget, double now_s);

/* Of repeats, as many as fit into a part's time by what one takes, within limits. */
int budget_repeats(double fitting, int least, int most);

/* What of all that was expected has been taken, 0 to 1. */
double budget_done(const struct budget *budget);

#endif
