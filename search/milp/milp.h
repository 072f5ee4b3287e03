/* search/milp/milp.h - the method milp: uneven plans by integer programming.
 *
 * It searches the space of --uneven with the same walk over points as dp (uneven/uneven.h). Of each
 * point that a floor does not rule out, the eight divisions with the least surrogate are timed, and
 * the best is kept beside the even plans. What they prove is the least surrogate, which is not the
 * step time: that is proved where the dynamic program's lower bound meets it, or where a point has
 * no more than eight divisions. Else the answer comes with the gap to that bound, which holds for
 * what stages must keep together too, as it only leaves fewer divisions. */
#ifndef SEARCH_MILP_MILP_H
#define SEARCH_MILP_MILP_H

#include "search/milp/division.h"
#include "search/uneven/uneven.h"

enum { MILP_TIMED = 8 };

extern const struct uneven_way uneven_by_milp;

/* The stages' choices of a point: of its table, and where stages are joined also those that run
 * more layers again than they must. Arrays in the arena. */
struct division_problem milp_problem(const struct divided_point *point, struct arena *arena);

#endif
