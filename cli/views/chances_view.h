/* cli/views/chances_view.h - the probability that each plan shown is the fastest of them. */
#ifndef CLI_VIEWS_CHANCES_VIEW_H
#define CLI_VIEWS_CHANCES_VIEW_H

#include "search/search.h"
#include "sim/cost/hardware.h"

/* The probability of each plan of result->top to be the fastest. The caller frees the array. */
double *top_chances(const struct system *system, const struct search_result *result);

/* Prints the probabilities: "chance that each is the fastest ...: #1 41 %, #2 22 %, #3 10 %". */
void show_chances(const struct system *system, const struct search_result *result);

#endif
