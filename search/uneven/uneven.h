/* search/uneven/uneven.h - plans of a space whose layers are divided unevenly, beside the even
 * ones.
 *
 * The enlarged space has all plans of the space, and each point of its lattice (uneven/lattice.h)
 * with every division of the layers over the stages and, with mixes, every number of layers that
 * each stage recomputes. Points are taken by rising floor of their step times. Where a floor is
 * below the best known plan, a dynamic program finds the point's best division and proves it.
 * Interleaved and split-backward schedules have no bound of this kind: their chunks stay even.
 *
 * The best plan of all is found. The list of the next best has at most two divisions of a point:
 * its best and its nearly even one. Divisions are counted as infeasible where their point breaks a
 * rule or never fits, as evaluated where they were timed, and all others as bounded, also the unfit
 * ones of other points. */
#ifndef SEARCH_UNEVEN_UNEVEN_H
#define SEARCH_UNEVEN_UNEVEN_H

#include "search/method.h"
#include "search/tally.h"
#include "search/uneven/expand.h"

/* One point whose divisions are to be searched; only divisions that joint_holds may be timed. */
struct divided_point {
    const struct search *search;
    const struct plan *plan;
    struct evaluator *evaluator;
    struct expansion_request expansion;
};

/* How a point's divisions are searched, and how the even plans are found. */
struct uneven_way {
    /* In the arena. A failure is reported by `err`, and is no answer. */
    struct expansion (*divide)(const struct divided_point *point, struct arena *arena,
                               struct err *err);
    /* Like bnb_best, or that itself. */
    struct tally (*even)(const struct search *search, struct arena *arena, struct frontier *best,
                         double *least_s);
};
extern const struct uneven_way uneven_by_dynamic;

/* uneven_run, in this way. */
bool uneven_run_by(const struct search *search, const struct uneven_way *way,
                   struct search_result *result, struct err *err);

struct uneven {
    bool is_proved; /* no uneven plan is faster than the best by more than proof_tolerance */
    double open_s;  /* else: none is faster than this */
    struct err err; /* of a point that failed */
};

/* `best` holds the even plans, sorted, at least the fastest of them; the uneven ones are added in
 * order, and their counts to the tally. Lists of plans are in the arena. The objective must not
 * be memory. */
struct uneven uneven_search(const struct search *search, const struct uneven_way *way,
                            struct tally *tally, struct frontier *best, struct arena *arena);

#endif
