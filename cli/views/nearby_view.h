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
    double least;   /* tokens per second that fewer GPUs must have */
    double start_s; /* of the time limit, by clock_now_s() */
    struct arena arena;
};

/* Where all the GPUs have no plan: fewer of them with the batch that was asked for (none: the count
 * is 0), all of them with another batch, and both. */
void nearby_instead(const struct search_request *request, struct nearby_view *out);
/* Where `num_gpus` of the `asked` are taken already, with this plan: the same. */
void nearby_beside(const struct search_request *request, int num_gpus,
                   const struct scored_plan *taken, struct nearby_view *out);
/* A batch close by, and fewer GPUs, that train clearly more tokens per second than this plan, if
 * any. */
void nearby_better(const struct search_request *request, const struct scored_plan *best,
                   struct nearby_view *out);
void nearby_release(struct nearby_view *view);

/* `best`: of the request that is answered. */
void show_nearby_requests(const struct setup *setup, const struct prediction *best,
                          const struct nearby_view *view);
/* As members of `relaxations`: [ { "change", "from", "to", "best" } ]. */
void add_nearby_json(json_t *object, const struct setup *setup, const struct nearby_view *view);

#endif
