/* search/tally.h - how many candidates of a search were evaluated, and why the others were not.
 *
 * A tally holds only counts and extremes, so the workers' tallies can be merged in any order. */
#ifndef SEARCH_TALLY_H
#define SEARCH_TALLY_H

#include "search/frontier.h"

struct tally {
    double *broken; /* [rule number] number of candidates that break this rule first */
    double over_memory;
    double evaluated; /* number of plans that fit and whose step times were computed */
    double bounded;   /* number of plans skipped because a bound proves that they are no better than
                         the kept plans */
    double fastest_s; /* fastest of the evaluated plans; 0: none */
    bool has_least;
    struct ranked_plan least; /* of the plans that exceed the memory, the one with the least memory;
                                 its time is 0 */
    bool timed_out, was_interrupted;
};

struct tally tally_new(struct arena *arena); /* its counts live in the arena */
void tally_add(struct tally *sum, const struct tally *more);
void tally_broken(struct tally *tally, const struct plan_rule *rule, double count);
void tally_over_memory(struct tally *tally, const struct ranked_plan *plan);
/* Whether a plan that does not fit and needs at least floor_bytes can be ignored. It can if some
 * plan fits, as the plan of least memory is then not needed, or if a known plan needs less
 * memory. */
bool tally_has_leaner(const struct tally *tally, double floor_bytes);
void tally_evaluated(struct tally *tally, const struct ranked_plan *plan);

/* Whether a search that began at start_s must end early. The tally records it. */
bool tally_must_stop(struct tally *tally, const struct search_request *request, double start_s);
bool tally_is_complete(const struct tally *tally);

#endif
