/* search/uneven/divided.h - writes a division of layers into a plan, with the shortest layout. */
#ifndef SEARCH_UNEVEN_DIVIDED_H
#define SEARCH_UNEVEN_DIVIDED_H

#include "search/space.h"
#include "search/uneven/stages.h"

/* The point's plan with layers[stage] layers on each stage. With recompute block:N,
 * recomputed[stage] of these layers are recomputed. In a point that lists modules for each stage
 * (plan_lists_parts), recomputed[stage] is the stage's set of recomputed modules. A point is a plan
 * whose division of layers is open. Lists are borrowed; a list of equal numbers is omitted. */
struct plan division_plan(const struct plan *point, const int *layers, const int *recomputed);

/* The point's plan with the given layers of each chunk, for points whose divisions are dealt
 * (uneven/deal.h). The list is borrowed, and omitted if all its numbers are equal. */
struct plan dealt_plan(const struct plan *point, const int *chunks);

/* Whether the space already contains the plan before uneven divisions are added to it. */
bool division_is_known(const struct space *space, const struct plan *plan);

/* Fills recomputed[stage] with the number of layers, or the set of modules, that the table's
 * options recompute. */
void division_recomputes(const struct stage_table *table, const int *layers, int *recomputed);

#endif
