/* search/milp/milp.h - the method milp: uneven plans by integer programming.
 *
 * It searches the space of --uneven with the same iteration over points as dp (uneven/uneven.h). A
 * point is a plan whose division of layers is open. At each point that no lower bound rules out,
 * the eight divisions with the least surrogate (an estimate of the step time, division.h) are
 * timed, and the fastest joins the list of the best even plans. This proves the least surrogate,
 * not the least step time. The step time is proved to be the least when the dynamic program's lower
 * bound meets it, or when a point has fewer than eight divisions, which are then all timed. Outside
 * 1F1B the surrogate is a lower bound, so the step time is also proved when it does not exceed the
 * eighth division's surrogate. Otherwise the answer states the gap to the bound. The bound also
 * holds with constraints on all stages, as they only remove divisions. */
#ifndef SEARCH_MILP_MILP_H
#define SEARCH_MILP_MILP_H

#include "search/milp/division.h"
#include "search/uneven/uneven.h"

enum { MILP_TIMED = 8 };

extern const struct uneven_way uneven_by_milp;

/* The choices of a point's stages: the options in its table of stages (uneven/stages.h) and, if the
 * request has constraints on all stages together, also choices that recompute more layers than
 * memory requires. Arrays in the arena. */
struct division_problem milp_problem(const struct divided_point *point, struct arena *arena);

#endif
