#include "search/search.h"

#include "search/splits.h"
#include "search/uneven/expand.h"
#include "search/uneven/lattice.h"
#include "sim/engine/event_step.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"
#include "tests/search/uneven_space.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct instance instance;

static void load(const char *model, int num_gpus)
{
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", num_gpus, &instance.system, &err), &err);
    check_ok(model_load(model, &instance.model, &err), &err);
}

static void tear_down(void)
{
    instance_release(&instance);
}

/* Draws few layers, so that all divisions can be listed, and so much memory that some divisions fit
 * and others do not.
 */
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

/* Makes the first half of the layers `times` as wide as the others, like dense layers before layers
 * with experts. */
static void widen_first(int times)
{
    struct model *model = &instance.model;
    int first = model->layers / 2;
    struct block_kind wide = { 16, 16, 128, 8192 * times, ATTENTION_FULL, FEED_FORWARD_DENSE, 0 };
    struct block_kind other = { 16, 16, 128, 8192, ATTENTION_FULL, FEED_FORWARD_DENSE, 0 };
    model->blocks = (struct blocks){ .kinds = { wide, other },
                                     .runs = { { 0, first }, { 1, model->layers - first } },
                                     .num_kinds = 2,
                                     .num_runs = 2 };
}

/* Makes all layers except the first and the last `times` as wide as these. */
static void widen_middle(int times)
{
    struct model *model = &instance.model;
    widen_first(times);
    model->blocks.num_runs = 3;
    model->blocks.runs[0] = (struct block_run){ 1, 1 };
    model->blocks.runs[1] = (struct block_run){ 0, model->layers - 2 };
    model->blocks.runs[2] = (struct block_run){ 1, 1 };
}

/* Makes every second layer `times` as wide as the others. */
static void widen_every_second(int times)
{
    struct model *model = &instance.model;
    model->layers = 2 * (model->layers / 2);
    widen_first(times);
    model->blocks.runs[0].layers = model->blocks.runs[1].layers = 1;
}

static struct search_request new_request(void)
{
    struct search_request request = instance_request(&instance);
    request.method = "dp";
    request.uneven = true;
    request.top = 5;
    return request;
}

enum { NUM_SPACES = 18 };

START_TEST(the_best_plan_equals_that_of_enumerating_all_plans)
{
    if (is_spared(_i, 3))
        return;
    make_random(4000 + (uint64_t)_i); /* Check prints _i when the test fails */
    if (_i % 4 == 2)
        widen_first(1 + _i % 5);
    if (_i % 4 == 3)
        widen_every_second(2);
    instance.model.mtp = _i % 5 < 2 ? 1 + _i % 2 : 0;
    struct search_request request = new_request();
    request.recompute_mixes = _i % 3 != 0;
    request.method = _i % 2 ? "dp" : "bnb";
    request.uneven = _i % 6 != 4;
    struct search_result result = search_of(&request);
    struct uneven_space listed = uneven_space_list(&request);
    ck_assert(result.proved_optimal);
    ck_assert_double_eq(result.candidates, listed.plans);
    ck_assert_double_eq(result.candidates, result.evaluated + result.bounded + result.infeasible);
    ck_assert_int_eq(result.num_top > 0, listed.fastest_s < HUGE_VAL);
    if (result.num_top > 0) {
        ck_assert_double_eq_tol(result.top[0].prediction.step_s, listed.fastest_s,
                                1e-9 * listed.fastest_s);
        ck_assert(result.top[0].prediction.fits);
        ck_assert_double_eq(result.lower_bound_s, result.top[0].prediction.step_s);
    }
    for (int i = 1; i < result.num_top; i++)
        ck_assert(!plan_equal(&result.top[i].plan, &result.top[i - 1].plan));
    search_result_release(&result);
}
END_TEST

/* The minimum times of a stage with `layers` layers, over all stages and all positions of the
 * layers. */
struct least {
    double pass_s, longer_s, optimizer_s;
};

static struct least least_of(struct evaluator *evaluator, const struct plan *plan, int layers)
{
    struct least least = { HUGE_VAL, HUGE_VAL, HUGE_VAL };
    for (int stage = 0; stage < plan->pp; stage++)
        for (int first = 0; first + layers <= instance.model.layers; first++) {
            struct stage_share share = { stage, layers, 0, first };
            struct stage_score score = evaluate_stage(evaluator, plan, &share);
            least.pass_s = fmin(least.pass_s, score.forward_s + score.backward_s);
            least.longer_s = fmin(least.longer_s, fmax(score.forward_s, score.backward_s));
            least.optimizer_s = fmin(least.optimizer_s, score.optimizer_s);
        }
    return least;
}

/* The lower bound of all divisions by the formulas of search/uneven/floor.c, from the times of all
 * stages and places. Here p is the number of stages, T the pass of a stage with a p-th of the
 * layers, A the pass of all layers, m the number of microbatches, and w = min(p, m - 1). The bound
 * is A + (m - 1 - (w - 1) / 2) T or, if m <= p and this is less, A + (m - 1) times the longer of
 * forward and backward. */
static double work_floor_by_hand(struct evaluator *evaluator, const struct plan *plan,
                                 double *optimizer_s)
{
    const struct model *model = &instance.model;
    int most = model->layers - plan->pp + 1, mean = (model->layers - 1) / plan->pp + 1;
    struct least full = least_of(evaluator, plan, mean);
    double all_s = least_of(evaluator, plan, most).pass_s;
    *optimizer_s = full.optimizer_s;
    if (model_num_kinds(model) == 1)
        all_s *= (double)model->layers / most;
    double m = plan_microbatches(plan, model->batch), w = fmin(plan->pp, m - 1);
    double turns_s = (m - 1 - (w - 1) / 2) * full.pass_s;
    return all_s + (m <= plan->pp ? fmin(turns_s, (m - 1) * full.longer_s) : turns_s);
}

static double once_by_hand(struct evaluator *evaluator, const struct plan *plan)
{
    struct plan longest = *plan;
    int most = instance.model.layers - plan->pp + 1;
    double passes_s = 0;
    if (exchange_keeps_replicas_equal(&plan->exchange))
        return instance.system.stack.host.step_s;
    longest.recompute = RECOMPUTE_BLOCK;
    for (int stage = 0; stage < plan->pp; stage++)
        for (int first = 0; first + most <= instance.model.layers; first++) {
            struct stage_share share = { stage, most, most, first };
            struct stage_score score = evaluate_stage(evaluator, &longest, &share);
            passes_s = fmax(passes_s, score.forward_s + score.backward_s);
        }
    return evaluate_least_once_s(evaluator, plan, passes_s);
}

static void check_floor_by_hand(struct evaluator *evaluator, const struct plan *plan)
{
    const struct stack *stack = &instance.system.stack;
    struct stage_share one = { 0, plan->pp == 1 ? instance.model.layers : 1, 0, 0 };
    double once_s = once_by_hand(evaluator, plan), optimizer_s, unused_s;
    double floor_s = work_floor_by_hand(evaluator, plan, &optimizer_s) + optimizer_s +
                     evaluate_stage(evaluator, plan, &one).data_comm_s + once_s;
    ck_assert_double_eq_tol(lattice_once_s(evaluator, &instance.model, stack, plan), once_s, 1e-15);
    ck_assert_double_eq_tol(lattice_floor_s(evaluator, &instance.model, stack, plan), floor_s,
                            1e-12 * floor_s);
    struct plan least = *plan;
    least.zero = 0;
    least.recompute = RECOMPUTE_NONE;
    double block_s = work_floor_by_hand(evaluator, &least, &unused_s) + once_s;
    ck_assert_double_eq_tol(lattice_block_floor_s(evaluator, &instance.model, stack, plan), block_s,
                            1e-12 * block_s);
}

/* The lower bound must also hold with a gossip exchange, where ranks wait less for each other. */
START_TEST(the_floor_of_a_plan_is_at_most_every_division)
{
    struct exchange exchange = { 0 };
    struct err none = { 0 };
    make_random(9000 + (uint64_t)_i);
    if (_i % 3 == 2) /* the first and the last layer are narrower than the others */
        widen_middle(3);
    if (_i % 2 == 1) {
        instance.system.profile.pass_spread = 0.3;
        ck_assert(exchange_read("gossip:ring", &exchange, &none));
    }
    instance.system.stack.host.step_s = 2e-3;
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    struct naive_space space = naive_space_new(&instance.model, instance.system.num_gpus);
    for (int i = 0; i < space.count; i++) {
        struct err err = { 0 };
        struct plan plan = space.at[i];
        int layers[MOST_LISTED_LAYERS];
        plan.exchange = exchange;
        if (plan.vpp > 1 || plan.pp > instance.model.layers)
            continue;
        for (int stage = 0; stage < plan.pp; stage++) /* the most layers that each stage can have */
            layers[stage] = 1;
        plan.chunk_layers = layers;
        plan.num_chunk_layers = plan.pp;
        layers[i % plan.pp] = instance.model.layers - plan.pp + 1;
        if (plan_check(&plan, &instance.model, instance.model.batch, instance.system.num_gpus,
                       &err))
            continue;
        struct plan point = plan;
        point.chunk_layers = NULL;
        if (i % 5 == 0)
            check_floor_by_hand(evaluator, &point);
        double floor_s =
            lattice_floor_s(evaluator, &instance.model, &instance.system.stack, &point);
        struct arena arena = { 0 };
        struct stage_request request = { .model = &instance.model,
                                         .plan = &point,
                                         .memory_bytes = HUGE_VAL,
                                         .limit_s = HUGE_VAL,
                                         .step_s = lattice_once_s(evaluator, &instance.model,
                                                                  &instance.system.stack, &point) };
        struct stage_table table = stage_table_new(evaluator, &request, &arena);
        struct fronts fronts = fronts_new(&table, &lower_bound, HUGE_VAL, &arena);
        double bound_s = fronts_best_s(&fronts, layers);
        double step_s = evaluate_step_s(evaluator, &plan);
        ck_assert_msg(floor_s <= bound_s * (1 + 1e-12),
                      "plan %d: the bound of all divisions, %a, exceeds that of one, %a", i,
                      floor_s, bound_s);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-9),
                      "plan %d: the lower bound %a exceeds the step time %a", i, bound_s, step_s);
        arena_release(&arena);
    }
    free(space.at);
    evaluator_free(evaluator);
}
END_TEST

/* Checks the options of a stage for every number of recomputed layers. */
static void check_option(struct evaluator *evaluator, const struct plan *plan,
                         const struct stage_option *option, int stage, int first, int layers)
{
    struct stage_score best = { .forward_s = HUGE_VAL };
    int recomputed = -1;
    for (int n = 0; n <= layers; n++) {
        struct stage_share share = { stage, layers, n, first };
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

/* Checks the options of a stage that begins at layer `first`, for all numbers of layers; returns
 * how many options recompute only some of the layers. */
static int check_options(struct evaluator *evaluator, const struct plan *plan,
                         const struct stage_table *table, int stage, int first)
{
    int behind = plan->pp - 1 - stage, most = table->most_layers, tight = 0;
    if (table->num_firsts > 1)
        most = table->num_layers - first - behind;
    if (table->num_firsts > 1 && (first < stage || (stage == 0 && first > 0)))
        return 0;
    int fewest = table->num_firsts > 1 && behind == 0 && most > 0 ? most : 1;
    for (int k = fewest; k <= most; k++) {
        const struct stage_option *option = &stage_options(table, stage, first)[k];
        check_option(evaluator, plan, option, stage, first, k);
        tight += option->fits && option->recomputed > 0 && option->recomputed < k;
    }
    return tight;
}

START_TEST(an_option_is_the_fastest_division_that_fits_the_stage)
{
    static const char *const layouts[] = { "pp4 mb4", "pp3 mb2 zero1", "tp2 sp pp4 mb8 zero1",
                                           "pp12 mb1", "pp2 mb8" };
    static const int none[] = { 0 };
    load("gpt3-1.3b", 24);
    instance.model.layers = 14;
    instance.model.batch = 96;
    if (_i % 2 == 1)
        instance.model.blocks = (struct blocks){
            .kinds = { { 16, 16, 128, 16384, ATTENTION_FULL, FEED_FORWARD_DENSE, 0 },
                       { 16, 16, 128, 8192, ATTENTION_FULL, FEED_FORWARD_DENSE, 0 } },
            .runs = { { 0, 3 }, { 1, 11 } },
            .num_kinds = 2,
            .num_runs = 2
        };
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
            for (int first = 0; first < table.num_firsts; first++)
                tight += check_options(evaluator, &plan, &table, stage, first);
        arena_release(&arena);
    }
    ck_assert_int_gt(tight, 0);
    evaluator_free(evaluator);
}
END_TEST

/* Counts of plans must not depend on the number of jobs (threads) either; with 96 layers they are
 * too large for exact sums. */
START_TEST(the_answer_does_not_depend_on_the_number_of_jobs)
{
    if (is_spared(_i, 1))
        return;
    if (_i == 0)
        make_random(4001);
    else
        load("gpt3-175b", 1024);
    instance.model.batch = _i == 0 ? 32 : 1536;
    struct search_request request = new_request();
    request.recompute_mixes = true;
    request.fix = _i == 0 ? NULL : "pp64";
    request.jobs = 1;
    struct search_result one = search_of(&request);
    request.jobs = 8;
    struct search_result eight = search_of(&request);
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
    check_ok(event_step_run(evaluator, &instance.model, plan, &arena, &step, &err), &err);
    evaluator_free(evaluator);
    arena_release(&arena);
    return step.step_s;
}

/* With a vocabulary of 128k the head takes longer than two layers. So with 32 layers on 4 or 8
 * stages, the last stage should have fewer layers than the others. The event engine must agree that
 * this is faster. */
START_TEST(with_a_large_vocabulary_uneven_stages_are_faster)
{
    static const char *const fixed[] = { "pp4", "pp8" };
    load("llama3-8b", 32);
    instance.model.batch = 512;
    struct search_request request = new_request();
    request.fix = fixed[_i];
    request.chunks = CHUNKS_EVEN;
    struct search_result result = search_of(&request);
    ck_assert(result.proved_optimal);
    ck_assert_ptr_nonnull(result.even_best);
    const struct scored_plan *best = &result.top[0];
    ck_assert_ptr_nonnull(best->plan.chunk_layers);
    ck_assert_double_lt(best->prediction.step_s, 0.99 * result.even_best->prediction.step_s);
    ck_assert_double_lt(event_s(&best->plan), 0.99 * event_s(&result.even_best->plan));
    search_result_release(&result);
}
END_TEST

START_TEST(an_ended_search_proves_nothing)
{
    make_random(4001);
    struct search_request request = new_request();
    request.interrupted = always;
    struct search_result result = search_of(&request);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved_optimal);
    search_result_release(&result);
}
END_TEST

START_TEST(schedules_without_a_bound_keep_even_chunks_with_a_note)
{
    load("gpt3-1.3b", 16);
    instance.model.batch = 64;
    struct search_request request = new_request();
    request.fix = "schedule=dualpipe";
    request.chunks = CHUNKS_EVEN;
    struct search_result result = search_of(&request);
    ck_assert(!result.proved_optimal);
    ck_assert_double_gt(result.lower_bound_s, 0);
    ck_assert_double_lt(result.lower_bound_s, result.top[0].prediction.step_s);
    ck_assert_ptr_nonnull(strstr(result.space_name, "two copies of the model"));
    for (int i = 0; i < result.num_top; i++)
        ck_assert_ptr_null(result.top[i].plan.chunk_layers);
    search_result_release(&result);
}
END_TEST

/* The end of the space's name, which states how stages are divided. */
#define DEALT ", dealt to its chunks one by one"
#define RING  "with interleaved stages also any number of layers per stage" DEALT
static const struct {
    const char *fix;
    bool uneven, mixes, modules;
    int stage_types;
    const char *end;
} named[] = {
    { "pp2", true, false, false, 0, "; with 1f1b also uneven chunks; " RING },
    { "pp2 vpp1", true, false, false, 0, "; with 1f1b also uneven chunks" },
    { "pp2 vpp2", true, false, false, 0,
      "; with schedule=interleaved also any number of layers per stage" DEALT },
    { "pp2 recompute=full", true, true, false, 0,
      "; with 1f1b also uneven chunks and a different recompute for each stage; " RING },
    { "pp2", true, true, false, 0,
      "; with 1f1b also uneven chunks and other layers or modules recomputed on each "
      "stage; " RING },
    { "pp2 recompute=full", false, true, false, 0,
      "; with 1f1b also a different recompute for each stage, if all stages have equally many "
      "layers" },
    { "pp2", true, false, false, 2, "; with 1f1b also uneven chunks" },
    { "pp2", true, false, true, 0,
      "; with 1f1b also uneven chunks; " RING
      "; with uneven stages, selective recompute repeats only attention's core" },
    { "pp2 vpp1", true, true, true, 0,
      "; with 1f1b also uneven chunks and other layers or modules recomputed on each stage" },
    { "pp2 vpp2 schedule=interleaved", true, false, false, 0,
      "; with schedule=interleaved also any number of layers per stage" DEALT },
    { "pp2 vpp2 schedule=zb-v", true, false, false, 0,
      "; with schedule=zb-v also any number of layers per stage" DEALT },
    { "pp2 schedule=zb-h1", true, false, false, 0,
      "; with schedule=zb-h1 also any number of layers per stage" },
    { "pp2 schedule=1f1b", true, false, false, 0, "; with 1f1b also uneven chunks" },
    { "pp2 schedule=zb-h1", true, false, false, 2,
      "; no uneven stages with schedules other than 1f1b" },
    { "pp2 schedule=dualpipe", true, false, true, 0,
      "; no uneven stages with a schedule with two copies of the model" },
    { "pp2 vpp1 stages=2,2", true, false, false, 0, "; no uneven stages with given chunks" },
    { "pp2 recompute=block:1", true, false, false, 0,
      "; no uneven stages with a given list of recomputed layers" },
};

START_TEST(the_name_of_the_space_states_how_stages_are_divided)
{
    make_random(4001);
    instance.model.layers = 4;
    struct search_request request = new_request();
    request.method = named[_i].stage_types > 0 ? "milp" : "bnb";
    request.fix = named[_i].fix;
    request.uneven = named[_i].uneven;
    request.recompute_mixes = named[_i].mixes;
    request.recompute_modules = named[_i].modules;
    request.stage_types = named[_i].stage_types;
    request.interrupted = always;
    struct search_result result = search_of(&request);
    const char *fixed = strstr(result.space_name, named[_i].fix);
    bool picks = strstr(result.space_name, "of the fastest modules that fit") != NULL;
    ck_assert_int_eq(picks, named[_i].modules);
    ck_assert_ptr_nonnull(fixed);
    const char *end = fixed + strlen(named[_i].fix);
    size_t length = named[_i].stage_types > 0 ? strlen(named[_i].end) : strlen(end);
    ck_assert_msg(strlen(named[_i].end) == length && strncmp(end, named[_i].end, length) == 0,
                  "the space's name ends with: %s", end);
    search_result_release(&result);
}
END_TEST

START_TEST(only_words_that_are_neither_fixed_nor_forbidden_are_divided)
{
    make_random(4001);
    struct search_request request = new_request();
    struct search_result with = search_of(&request);
    request.forbid = "stages";
    struct search_result without = search_of(&request);
    ck_assert_double_gt(with.candidates, without.candidates);
    for (int i = 0; i < without.num_top; i++)
        ck_assert_ptr_null(without.top[i].plan.chunk_layers);
    search_result_release(&with);
    search_result_release(&without);
}
END_TEST

/* The option changes nothing if the request fixes recompute, forbids full recompute, or forbids
 * plans without recompute: stages then cannot recompute different numbers of layers. */
START_TEST(recompute_is_mixed_only_if_none_and_full_are_allowed)
{
    static const char *const words[][2] = {
        { "pp2 recompute=full", NULL },      { "pp2 recompute=none", NULL },
        { "pp2 recompute=selective", NULL }, { "pp2", "recompute=full" },
        { "pp2", "recompute=none" },
    };
    make_random(4004);
    for (size_t i = 0; i < LENGTH(words); i++) {
        struct search_request request = new_request();
        request.fix = words[i][0];
        request.forbid = words[i][1];
        struct search_result without = search_of(&request);
        request.recompute_mixes = true;
        struct search_result with = search_of(&request);
        ck_assert_int_eq(with.num_top, without.num_top);
        for (int k = 0; k < with.num_top; k++)
            ck_assert(plan_equal(&with.top[k].plan, &without.top[k].plan));
        search_result_release(&with);
        search_result_release(&without);
    }
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

START_TEST(plans_that_cannot_be_divided_are_refused)
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
    TCase *searches = tcase_create("searches");
    tcase_set_timeout(searches, 60);
    tcase_add_checked_fixture(searches, NULL, tear_down);
    tcase_add_loop_test(searches, the_best_plan_equals_that_of_enumerating_all_plans, 0,
                        NUM_SPACES);
    tcase_add_loop_test(searches, the_floor_of_a_plan_is_at_most_every_division, 0, 6);
    tcase_add_loop_test(searches, an_option_is_the_fastest_division_that_fits_the_stage, 0, 5);
    tcase_add_loop_test(searches, with_a_large_vocabulary_uneven_stages_are_faster, 0, 2);
    tcase_add_test(searches, an_ended_search_proves_nothing);
    tcase_add_test(searches, schedules_without_a_bound_keep_even_chunks_with_a_note);
    tcase_add_loop_test(searches, the_name_of_the_space_states_how_stages_are_divided, 0,
                        LENGTH(named));
    tcase_add_test(searches, only_words_that_are_neither_fixed_nor_forbidden_are_divided);
    tcase_add_test(searches, recompute_is_mixed_only_if_none_and_full_are_allowed);
    tcase_add_test(searches, plans_that_cannot_be_divided_are_refused);
    suite_add_tcase(s, searches);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_set_timeout(threads, 60);
    tcase_add_checked_fixture(threads, NULL, tear_down);
    tcase_add_loop_test(threads, the_answer_does_not_depend_on_the_number_of_jobs, 0, 2);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
