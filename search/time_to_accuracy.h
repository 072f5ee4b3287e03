/* search/time_to_accuracy.h - searches exchange and layout together for the shortest time to an
 * accuracy.
 *
 * The number of steps depends on the exchange and the number of data ranks, but the time of a step
 * depends on the whole layout. So for each exchange tried and each number of data ranks that
 * divides the GPUs, the request's method finds the fastest step; the best plan has the smallest
 * product of steps and step time. One data rank is tried only with the default exchange. Unless the
 * exchange compresses, a number of data ranks is skipped when the exchange's steps, each at the
 * GPUs' peak, already take longer than the exchange's best plan. */
#ifndef SEARCH_TIME_TO_ACCURACY_H
#define SEARCH_TIME_TO_ACCURACY_H

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
    bool proved; /* every search proved its best plan; none ended early */
    bool timed_out, was_interrupted;
    double elapsed_s;
    struct arena arena;
};

/* The request's model must state its tokens. Neither dp nor exchange may be fixed in `request->fix`
 * (ERR_USAGE). If no plan is feasible, the function still succeeds and count is 0. Release the
 * result in either case. */
bool search_time_to_accuracy(const struct search_request *request, struct accuracy_result *result,
                             struct err *err);
void accuracy_result_release(struct accuracy_result *result);

#endif
