/* search/accuracy.h - exchange and layout together: the shortest time to an accuracy.
 *
 * How many steps an exchange needs depends on itself and on the number of data ranks, a step's time
 * on all of the layout. So each exchange that is tried, on each number of data ranks that divides
 * the GPUs, is searched for its fastest step by the request's method; the best has the smallest
 * product of steps and step time. Data ranks are not searched where an exchange's steps, each at
 * the GPUs' peak, already take longer than its best. */
#ifndef SEARCH_ACCURACY_H
#define SEARCH_ACCURACY_H

#include "search/search.h"
#include "sim/campaign/time_to_accuracy.h"

struct accurate_plan {
    struct scored_plan scored; /* in the result's arena, with its lists */
    struct time_to_accuracy to;
};

struct accuracy_result {
    struct accurate_plan *at; /* the best of each exchange, shortest time first */
    int count;
    int searches;
    double candidates;
    bool proved; /* every search proved its best, and none was ended early */
    bool timed_out, was_interrupted;
    double elapsed_s;
    struct arena arena;
};

/* The request's model must state its tokens. Neither dp nor exchange may be fixed in `request->fix`
 * (ERR_USAGE). No feasible plan is an answer: count is 0. Release the result in either case. */
bool search_accuracy(const struct search_request *request, struct accuracy_result *result,
                     struct err *err);
void accuracy_result_release(struct accuracy_result *result);

#endif
