/* Lower bounds of the surrogate (an estimate of the step time, division.h) that hold for every
 * division of the layers over the stages. */
#include "base/statistics.h"
#include "search/milp/division.h"

#include <math.h>
#include <stdlib.h>

/* The longest time that any stage needs. A stage needs the time until its first microbatch arrives,
 * plus all its passes. It also needs that time, plus its passes without weight gradients, plus the
 * time until its last gradient reaches the first stage. */
static double any_order_s(const struct division_problem *problem, const int *choice)
{
    double microbatches = problem->num_microbatches;
    double longest_s = 0, ahead_s = 0, way_s = 0;
    for (int stage = 0; stage < problem->num_stages; stage++) {
        const struct stage_choice *chosen = &problem->stages[stage].at[choice[stage]];
        longest_s = fmax(longest_s, ahead_s + microbatches * chosen->pass_s);
        longest_s = fmax(longest_s, way_s + microbatches * (chosen->pass_s - chosen->weights_s));
        ahead_s += chosen->ahead_s;
        way_s += chosen->way_s;
    }
    return longest_s;
}

double division_surrogate_s(const struct division_problem *problem, const int *choice)
{
    if (problem->in_any_order)
        return any_order_s(problem, choice);
    double sum_s = 0;
    double longest_s = 0;
    for (int stage = 0; stage < problem->num_stages; stage++) {
        double pass_s = problem->stages[stage].at[choice[stage]].pass_s;
        sum_s += pass_s;
        longest_s = fmax(longest_s, pass_s);
    }
    return sum_s + (problem->num_microbatches - 1) * longest_s;
}

/* Adds one stage to least[k], the least sum of the passes of all stages so far if they have k
 * layers in total. */
static void add_stage(const struct stage_choices *choices, int num_layers, const double *least,
                      double *longer)
{
    for (int k = 0; k <= num_layers; k++)
        longer[k] = HUGE_VAL;
    for (int i = 0; i < choices->count; i++) {
        const struct stage_choice *choice = &choices->at[i];
        bool is_anywhere = choice->first == ANY_FIRST;
        int least_k = choice->layers + (is_anywhere ? 0 : choice->first);
        for (int k = least_k; k <= (is_anywhere ? num_layers : least_k); k++)
            longer[k] = fmin(longer[k], least[k - choice->layers] + choice->pass_s);
    }
}

double division_least_sum_s(const struct division_problem *problem)
{
    size_t room = (size_t)problem->num_layers + 1;
    double *least = arena_grow(NULL, room * sizeof *least);
    double *longer = arena_grow(NULL, room * sizeof *longer);
    for (size_t k = 0; k < room; k++)
        least[k] = k == 0 ? 0 : HUGE_VAL;
    for (int stage = 0; stage < problem->num_stages; stage++) {
        add_stage(&problem->stages[stage], problem->num_layers, least, longer);
        double *kept = least;
        least = longer;
        longer = kept;
    }
    double sum_s = least[problem->num_layers];
    free(least);
    free(longer);
    return sum_s;
}

/* The largest number of layers that all stages together hold within a pass of `longest_s`; -1 when
 * a stage has no choice left. */
static int most_layers(const struct division_problem *problem, double longest_s)
{
    int layers = 0;
    for (int stage = 0; stage < problem->num_stages; stage++) {
        const struct stage_choices *choices = &problem->stages[stage];
        int most = -1;
        for (int i = 0; i < choices->count; i++)
            if (choices->at[i].pass_s <= longest_s && choices->at[i].layers > most)
                most = choices->at[i].layers;
        if (most < 0)
            return -1;
        layers += most;
    }
    return layers;
}

/* The first of the sorted passes within which the stages hold all layers. */
static double first_that_holds_s(const struct division_problem *problem, const double *passes,
                                 size_t count)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (most_layers(problem, passes[middle]) >= problem->num_layers)
            high = middle;
        else
            low = middle + 1;
    }
    return low < count ? passes[low] : HUGE_VAL;
}

double division_least_longest_s(const struct division_problem *problem)
{
    size_t count = 0;
    for (int stage = 0; stage < problem->num_stages; stage++)
        count += (size_t)problem->stages[stage].count;
    double *passes = arena_grow(NULL, (count + 1) * sizeof *passes);
    count = 0;
    for (int stage = 0; stage < problem->num_stages; stage++)
        for (int i = 0; i < problem->stages[stage].count; i++)
            passes[count++] = problem->stages[stage].at[i].pass_s;
    numbers_sort(passes, count);
    double longest_s = first_that_holds_s(problem, passes, count);
    free(passes);
    return longest_s;
}
