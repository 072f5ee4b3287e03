/* search/depth.h - how many layers of a model's shape fit. */
#ifndef SEARCH_DEPTH_H
#define SEARCH_DEPTH_H

#include "search/search.h"

/* The most layers with which some plan of even chunks keeps the rules and fits, all else of the
 * model as it is; 0: not even the fewest. It bisects for each number of stages: with all else
 * equal, more layers in a stage need more memory. The request's own layers don't matter. False only
 * when the request is wrong. Ended early, `most` is the most found until then. */
struct depth {
    int most;
    bool timed_out, was_interrupted;
};
bool search_depth(const struct search_request *request, struct depth *out, struct err *err);

#endif
