/* Measures the regret of the random search methods (time of the best plan found / that of the
 * optimum - 1) against the number of scored plans and against wall time, from many seeds. Prints
 * Markdown. The first case is also drawn, as search-methods.svg in the folder of this program.
 * Branch and bound and exhaustive search, which prove the optimum (regret 0), are shown too. */
#include "base/clock.h"
#include "base/length.h"
#include "search/search.h"
#include "tests/calibration/regret.h"
#include "tests/calibration/regret_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUDGET = 10000, SEEDS = 40, FIRST_SEED = 1, REPEATS = 5, LONG_ENOUGH_S = 2 };

static const struct {
    const char *cluster, *model;
    int num_gpus;
    double batch; /* sequences */
    bool placement;
} cases[] = { { "dgx-h100", "gpt3-175b", 1024, 1536, false },
              { "dgx-a100-80g", "llama3-70b", 256, 512, false },
              { "dgx-h100", "gpt3-175b", 1024, 1536, true } };

static void fail(const char *where, const char *what)
{
    printf("%s: %s\n", where, what);
    exit(1);
}

/* Prints "1.23 %", or no number if nothing fits yet. */
static void print_percent(double share)
{
    if (share < HUGE_VAL)
        printf("%.2f %%", 100 * share);
    else
        printf("none");
}

/* --- runs --------------------------------------------------------------------------------- */

/* The compared methods: every strategy, and the method `zo`, which alternates two of them. */
struct line {
    const char *name;
    const struct strategy *first, *second; /* second: the second strategy of zo, or NULL */
    bool is_masked;
    struct regret_run runs[SEEDS];
};

static struct regret_run run_line(const struct line *line, const struct regret_case *of,
                                  uint64_t seed, struct arena *arena)
{
    struct tuning tuning = tuning_default();
    int budget = line->second ? BUDGET / 2 : BUDGET;
    struct regret_run first =
        regret_of(of, line->first, &tuning, line->is_masked, budget, seed, 0, arena);
    if (!line->second)
        return first;
    struct regret_run second =
        regret_of(of, line->second, &tuning, line->is_masked, budget, seed, 1, arena);
    return regret_of_both(&first, &second, arena);
}

static void run_seeds(struct line *line, const struct regret_case *of, struct arena *arena)
{
    for (int i = 0; i < SEEDS; i++)
        line->runs[i] = run_line(line, of, FIRST_SEED + (uint64_t)i, arena);
}

/* --- tables ------------------------------------------------------------------------------- */

static void print_quartiles(const struct line *line, double at, bool is_time)
{
    double regret[SEEDS];
    for (int i = 0; i < SEEDS; i++)
        regret[i] = is_time ? regret_at_time(&line->runs[i], at) : line->runs[i].regret[(int)at];
    printf(" | ");
    print_percent(quantile(regret, SEEDS, 0.5));
    printf(" (");
    print_percent(quantile(regret, SEEDS, 0.25));
    printf(" to ");
    print_percent(quantile(regret, SEEDS, 0.75));
    printf(")");
}

static void print_regret(const struct line *lines, int count)
{
    static const int at[] = { 100, 300, 1000, 3000, 10000 };
    printf("\n| regret: median (quartiles) | 100 scores | 300 | 1,000 | 3,000 | 10,000 |\n"
           "|---|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < count; i++) {
        printf("| %s", lines[i].name);
        for (int j = 0; j < 5; j++)
            print_quartiles(&lines[i], at[j], false);
        printf(" |\n");
    }
}

static void print_times(const struct line *lines, int count)
{
    static const double at_ms[] = { 1, 3, 10, 30 };
    printf("\n| regret: median (quartiles) | 1 ms | 3 ms | 10 ms | 30 ms | time per score |\n"
           "|---|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < count; i++) {
        double core_s[SEEDS];
        for (int j = 0; j < SEEDS; j++)
            core_s[j] = lines[i].runs[j].core_s[BUDGET];
        printf("| %s", lines[i].name);
        for (int j = 0; j < 4; j++)
            print_quartiles(&lines[i], at_ms[j] / 1e3, true);
        printf(" | %.1f us |\n", 1e6 * quantile(core_s, SEEDS, 0.5) / BUDGET);
    }
}

static void print_share(const struct line *line, double within)
{
    int reached = 0;
    for (int i = 0; i < SEEDS; i++)
        reached += line->runs[i].regret[BUDGET] <= within;
    struct interval interval = wilson(reached, SEEDS);
    printf(" | %.0f %% (%.0f to %.0f)", 100.0 * reached / SEEDS, 100 * interval.low,
           100 * interval.high);
}

static void print_scores_to(const struct line *line, double within)
{
    double scores[SEEDS];
    for (int i = 0; i < SEEDS; i++)
        scores[i] = regret_scores_to(&line->runs[i], within);
    double median = quantile(scores, SEEDS, 0.5);
    if (median < HUGE_VAL)
        printf(" | %.0f", median);
    else
        printf(" | -");
}

static void print_shares(const struct line *lines, int count)
{
    printf("\n| of %d runs after %d scores (95 %% interval) | optimal | within 1 %% | within 5 %% "
           "| within 10 %% | median scores to 10 %% | to 1 %% | to 0 |\n"
           "|---|---:|---:|---:|---:|---:|---:|---:|\n",
           SEEDS, BUDGET);
    for (int i = 0; i < count; i++) {
        printf("| %s", lines[i].name);
        print_share(&lines[i], 0);
        print_share(&lines[i], 0.01);
        print_share(&lines[i], 0.05);
        print_share(&lines[i], 0.1);
        print_scores_to(&lines[i], 0.1);
        print_scores_to(&lines[i], 0.01);
        print_scores_to(&lines[i], 0);
        printf(" |\n");
    }
}

/* --- the methods that prove --------------------------------------------------------------- */

static double over_memory(const struct search_result *result)
{
    for (int i = 0; i < result->num_exclusions; i++)
        if (strcmp(result->exclusions[i].rule, "memory") == 0)
            return result->exclusions[i].count;
    return 0;
}

/* Proves the optimum. The time is the shortest of a few runs on one core, as for the random
 * methods. */
static double prove(struct search_request request, const char *method, struct proof *proof)
{
    struct search_result result;
    struct err err = { 0 };
    double best_s = 0, spent_s = 0;
    request.method = method;
    *proof = (struct proof){ .name = method, .core_s = HUGE_VAL };
    for (int i = 0; i < REPEATS && spent_s < LONG_ENOUGH_S; i++) {
        double start_s = clock_thread_s();
        if (!search_run(&request, &result, &err))
            fail(err.where, err.msg);
        double core_s = clock_thread_s() - start_s;
        if (result.num_top == 0 || !result.proved_optimal)
            fail(method, "no proof");
        best_s = result.top[0].prediction.step_s;
        proof->scores = result.evaluated;
        proof->peaks = result.evaluated + over_memory(&result);
        proof->core_s = fmin(proof->core_s, core_s);
        spent_s += core_s;
        search_result_release(&result);
    }
    return best_s;
}

static void print_proofs(const struct proof *proofs, int count)
{
    printf("\n| proves it | step times | peaks of memory | one core |\n|---|---:|---:|---:|\n");
    for (int i = 0; i < count; i++)
        printf("| %s | %.0f | %.0f | %.1f ms |\n", proofs[i].name, proofs[i].scores,
               proofs[i].peaks, 1e3 * proofs[i].core_s);
}

/* --- cases -------------------------------------------------------------------------------- */

enum { NUM_LINES = 5, NUM_UNMASKED = 4, NUM_PROOFS = 2 };

static void set_lines(struct line *lines, bool is_masked)
{
    for (int i = 0; i < num_strategies && i < NUM_LINES - 1; i++)
        lines[i] = (struct line){ strategies[i].name, &strategies[i], NULL, is_masked, { { 0 } } };
    if (is_masked)
        lines[NUM_LINES - 1] = (struct line){ "zo: both in turn",
                                              strategy_find("annealing"),
                                              strategy_find("evolution"),
                                              true,
                                              { { 0 } } };
}

static void draw(const char *program, const char *what, const struct line *lines,
                 const struct proof *proofs)
{
    struct plot_line plotted[NUM_LINES];
    char path[4096];
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash - program) + 1 : 0;
    snprintf(path, sizeof path, "%.*ssearch-methods.svg", folder, program);
    for (int i = 0; i < NUM_LINES; i++)
        plotted[i] = (struct plot_line){ lines[i].name, lines[i].runs, SEEDS };
    struct text svg = { 0 };
    regret_plot(what, plotted, NUM_LINES, proofs, NUM_PROOFS, &svg);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text_get(&svg), file) < 0 || fclose(file) != 0)
        fail(path, "cannot be written");
    printf("\nwrote %s\n", path);
    text_release(&svg);
}

/* Compares the methods. If `program` is given, it also runs them without the mask of invalid
 * choices and draws a picture. */
static void compare(const struct regret_case *of, const char *what, const struct proof *proofs,
                    const char *program)
{
    static struct line lines[NUM_LINES], unmasked[NUM_UNMASKED]; /* too large for a stack */
    struct arena arena = { 0 };
    set_lines(lines, true);
    set_lines(unmasked, false);
    for (int i = 0; i < NUM_LINES; i++)
        run_seeds(&lines[i], of, &arena);
    for (int i = 0; program && i < NUM_UNMASKED; i++)
        run_seeds(&unmasked[i], of, &arena);
    print_regret(lines, NUM_LINES);
    print_shares(lines, NUM_LINES);
    print_times(lines, NUM_LINES);
    if (program) {
        printf("\nWithout the mask, plans that break a rule cost a score too:\n");
        print_shares(unmasked, NUM_UNMASKED);
        draw(program, what, lines, proofs);
    }
    arena_release(&arena);
}

static void run_case(int i, const char *program)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct prepared prepared;
    struct proof proofs[NUM_PROOFS];
    char what[128];
    if (!system_load(cases[i].cluster, "megatron-core", cases[i].num_gpus, &system, &err) ||
        !model_load(cases[i].model, &model, &err))
        fail(err.where, err.msg);
    model.batch = cases[i].batch;
    struct search_request request = { .system = &system,
                                      .model = &model,
                                      .base = plan_default(),
                                      .placement = cases[i].placement,
                                      .top = 1,
                                      .jobs = 1 };
    if (!search_prepare(&request, &arena, &prepared, &err))
        fail(err.where, err.msg);
    snprintf(what, sizeof what, "%s on %d GPUs of %s, batch %.0f%s", model.name, system.num_gpus,
             cases[i].cluster, model.batch, cases[i].placement ? ", every rank order" : "");
    printf("\n## %s\n", what);
    struct regret_case of = { &prepared.search, prove(request, "exhaustive", &proofs[0]) };
    if (prove(request, "bnb", &proofs[1]) != of.optimum_s)
        fail("bnb", "another optimum");
    print_proofs(proofs, NUM_PROOFS);
    compare(&of, what, proofs, program);
    arena_release(&arena);
    system_release(&system);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < LENGTH(cases); i++)
        run_case(i, argc > 0 && i == 0 ? argv[0] : NULL);
    return 0;
}
