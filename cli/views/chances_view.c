#include "cli/views/chances_view.h"

#include "base/arena.h"
#include "sim/engine/chances.h"

#include <stdio.h>
#include <stdlib.h>

/* Smaller chances are not shown. */
static const double least_told = 0.05;

double *top_chances(const struct system *system, const struct search_result *result)
{
    size_t room = (size_t)result->num_top + 1;
    struct rival_time *rivals = arena_grow(NULL, room * sizeof *rivals);
    double *chance = arena_grow(NULL, room * sizeof *chance);
    for (int i = 0; i < result->num_top; i++) {
        const struct prediction *p = &result->top[i].prediction;
        rivals[i] = (struct rival_time){ p->step_s, &p->time };
    }
    chances_of_best(system, rivals, result->num_top, chance);
    free(rivals);
    return chance;
}

void show_chances(const struct system *system, const struct search_result *result)
{
    if (result->num_top < 2)
        return;
    double *chance = top_chances(system, result);
    printf("  chance that each is the fastest, if the errors of all costs are drawn at random:");
    for (int i = 0, told = 0; i < result->num_top; i++)
        if (i == 0 || chance[i] >= least_told)
            printf("%s #%d %.0f %%", told++ > 0 ? "," : "", i + 1, 100 * chance[i]);
    printf("\n");
    free(chance);
}
