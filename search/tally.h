/* search/tally.h - how many candidates of a search were evaluated, and why the others were not.
 *
 * Only counts and extremes, so that the workers' tallies give the same sum in any order. */
#ifndef SEARCH_TALLY_H
#define SEARCH_TALLY_H

#include "search/frontier.h"

struct tally {
    double *broken; /* candidates per first broken rule, by number of rule */
    double over_memory;
    double evaluated; /* step times computed: plans that fit */
    double bounded; /* skipped because a bound shows that they are no better than the kept plans */
    double fastest_s; /* of the evaluated plans; 0: there are none */
    bool has_least;
    struct ranked_plan least; /* of the plans over memory the leanest; its time is 0 */
    bool timed_out, was_interrupted;
};

struct tally tally_new(struct arena *arena); /* its counts live in the arena */
void tally_add(struct tally *sum, const struct tally *more);
void tally_broken(struct tally *tally, const struct plan_rule *rule, double count);
void tally_over_memory(struct tally *tally, const struct ranked_plan *plan);
/* Whether a plan that needs at least this much cannot be the leanest. */
bool tally_has_leaner(const struct tally *tally, double floor_bytes);
void tally_evaluated(struct tally *tally, const struct ranked_plan *plan);

/* Whether a search that began at start_s must end early; recorded in the tally. */
bool tally_must_stop(struct tally *tally, const struct search_request *request, double start_s);
bool tally_is_complete(const struct tally *tally);

#endif
