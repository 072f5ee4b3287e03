#include "base/random.h"
#include "calibration/learn/evidence.h"
#include "calibration/rows/stratum.h"
#include "search/trial.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_PLANS = 4 };

/* A stratum has the measured plans for one model on one system. When it is tested, one of three
 * sets of further runs is known: none; all other measured runs of its stack and GPU; or only those
 * of them whose models have another width. */
enum known { KNOWN_NOTHING, KNOWN_STACK, KNOWN_OTHER_WIDTHS, NUM_KNOWN };
static const char *const known_names[NUM_KNOWN] = { "nothing", "its stack", "other widths" };

/* A stratum: measured plans for one model and system. One of them is taken as the user's present
 * run. */
struct question {
    const struct run_case *of[MOST_RIVALS];
    struct believed items[MOST_RIVALS];
    double measured_s[MOST_RIVALS];
    struct trial trials[MOST_RIVALS];
    int runs[MOST_RIVALS];
    int count;
};

/* Counts of cases, for each number of proposed runs that were made. A case is `close` if the
 * advised plan was measured within 2 % of the best one, `worse` if it was slower than the present
 * plan, and `good` if it was close and not worse. */
struct tally {
    int cases[MOST_TRIALS + 1], close[MOST_TRIALS + 1], worse[MOST_TRIALS + 1],
        good[MOST_TRIALS + 1], kept[MOST_TRIALS + 1];
    double stated[MOST_TRIALS + 1], lost[MOST_TRIALS + 1];
};

/* Holds all scored runs of a source, sorted by stratum. */
struct source_runs {
    struct arena arena;
    struct shipped_runs shipped;
    const struct run_case **of;
    int count;
};

static void count_choice(const struct question *question, const struct belief *belief, int runs,
                         struct tally *to)
{
    double chance, least_s = HUGE_VAL;
    int choice = belief_advice(belief, 0, &chance);
    double chosen_s = question->measured_s[choice];
    for (int i = 0; i < question->count; i++)
        least_s = fmin(least_s, question->measured_s[i]);
    bool is_close = chosen_s <= least_s * (1 + CLOSE_TO_BEST);
    bool is_worse = chosen_s > question->measured_s[0];
    to->cases[runs]++;
    to->close[runs] += is_close;
    to->worse[runs] += is_worse;
    to->good[runs] += is_close && !is_worse;
    to->kept[runs] += choice == 0;
    to->stated[runs] += chance;
    to->lost[runs] += log(chosen_s / least_s);
}

/* Plan 0 is the user's, and its time is known first; then the proposed runs are added one by one.
 */
static void ask(const struct question *question, const struct evidence *evidence, int most_runs,
                struct tally *to)
{
    static struct belief belief;
    belief_begin(question->of[0]->system, question->items, question->count, question->count,
                 evidence, &belief);
    belief_learn(&belief, 0, question->measured_s[0]);
    for (int runs = 0;; runs++) {
        struct proposal next[MOST_TRIALS];
        count_choice(question, &belief, runs, to);
        if (runs == most_runs)
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
    to->items[i] = (struct believed){
        .step_s = predicted->step_s, .parts = &predicted->time, .plan = &of->plan, .rival = i
    };
    to->measured_s[i] = run_measured_s(of->row);
    to->trials[i] = (struct trial){ .rival = i, .gpus = (int)of->row->n_gpus };
    to->runs[i] = i;
}

/* Selects the runs that are known besides those of the stratum [first, end). */
static void gather(const struct source_runs *runs, int first, int end, enum known known,
                   struct arena *arena, struct evidence *out)
{
    const struct run_case *mine = runs->of[first];
    const struct run_case **of = ARENA_ARRAY(arena, const struct run_case *, (size_t)runs->count);
    int n = 0;
    for (int i = 0; i < runs->count; i++)
        if ((i < first || i >= end) && evidence_counts(runs->of[i], mine->system, &mine->model) &&
            (known == KNOWN_STACK || runs->of[i]->model.hidden != mine->model.hidden))
            of[n++] = runs->of[i];
    evidence_gather(of, known == KNOWN_NOTHING ? 0 : n, runs->shipped.cases,
                    runs->shipped.predictions, &mine->model, arena, out);
}

/* Each plan of the stratum is taken as the present one in turn. If the stratum is large, as many
 * other plans as a belief can hold are drawn, anew for each present plan. */
static void ask_stratum(const struct source_runs *runs, int first, int end, enum known known,
                        struct random *rng, struct tally *to)
{
    struct arena arena = { 0 };
    struct evidence evidence;
    int n = end - first;
    const struct run_case **of = ARENA_ARRAY(&arena, const struct run_case *, (size_t)n);
    gather(runs, first, end, known, &arena, &evidence);
    for (int present = 0; present < n; present++) {
        static struct question question;
        question = (struct question){ .count = 0 };
        const struct run_case *mine = runs->of[first + present];
        memcpy(of, runs->of + first, (size_t)n * sizeof(const struct run_case *));
        add_plan(&runs->shipped, mine, &question);
        for (int i = 0; i < n; i++) {
            int k = i + random_below(rng, n - i);
            const struct run_case *drawn = of[k];
            of[k] = of[i];
            of[i] = drawn;
            if (drawn != mine && question.count < MOST_RIVALS)
                add_plan(&runs->shipped, drawn, &question);
        }
        bool is_short = !is_campaign() && to->cases[0] % 12 != 0;
        ask(&question, &evidence, is_short ? 0 : MOST_TRIALS, to);
    }
    arena_release(&arena);
}

static void source_runs_load(const char *name, struct source_runs *out)
{
    struct err err = { 0 };
    *out = (struct source_runs){ .count = 0 };
    check_ok(shipped_runs_predict(name, NULL, 0, 1, &out->arena, &out->shipped, &err), &err);
    int n = out->shipped.scores.num_scored;
    out->of = ARENA_ARRAY(&out->arena, const struct run_case *, (size_t)n);
    for (int i = 0; i < n; i++)
        out->of[i] = &out->shipped.cases[out->shipped.scores.worst[i]];
    qsort(out->of, (size_t)n, sizeof(void *), stratum_compare_cases);
    out->count = n;
}

/* Tests every stratum whose index is a multiple of `step`. */
static void ask_source(const struct source_runs *runs, int step, enum known known, struct tally *to)
{
    struct random rng = random_new(1, 0);
    int strata = 0;
    for (int first = 0, end; first < runs->count; first = end) {
        end = stratum_end(runs->of, runs->count, first);
        if (end - first >= FEWEST_PLANS && strata++ % step == 0)
            ask_stratum(runs, first, end, known, &rng, to);
    }
}

static void print_tally(const char *source, enum known known, const struct tally *of)
{
    for (int k = 0; k <= MOST_TRIALS; k++) {
        double percent = 100.0 / of->cases[k];
        printf("%-24s knows %-12s %4d cases, %d runs: within 2 %% %3.0f %%, worse than mine %2.0f "
               "%%, within and not worse %3.0f %%, kept %2.0f %%, lost %4.1f %%, stated %3.0f %%\n",
               source, known_names[known], of->cases[k], k, percent * of->close[k],
               percent * of->worse[k], percent * of->good[k], percent * of->kept[k],
               percent * of->lost[k], percent * of->stated[k]);
    }
    fflush(stdout);
}

/* `make test` tests one source with the runs of its stack known. `make campaign` tests all sources
 * that have strata. Of the source vtrain_single it tests only a sixth of the 120 strata, and has no
 * limits, because these times are sums of traced layers. Runs of bloom_prequel that were measured
 * again differ by 4.2 % (rms of 16 differences). Measured times scatter. If they scatter by 1 or 2
 * % within a stratum, even the advice of the plan that is really the fastest would count as good in
 * only 96 or 83 % of the cases. */
static const struct {
    const char *name;
    int step;
    bool is_traced;
} sources[] = {
    { "bloom_prequel", 1, false },     { "internevo", 1, false },
    { "bridge_sft_memory", 1, false }, { "bridge_moonlight_memory", 1, false },
    { "vtrain_single", 6, true },
};

START_TEST(the_advised_plan_is_rarely_slower_and_often_the_fastest_measured)
{
    for (int s = 0; s < (is_campaign() ? (int)LENGTH(sources) : 1); s++) {
        struct source_runs runs;
        source_runs_load(sources[s].name, &runs);
        for (int known = 0; known < NUM_KNOWN; known++) {
            struct tally tally = { { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, { 0 } };
            if (!is_campaign() && known != KNOWN_STACK)
                continue;
            ask_source(&runs, sources[s].step, (enum known)known, &tally);
            if (is_campaign())
                print_tally(sources[s].name, (enum known)known, &tally);
            ck_assert_int_gt(tally.cases[0], 0);
            if (sources[s].is_traced)
                continue;
            ck_assert_int_ge(100 * tally.good[0],
                             (known == KNOWN_STACK ? 94 : 87) * tally.cases[0]);
            ck_assert_int_ge(100 * tally.good[MOST_TRIALS], 95 * tally.cases[MOST_TRIALS]);
        }
        shipped_runs_release(&runs.shipped);
        arena_release(&runs.arena);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/tuned");
    TCase *measured = tcase_create("measured");
    tcase_add_test(measured, the_advised_plan_is_rarely_slower_and_often_the_fastest_measured);
    suite_add_tcase(s, measured);
    return s;
}

TEST_MAIN(suite)
