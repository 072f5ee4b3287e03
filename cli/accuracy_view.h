/* cli/accuracy_view.h - "search --objective time-to-accuracy": exchange and layout together. */
#ifndef CLI_ACCURACY_VIEW_H
#define CLI_ACCURACY_VIEW_H

#include "cli/setup.h"
#include "search/search.h"

/* Searches and prints; returns the exit code. */
int answer_accuracy(const struct options *options, struct setup *setup,
                    struct search_request *request, struct err *err);

#endif
