/* search/walk.h - checks and scores every candidate of a space, with all workers.
 *
 * The result consists of sums and of extremes in a total order, so it does not depend on which
 * worker got which candidate. */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

#include "search/space.h"
#include "search/tally.h"

struct walk {
    const struct search_request *request; /* jobs, limits, progress */
    const struct system *system;          /* a plan's memory is limited by the memory of its GPUs */
    const struct space *space;
    double start_s;             /* start of the time limit by clock_now_s() */
    bool only_whether_any_fits; /* stop at the first plan that fits; its time is not computed */
    bool tells_why; /* with only_whether_any_fits: if no plan fits, fill in the whole tally, with
                       the reasons */
    /* Called with each plan that fits, in the worker's thread. May be NULL. */
    void (*fits)(void *context, int worker, const struct ranked_plan *plan);
    void *context;
};

int walk_jobs(const struct search_request *request); /* workers, >= 1 */

/* Walks the space. The tally's counts live in the arena. */
struct tally walk_run(const struct walk *walk, struct arena *arena);

#endif
