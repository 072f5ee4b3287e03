/* The orders of a plan's axes. Two orders that differ only in axes with one rank place the ranks
 * alike. */
#include "search/orders.h"

#include "sim/plan/axis.h"
#include "sim/plan/layout.h"

#include <assert.h>
#include <string.h>

/* Lists the axes that have ranks of their own, in their default order. Returns their number. */
static int list_placed(int placed[MAX_AXES])
{
    struct plan usual = plan_default();
    int count = 0;
    for (int i = 0; i < num_axes; i++)
        if (!axes[usual.order[i]]->is_folded)
            placed[count++] = usual.order[i];
    return count;
}

static int num_orders(int num_placed)
{
    int orders = 1;
    for (int n = 2; n <= num_placed; n++)
        orders *= n;
    assert(orders < MAX_RANK_ORDERS);
    return orders;
}

/* The permutation of the axes whose Lehmer code is `number`. The expert axis, which has no ranks of
 * its own, is placed right before the data axis. */
static void permute(int number, int order[MAX_AXES])
{
    int left[MAX_AXES];
    int num_placed = list_placed(left);
    int count = 0;
    memset(order, 0, MAX_AXES * sizeof *order);
    for (int n = num_placed, base = num_orders(num_placed - 1); n > 0; n--) {
        int pick = number / base;
        number %= base;
        base /= n > 1 ? n - 1 : 1;
        if (left[pick] == AXIS_DATA)
            order[count++] = AXIS_EXPERT;
        order[count++] = left[pick];
        memmove(&left[pick], &left[pick + 1], (size_t)(n - pick - 1) * sizeof *left);
    }
}

struct rank_orders orders_new(const struct plan *base, bool every, struct arena *arena)
{
    int placed[MAX_AXES];
    int count = every ? num_orders(list_placed(placed)) : 0;
    struct rank_orders orders = { arena_alloc(arena, ((size_t)count + 1) * sizeof *orders.at), 1 };
    memcpy(orders.at[0], base->order, sizeof base->order);
    for (int number = 0; number < count; number++) {
        permute(number, orders.at[orders.count]);
        if (memcmp(orders.at[orders.count], base->order, sizeof base->order) != 0)
            orders.count++;
    }
    return orders;
}

/* The axes that have one rank in both of the plan's rank grids, that of the dense layers and that
 * of the experts. */
static void find_ones(const struct plan *plan, bool is_one[MAX_AXES])
{
    struct grid grid = plan_grid(plan);
    bool has_experts = plan->ep > 1 || plan->etp > 1;
    struct grid experts = has_experts ? plan_expert_grid(plan) : grid;
    for (int axis = 0; axis < num_axes; axis++)
        is_one[axis] = grid.degree[axis] == 1 && experts.degree[axis] == 1;
}

/* Whether both orders list the axes with more than one rank in the same sequence. */
static bool places_alike(const int *a, const int *b, const bool is_one[MAX_AXES])
{
    int j = 0;
    for (int i = 0; i < num_axes; i++) {
        if (is_one[a[i]])
            continue;
        while (is_one[b[j]])
            j++;
        if (a[i] != b[j++])
            return false;
    }
    return true;
}

bool orders_is_first(const struct rank_orders *orders, int order, const struct plan *plan)
{
    bool is_one[MAX_AXES];
    if (order == 0)
        return true;
    find_ones(plan, is_one);
    for (int earlier = 0; earlier < order; earlier++)
        if (places_alike(orders->at[earlier], orders->at[order], is_one))
            return false;
    return true;
}

/* Encodes the sequence of the axes with more than one rank as the digits of a number. */
static int placing(const int *order, const bool is_one[MAX_AXES])
{
    int number = 0;
    for (int i = 0; i < num_axes; i++)
        if (!is_one[order[i]])
            number = number * (MAX_AXES + 1) + order[i] + 1;
    return number;
}

int orders_apart(const struct rank_orders *orders, const struct plan *plan, int apart[][MAX_AXES])
{
    bool is_one[MAX_AXES];
    int placings[MAX_RANK_ORDERS];
    int count = 0;
    find_ones(plan, is_one);
    for (int order = 0; order < orders->count; order++) {
        int earlier = 0;
        placings[count] = placing(orders->at[order], is_one);
        while (placings[earlier] != placings[count])
            earlier++;
        if (earlier == count)
            memcpy(apart[count++], orders->at[order], sizeof apart[0]);
    }
    return count;
}
