/* search/sweep.h - the plans of a space that no plan dominates in memory and step time.
 *
 * Families of plans (search/space) are examined in rounds. All families of a round are compared
 * with the plans that were known before the round. So the skipped plans and all counts are the same
 * for any number of workers. Bounds that hold for all rank orders come first, so most families are
 * never timed. */
#ifndef SEARCH_SWEEP_H
#define SEARCH_SWEEP_H

#include "search/method.h"

/* The least step time for each memory size; times fall as memory rises. Zero-initialise. */
struct stairs {
    struct stair {
        double bytes, step_s;
    } * at;
    size_t count;
};
void stairs_add(struct stairs *stairs, double bytes, double step_s);
/* Whether a known plan with at most `bytes` is clearly faster than step_s. */
bool stairs_beat(const struct stairs *stairs, double bytes, double step_s);
void stairs_release(struct stairs *stairs);

/* Each plan that fits and is not dominated in its round is passed to `keep`, in the caller's
 * thread, and added to the stairs. The tally counts dominated plans as bounded. If a bound excludes
 * a whole family, all its plans count as bounded or too large, even plans that break a rule. The
 * tally's plan with the least memory is not set. */
struct sweep {
    const struct search *search;
    struct stairs *stairs;
    /* One per worker (walk_jobs), NULL until first used; the caller frees them. A later sweep of
     * the same system on another number of GPUs reuses them. */
    struct evaluator **evaluators;
    void (*keep)(void *context, const struct ranked_plan *plan);
    void *context;
};
struct tally sweep_run(const struct sweep *sweep, struct arena *arena);

#endif
