/* search/questions/depth.h - the largest number of layers with which a model still fits. */
#ifndef SEARCH_QUESTIONS_DEPTH_H
#define SEARCH_QUESTIONS_DEPTH_H

#include "search/search.h"

/* The largest number of layers for which some plan with even chunks keeps the rules and fits, with
 * the rest of the model unchanged; 0: not even the fewest layers fit. The search bisects for each
 * number of stages, as memory rises with the layers of a stage. The request's own number of layers
 * is ignored. False only when the request is wrong, or blocks with experts cannot be placed in a
 * model that deep. When the search is ended early, `most` is the largest number found so far. */
struct depth {
    int most;
    bool timed_out, was_interrupted;
};
bool search_depth(const struct search_request *request, struct depth *out, struct err *err);

#endif
