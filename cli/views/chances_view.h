/* cli/views/chances_view.h - how likely each plan that is shown is the fastest of them. */
#ifndef CLI_VIEWS_CHANCES_VIEW_H
#define CLI_VIEWS_CHANCES_VIEW_H

#include "search/search.h"
#include "sim/cost/hardware.h"

/* The chance of each plan of result->top to be the fastest; the caller frees. */
double *top_chances(const struct system *system, const struct search_result *result);

/* "fastest of these with 41, 22 and 10 % ..." */
void show_chances(const struct system *system, const struct search_result *result);

#endif
