/* cli/views/nearby_view.h - what a little less, or another batch, would gain. */
#ifndef CLI_VIEWS_NEARBY_VIEW_H
#define CLI_VIEWS_NEARBY_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/nearby.h"

enum { MOST_NEARBY = 3 };

/* Requests near the one that was asked for, each with its best plan. */
struct nearby_view {
    int asked_gpus;
    double asked_batch;
    struct nearby at[MOST_NEARBY];
    int count;
    double least;   /* fewer GPUs are shown if they train at least so many tokens per second */
    double start_s; /* when the time limit began, by clock_now_s() */
    struct arena arena;
};

/* For a request without a plan: the nearest with fewer GPUs, with another batch, and with both.
 * Count 0: none of them has a plan either. */
void nearby_instead(const struct search_request *request, struct nearby_view *out);
/* The same alternatives when the answer already takes fewer GPUs, `num_gpus`, with this plan. */
void nearby_beside(const struct search_request *request, int num_gpus,
                   const struct scored_plan *taken, struct nearby_view *out);
/* A batch close to the requested one, and a smaller number of GPUs, if they train clearly more
 * tokens per second than this plan. */
void nearby_better(const struct search_request *request, const struct scored_plan *best,
                   struct nearby_view *out);
void nearby_release(struct nearby_view *view);

/* `best`: of the request that is answered. */
void show_nearby_requests(const struct setup *setup, const struct prediction *best,
                          const struct nearby_view *view);
/* As members of `relaxations`: [ { "change", "from", "to", "best" } ]. */
void add_nearby_json(json_t *object, const struct setup *setup, const struct nearby_view *view);

#endif
