/* search/orders.h - the rank orders of a space.
 *
 * The base's comes first, then the others by the axes' numbers. The place of an axis with one rank
 * does not matter: of orders that agree on the other axes only the first is walked. */
#ifndef SEARCH_ORDERS_H
#define SEARCH_ORDERS_H

#include "base/arena.h"
#include "sim/engine/simulate.h"

/* The base's order alone, or every order. In the arena. */
struct rank_orders orders_new(const struct plan *base, bool every, struct arena *arena);

/* Whether no earlier order places the plan's ranks the same way. The degrees must be set. */
bool orders_is_first(const struct rank_orders *orders, int order, const struct plan *plan);

/* One order for each distinct placement of the plan's ranks, at most MAX_RANK_ORDERS. */
int orders_apart(const struct rank_orders *orders, const struct plan *plan, int apart[][MAX_AXES]);

#endif
