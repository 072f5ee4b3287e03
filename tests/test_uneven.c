#include "base/parallel.h"
#include "search/search.h"
#include "search/uneven/expand.h"
#include "search/uneven/lattice.h"
#include "sim/engine/event_step.h"
#include "tests/draw.h"
#include "tests/naive_space.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- random tables ------------------------------------------------------------------------ */

enum { MOST_STAGES = 5, MOST_LAYERS = 9 };

/* Stages of which some run layers again, and have an embedding, a head and reductions. */
static void fill_stage(struct random *rng, struct stage_table *table, int stage)
{
    double start_s = stage == 0 ? between(rng, 0, 1) : 0;
    start_s += stage == table->num_stages - 1 ? between(rng, 0, 2) : 0;
    int kept = within(rng, 0, 3) ? table->num_layers : within(rng, 0, 3);
    int most = within(rng, 0, 4) ? table->num_layers : within(rng, 1, 4);
    double comm_s = within(rng, 0, 1) ? between(rng, 0, 3) : 0;
    for (int k = 1; k <= table->most_layers; k++) {
        int recomputed = k > kept ? k - kept : 0;
        table->options[stage * table->most_layers + k - 1] = (struct stage_option){
            .fits = k <= most,
            .layers = k,
            .recomputed = recomputed,
            .forward_s = k + start_s,
            .backward_s = 2 * (k + start_s) + recomputed,
            .data_comm_s = comm_s * k,
            .optimizer_s = 0.1 * (k + start_s),
        };
    }
}

static struct stage_table random_table(uint64_t seed, struct arena *arena)
{
    struct random rng = random_new(seed, 0);
    int stages = within(&rng, 1, MOST_STAGES);
    int layers = within(&rng, stages, MOST_LAYERS);
    struct stage_table table = {
        .num_stages = stages,
        .num_layers = layers,
        .num_microbatches = within(&rng, 1, 14),
        .most_layers = layers - stages + 1,
        .lag_s = within(&rng, 0, 1) ? between(&rng, 0, 0.5) : 0,
        .step_s = between(&rng, 0, 0.1),
    };
    size_t count = (size_t)stages * (size_t)table.most_layers;
    table.options = ARENA_ARRAY(arena, struct stage_option, count);
    for (int stage = 0; stage < stages; stage++)
        fill_stage(&rng, &table, stage);
    stage_table_close(&table, arena);
    return table;
}

static const struct stage_option *option_of(const struct stage_table *table, int stage,
                                            const int *layers)
{
    return &stage_options(table, stage)[layers[stage] - 1];
}

/* What time_pipeline and step_s of sim/engine do, by the recurrence over every microbatch. */
static double simulated_s(void *context, const int *layers, const int *recomputed)
{
    (void)recomputed;
    const struct stage_table *table = context;
    double duration_s[CHUNK_PASSES * MOST_STAGES] = { 0 };
    double end_s[MOST_STAGES];
    for (int stage = 0; stage < table->num_stages; stage++) {
        duration_s[CHUNK_PASSES * stage + CHUNK_FORWARD] =
            option_of(table, stage, layers)->forward_s;
        duration_s[CHUNK_PASSES * stage + CHUNK_BACKWARD] =
            option_of(table, stage, layers)->backward_s;
    }
    double lag_s[MOST_STAGES];
    for (int stage = 0; stage < table->num_stages; stage++)
        lag_s[stage] = table->lag_s;
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = {
        generator_find("1f1b"), { table->num_stages, 1, table->num_microbatches }, duration_s, lag_s
    };
    pipeline_full_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    double reduced_s = 0, optimizer_s = 0;
    for (int stage = 0; stage < table->num_stages; stage++) {
        const struct stage_option *option = option_of(table, stage, layers);
        reduced_s = fmax(reduced_s, end_s[stage] + option->data_comm_s);
        optimizer_s = fmax(optimizer_s, option->optimizer_s);
    }
    return reduced_s + optimizer_s + table->step_s;
}

static double composed_s(const struct stage_table *table, const struct composition *composition,
                         const int *layers)
{
    struct suffix suffix = { 0 };
    for (int stage = table->num_stages - 1; stage >= 0; stage--)
        suffix = composition->prepend(table, stage, option_of(table, stage, layers), &suffix);
    return composition->total_s(table, &suffix);
}

static double alpa_s(const struct stage_table *table, const int *layers)
{
    double sum_s = 0, longest_s = 0;
    for (int stage = 0; stage < table->num_stages; stage++) {
        const struct stage_option *option = option_of(table, stage, layers);
        sum_s += option->forward_s + option->backward_s;
        longest_s = fmax(longest_s, option->forward_s + option->backward_s);
    }
    return sum_s + (table->num_microbatches - 1) * longest_s;
}

/* The next list of layers that sums to the table's and fits, from the one in `layers`; all ones
 * less one on the first stage begins. */
static bool next_division(const struct stage_table *table, int *layers)
{
    for (;;) {
        int stage = 0;
        while (stage < table->num_stages && layers[stage] == table->most_layers)
            layers[stage++] = 1;
        if (stage == table->num_stages)
            return false;
        layers[stage]++;
        int sum = 0;
        bool fits = true;
        for (int s = 0; s < table->num_stages; s++) {
            sum += layers[s];
            fits = fits && option_of(table, s, layers)->fits;
        }
        if (fits && sum == table->num_layers)
            return true;
    }
}

static void begin_divisions(const struct stage_table *table, int *layers)
{
    for (int stage = 0; stage < table->num_stages; stage++)
        layers[stage] = 1;
    layers[0] = 0;
}

/* The best of all divisions, one by one. */
struct enumerated {
    double divisions;
    double surrogate_s, bound_s, step_s;
    double surrogate_step_s; /* of the first that has the least surrogate */
    double slack;            /* of the bound, the largest share */
};

static struct enumerated enumerate(const struct stage_table *table, int seed)
{
    struct enumerated best = { .surrogate_s = HUGE_VAL, .bound_s = HUGE_VAL, .step_s = HUGE_VAL };
    int layers[MOST_STAGES];
    begin_divisions(table, layers);
    while (next_division(table, layers)) {
        double step_s = simulated_s((void *)(uintptr_t)table, layers, NULL);
        double bound_s = composed_s(table, &lower_bound, layers);
        double alpas_s = alpa_s(table, layers);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-12), "seed %d: bound %a above %a", seed, bound_s,
                      step_s);
        ck_assert_double_eq_tol(composed_s(table, &surrogate, layers), alpas_s, 1e-9);
        if (alpas_s < best.surrogate_s * (1 - 1e-12)) {
            best.surrogate_s = alpas_s;
            best.surrogate_step_s = step_s;
        }
        best.bound_s = fmin(best.bound_s, bound_s);
        best.step_s = fmin(best.step_s, step_s);
        best.slack = fmax(best.slack, 1 - bound_s / step_s);
        best.divisions++;
    }
    return best;
}

static double program_s(const struct stage_table *table, const struct composition *composition,
                        struct arena *arena)
{
    int layers[MOST_STAGES];
    struct fronts fronts = fronts_new(table, composition, HUGE_VAL, arena);
    double best_s = fronts_best_s(&fronts, layers);
    if (best_s < HUGE_VAL)
        ck_assert_double_eq_tol(composed_s(table, composition, layers), best_s, 1e-9 * best_s);
    return best_s;
}

static void check_equal(const char *what, int seed, double got_s, double expected_s)
{
    bool same = got_s == expected_s || fabs(got_s - expected_s) <= 1e-9 * expected_s;
    ck_assert_msg(same, "seed %d: %s %.17g, one by one %.17g", seed, what, got_s, expected_s);
}

enum { NUM_TABLES = 800 };

/* The program finds what counting through finds, for the surrogate, for the bound and, expanded,
 * for the simulated step. */
START_TEST(the_program_finds_what_all_divisions_one_by_one_have)
{
    double regrets = 0, most_regret = 0, most_slack = 0, divisions = 0, timed = 0;
    int solved = 0, missed = 0;
    for (int seed = 0; seed < TURNS(NUM_TABLES); seed++) {
        struct arena arena = { 0 };
        struct stage_table table = random_table((uint64_t)seed, &arena);
        struct enumerated best = enumerate(&table, seed);
        check_equal("surrogate", seed, program_s(&table, &surrogate, &arena), best.surrogate_s);
        check_equal("bound", seed, program_s(&table, &lower_bound, &arena), best.bound_s);
        struct expansion_request request = {
            &table, HUGE_VAL, HUGE_VAL, simulated_s, NULL, &table
        };
        struct expansion found = expand(&request, &arena);
        ck_assert(found.is_proved);
        ck_assert_int_eq(found.found, best.divisions > 0);
        if (found.found) {
            check_equal("step", seed, found.step_s, best.step_s);
            ck_assert_double_eq(simulated_s(&table, found.layers, NULL), found.step_s);
            double regret = best.surrogate_step_s / best.step_s - 1;
            regrets += regret;
            missed += regret > 1e-9;
            most_regret = fmax(most_regret, regret);
            most_slack = fmax(most_slack, best.slack);
            divisions += best.divisions;
            timed += found.timed;
            solved++;
        }
        arena_release(&arena);
    }
    printf(
        "%d tables, %.0f divisions, %.0f timed to prove the best; the surrogate misses it in %d, "
        "mean regret %.2f %%, most %.1f %%; most slack of the bound %.1f %%\n",
        solved, divisions, timed, missed, 100 * regrets / solved, 100 * most_regret,
        100 * most_slack);
    ck_assert_int_gt(solved, TURNS(NUM_TABLES) * 5 / 8);
    ck_assert_int_gt(missed, 0); /* else the tables are too easy to tell anything */
    ck_assert_double_lt(timed, divisions / 2);
}
END_TEST

/* With a limit only what is faster is found, and with few timings the gap is told. */
START_TEST(an_expansion_that_was_cut_short_tells_no_more_than_it_knows)
{
    int open = 0;
    for (int seed = 0; seed < TURNS(300); seed++) {
        struct arena arena = { 0 };
        struct stage_table table = random_table((uint64_t)seed, &arena);
        struct enumerated best = enumerate(&table, seed);
        struct expansion_request request = { &table,      best.step_s, HUGE_VAL,
                                             simulated_s, NULL,        &table };
        struct expansion none = expand(&request, &arena);
        ck_assert_msg(!none.found && none.is_proved, "seed %d", seed);
        request.limit_s = HUGE_VAL;
        request.most_timed = 1;
        struct expansion one = expand(&request, &arena);
        ck_assert_msg(one.open_s <= best.step_s * (1 + 1e-9), "seed %d: %a, yet %a", seed,
                      one.open_s, best.step_s);
        ck_assert(one.timed <= 1);
        if (!one.is_proved)
            open++;
        arena_release(&arena);
    }
    ck_assert_int_gt(open, 0);
}
END_TEST

/* C(L - 1, p - 1), and with mixes the sum over divisions of the product of k + 1. */
START_TEST(divisions_are_counted_as_they_are_listed)
{
    for (int layers = 1; layers <= MOST_LAYERS; layers++)
        for (int stages = 1; stages <= MOST_STAGES && stages <= layers; stages++) {
            struct arena arena = { 0 };
            struct stage_table table = { .num_stages = stages,
                                         .num_layers = layers,
                                         .most_layers = layers - stages + 1 };
            size_t count = (size_t)stages * (size_t)table.most_layers;
            table.options = ARENA_ARRAY(&arena, struct stage_option, count);
            for (size_t i = 0; i < count; i++)
                table.options[i].fits = true;
            double divisions = 0, mixes = 0;
            int list[MOST_STAGES];
            begin_divisions(&table, list);
            while (next_division(&table, list)) {
                double product = 1;
                for (int stage = 0; stage < stages; stage++)
                    product *= list[stage] + 1;
                divisions++;
                mixes += product;
            }
            ck_assert_double_eq(count_divisions(layers, stages, false), divisions);
            ck_assert_double_eq(count_divisions(layers, stages, true), mixes);
            arena_release(&arena);
        }
}
END_TEST

/* --- whole searches ----------------------------------------------------------------------- */

struct instance {
    struct system system;
    struct model model;
};

static struct instance instance;

static void load(const char *model, int num_gpus)
{
    struct err err = { 0 };
    bool ok = system_load("dgx-h100", "megatron-core", num_gpus, &instance.system, &err) &&
              model_load(model, &instance.model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
}

static void tear_down(void)
{
    system_release(&instance.system);
}

/* Few layers, so that all divisions can be listed; memory between too little and enough. */
static void make_random(uint64_t seed)
{
    struct random rng = random_new(seed, 0);
    load("gpt3-1.3b", 1 << within(&rng, 1, 4));
    struct model *model = &instance.model;
    model->layers = within(&rng, 3, 6);
    model->heads = model->kv_heads = 16;
    model->batch = 8 * within(&rng, 1, 4);
    model->vocab = within(&rng, 0, 1) ? 51200 : 200000;
    instance.system.gpu.memory_bytes = between(&rng, 5e9, 14e9);
    instance.system.cluster.levels[0].bytes_per_s *= between(&rng, 0.1, 2);
}

static struct search_request new_request(void)
{
    return (struct search_request){ .system = &instance.system,
                                    .model = &instance.model,
                                    .method = "dp",
                                    .base = plan_default(),
                                    .uneven = true,
                                    .top = 5,
                                    .jobs = 2 };
}

static void run(const struct search_request *request, struct search_result *result)
{
    struct err err = { 0 };
    bool ok = search_run(request, result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
}

/* All plans of the enlarged space, one by one. */
struct listed {
    struct evaluator *evaluator;
    double plans, fastest_s;
    int num_gpus;
    bool uneven, mixes;
};

static void list_plan(struct listed *listed, const struct plan *plan)
{
    struct err err = { 0 };
    const struct model *model = &instance.model;
    listed->plans++;
    if (plan_check(plan, model, model->batch, listed->num_gpus, &err))
        return;
    if (evaluate_peak_bytes(listed->evaluator, plan) <= instance.system.gpu.memory_bytes)
        listed->fastest_s = fmin(listed->fastest_s, evaluate_step_s(listed->evaluator, plan));
}

static bool all_are(const int *list, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (list[i] != value)
            return false;
    return true;
}

/* Every number of layers of each stage run again, but the two that have a name. */
static void list_mixes(struct listed *listed, struct plan plan, const int *layers)
{
    int recomputed[MOST_LAYERS] = { 0 };
    bool is_even = all_are(layers, plan.pp, layers[0]);
    plan.recompute = RECOMPUTE_BLOCK;
    plan.recompute_layers = recomputed;
    plan.num_recompute_layers = plan.pp;
    for (;;) {
        bool is_named = all_are(recomputed, plan.pp, 0) ||
                        memcmp(recomputed, layers, (size_t)plan.pp * sizeof *layers) == 0;
        if (!is_even || !is_named)
            list_plan(listed, &plan);
        int stage = 0;
        while (stage < plan.pp && recomputed[stage] == layers[stage])
            recomputed[stage++] = 0;
        if (stage == plan.pp)
            return;
        recomputed[stage]++;
    }
}

static void list_divisions(struct listed *listed, struct plan plan)
{
    int layers[MOST_LAYERS];
    int left = instance.model.layers - plan.pp;
    bool mixes = listed->mixes && plan.recompute == RECOMPUTE_FULL;
    if (left < 0 || (listed->mixes && plan.recompute == RECOMPUTE_NONE))
        return; /* its mixes come with those of full */
    for (int stage = 0; stage < plan.pp; stage++)
        layers[stage] = 1;
    plan.chunk_layers = layers;
    plan.num_chunk_layers = plan.pp;
    for (;;) {
        int sum = 0;
        for (int stage = 0; stage < plan.pp; stage++)
            sum += layers[stage];
        bool is_even = all_are(layers, plan.pp, layers[0]);
        if (sum == instance.model.layers && (listed->uneven || is_even)) {
            if (mixes)
                list_mixes(listed, plan, layers);
            else if (!is_even)
                list_plan(listed, &plan);
        }
        int stage = 0;
        while (stage < plan.pp && layers[stage] == left + 1)
            layers[stage++] = 1;
        if (stage == plan.pp)
            return;
        layers[stage]++;
    }
}

static struct listed list_space(const struct search_request *request)
{
    struct listed listed = { .evaluator = evaluator_new(&instance.system, &instance.model),
                             .fastest_s = HUGE_VAL,
                             .num_gpus = instance.system.num_gpus,
                             .uneven = request->uneven,
                             .mixes = request->recompute_mixes };
    struct naive_space space = naive_space_new(&instance.model, listed.num_gpus);
    for (int i = 0; i < space.count; i++) {
        list_plan(&listed, &space.at[i]);
        if (space.at[i].vpp == 1)
            list_divisions(&listed, space.at[i]);
    }
    free(space.at);
    evaluator_free(listed.evaluator);
    return listed;
}

enum { NUM_SPACES = 18 };

START_TEST(the_best_plan_is_that_of_all_plans_listed_one_by_one)
{
    make_random(4000 + (uint64_t)_i); /* Check prints _i when the test fails */
    struct search_request request = new_request();
    request.recompute_mixes = _i % 3 != 0;
    request.method = _i % 2 ? "dp" : "bnb";
    request.uneven = _i % 6 != 4;
    struct search_result result;
    run(&request, &result);
    struct listed listed = list_space(&request);
    ck_assert(result.proved_optimal);
    ck_assert_double_eq(result.candidates, listed.plans);
    ck_assert_double_eq(result.candidates, result.evaluated + result.bounded + result.infeasible);
    ck_assert_int_eq(result.num_top > 0, listed.fastest_s < HUGE_VAL);
    if (result.num_top > 0) {
        check_equal("step", _i, result.top[0].prediction.step_s, listed.fastest_s);
        ck_assert(result.top[0].prediction.fits);
        ck_assert_double_eq(result.lower_bound_s, result.top[0].prediction.step_s);
    }
    for (int i = 1; i < result.num_top; i++)
        ck_assert(!plan_equal(&result.top[i].plan, &result.top[i - 1].plan));
    search_result_release(&result);
}
END_TEST

START_TEST(the_floor_of_a_point_is_under_its_divisions)
{
    make_random(9000 + (uint64_t)_i);
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    struct naive_space space = naive_space_new(&instance.model, instance.system.num_gpus);
    for (int i = 0; i < space.count; i++) {
        struct err err = { 0 };
        struct plan plan = space.at[i];
        int layers[MOST_LAYERS];
        if (plan.vpp > 1 || plan.pp > instance.model.layers)
            continue;
        for (int stage = 0; stage < plan.pp; stage++) /* the most that one can have, on each */
            layers[stage] = 1;
        plan.chunk_layers = layers;
        plan.num_chunk_layers = plan.pp;
        layers[i % plan.pp] = instance.model.layers - plan.pp + 1;
        if (plan_check(&plan, &instance.model, instance.model.batch, instance.system.num_gpus,
                       &err))
            continue;
        struct plan point = plan;
        point.chunk_layers = NULL;
        double floor_s =
            lattice_floor_s(evaluator, &instance.model, &instance.system.stack, &point);
        struct arena arena = { 0 };
        struct stage_request request = { .model = &instance.model,
                                         .plan = &point,
                                         .memory_bytes = HUGE_VAL,
                                         .limit_s = HUGE_VAL,
                                         .step_s = instance.system.stack.step_s };
        struct stage_table table = stage_table_new(evaluator, &request, &arena);
        struct fronts fronts = fronts_new(&table, &lower_bound, HUGE_VAL, &arena);
        double bound_s = fronts_best_s(&fronts, layers);
        ck_assert_msg(floor_s <= bound_s * (1 + 1e-12), "plan %d: floor %a above %a", i, floor_s,
                      bound_s);
        arena_release(&arena);
    }
    free(space.at);
    evaluator_free(evaluator);
}
END_TEST

/* Of every number of layers that a stage may run again. */
static void check_option(struct evaluator *evaluator, const struct plan *plan,
                         const struct stage_option *option, int stage, int layers)
{
    struct stage_score best = { .forward_s = HUGE_VAL };
    int recomputed = -1;
    for (int n = 0; n <= layers; n++) {
        struct stage_share share = { stage, layers, n };
        struct stage_score score = evaluate_stage(evaluator, plan, &share);
        if (score.memory_bytes > instance.system.gpu.memory_bytes ||
            score.forward_s + score.backward_s >= best.forward_s + best.backward_s)
            continue;
        best = score;
        recomputed = n;
    }
    ck_assert_int_eq(option->fits, recomputed >= 0);
    if (!option->fits)
        return;
    ck_assert_int_eq(option->recomputed, recomputed);
    ck_assert_double_eq_tol(option->forward_s, best.forward_s, 1e-14);
    ck_assert_double_eq_tol(option->backward_s, best.backward_s, 1e-14);
    ck_assert_double_eq(option->data_comm_s, best.data_comm_s);
    ck_assert_double_eq(option->optimizer_s, best.optimizer_s);
}

START_TEST(an_option_is_the_fastest_of_all_that_fit_the_stage)
{
    static const char *const layouts[] = { "pp4 mb4", "pp3 mb2 zero1", "tp2 sp pp4 mb8 zero1",
                                           "pp12 mb1", "pp2 mb8" };
    static const int none[] = { 0 };
    load("gpt3-1.3b", 24);
    instance.model.layers = 14;
    instance.model.batch = 96;
    int tight = 0;
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    for (double memory_bytes = 6e9; memory_bytes < 40e9; memory_bytes *= 1.3) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct plan plan;
        ck_assert(plan_parse(layouts[_i], &arena, &plan, &err));
        ck_assert(plan_derive_data(&plan, 24, &err));
        plan.recompute = RECOMPUTE_BLOCK;
        plan.recompute_layers = none;
        plan.num_recompute_layers = 1;
        instance.system.gpu.memory_bytes = memory_bytes;
        struct stage_request request = { .model = &instance.model,
                                         .plan = &plan,
                                         .memory_bytes = memory_bytes,
                                         .limit_s = HUGE_VAL };
        struct stage_table table = stage_table_new(evaluator, &request, &arena);
        for (int stage = 0; stage < plan.pp; stage++)
            for (int k = 1; k <= table.most_layers; k++) {
                const struct stage_option *option = &stage_options(&table, stage)[k - 1];
                check_option(evaluator, &plan, option, stage, k);
                tight += option->fits && option->recomputed > 0 && option->recomputed < k;
            }
        arena_release(&arena);
    }
    ck_assert_int_gt(tight, 0);
    evaluator_free(evaluator);
}
END_TEST

/* Not in counts either, which at 96 layers are too large for sums of them to be exact. */
START_TEST(the_number_of_jobs_cannot_be_seen)
{
    if (_i == 0)
        make_random(4001);
    else
        load("gpt3-175b", 1024);
    instance.model.batch = _i == 0 ? 32 : 1536;
    struct search_request request = new_request();
    request.recompute_mixes = true;
    request.fix = _i == 0 ? NULL : "pp64";
    struct search_result one, eight;
    request.jobs = 1;
    run(&request, &one);
    request.jobs = 8;
    run(&request, &eight);
    ck_assert_int_gt(one.num_top, 0);
    ck_assert_int_eq(one.num_top, eight.num_top);
    for (int i = 0; i < one.num_top; i++)
        ck_assert(plan_equal(&one.top[i].plan, &eight.top[i].plan));
    ck_assert_double_eq(one.evaluated, eight.evaluated);
    ck_assert_double_eq(one.bounded, eight.bounded);
    ck_assert_double_eq(one.infeasible, eight.infeasible);
    search_result_release(&one);
    search_result_release(&eight);
}
END_TEST

static double event_s(const struct plan *plan)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct event_step step;
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    bool ok = event_step_run(evaluator, &instance.model, plan, &arena, &step, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    evaluator_free(evaluator);
    arena_release(&arena);
    return step.step_s;
}

/* A vocabulary of 128k makes the head as long as two layers and more: at pp 4 and 8 of 32 layers
 * the last stage should have fewer. In the event engine too. */
START_TEST(uneven_stages_beat_even_ones_under_a_large_vocabulary)
{
    static const char *const fixed[] = { "pp4", "pp8" };
    load("llama3-8b", 32);
    instance.model.batch = 512;
    struct search_request request = new_request();
    request.fix = fixed[_i];
    struct search_result result;
    run(&request, &result);
    ck_assert(result.proved_optimal);
    ck_assert_ptr_nonnull(result.even_best);
    const struct scored_plan *best = &result.top[0];
    ck_assert_ptr_nonnull(best->plan.chunk_layers);
    ck_assert_double_lt(best->prediction.step_s, 0.99 * result.even_best->prediction.step_s);
    ck_assert_double_lt(event_s(&best->plan), 0.99 * event_s(&result.even_best->plan));
    search_result_release(&result);
}
END_TEST

static bool always(void)
{
    return true;
}

START_TEST(an_ended_search_proves_nothing)
{
    make_random(4001);
    struct search_request request = new_request();
    request.interrupted = always;
    struct search_result result;
    run(&request, &result);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved_optimal);
    search_result_release(&result);
}
END_TEST

START_TEST(schedules_without_a_bound_keep_even_chunks_and_say_so)
{
    make_random(4001);
    struct search_request request = new_request();
    request.fix = "schedule=zb-h1";
    struct search_result result;
    run(&request, &result);
    ck_assert(!result.proved_optimal);
    ck_assert_double_gt(result.lower_bound_s, 0);
    ck_assert_double_lt(result.lower_bound_s, result.top[0].prediction.step_s);
    ck_assert_ptr_nonnull(strstr(result.space_name, "other schedules than 1f1b"));
    for (int i = 0; i < result.num_top; i++)
        ck_assert_ptr_null(result.top[i].plan.chunk_layers);
    search_result_release(&result);
}
END_TEST

START_TEST(what_is_not_fixed_or_forbidden_alone_is_divided)
{
    make_random(4001);
    struct search_request request = new_request();
    struct search_result with, without;
    run(&request, &with);
    request.forbid = "stages";
    run(&request, &without);
    ck_assert_double_gt(with.candidates, without.candidates);
    for (int i = 0; i < without.num_top; i++)
        ck_assert_ptr_null(without.top[i].plan.chunk_layers);
    search_result_release(&with);
    search_result_release(&without);
}
END_TEST

static void check_refused(const struct search_request *request, const char *where)
{
    struct search_result result;
    struct err err = { 0 };
    ck_assert(!search_run(request, &result, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, where);
    search_result_release(&result);
}

START_TEST(what_cannot_be_divided_is_refused)
{
    make_random(4001);
    struct search_request request = new_request();
    request.objective = OBJECTIVE_MEMORY;
    check_refused(&request, "--objective");
    request.objective = OBJECTIVE_TIME;
    request.method = "exhaustive";
    check_refused(&request, "--uneven");
    request.uneven = false;
    request.recompute_mixes = true;
    check_refused(&request, "--recompute-mixes");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("uneven");
    TCase *tables = tcase_create("tables");
    tcase_set_timeout(tables, 60);
    tcase_add_test(tables, the_program_finds_what_all_divisions_one_by_one_have);
    tcase_add_test(tables, an_expansion_that_was_cut_short_tells_no_more_than_it_knows);
    tcase_add_test(tables, divisions_are_counted_as_they_are_listed);
    suite_add_tcase(s, tables);
    TCase *searches = tcase_create("searches");
    tcase_set_timeout(searches, 60);
    tcase_add_checked_fixture(searches, NULL, tear_down);
    tcase_add_loop_test(searches, the_best_plan_is_that_of_all_plans_listed_one_by_one, 0,
                        NUM_SPACES);
    tcase_add_loop_test(searches, the_floor_of_a_point_is_under_its_divisions, 0, 6);
    tcase_add_loop_test(searches, an_option_is_the_fastest_of_all_that_fit_the_stage, 0, 5);
    tcase_add_loop_test(searches, the_number_of_jobs_cannot_be_seen, 0, 2);
    tcase_add_loop_test(searches, uneven_stages_beat_even_ones_under_a_large_vocabulary, 0, 2);
    tcase_add_test(searches, an_ended_search_proves_nothing);
    tcase_add_test(searches, schedules_without_a_bound_keep_even_chunks_and_say_so);
    tcase_add_test(searches, what_is_not_fixed_or_forbidden_alone_is_divided);
    tcase_add_test(searches, what_cannot_be_divided_is_refused);
    suite_add_tcase(s, searches);
    return s;
}

TEST_MAIN(suite)
