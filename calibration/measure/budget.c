/* Divides the time limit of a calibration among its parts. */
#include "calibration/measure/budget.h"

#include <math.h>

void budget_expect(struct budget *budget, double seconds)
{
    budget->all_s += seconds;
    budget->ahead_s += seconds;
}

double budget_take(struct budget *budget, double now_s, double expected_s)
{
    double left_s = fmax(0, budget->end_s - now_s);
    double share = budget->ahead_s > left_s ? left_s / budget->ahead_s : 1;
    budget->ahead_s = fmax(0, budget->ahead_s - expected_s);
    budget->begun_s += expected_s;
    return share * expected_s;
}

void budget_leave_out(struct budget *budget, double expected_s)
{
    budget->ahead_s = fmax(0, budget->ahead_s - expected_s);
}

double budget_pace(const struct budget *budget, double now_s)
{
    double took_s = now_s - budget->start_s;
    return budget->begun_s > 0 ? fmax(1, took_s / budget->begun_s) : 1;
}

bool budget_affords(const struct budget *budget, double now_s, double expected_s)
{
    return now_s + budget_pace(budget, now_s) * expected_s <= budget->end_s;
}

double budget_left_s(const struct budget *budget, double now_s)
{
    double paced_s = budget_pace(budget, now_s) * budget->ahead_s;
    return now_s < budget->end_s ? fmin(paced_s, budget->end_s - now_s) : paced_s;
}

int budget_repeats(double fitting, int least, int most)
{
    return fitting < least ? least : fitting > most ? most : (int)fitting;
}

double budget_done(const struct budget *budget)
{
    return budget->all_s > 0 ? 1 - budget->ahead_s / budget->all_s : 0;
}
