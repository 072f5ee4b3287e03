#include "search/search.h"

#include "search/room.h"
#include "search/space.h"
#include "sim/plan/ranks.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
}

static void tear_down(void)
{
    instance_release(&instance);
}

static void make_random(uint64_t seed)
{
    instance_randomize(&instance, seed);
}

static struct search_request new_request(void)
{
    return instance_request(&instance);
}

/* A plan that the brute-force loop found. */
struct found {
    char *layout;
    double step_s, peak_memory_bytes;
};

struct brute {
    struct found *fits;
    int num_fits;
    double broken[64];
    double candidates, over_memory;
    char
        *least_layout; /* among the plans that do not fit, the layout that needs the least memory */
    double least_bytes;
};

static void see_over_memory(struct brute *brute, char *layout, double bytes)
{
    brute->over_memory++;
    bool is_less = !brute->least_layout || bytes < brute->least_bytes ||
                   (bytes == brute->least_bytes && strcmp(layout, brute->least_layout) < 0);
    if (!is_less) {
        free(layout);
        return;
    }
    free(brute->least_layout);
    brute->least_layout = layout;
    brute->least_bytes = bytes;
}

static struct brute brute_force(void)
{
    const struct system *system = &instance.system;
    const struct model *model = &instance.model;
    struct naive_space space = naive_space_new(model, system->num_gpus);
    struct evaluator *evaluator = evaluator_new(system, model);
    struct brute brute = { .fits = calloc((size_t)space.count, sizeof *brute.fits),
                           .candidates = space.count };
    for (int i = 0; i < space.count; i++) {
        const struct plan_rule *rule = naive_rule(&space.at[i], model, system->num_gpus, system);
        if (rule) {
            brute.broken[plan_rule_number(rule)]++;
            continue;
        }
        naive_settle(evaluator, model, &space.at[i]);
        struct prediction p = evaluate(evaluator, &space.at[i]);
        char *layout = naive_layout(&space.at[i]);
        if (p.fits)
            brute.fits[brute.num_fits++] = (struct found){ layout, p.step_s, p.peak_memory_bytes };
        else
            see_over_memory(&brute, layout, p.peak_memory_bytes);
    }
    evaluator_free(evaluator);
    free(space.at);
    return brute;
}

static void brute_release(struct brute *brute)
{
    for (int i = 0; i < brute->num_fits; i++)
        free(brute->fits[i].layout);
    free(brute->fits);
    free(brute->least_layout);
}

static int compare_doubles(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_time(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    int order = compare_doubles(left->step_s, right->step_s);
    return order ? order : strcmp(left->layout, right->layout);
}

static int by_memory(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    int order = compare_doubles(left->peak_memory_bytes, right->peak_memory_bytes);
    return order ? order : by_time(a, b);
}

static void check_layout(const struct plan *plan, const char *expected)
{
    char *layout = naive_layout(plan);
    ck_assert_str_eq(layout, expected);
    free(layout);
}

static void check_top(const struct search_result *result, const struct brute *brute, int top)
{
    ck_assert_int_eq(result->num_top, brute->num_fits < top ? brute->num_fits : top);
    for (int i = 0; i < result->num_top; i++) {
        check_layout(&result->top[i].plan, brute->fits[i].layout);
        ck_assert_double_eq(result->top[i].prediction.step_s, brute->fits[i].step_s);
        ck_assert_double_eq(result->top[i].prediction.peak_memory_bytes,
                            brute->fits[i].peak_memory_bytes);
    }
}

static void check_counts(const struct search_result *result, const struct brute *brute)
{
    ck_assert_double_eq(result->candidates, brute->candidates);
    ck_assert_double_eq(result->evaluated, brute->num_fits);
    ck_assert_double_eq(result->candidates,
                        result->evaluated + result->bounded + result->infeasible);
    for (int i = 0; i < plan_num_rules(); i++)
        ck_assert_double_eq(exclusion_of(result, plan_rule_at(i)->name), brute->broken[i]);
    ck_assert_double_eq(exclusion_of(result, "memory"), brute->over_memory);
    double sum = 0;
    for (int i = 0; i < result->num_exclusions; i++) {
        sum += result->exclusions[i].count;
        ck_assert(i == 0 || result->exclusions[i].count <= result->exclusions[i - 1].count);
    }
    ck_assert_double_eq(sum, result->infeasible);
}

enum { NUM_RANDOM = 24 };

START_TEST(an_exhaustive_search_equals_a_brute_force_loop)
{
    if (is_spared(_i, 2))
        return;
    make_random(1000 + (uint64_t)_i); /* if this fails, Check prints _i */
    struct search_request request = new_request();
    request.method = "exhaustive";
    request.objective = _i % 3;
    struct search_result result = search_of(&request);
    struct brute brute = brute_force();
    qsort(brute.fits, (size_t)brute.num_fits, sizeof *brute.fits,
          request.objective == OBJECTIVE_MEMORY ? by_memory : by_time);
    check_top(&result, &brute, request.top);
    check_counts(&result, &brute);
    ck_assert(result.proved_optimal);
    if (brute.num_fits > 0) {
        qsort(brute.fits, (size_t)brute.num_fits, sizeof *brute.fits, by_time);
        ck_assert_double_eq(result.lower_bound_s, brute.fits[0].step_s);
    }
    ck_assert_int_eq(result.has_nearest, brute.num_fits == 0 && brute.least_layout != NULL);
    if (result.has_nearest) {
        check_layout(&result.nearest.plan, brute.least_layout);
        ck_assert_double_eq(result.nearest.prediction.peak_memory_bytes, brute.least_bytes);
    }
    brute_release(&brute);
    search_result_release(&result);
}
END_TEST

/* Returns the mean of two peaks of a plan with full recompute: the peak if it keeps each layer's
 * input, and the peak if it keeps every second layer's input. The plan is the one with the largest
 * difference. */
static double memory_between(void)
{
    const struct model *model = &instance.model;
    int num_gpus = instance.system.num_gpus;
    struct naive_space space = naive_space_kept(model, num_gpus, &instance.system);
    struct evaluator *evaluator = evaluator_new(&instance.system, model);
    double between = 0, least = 1;
    for (int i = 0; i < space.count; i++) {
        struct err err = { 0 };
        struct plan grouped = space.at[i];
        grouped.recompute = RECOMPUTE_EVERY;
        grouped.recompute_every = 2;
        if (space.at[i].recompute != RECOMPUTE_FULL ||
            plan_check(&grouped, model, model->batch, num_gpus, &err))
            continue;
        double full_bytes = evaluate_peak_bytes(evaluator, &space.at[i]);
        double grouped_bytes = evaluate_peak_bytes(evaluator, &grouped);
        if (grouped_bytes / full_bytes < least) {
            least = grouped_bytes / full_bytes;
            between = (grouped_bytes + full_bytes) / 2;
        }
    }
    evaluator_free(evaluator);
    free(space.at);
    return between;
}

START_TEST(if_full_recompute_does_not_fit_groups_of_layers_replace_it)
{
    static const char *const methods[] = { "exhaustive", "bnb" };
    int grouped = 0;
    for (int i = 0; i < SAMPLED(6, 3); i++) {
        make_random(300 + (uint64_t)i);
        instance.model.seq = 8192;
        instance.system.num_gpus = 8;
        instance.system.gpu.memory_bytes = memory_between();
        struct search_request request = new_request();
        request.top = MAX_TOP;
        struct brute brute = brute_force();
        qsort(brute.fits, (size_t)brute.num_fits, sizeof *brute.fits, by_time);
        for (int m = 0; m < LENGTH(methods) && instance.system.gpu.memory_bytes > 0; m++) {
            request.method = methods[m];
            struct search_result result = search_of(&request);
            check_top(&result, &brute, request.top);
            for (int j = 0; j < result.num_top; j++)
                grouped += result.top[j].plan.recompute == RECOMPUTE_EVERY;
            search_result_release(&result);
            request.fix = "recompute=full"; /* full recompute, which keeps every layer's input */
            result = search_of(&request);
            for (int j = 0; j < result.num_top; j++)
                ck_assert_int_eq(result.top[j].plan.recompute, RECOMPUTE_FULL);
            search_result_release(&result);
            request.fix = NULL;
        }
        brute_release(&brute);
    }
    ck_assert_int_gt(grouped, 0);
}
END_TEST

START_TEST(checkpoints_of_several_layers_take_the_time_of_one_per_layer)
{
    make_random(78);
    const struct model *model = &instance.model;
    struct naive_space space = naive_space_new(model, 16);
    instance.system.num_gpus = 16;
    struct evaluator *evaluator = evaluator_new(&instance.system, model);
    for (int i = 0; i < space.count; i++) {
        struct err err = { 0 };
        struct plan grouped = space.at[i];
        grouped.recompute = RECOMPUTE_EVERY;
        grouped.recompute_every = 2;
        if (space.at[i].recompute != RECOMPUTE_FULL ||
            plan_check(&grouped, model, model->batch, 16, &err))
            continue;
        ck_assert_double_eq(evaluate_step_s(evaluator, &grouped),
                            evaluate_step_s(evaluator, &space.at[i]));
        ck_assert_double_eq(evaluate_bound_s(evaluator, &grouped),
                            evaluate_bound_s(evaluator, &space.at[i]));
        ck_assert_double_le(evaluate_least_grouped_bytes(evaluator, &space.at[i]),
                            evaluate_peak_bytes(evaluator, &grouped));
    }
    evaluator_free(evaluator);
    free(space.at);
}
END_TEST

/* The candidates of a block have the same degrees, but different recompute (also full:K) and
 * different splits of the layers. Compares the floors (lower bounds) of a block with its
 * candidates. */
struct floored {
    const struct space *space;
    struct evaluator *evaluator;
    struct block_floors floors;
    double tightest; /* the smallest relative distance of a candidate's memory from its floor */
    int count;
};

static bool check_floor(void *context, const struct plan *plan)
{
    struct floored *floored = context;
    double floor_bytes = space_floor_bytes(&floored->floors, floored->evaluator, plan);
    double least_bytes = space_least_bytes(floored->space, floored->evaluator, plan);
    struct plan placed = *plan;
    /* enough for full recompute, if the network's buffers are not counted */
    double most_bytes = evaluate_unplaced_bytes(floored->evaluator, plan);
    ck_assert_double_le(least_bytes,
                        space_peak_bytes(floored->space, floored->evaluator, most_bytes, &placed));
    ck_assert_double_gt(floor_bytes, 0);
    ck_assert_double_le(floor_bytes, least_bytes);
    double of_place[NUM_MTP_PLACES];
    double of_block = space_least_floor_bytes(floored->space, floored->evaluator, plan, of_place);
    ck_assert_double_le(of_block, of_place[plan->mtp_place]);
    ck_assert_double_le(of_place[plan->mtp_place], floor_bytes);
    ck_assert_double_le(evaluate_first_stage_bytes(floored->evaluator, plan), least_bytes);
    floored->tightest = fmin(floored->tightest, 1 - floor_bytes / least_bytes);
    floored->count++;
    return true;
}

static void ignore(void *context, const struct plan_rule *rule, double count)
{
    (void)context, (void)rule, (void)count;
}

static const struct {
    const char *stack, *words;
} kept_by[] = {
    { "megatron-core", "" },
    { "megatron-core", "optimizer=muon" },
    { "megatron-core", "grad=bf16 optimizer=adam-bf16" },
    { "torchtitan", "shard=2" },
    { "megatron-core", "dtype=fp8" },
    { "megatron-deepspeed", "offload=optimizer" },
    { "megatron-core", "schedule=zb-h2" },
    { "megatron-core", "vpp2 schedule=zb-v" },
    { "torch-ddp", "" },
    { "host", "" },
};

START_TEST(the_memory_floor_of_a_block_is_at_most_every_candidates_peak)
{
    if (is_spared(_i, 3))
        return;
    struct arena arena = { 0 };
    struct err err = { 0 };
    instance_release(&instance);
    instance_load_with(&instance, "dgx-h100", kept_by[_i / 3].stack);
    make_random(700 + (uint64_t)_i);
    instance.system.num_gpus = 8;
    struct plan base = plan_default();
    struct space_request request = { .model = &instance.model,
                                     .num_gpus = 8,
                                     .base = &base,
                                     .fix = kept_by[_i / 3].words,
                                     .chunks = CHUNKS_MEGATRON,
                                     .system = &instance.system };
    struct space space;
    ck_assert(space_new(&request, &arena, &space, &err));
    struct floored floored = {
        &space, evaluator_new(&instance.system, &instance.model), { { 0 } }, 1, 0
    };
    struct visitor visitor = { check_floor, ignore, &floored };
    for (size_t block = 0; block < space_num_blocks(&space); block++) {
        floored.floors = (struct block_floors){ { 0 } };
        if (!is_spared((int)block, 3))
            space_walk_block(&space, block, &visitor);
    }
    ck_assert_int_gt(floored.count, 0);
    /* checks that the floor is close enough to be useful */
    ck_assert_double_lt(floored.tightest, 0.5);
    evaluator_free(floored.evaluator);
    arena_release(&arena);
}
END_TEST

START_TEST(peak_and_step_time_computed_alone_equal_the_whole_prediction)
{
    make_random(77);
    const struct model *model = &instance.model;
    struct naive_space space = naive_space_new(model, 16);
    instance.system.num_gpus = 16;
    struct evaluator *alone = evaluator_new(&instance.system, model);
    struct evaluator *whole = evaluator_new(&instance.system, model);
    for (int i = 0; i < space.count; i++) {
        struct err err = { 0 };
        if (plan_check(&space.at[i], model, model->batch, 16, &err))
            continue;
        struct prediction p = evaluate(whole, &space.at[i]);
        ck_assert_double_eq(evaluate_peak_bytes(alone, &space.at[i]), p.peak_memory_bytes);
        ck_assert_double_eq(evaluate_step_s(alone, &space.at[i]), p.step_s);
    }
    evaluator_free(alone);
    evaluator_free(whole);
    free(space.at);
}
END_TEST

/* Layouts that are not in the default space: they have values outside the lists, another split,
 * another rank order or another schedule. */
static const char *const outsiders[] = {
    "tp1 pp2 mb3",
    "tp2 pp4 dp2 mb1 stages=1,2,1,2",
    "tp1 pp2 mb1 stages=5,1",
    "tp2 pp2 mb1 order=tp-pp-dp-cp",
    "tp1 pp4 mb2 stages=2,1,2,1 schedule=gpipe",
    "tp1 pp2 mb1 recompute=full:2",
};

START_TEST(a_space_widened_by_a_plan_contains_the_plan)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    make_random(5);
    instance.model.layers = 6;
    instance.model.batch = 48;
    instance.system.num_gpus = 16;
    instance.system.gpu.memory_bytes = 80e9;
    ck_assert(plan_parse(outsiders[_i], &arena, &plan, &err));
    ck_assert_msg(plan_derive_data(&plan, 16, &err), "%s", err.msg);
    ck_assert_msg(!plan_check(&plan, &instance.model, 48, 16, &err), "%s", err.msg);
    struct search_request request = new_request();
    request.method = "exhaustive";
    request.top = MAX_TOP;
    request.chunks = CHUNKS_EVEN;
    struct search_request wider = search_including(&request, &plan);
    char fix[64];
    snprintf(fix, sizeof fix, "tp%d pp%d mb%d", plan.tp, plan.pp, plan.microbatch);
    wider.fix = request.fix = fix;
    struct search_result without = search_of(&request), with = search_of(&wider);
    bool was_there = false, is_there = false;
    for (int i = 0; i < without.num_top; i++)
        was_there |= plan_equal(&without.top[i].plan, &plan);
    for (int i = 0; i < with.num_top; i++)
        is_there |= plan_equal(&with.top[i].plan, &plan);
    ck_assert(is_there);
    ck_assert(!was_there || _i == 0); /* in this case the name of the space has the fixed words */
    wider.method = "bnb";
    wider.top = 10;
    struct search_result proved = search_of(&wider);
    for (int i = 0; i < proved.num_top; i++)
        ck_assert(plan_equal(&proved.top[i].plan, &with.top[i].plan));
    search_result_release(&without);
    search_result_release(&with);
    search_result_release(&proved);
    arena_release(&arena);
}
END_TEST

START_TEST(an_answer_does_not_depend_on_the_number_of_jobs)
{
    if (is_spared(_i % 3, 1))
        return;
    make_random(5);
    struct search_request request = new_request();
    request.objective = _i % 3;
    if (_i >= 3)
        instance.system.gpu.memory_bytes = 1e9; /* nothing fits */
    request.jobs = 1;
    struct search_result one = search_of(&request);
    request.jobs = 8;
    struct search_result eight = search_of(&request);
    ck_assert_int_eq(one.num_top, eight.num_top);
    for (int i = 0; i < one.num_top; i++) {
        struct prediction a = one.top[i].prediction;
        struct prediction b = eight.top[i].prediction;
        ck_assert(plan_equal(&one.top[i].plan, &eight.top[i].plan));
        ck_assert_mem_eq(a.stages, b.stages, (size_t)a.num_stages * sizeof *a.stages);
        ck_assert_mem_eq(&a.time, &b.time, sizeof a.time);
        ck_assert_double_eq(a.step_s, b.step_s);
    }
    ck_assert_int_eq(one.num_exclusions, eight.num_exclusions);
    for (int i = 0; i < one.num_exclusions; i++)
        ck_assert_mem_eq(&one.exclusions[i], &eight.exclusions[i], sizeof *one.exclusions);
    ck_assert_double_eq(one.evaluated, eight.evaluated);
    ck_assert_double_eq(one.lower_bound_s, eight.lower_bound_s);
    ck_assert_int_eq(one.fewest_gpus, eight.fewest_gpus);
    ck_assert_int_eq(one.has_nearest, _i >= 3);
    if (one.has_nearest)
        ck_assert(plan_equal(&one.nearest.plan, &eight.nearest.plan));
    if (one.fewest_gpus > 0)
        ck_assert(plan_equal(&one.fewest.plan, &eight.fewest.plan));
    search_result_release(&one);
    search_result_release(&eight);
}
END_TEST

static bool fits_on(int num_gpus)
{
    instance.system.num_gpus = num_gpus;
    struct brute brute = brute_force();
    bool fits = brute.num_fits > 0;
    brute_release(&brute);
    return fits;
}

START_TEST(if_no_plan_fits_the_fewest_gpus_that_suffice_are_found)
{
    static const double memories[] = { 3.4e9, 4e9, 6e9, 12e9 };
    if (is_spared(_i, 2))
        return;
    instance.system.gpu.memory_bytes = memories[_i];
    instance.system.num_gpus = 1;
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert(result.has_nearest);
    ck_assert_double_gt(result.nearest.prediction.peak_memory_bytes, memories[_i]);
    ck_assert_int_gt(result.fewest_gpus, 1);
    ck_assert(result.fewest.prediction.fits);
    ck_assert_int_eq(plan_ranks(&result.fewest.plan), result.fewest_gpus);
    static const int counts[] = { 1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72 };
    int i = 0;
    while (i < LENGTH(counts) && !fits_on(counts[i]))
        i++;
    ck_assert_int_eq(result.fewest_gpus, counts[i]);
    search_result_release(&result);
}
END_TEST

START_TEST(above_16_nodes_fewer_gpus_do_not_fit_down_to_the_last_failed_doubling)
{
    struct err err = { 0 };
    ck_assert(model_load("gpt3-175b", &instance.model, &err));
    instance.model.batch = 1536;
    instance.system.gpu.memory_bytes = 25e9;
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert_int_gt(result.fewest_gpus, 128);
    ck_assert_int_le(result.fewest_gpus, 256);
    for (int num_gpus = 136; num_gpus <= result.fewest_gpus; num_gpus += 8) {
        if (is_spared((result.fewest_gpus - num_gpus) / 8, 6))
            continue;
        instance.system.num_gpus = num_gpus;
        struct search_result smaller = search_of(&request);
        ck_assert_int_eq(smaller.num_top > 0, num_gpus == result.fewest_gpus);
        search_result_release(&smaller);
    }
    search_result_release(&result);
}
END_TEST

/* Nothing fits on 64 GPUs, and some plan fits on 128. Of the numbers in between, every fourth is
 * tried first, then the numbers between two of these. */
START_TEST(the_fewest_gpus_lie_between_two_tried_numbers)
{
    instance.system.cluster.levels[0].size = 1;
    instance.model.layers = 63;
    instance.model.heads = instance.model.kv_heads = 1;
    instance.model.batch = 105;
    instance.system.num_gpus = 1;
    instance.system.gpu.memory_bytes = 4.05e9;
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.fewest_gpus, 66);
    for (int num_gpus = 65; num_gpus <= 66; num_gpus++) {
        instance.system.num_gpus = num_gpus;
        struct search_result alone = search_of(&request);
        ck_assert_int_eq(alone.num_top > 0, num_gpus == 66);
        search_result_release(&alone);
    }
    search_result_release(&result);
}
END_TEST

START_TEST(if_no_number_of_gpus_suffices_none_is_named)
{
    instance.system.gpu.memory_bytes = 1e8; /* less memory than the context of CUDA needs */
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert(result.has_nearest);
    ck_assert_int_eq(result.fewest_gpus, 0);
    ck_assert_double_eq(result.lower_bound_s, 0);
    ck_assert_double_lt(result.elapsed_s, 20);
    search_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("search");
    TCase *cases = tcase_create("search");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_loop_test(cases, an_exhaustive_search_equals_a_brute_force_loop, 0, NUM_RANDOM);
    tcase_add_test(cases, if_full_recompute_does_not_fit_groups_of_layers_replace_it);
    tcase_add_test(cases, checkpoints_of_several_layers_take_the_time_of_one_per_layer);
    tcase_add_test(cases, peak_and_step_time_computed_alone_equal_the_whole_prediction);
    tcase_add_loop_test(cases, the_memory_floor_of_a_block_is_at_most_every_candidates_peak, 0,
                        3 * LENGTH(kept_by));
    tcase_add_loop_test(cases, if_no_plan_fits_the_fewest_gpus_that_suffice_are_found, 0, 4);
    tcase_add_test(cases, above_16_nodes_fewer_gpus_do_not_fit_down_to_the_last_failed_doubling);
    tcase_add_test(cases, the_fewest_gpus_lie_between_two_tried_numbers);
    tcase_add_test(cases, if_no_number_of_gpus_suffices_none_is_named);
    suite_add_tcase(s, cases);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_add_checked_fixture(threads, set_up, tear_down);
    tcase_add_loop_test(threads, a_space_widened_by_a_plan_contains_the_plan, 0, LENGTH(outsiders));
    tcase_add_loop_test(threads, an_answer_does_not_depend_on_the_number_of_jobs, 0, 6);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
