/* search/walk.h - every candidate of a space checked and scored, by all workers.
 *
 * The result is made of sums, and of extremes in a total order, so it doesn't depend on which
 * worker met which candidate. */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

#include "search/space.h"
#include "search/tally.h"

struct walk {
    const struct search_request *request; /* jobs, limits, progress */
    const struct system *system;          /* its GPU's memory is the limit */
    const struct space *space;
    double start_s;             /* when the time limit began, by clock_now_s() */
    bool only_whether_any_fits; /* stop at the first that does; its time is not computed */
    bool tells_why;             /* then: where none fits, the tally is that of a whole walk */
    /* Gets each plan that fits, in the worker's thread. May be NULL. */
    void (*fits)(void *context, int worker, const struct ranked_plan *plan);
    void *context;
};

int walk_jobs(const struct search_request *request); /* workers, >= 1 */

/* Its counts live in the arena. */
struct tally walk_run(const struct walk *walk, struct arena *arena);

#endif
