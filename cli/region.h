/* cli/region.h - "search --robust region": the constants that `fit` found, with their standard
 * errors. */
#ifndef CLI_REGION_H
#define CLI_REGION_H

#include "cli/input/setup.h"
#include "search/questions/region.h"

/* The region of the answer's best plan, released by region_release; NULL if it was not requested or
 * the search found no plan. */
bool find_region(const struct options *options, struct setup *setup,
                 const struct search_request *request, const struct search_result *result,
                 struct region **out, struct err *err);

#endif
