/* calibration/budget.h - how long the parts of a pass may take, so that the whole of it ends in
 * time: each says beforehand what it takes, and gets less when others took more. */
#ifndef CALIBRATION_BUDGET_H
#define CALIBRATION_BUDGET_H

struct budget {
    double end_s;          /* on base/clock.h's clock */
    double all_s, ahead_s; /* expected of all parts, and of those that have not begun */
};

/* Beforehand, for every part. */
void budget_expect(struct budget *budget, double seconds);

/* When a part begins of which `expected_s` were expected: those, or its share of what is left when
 * that is less than what is ahead; 0 when nothing is. */
double budget_take(struct budget *budget, double now_s, double expected_s);

/* Of repeats, as many as fit into a part's time by what one takes, within limits. */
int budget_repeats(double fitting, int least, int most);

/* What of all that was expected has been taken, 0 to 1. */
double budget_done(const struct budget *budget);

#endif
