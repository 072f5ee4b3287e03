/* Finds the best divisions of layers over stages one by one. Each minimises a surrogate of the step
 * time (search/milp/division.h). A guess is an assumed upper limit of the surrogate; choices that
 * would exceed it are left out of the program. */
#include "search/milp/division.h"

#include <math.h>

/* The first guess exceeds the least possible value by this fraction; the excess is multiplied by
 * `widening` for each further guess, up to last_excess. These values affect only the time of the
 * search, not its answer. */
static const double first_excess = 0.005;
static const double widening = 4;
static const double last_excess = 2;

/* The search for one more division. */
struct quest {
    const struct division_problem *problem;
    const struct program_limits *limits;
    struct arena *arena;
    double floor_s; /* lower bound of every division's surrogate, from the least sum of passes and
                       the least longest pass */
    double excess;  /* excess of the guess over floor_s; HUGE_VAL: no guess */
    struct divisions *found;
};

static double guess_s(const struct quest *quest)
{
    return quest->excess == HUGE_VAL ? HUGE_VAL : quest->floor_s * (1 + quest->excess);
}

static void widen(struct quest *quest)
{
    quest->excess = quest->excess < last_excess ? widening * quest->excess : HUGE_VAL;
}

/* Whether no larger guess is to be tried. If a division's surrogate is within the guess, the
 * division is the best one. A division above the guess proves nothing, as an omitted choice may be
 * better. A solve without a guess, or one that a limit ended, is not repeated. */
static bool is_answer(const struct quest *quest, const struct program_result *result,
                      double surrogate_s)
{
    if (quest->excess == HUGE_VAL || result->timed_out || result->status == PROGRAM_UNKNOWN ||
        result->status == PROGRAM_FEASIBLE)
        return true;
    return result->status == PROGRAM_OPTIMAL && surrogate_s <= guess_s(quest);
}

/* Finds the next best division. False when GLPK failed. */
static bool find_next(struct quest *quest, int *choice, double *surrogate_s,
                      struct program_result *result, struct err *err)
{
    struct excluded excluded = { quest->found->at, quest->found->count };
    for (;; widen(quest)) {
        if (!division_within(quest->problem, &excluded, guess_s(quest), quest->limits, quest->arena,
                             choice, result, err))
            return false;
        quest->found->nodes += result->nodes;
        *surrogate_s = result->value ? division_surrogate_s(quest->problem, choice) : HUGE_VAL;
        if (is_answer(quest, result, *surrogate_s))
            return true;
    }
}

/* Adds a division to those found, and updates the bound of the divisions not found. Returns whether
 * there may be more of them. */
static bool take(struct quest *quest, const int *choice, double surrogate_s,
                 const struct program_result *result)
{
    struct divisions *found = quest->found;
    bool is_settled = result->status == PROGRAM_OPTIMAL || result->status == PROGRAM_INFEASIBLE;
    double bound_s =
        is_settled ? surrogate_s : fmax(quest->floor_s, fmin(result->bound, guess_s(quest)));
    found->bound_s = bound_s;
    found->is_proved &= is_settled;
    found->timed_out |= result->timed_out;
    if (!result->value)
        return false;
    if (found->count == 0)
        found->gap = is_settled ? 0 : fmax(0, 1 - bound_s / surrogate_s);
    found->at[found->count++] = (struct division){ choice, surrogate_s };
    return is_settled;
}

bool divisions_best(const struct division_problem *problem, int most,
                    const struct program_limits *limits, struct arena *arena, struct divisions *out,
                    struct err *err)
{
    *out = (struct divisions){ .at = ARENA_ARRAY(arena, struct division, (size_t)most),
                               .is_proved = true,
                               .bound_s = HUGE_VAL,
                               .gap = HUGE_VAL };
    double further = problem->num_microbatches - 1;
    double longest_s = division_least_longest_s(problem);
    double sum_s = division_least_sum_s(problem);
    struct quest quest = {
        .problem = problem, .limits = limits, .arena = arena, .excess = first_excess, .found = out
    };
    quest.floor_s = problem->in_any_order ? problem->num_microbatches * longest_s
                                          : sum_s + (further > 0 ? further * longest_s : 0);
    bool more = longest_s < HUGE_VAL && sum_s < HUGE_VAL;
    while (more && out->count < most) {
        struct program_result result;
        double surrogate_s;
        int *choice = ARENA_ARRAY(arena, int, (size_t)problem->num_stages);
        if (!find_next(&quest, choice, &surrogate_s, &result, err))
            return false;
        more = take(&quest, choice, surrogate_s, &result);
    }
    return true;
}
