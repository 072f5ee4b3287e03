/* cli/views/nearby_view.h - shows what slightly fewer GPUs, or another batch, would gain. */
#ifndef CLI_VIEWS_NEARBY_VIEW_H
#define CLI_VIEWS_NEARBY_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/nearby.h"

enum { MOST_NEARBY = 3 };

/* Requests that differ slightly from the user's, each with its best plan. */
struct nearby_view {
    int asked_gpus;
    double asked_batch;
    struct nearby at[MOST_NEARBY];
    int count;
    double least; /* fewer GPUs are shown only if they train at least this many tokens per second */
    double start_s; /* start of the time limit by clock_now_s() */
    struct arena arena;
};

/* For a request without a plan: finds the nearest requests with fewer GPUs, with another batch, and
 * with both changed. Count 0: none of these requests has a plan either. */
void nearby_instead(const struct search_request *request, struct nearby_view *out);
/* Like nearby_instead, if the answer already uses fewer GPUs: `num_gpus`, with plan `taken`. */
void nearby_beside(const struct search_request *request, int num_gpus,
                   const struct scored_plan *taken, struct nearby_view *out);
/* Finds a batch close to the requested one, and a smaller number of GPUs, with which clearly more
 * tokens are trained per second than with the given plan. */
void nearby_better(const struct search_request *request, const struct scored_plan *best,
                   struct nearby_view *out);
void nearby_release(struct nearby_view *view);

/* Shows the alternatives. `best` is the prediction of the answer. */
void show_nearby_requests(const struct setup *setup, const struct prediction *best,
                          const struct nearby_view *view);
/* Adds the alternatives to "relaxations": [ { "change", "from", "to", "best" } ]. */
void add_nearby_json(json_t *object, const struct setup *setup, const struct nearby_view *view);

#endif
