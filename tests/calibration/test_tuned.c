#include "base/random.h"
#include "calibration/fit/shipped_runs.h"
#include "calibration/rows/stratum.h"
#include "search/trial.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEWEST_PLANS = 4 };

/* Measured plans for one model and system; one of them is the user's present run. */
struct question {
    const struct run_case *of[MOST_RIVALS];
    struct believed items[MOST_RIVALS];
    double measured_s[MOST_RIVALS];
    struct trial trials[MOST_RIVALS];
    int runs[MOST_RIVALS];
    int count, present;
};

struct tally {
    int cases, seen;
    int close[MOST_TRIALS + 1],
        worse[MOST_TRIALS + 1]; /* [runs made] number of plans close to the best, or worse */
    double stated[MOST_TRIALS + 1];
};

static void count_choice(const struct question *question, const struct belief *belief, int runs,
                         struct tally *to)
{
    double chance, least_s = HUGE_VAL;
    int choice = belief_choice(belief, &chance);
    for (int i = 0; i < question->count; i++)
        least_s = fmin(least_s, question->measured_s[i]);
    to->close[runs] += question->measured_s[choice] <= least_s * (1 + CLOSE_TO_BEST);
    to->worse[runs] += question->measured_s[choice] > question->measured_s[question->present];
    to->stated[runs] += chance;
}

/* The user's run is known first; then the proposed runs are added one by one. */
static void ask(const struct question *question, struct tally *to)
{
    static struct belief belief;
    const struct system *system = question->of[0]->system;
    belief_begin(system, question->items, question->count, question->count, &belief);
    belief_learn(&belief, question->present, question->measured_s[question->present]);
    to->cases++;
    for (int runs = 0;; runs++) {
        struct proposal next[MOST_TRIALS];
        count_choice(question, &belief, runs, to);
        if (runs == MOST_TRIALS)
            return;
        if (trials_propose(&belief, question->trials, question->runs, question->count, next) > 0)
            belief_learn(&belief, next[0].trial, question->measured_s[next[0].trial]);
    }
}

static void add_plan(const struct shipped_runs *shipped, const struct run_case *of,
                     struct question *to)
{
    int i = to->count++;
    const struct run_prediction *predicted = &shipped->predictions[of - shipped->cases];
    to->of[i] = of;
    to->items[i] = (struct believed){ predicted->step_s, &predicted->time, &of->plan, i, false };
    to->measured_s[i] = run_measured_s(of->row);
    to->trials[i] = (struct trial){ .rival = i, .gpus = (int)of->row->n_gpus };
    to->runs[i] = i;
}

/* Of a large stratum, draws as many plans as a belief can hold, anew for each run. */
static void ask_stratum(const struct shipped_runs *shipped, const struct run_case **of, int n,
                        struct random *rng, struct tally *to)
{
    for (int present = 0; present < n; present++) {
        static struct question question;
        if (is_spared(to->seen++, 12))
            continue;
        question = (struct question){ .present = 0 };
        const struct run_case *mine = of[present];
        add_plan(shipped, mine, &question);
        for (int i = 0; i < n; i++) {
            int k = i + random_below(rng, n - i);
            const struct run_case *drawn = of[k];
            of[k] = of[i];
            of[i] = drawn;
            if (drawn != mine && question.count < MOST_RIVALS)
                add_plan(shipped, drawn, &question);
        }
        ask(&question, to);
    }
}

/* The gate tests one source, a campaign all. vtrain_single is left out, as its times are sums of
 * traced layers. */
static const char *const sources[] = { "bloom_prequel", "internevo", "bridge_sft_memory" };

START_TEST(runs_that_are_proposed_find_the_best_measured_plan)
{
    struct tally sum = { 0 };
    struct random rng = random_new(1, 0);
    for (int s = 0; s < (is_campaign() ? (int)LENGTH(sources) : 1); s++) {
        struct arena arena = { 0 };
        struct shipped_runs shipped;
        struct err err = { 0 };
        struct tally before = sum;
        check_ok(shipped_runs_predict(sources[s], NULL, 0, 1, &arena, &shipped, &err), &err);
        int n = shipped.scores.num_scored;
        const struct run_case **of = ARENA_ARRAY(&arena, const struct run_case *, (size_t)n);
        for (int i = 0; i < n; i++)
            of[i] = &shipped.cases[shipped.scores.worst[i]];
        qsort(of, (size_t)n, sizeof(void *), stratum_compare_cases);
        for (int first = 0, end; first < n; first = end) {
            end = stratum_end(of, n, first);
            if (end - first >= FEWEST_PLANS)
                ask_stratum(&shipped, of + first, end - first, &rng, &sum);
        }
        for (int k = 0; is_campaign() && k <= MOST_TRIALS; k++)
            printf("%-18s %5d cases, %d runs: within 2 %% %3.0f %%, worse than mine %2.0f %%, "
                   "stated %3.0f %%\n",
                   sources[s], sum.cases - before.cases, k,
                   100.0 * (sum.close[k] - before.close[k]) / (sum.cases - before.cases),
                   100.0 * (sum.worse[k] - before.worse[k]) / (sum.cases - before.cases),
                   100 * (sum.stated[k] - before.stated[k]) / (sum.cases - before.cases));
        fflush(stdout);
        shipped_runs_release(&shipped);
        arena_release(&arena);
    }
    ck_assert_int_gt(sum.cases, 0);
    ck_assert_int_ge(sum.close[MOST_TRIALS], sum.close[0]);
    ck_assert_int_ge(10 * sum.close[MOST_TRIALS], 7 * sum.cases);
    ck_assert_int_le(10 * sum.worse[MOST_TRIALS], sum.cases);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/tuned");
    TCase *measured = tcase_create("measured");
    tcase_add_test(measured, runs_that_are_proposed_find_the_best_measured_plan);
    suite_add_tcase(s, measured);
    return s;
}

TEST_MAIN(suite)
