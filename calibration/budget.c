#include "calibration/budget.h"

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
    return share * expected_s;
}

int budget_repeats(double fitting, int least, int most)
{
    return fitting < least ? least : fitting > most ? most : (int)fitting;
}

double budget_done(const struct budget *budget)
{
    return budget->all_s > 0 ? 1 - budget->ahead_s / budget->all_s : 0;
}
