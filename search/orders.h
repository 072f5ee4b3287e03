/* search/orders.h - the rank orders of a space of plans. A rank order is the order in which the
 * axes (tp, cp, dp, pp) number the ranks.
 *
 * The order of the base plan (the plan whose words the request fixes) comes first. The others are
 * sorted by the axes' numbers. An axis with one rank may stand anywhere in an order, so of orders
 * that differ only in such axes, only the first is searched. */
#ifndef SEARCH_ORDERS_H
#define SEARCH_ORDERS_H

#include "base/arena.h"
#include "sim/engine/simulate.h"

/* The base plan's order alone or, if `every`, all orders. In the arena. */
struct rank_orders orders_new(const struct plan *base, bool every, struct arena *arena);

/* Whether no earlier order places the plan's ranks the same way. The degrees must be set. */
bool orders_is_first(const struct rank_orders *orders, int order, const struct plan *plan);

/* One order for each distinct placement of the plan's ranks, at most MAX_RANK_ORDERS. */
int orders_apart(const struct rank_orders *orders, const struct plan *plan, int apart[][MAX_AXES]);

#endif
