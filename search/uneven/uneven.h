/* search/uneven/uneven.h - plans of a space whose layers are divided unevenly, beside the even
 * ones.
 *
 * The enlarged space has all plans of the space, and each point of its lattice (uneven/lattice.h)
 * with every division of the layers over the stages and, with mixes, every number of layers that
 * each stage runs again. Points are taken by a floor under their step times; of one whose floor is
 * below the best known plan a dynamic program finds the best division and proves it. Interleaved
 * and split-backward schedules have no bound of this kind: their chunks stay even.
 *
 * The best plan of all is found; of the others of a point, only its best division and the
 * nearly even one can be in the list of the next best. Divisions of points that break a rule, or
 * that never fit, are counted as infeasible, those that were timed as evaluated and all others,
 * also those of other points that do not fit, as bounded. */
#ifndef SEARCH_UNEVEN_UNEVEN_H
#define SEARCH_UNEVEN_UNEVEN_H

#include "search/method.h"
#include "search/tally.h"
#include "search/uneven/expand.h"

/* One point whose divisions are to be looked into; only those that joint_holds may be timed. */
struct divided_point {
    const struct search *search;
    const struct plan *plan;
    struct evaluator *evaluator;
    struct expansion_request expansion;
};

/* How that is done, and how the even plans are found. */
struct uneven_way {
    /* In the arena. What fails is told by the error, and is no answer. */
    struct expansion (*divide)(const struct divided_point *point, struct arena *arena,
                               struct err *err);
    /* As bnb_best, which it may be. */
    struct tally (*even)(const struct search *search, struct arena *arena, struct frontier *best,
                         double *least_s);
};
extern const struct uneven_way uneven_by_dynamic;

/* What uneven_run does, in this way. */
bool uneven_run_by(const struct search *search, const struct uneven_way *way,
                   struct search_result *result, struct err *err);

struct uneven {
    bool is_proved; /* no uneven plan is faster than the best by more than proof_tolerance */
    double open_s;  /* else: none is faster than this */
    struct err err; /* of a point that failed */
};

/* `best` comes sorted with the even plans, at least the fastest of them, and goes so with the
 * uneven ones; the tally gets their counts. Lists of plans are in the arena. The objective must not
 * be memory. */
struct uneven uneven_search(const struct search *search, const struct uneven_way *way,
                            struct tally *tally, struct frontier *best, struct arena *arena);

#endif
