/* Groups similar plans of a ranking. Plans of one kind have the same degrees and micro-batch
 * (cli/views/similar_plans.h). */
#include "cli/views/similar_plans.h"
#include "sim/plan/axis.h"
#include "sim/plan/state_share.h"

enum { KEPT_PER_ROW = 5 };

int kinds_top(int shown)
{
    return shown > MOST_KINDS ? shown : KEPT_PER_ROW * shown + 1;
}

static bool recomputes_all(const struct plan *plan)
{
    return plan->recompute == RECOMPUTE_FULL || plan->recompute == RECOMPUTE_EVERY;
}

/* Whether two plans are of one kind. dp is not compared, as it follows from the other degrees. */
static bool are_alike(const struct plan *a, const struct plan *b)
{
    for (int axis = 0; axis < num_axes; axis++)
        if (axis != AXIS_DATA && a->degree[axis] != b->degree[axis])
            return false;
    return a->microbatch == b->microbatch &&
           plan_cuts(a, STATE_PARAMETERS) == plan_cuts(b, STATE_PARAMETERS) &&
           recomputes_all(a) == recomputes_all(b);
}

/* Index of the kind of a row's plan; -1: a new kind. */
static int find_kind(const struct kinds *kinds, const struct search_result *result, int row)
{
    for (int i = 0; i < kinds->count; i++)
        if (are_alike(&result->top[kinds->first[i]].plan, &result->top[row].plan))
            return i;
    return -1;
}

struct kinds kinds_of(const struct search_result *result, int most)
{
    struct kinds kinds = { .of = result->num_top };
    if (most > MOST_KINDS)
        most = MOST_KINDS;
    for (int i = 0; i < result->num_top; i++) {
        int kind = find_kind(&kinds, result, i);
        if (kind >= 0)
            kinds.alike[kind]++;
        else if (kinds.count < most)
            kinds.first[kinds.count++] = i;
    }
    return kinds;
}

struct search_result kinds_result(const struct kinds *kinds, const struct search_result *result,
                                  struct scored_plan *rows)
{
    struct search_result shown = *result;
    for (int i = 0; i < kinds->count; i++)
        rows[i] = result->top[kinds->first[i]];
    shown.top = rows;
    shown.num_top = kinds->count;
    return shown;
}
