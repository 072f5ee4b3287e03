/* search/uneven/uneven.h - plans whose layers are divided unevenly over stages, in addition to a
 * space's even plans.
 *
 * The enlarged space adds, for each point of the lattice (uneven/lattice.h), every division of the
 * layers over the stages and, with mixes, every number of recomputed layers per stage. Points are
 * taken by rising lower bound of their step times. When a bound is below the time of the best known
 * plan, a dynamic program finds the point's best division. It proves that this division is the
 * best, or gives a lower bound of the other divisions. Outside 1F1B the divisions are those that
 * are dealt (uneven/deal.h). DualPipe, whose stages hold chunks of two copies of the model, keeps
 * even chunks.
 *
 * The best plan of all is found. The further plans of the list include at most two divisions per
 * point: its best and its nearly even one. A division is counted as infeasible when its point
 * breaks a rule or never fits, or when its own peak was computed and exceeds the memory, and as
 * evaluated when it was timed. All other divisions are counted as bounded, even if they do
 * not fit. */
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
    /* Divides one point; the result is in the arena. On failure its `err` is set. */
    struct expansion (*divide)(const struct divided_point *point, struct arena *arena,
                               struct err *err);
    /* Finds the even plans: bnb_best, or a function like it. */
    struct tally (*even)(const struct search *search, struct arena *arena, struct frontier *best,
                         double *least_s);
};
extern const struct uneven_way uneven_by_dynamic;

/* Like uneven_run, but it searches in the given way. */
bool uneven_run_by(const struct search *search, const struct uneven_way *way,
                   struct search_result *result, struct err *err);

struct uneven {
    bool is_proved; /* whether no uneven plan is faster than the best one by more than
                       proof_tolerance */
    double open_s;  /* if not, the lower bound of the uneven plans */
    struct err err; /* the error of a point that failed */
};

/* `best` holds at least the fastest even plan, sorted; uneven plans are inserted in order, and
 * their counts added to the tally. Lists of plans are in the arena. The objective must not be
 * memory. */
struct uneven uneven_search(const struct search *search, const struct uneven_way *way,
                            struct tally *tally, struct frontier *best, struct arena *arena);

#endif
