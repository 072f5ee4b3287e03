/* cli/views/time_to_accuracy_view.h - "search --objective time-to-accuracy": searches exchange and
 * layout together. */
#ifndef CLI_VIEWS_TIME_TO_ACCURACY_VIEW_H
#define CLI_VIEWS_TIME_TO_ACCURACY_VIEW_H

#include "cli/input/setup.h"
#include "search/search.h"
#include "sim/campaign/time_to_accuracy.h"

/* Searches and prints; returns the exit code. */
int answer_accuracy(const struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err);

/* Adds the evidence for the number of steps, and its upper bound. */
void accuracy_set_basis(json_t *object, const struct time_to_accuracy *to);

#endif
