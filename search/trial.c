/* Chooses short runs that decide which of several plans (rivals) is the fastest. A trial is a run
 * of a rival's plan with fewer replicas. */
#include "search/trial.h"

#include "sim/plan/ranks.h"

#include <math.h>

const double sure_enough = 0.95;
/* A trial on fewer GPUs is preferred if the probability of choosing the fastest plan is at most
 * this much lower. In tests/search/test_trial.c three trials make the choice sure in 92 % of the
 * cases with 0.004 or less, and in 89 % with 0.005. */
static const double as_good = 0.004;

bool trial_predict(const struct trial_place *place, const struct plan *plan, int gpus, double batch,
                   struct arena *arena, struct scored_plan *out, struct err *err)
{
    struct system system = *place->system;
    struct model model = *place->model;
    system.num_gpus = gpus;
    model.batch = batch;
    if (plan_check(plan, &model, batch, gpus, err) || !system_check(&system, plan, err))
        return false;
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct scored_plan scored = { *plan, evaluate(evaluator, plan) };
    *out = scored_plan_copy(&scored, arena);
    evaluator_free(evaluator);
    return true;
}

/* A copy of the rival's plan with `dp` replicas. Its sharding group has at most dp ranks. */
static struct plan with_replicas(const struct plan *rival, int dp)
{
    struct plan plan = *rival;
    plan.dp = dp;
    if (plan_replicas(&plan) == 1)
        plan.zero = 0;
    if (plan.shard >= plan_replicas(&plan))
        plan.shard = 0;
    return plan;
}

bool trial_is_of(const struct plan *plan, const struct plan *rival)
{
    struct plan smaller = with_replicas(rival, plan->dp);
    return plan_equal(plan, &smaller);
}

struct trial trial_of(const struct trial_place *place, const struct plan *rival, int number,
                      struct arena *arena)
{
    double whole = place->model->batch;
    struct trial trial = { .rival = number };
    for (int dp = 1; dp <= rival->dp; dp++) {
        if (rival->dp % dp != 0)
            continue;
        struct plan plan = with_replicas(rival, dp);
        trial.gpus = plan_ranks(&plan);
        trial.batch = whole / rival->dp * dp;
        struct arena_mark mark = arena_mark(arena);
        struct err ignored = { 0 };
        if (trial_predict(place, &plan, trial.gpus, trial.batch, arena, &trial.plan, &ignored) &&
            ((trial.plan.prediction.fits && trial.plan.prediction.p_oom <= place->oom_risk) ||
             dp == rival->dp))
            return trial;
        arena_reset(arena, mark);
    }
    trial.gpus = 0;
    return trial;
}

/* --- choosing the trials --------------------------------------------------------------------- */

struct pick {
    const struct belief *belief;
    const struct trial *trials;
    const int *runs;
    int count;
    int chosen[MOST_TRIALS]; /* indices of trials */
    int n;
};

static struct outlook outlook_of(const struct pick *pick, const int *chosen, int n)
{
    int runs[MOST_TRIALS];
    for (int i = 0; i < n; i++)
        runs[i] = pick->runs[chosen[i]];
    return belief_outlook(pick->belief, runs, n);
}

static bool is_chosen(const struct pick *pick, int trial)
{
    for (int i = 0; i < pick->n; i++)
        if (pick->chosen[i] == trial)
            return true;
    return false;
}

/* Sets element `at` of the n chosen trials to the trial with which they find the fastest plan most
 * often. Among trials that are about equally good it prefers those on the fewest GPUs, then the
 * most informative. */
static struct outlook fill(struct pick *pick, int at, int n)
{
    struct outlook best = { -1, 0 };
    int most = -1, found = -1;
    struct outlook of[2 * MOST_RIVALS];
    for (int i = 0; i < pick->count; i++) {
        int chosen[MOST_TRIALS];
        for (int k = 0; k < n; k++)
            chosen[k] = k == at ? i : pick->chosen[k];
        of[i].p_best = -1;
        if (is_chosen(pick, i) && !(at < pick->n && pick->chosen[at] == i))
            continue;
        of[i] = outlook_of(pick, chosen, n);
        most = most < 0 || of[i].p_best > of[most].p_best ? i : most;
    }
    for (int i = 0; i < pick->count; i++) {
        if (of[i].p_best < of[most].p_best - as_good)
            continue;
        int more = found < 0 ? -1 : pick->trials[i].gpus - pick->trials[found].gpus;
        if (more < 0 || (more == 0 && of[i].bits > best.bits)) {
            found = i;
            best = of[i];
        }
    }
    pick->chosen[at] = found;
    return best;
}

/* Removes trials whose removal hardly lowers the probability of the right choice. */
static void drop_idle(struct pick *pick, double p_best)
{
    for (int i = pick->n - 1; i >= 0 && pick->n > 1; i--) {
        int rest[MOST_TRIALS], n = 0;
        for (int k = 0; k < pick->n; k++)
            if (k != i)
                rest[n++] = pick->chosen[k];
        if (outlook_of(pick, rest, n).p_best < p_best - as_good)
            continue;
        pick->n = n;
        for (int k = 0; k < n; k++)
            pick->chosen[k] = rest[k];
    }
}

/* Orders the trials: first the most informative one alone, then the one that adds the most to
 * it. */
static void put_in_order(const struct pick *pick, struct proposal *out)
{
    int chosen[MOST_TRIALS] = { 0 };
    for (int n = 0; n < pick->n; n++) {
        out[n] = (struct proposal){ -1, { 0, 0 } };
        for (int i = 0; i < pick->n; i++) {
            bool is_taken = false;
            for (int k = 0; k < n; k++)
                is_taken = is_taken || chosen[k] == pick->chosen[i];
            if (is_taken)
                continue;
            int before = chosen[n];
            chosen[n] = pick->chosen[i];
            struct outlook outlook = outlook_of(pick, chosen, n + 1);
            if (out[n].trial < 0 || outlook.bits > out[n].outlook.bits)
                out[n] = (struct proposal){ chosen[n], outlook };
            else
                chosen[n] = before;
        }
    }
}

int trials_propose(const struct belief *belief, const struct trial *trials, const int *runs,
                   int count, struct proposal out[MOST_TRIALS])
{
    struct pick pick = { belief, trials, runs, count, { 0 }, 0 };
    struct outlook outlook = { 0, 0 };
    belief_choice(belief, &outlook.p_best);
    while (pick.n < MOST_TRIALS && pick.n < count && outlook.p_best < sure_enough) {
        outlook = fill(&pick, pick.n, pick.n + 1);
        pick.n++;
    }
    /* the best single trial need not be part of the best set */
    for (int i = 0; i < pick.n && pick.n > 1; i++)
        outlook = fill(&pick, i, pick.n);
    drop_idle(&pick, outlook.p_best);
    put_in_order(&pick, out);
    return pick.n;
}
