/* cli/views/pareto_view.h - "search --pareto": plans that no other plan dominates. */
#ifndef CLI_VIEWS_PARETO_VIEW_H
#define CLI_VIEWS_PARETO_VIEW_H

#include "cli/input/setup.h"
#include "search/search.h"

/* Rejects options that need a single answer. */
bool check_pareto_options(const struct options *options, struct err *err);

/* Searches and prints; returns the exit code. */
int answer_pareto(const struct options *options, const struct setup *setup,
                  struct search_request *request, struct err *err);

#endif
