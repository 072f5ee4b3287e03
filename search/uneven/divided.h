/* search/uneven/divided.h - a division of layers as a plan, in the shortest words for it. */
#ifndef SEARCH_UNEVEN_DIVIDED_H
#define SEARCH_UNEVEN_DIVIDED_H

#include "search/uneven/stages.h"

/* The point's plan with layers[stage] and, where its recompute is block:N, recomputed[stage] of
 * them run again. Lists are borrowed; equal ones leave no list. */
struct plan division_plan(const struct plan *point, const int *layers, const int *recomputed);

/* Whether the space of even chunks has the plan. */
bool division_is_known(const struct plan *plan);

/* What the table's options run again: recomputed[stage]. */
void division_recomputes(const struct stage_table *table, const int *layers, int *recomputed);

#endif
