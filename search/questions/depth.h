/* search/questions/depth.h - how many layers of a model's shape fit. */
#ifndef SEARCH_QUESTIONS_DEPTH_H
#define SEARCH_QUESTIONS_DEPTH_H

#include "search/search.h"

/* The most layers for which some plan of even chunks keeps the rules and fits, the model otherwise
 * unchanged; 0: not even the fewest. It bisects for each number of stages, as more layers in a
 * stage need more memory. The request's own number of layers is ignored. False only when the
 * request is wrong, or blocks with experts cannot be placed in a model that deep. When ended early,
 * `most` is the most found so far. */
struct depth {
    int most;
    bool timed_out, was_interrupted;
};
bool search_depth(const struct search_request *request, struct depth *out, struct err *err);

#endif
