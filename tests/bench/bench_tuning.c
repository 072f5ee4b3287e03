/* Measures how random strategies depend on their settings. The case is GPT 145B on 1,536 H100,
 * which bench_stochastic does not report. Regret is the time of the best plan found / that of the
 * optimum - 1. The same number of settings is tried for every strategy; tuning_default has the
 * settings with the least mean regret. Prints Markdown. */
#include "base/parallel.h"
#include "search/search.h"
#include "tests/calibration/regret.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUDGET = 3000, SEEDS = 30, FIRST_SEED = 1001 };

/* A setting and its results. */
struct setting {
    const struct strategy *strategy;
    struct tuning tuning;
    bool is_masked;
    double regret[SEEDS];
};

struct sweep {
    struct regret_case of;
    struct setting at[64];
    int count;
};

static void add(struct sweep *sweep, const char *strategy, const struct tuning *tuning,
                bool is_masked)
{
    sweep->at[sweep->count++] =
        (struct setting){ strategy_find(strategy), *tuning, is_masked, { 0 } };
}

static void add_annealing(struct sweep *sweep)
{
    static const double starts[] = { 0.03, 0.1, 0.3, 1 };
    static const int lengths[] = { 300, 1000, 3000 };
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            struct tuning tuning = tuning_default();
            tuning.start_temperature = starts[i];
            tuning.end_temperature = starts[i] / 100;
            tuning.anneal_scores = lengths[j];
            add(sweep, "annealing", &tuning, true);
        }
}

static void add_evolution(struct sweep *sweep)
{
    static const int patience[] = { 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000, 3000 };
    for (int i = 0; i < 12; i++) {
        struct tuning tuning = tuning_default();
        tuning.patience_scores = patience[i];
        add(sweep, "evolution", &tuning, true);
    }
}

static void add_reinforce(struct sweep *sweep, bool is_masked)
{
    static const double rates[] = { 0.03, 0.1, 0.3, 1, 3, 10 };
    static const double entropies[] = { 0, 0.1 };
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 2; j++) {
            struct tuning tuning = tuning_default();
            tuning.learning_rate = rates[i];
            tuning.entropy_weight = entropies[j];
            add(sweep, "reinforce", &tuning, is_masked);
        }
}

static void run_seed(void *context, size_t index, int worker)
{
    (void)worker;
    struct sweep *sweep = context;
    struct setting *setting = &sweep->at[index / SEEDS];
    uint64_t seed = index % SEEDS;
    struct arena arena = { 0 };
    struct regret_run run = regret_of(&sweep->of, setting->strategy, &setting->tuning,
                                      setting->is_masked, BUDGET, FIRST_SEED + seed, 0, &arena);
    setting->regret[seed] = run.regret[BUDGET];
    arena_release(&arena);
}

static void print_setting(struct setting *setting)
{
    const struct tuning *tuning = &setting->tuning;
    double sum = 0;
    int within = 0;
    for (int i = 0; i < SEEDS; i++) {
        sum += setting->regret[i];
        within += setting->regret[i] <= 0.01;
    }
    printf("| %s | ", setting->strategy->name);
    if (setting->strategy->run == anneal)
        printf("start %g, %d scores", tuning->start_temperature, tuning->anneal_scores);
    else if (setting->strategy->run == evolve)
        printf("patience %d", tuning->patience_scores);
    else
        printf("rate %g, entropy %g%s", tuning->learning_rate, tuning->entropy_weight,
               setting->is_masked ? "" : ", no mask");
    printf(" | %.3f %% | %.3f %% | %d of %d |\n", 100 * sum / SEEDS,
           100 * quantile(setting->regret, SEEDS, 0.5), within, SEEDS);
}

static void fail(const struct err *err)
{
    printf("%s: %s\n", err->where, err->msg);
    exit(1);
}

int main(void)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    if (!system_load("dgx-h100", "megatron-core", 1536, &system, &err) ||
        !model_load("megatron-145b", &model, &err))
        fail(&err);
    struct search_request request = {
        .system = &system, .model = &model, .base = plan_default(), .top = 1, .jobs = 1
    };
    struct search_result best;
    struct arena arena = { 0 };
    struct prepared prepared;
    if (!search_run(&request, &best, &err) || !search_prepare(&request, &arena, &prepared, &err))
        fail(&err);
    struct sweep sweep = { .of = { &prepared.search, best.top[0].prediction.step_s } };
    add_annealing(&sweep);
    add_evolution(&sweep);
    add_reinforce(&sweep, true);
    add_reinforce(&sweep, false);
    parallel_for(parallel_cores(), (size_t)sweep.count * SEEDS, 1, run_seed, &sweep);
    printf("%s on %d GPUs, %d scores, %d seeds from %d\n\n", model.name, system.num_gpus, BUDGET,
           SEEDS, FIRST_SEED);
    printf(
        "| strategy | setting | mean regret | median | within 1 %% |\n|---|---|---:|---:|---:|\n");
    for (int i = 0; i < sweep.count; i++)
        print_setting(&sweep.at[i]);
    search_result_release(&best);
    arena_release(&arena);
    system_release(&system);
    return 0;
}
