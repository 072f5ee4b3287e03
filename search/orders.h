/* search/orders.h - the rank orders of a space.
 *
 * The base's comes first, then the others by the axes' numbers. Axes of one rank move nothing, so
 * orders that agree on the other axes are walked once, as the first of them. */
#ifndef SEARCH_ORDERS_H
#define SEARCH_ORDERS_H

#include "base/arena.h"
#include "sim/engine/simulate.h"

/* The base's order alone, or every order. In the arena. */
struct rank_orders orders_new(const struct plan *base, bool every, struct arena *arena);

/* Whether no order before this one places the plan's ranks alike. The degrees must be set. */
bool orders_is_first(const struct rank_orders *orders, int order, const struct plan *plan);

/* One order for each different placing of the plan's ranks, at most MAX_RANK_ORDERS. */
int orders_apart(const struct rank_orders *orders, const struct plan *plan, int apart[][NUM_AXES]);

#endif
