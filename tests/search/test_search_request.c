#include "base/length.h"
#include "search/method.h"
#include "search/search.h"
#include "search/splits.h"
#include "sim/engine/memory_interval.h"

#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
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

static struct search_request new_request(void)
{
    return instance_request(&instance);
}

START_TEST(fixed_and_forbidden_words_hold_for_every_plan_found)
{
    struct search_request request = new_request();
    request.fix = "tp2 zero1";
    request.forbid = "pp recompute=full";
    struct search_result result = search_of(&request);
    ck_assert_int_gt(result.num_top, 0);
    for (int i = 0; i < result.num_top; i++) {
        ck_assert_int_eq(result.top[i].plan.tp, 2);
        ck_assert_int_eq(result.top[i].plan.zero, 1);
        ck_assert_int_eq(result.top[i].plan.pp, 1);
        ck_assert_int_ne(result.top[i].plan.recompute, RECOMPUTE_FULL);
    }
    search_result_release(&result);
}
END_TEST

/* The table shows what each named space adds to a request, for each method. An unknown method adds
 * no uneven stages; the search rejects it later and names it. */
START_TEST(a_named_space_adds_what_the_method_supports)
{
    static const struct {
        const char *method;
        int space;
        bool is_even, is_all, divides;
    } cases[] = {
        { NULL, SEARCH_EVEN, true, false, false },
        { NULL, SEARCH_MEGATRON, false, false, false },
        { NULL, SEARCH_ALL, false, true, true },
        { "milp", SEARCH_ALL, false, true, true },
        { "dp", SEARCH_MEGATRON, false, false, false },
        { "exhaustive", SEARCH_ALL, false, true, false },
        { "none", SEARCH_ALL, false, true, false },
        { "none", SEARCH_EVEN, true, false, false },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct search_request request = new_request();
        request.method = cases[i].method;
        search_set_space(&request, (enum search_space)cases[i].space);
        ck_assert_int_eq(request.chunks, cases[i].is_even ? CHUNKS_EVEN : CHUNKS_MEGATRON);
        ck_assert_int_eq(request.placement, cases[i].is_all);
        ck_assert_int_eq(request.recompute_modules, cases[i].is_all);
        ck_assert_int_eq(request.uneven, cases[i].divides);
        ck_assert_int_eq(request.recompute_mixes, cases[i].divides);
    }
}
END_TEST

START_TEST(no_plan_exceeds_the_memory_limit)
{
    struct search_request request = new_request();
    request.max_memory_bytes = 12e9;
    struct search_result result = search_of(&request);
    ck_assert_int_gt(result.num_top, 0);
    ck_assert_double_gt(exclusion_of(&result, "memory"), 0);
    for (int i = 0; i < result.num_top; i++) {
        ck_assert(result.top[i].prediction.fits);
        ck_assert_double_le(result.top[i].prediction.peak_memory_bytes, 12e9);
    }
    search_result_release(&result);
}
END_TEST

/* If 90 % of the errors log(real / predicted peak) lie within +-0.1645, their standard deviation is
 * 0.1. A peak of exp(-0.1645) of the GPU's memory then has a risk of 5 %. */
START_TEST(the_risk_of_a_peak_is_log_normal)
{
    struct system system = { .gpu = { .memory_bytes = 80e9, .usable_bytes = 79e9 } };
    system.stack.memory.error = 0.1 * 1.6448536269514722;
    ck_assert_double_eq_tol(memory_risk(&system, 79e9), 0.5, 1e-12);
    ck_assert_double_eq_tol(memory_risk(&system, 79e9 * exp(-0.16448536269514722)), 0.05, 1e-9);
    ck_assert_double_eq_tol(memory_risk(&system, 79e9 * exp(0.23263478740408408)), 0.99, 1e-9);
    ck_assert_double_eq_tol(memory_planned_bytes(&system, 0.05), 79e9 * exp(-0.16448536269514722),
                            1);
    for (double risk = 0.001; risk < 0.5; risk *= 1.7)
        ck_assert_double_eq_tol(memory_risk(&system, memory_planned_bytes(&system, risk)), risk,
                                1e-9);
    ck_assert_double_eq(memory_planned_bytes(&system, 0.5), 79e9);
    ck_assert_double_eq(memory_planned_bytes(&system, 1), 79e9);
    system.stack.memory.shift = -0.05; /* peaks 5 % below predictions */
    ck_assert_double_eq_tol(memory_risk(&system, 79e9 * exp(0.05)), 0.5, 1e-12);
    ck_assert_double_eq_tol(memory_planned_bytes(&system, 0.05), 79e9 * exp(-0.11448536269514722),
                            1);
    ck_assert_double_eq(memory_planned_bytes(&system, 0.5), 79e9); /* never above the memory */
    ck_assert_double_eq_tol(log(memory_high_bytes(&system.stack, 60e9) / 60e9), 0.11448536269514722,
                            1e-12);
    ck_assert_double_eq_tol(log(memory_low_bytes(&system.stack, 60e9) / 60e9), -0.21448536269514722,
                            1e-12);
    system.stack.memory.shift = 0;
    /* if the usable memory is not stated, all memory counts */
    system.gpu.usable_bytes = 0;
    ck_assert_double_eq(memory_planned_bytes(&system, 1), 80e9);
    system.stack.memory.error = 0; /* the prediction of memory has no error */
    ck_assert_double_eq(memory_risk(&system, 80e9), 0);
    ck_assert_double_eq(memory_risk(&system, 80e9 + 1), 1);
    ck_assert_double_eq(memory_planned_bytes(&system, 0.05), 80e9);
}
END_TEST

/* A plan fits if its peak is at most the memory that programs can use, which is never more than the
 * GPU's memory. A search may set another limit. */
START_TEST(the_smaller_of_usable_and_whole_memory_limits_a_peak)
{
    struct system system = { .gpu = { .memory_bytes = 80e9, .usable_bytes = 79e9 } };
    ck_assert_double_eq(memory_fits_bytes(&system), 79e9);
    system.gpu.usable_bytes = 81e9;
    ck_assert_double_eq(memory_fits_bytes(&system), 80e9);
    system.gpu.usable_bytes = 0;
    ck_assert_double_eq(memory_fits_bytes(&system), 80e9);
    system.fits_bytes = 1e9;
    ck_assert_double_eq(memory_fits_bytes(&system), 1e9);
}
END_TEST

/* For each option that is not set, the answer names the part of the space that the search leaves
 * out. */
START_TEST(a_search_names_the_parts_of_the_space_that_it_leaves_out)
{
    struct arena arena = { 0 };
    struct search_request request = { .chunks = CHUNKS_EVEN };
    ck_assert_str_eq(search_leaves_out(&request, &arena),
                     "divisions of layers that are not even (--space megatron), "
                     "uneven layers per stage (--uneven), "
                     "recompute per stage (--recompute-mixes), "
                     "other modules to recompute (--recompute-modules all), "
                     "other rank orders (--placement)");
    request.chunks = CHUNKS_MEGATRON;
    request.uneven = request.recompute_modules = request.placement = true;
    ck_assert_str_eq(search_leaves_out(&request, &arena),
                     "recompute per stage (--recompute-mixes)");
    request.recompute_mixes = true;
    ck_assert_str_eq(search_leaves_out(&request, &arena), "");
    arena_release(&arena);
}
END_TEST

/* With every method the best plan with a risk of at most 5 % equals the best plan of a search with
 * the corresponding memory limit. A risk of 1/2 or more accepts every plan that fits. */
START_TEST(no_plan_above_the_accepted_risk_is_recommended)
{
    static const char *const methods[] = { "bnb", "exhaustive", "dp", "zo" };
    struct search_request request = new_request();
    instance.system.gpu.usable_bytes = 14e9;
    instance.system.stack.memory.error = 0.2;
    for (int i = 0; i < LENGTH(methods); i++) {
        request.method = methods[i];
        request.max_memory_bytes = 0;
        request.oom_risk = 0.05;
        struct search_result result = search_of(&request);
        ck_assert_int_gt(result.num_top, 0);
        double planned_bytes = memory_planned_bytes(&instance.system, 0.05);
        ck_assert_double_eq(result.planned_bytes, planned_bytes);
        for (int k = 0; k < result.num_top; k++) {
            const struct prediction *p = &result.top[k].prediction;
            ck_assert_double_le(p->p_oom, 0.05 + 1e-9);
            ck_assert_double_eq_tol(p->p_oom, memory_risk(&instance.system, p->peak_memory_bytes),
                                    1e-12);
            ck_assert_double_eq_tol(log(p->memory_high_bytes / p->memory_low_bytes), 0.4, 1e-12);
        }
        request.oom_risk = 0;
        request.max_memory_bytes = planned_bytes;
        struct search_result same = search_of(&request);
        ck_assert_int_eq(same.num_top, result.num_top);
        ck_assert(plan_equal(&same.top[0].plan, &result.top[0].plan));
        search_result_release(&same);
        search_result_release(&result);
    }
}
END_TEST

/* The plan that is named as tight is the fastest of all plans that fit at a risk above the accepted
 * one, if it is faster than the best accepted plan. */
START_TEST(the_tight_plan_is_the_fastest_above_the_accepted_risk)
{
    static const double limits_bytes[] = { 8e9, 10e9, 14e9, 20e9, 40e9 };
    struct search_request request = new_request();
    int num_tight = 0;
    instance.system.stack.memory.error = 0.2;
    request.top = 1;
    for (int i = 0; i < LENGTH(limits_bytes); i++) {
        instance.system.gpu.usable_bytes = limits_bytes[i];
        request.oom_risk = 0;
        struct search_result any = search_of(&request);
        request.oom_risk = 0.05;
        struct search_result safe = search_of(&request);
        bool is_faster = any.num_top > 0 && safe.num_top > 0 &&
                         any.top[0].prediction.step_s < safe.top[0].prediction.step_s;
        ck_assert_int_eq(safe.tight != NULL, is_faster);
        if (is_faster)
            ck_assert_double_eq(safe.tight->prediction.step_s, any.top[0].prediction.step_s);
        num_tight += is_faster;
        search_result_release(&safe);
        search_result_release(&any);
    }
    ck_assert_int_gt(num_tight, 0);
}
END_TEST

/* A given plan above the accepted risk is still predicted, counts as fitting and is ranked. */
START_TEST(a_plan_above_the_accepted_risk_still_fits_and_is_ranked)
{
    struct search_request request = new_request();
    instance.system.gpu.usable_bytes = 14e9;
    instance.system.stack.memory.error = 0.2;
    request.top = 1;
    struct search_result any = search_of(&request);
    request.oom_risk = 0.05;
    struct search_result safe = search_of(&request);
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct standing rank;
    ck_assert_double_gt(any.top[0].prediction.p_oom, 0.05);
    ck_assert(search_standing(&request, &safe, &any.top[0].plan, &arena, &rank, &err));
    ck_assert(rank.is_valid && rank.plan.prediction.fits);
    ck_assert_double_eq(rank.rank, 1);
    ck_assert_double_lt(rank.lost_share, 0);
    arena_release(&arena);
    search_result_release(&safe);
    search_result_release(&any);
}
END_TEST

START_TEST(the_ith_plan_has_rank_i)
{
    struct search_request request = new_request();
    request.objective = _i;
    request.method = "exhaustive"; /* the rank counts all plans that fit */
    struct search_result result = search_of(&request);
    struct arena arena = { 0 };
    for (int i = 0; i < result.num_top; i++) {
        if (is_spared(i, 10))
            continue;
        struct standing rank;
        struct err err = { 0 };
        ck_assert(search_standing(&request, &result, &result.top[i].plan, &arena, &rank, &err));
        ck_assert(rank.is_valid);
        ck_assert_double_eq(rank.rank, i + 1);
        ck_assert_double_eq(rank.of, result.evaluated);
        double lost = result.top[i].prediction.step_s / result.top[0].prediction.step_s - 1;
        ck_assert_double_eq(rank.lost_share, lost);
    }
    arena_release(&arena);
    search_result_release(&result);
}
END_TEST

static struct standing rank_layout(const char *layout, struct arena *arena, struct err *err)
{
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    struct plan plan;
    struct standing rank;
    ck_assert(plan_parse(layout, arena, &plan, err));
    ck_assert(search_standing(&request, &result, &plan, arena, &rank, err));
    search_result_release(&result);
    return rank;
}

/* The words that the search varies keep the request's values; all other words get the plan's
 * values. */
START_TEST(a_request_that_includes_a_plan_takes_its_other_words)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct search_request request = new_request();
    struct plan plan, expected;
    bool ok =
        plan_parse("tp2 pp2 dp4 mb2 sp zero1 stages=11,13 recompute=full", &arena, &request.base,
                   &err) &&
        plan_parse("cp2 pp4 dp2 mb4 vpp2 zero0 recompute=selective dtype=fp16 optimizer=sgd "
                   "order=pp-dp-cp-tp stages=3x8",
                   &arena, &plan, &err) &&
        plan_parse("tp2 pp2 dp4 mb2 sp zero1 stages=11,13 recompute=full dtype=fp16 optimizer=sgd "
                   "order=pp-dp-cp-tp",
                   &arena, &expected, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    struct search_request wider = search_including(&request, &plan);
    ck_assert_ptr_eq(wider.also, &plan);
    ck_assert(plan_equal(&wider.base, &expected));
    ck_assert_int_eq(wider.base.num_chunk_layers, 2);
    ck_assert_int_eq(wider.base.mtp_place, request.base.mtp_place);
    arena_release(&arena);
}
END_TEST

START_TEST(a_layout_outside_the_space_is_ranked_against_it)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct standing rank = rank_layout("tp2 pp2 mb1 stages=11,13", &arena, &err);
    ck_assert(rank.is_valid);
    ck_assert_int_eq(rank.plan.plan.dp, 4);
    ck_assert_double_gt(rank.rank, 1);
    ck_assert_double_gt(rank.lost_share, 0);
    arena_release(&arena);
}
END_TEST

START_TEST(a_layout_that_breaks_a_rule_has_no_rank)
{
    static const char *const layouts[] = { "tp3 pp1 mb1", "tp2 pp2 dp5 mb1", "tp2 pp7 dp1 mb1" };
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct standing rank = rank_layout(layouts[_i], &arena, &err);
    ck_assert(!rank.is_valid);
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_double_eq(rank.rank, 0);
    arena_release(&arena);
}
END_TEST

START_TEST(a_layout_that_the_system_cannot_run_has_no_rank)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct standing rank = rank_layout("tp2 pp2 mb1 dtype=fp8-mx", &arena, &err);
    ck_assert(!rank.is_valid);
    ck_assert_int_ne(err.code, ERR_NONE);
    ck_assert_double_eq(rank.rank, 0);
    arena_release(&arena);
}
END_TEST

START_TEST(a_layout_that_does_not_fit_has_no_rank)
{
    instance.system.gpu.memory_bytes = 12e9;
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct standing rank = rank_layout("tp1 pp1 mb16", &arena, &err);
    ck_assert_int_eq(rank.is_valid, err.code == ERR_NONE);
    ck_assert_double_eq(rank.rank, 0);
    arena_release(&arena);
}
END_TEST

START_TEST(an_interrupted_search_is_reported_and_proves_nothing)
{
    struct search_request request = new_request();
    request.interrupted = always;
    struct search_result result = search_of(&request);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved_optimal);
    ck_assert_double_eq(search_gap(&result), 1);
    ck_assert(!result.has_nearest);
    search_result_release(&result);
}
END_TEST

START_TEST(a_search_out_of_time_is_reported_and_proves_nothing)
{
    struct search_request request = new_request();
    request.time_limit_s = 1e-9;
    struct search_result result = search_of(&request);
    ck_assert(result.timed_out);
    ck_assert(!result.proved_optimal);
    search_result_release(&result);
}
END_TEST

static void keep_progress(double done, void *context)
{
    double *latest = context;
    ck_assert_double_ge(done, *latest);
    *latest = done;
}

START_TEST(progress_rises_to_one)
{
    double latest = 0;
    struct search_request request = new_request();
    request.method = search_methods[_i].name;
    request.jobs = 1;
    request.progress = keep_progress;
    request.progress_context = &latest;
    struct search_result result = search_of(&request);
    ck_assert_double_eq(latest, 1);
    search_result_release(&result);
}
END_TEST

START_TEST(a_search_keeps_at_least_one_plan_and_at_most_the_limit)
{
    static const int tops[][2] = { { -3, 1 }, { 0, 1 }, { 1, 1 }, { 2, 2 } };
    struct search_request request = instance_request(&instance);
    for (int i = 0; i < LENGTH(tops); i++) {
        request.top = tops[i][0];
        struct search_result result = search_of(&request);
        ck_assert_int_eq(result.num_top, tops[i][1]);
        search_result_release(&result);
    }
    struct arena arena = { 0 };
    struct prepared prepared;
    struct err err = { 0 };
    request.top = MAX_TOP + 1;
    ck_assert(search_prepare(&request, &arena, &prepared, &err));
    ck_assert_int_eq(prepared.request.top, MAX_TOP);
    arena_release(&arena);
}
END_TEST

START_TEST(an_unknown_method_is_a_usage_error)
{
    struct search_request request = new_request();
    request.method = "oracle";
    struct search_result result;
    struct err err = { 0 };
    ck_assert(!search_run(&request, &result, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, "oracle");
    search_result_release(&result);
}
END_TEST

START_TEST(an_unknown_word_ends_search_and_rank)
{
    struct search_request request = new_request();
    request.forbid = "warp";
    struct search_result result;
    struct err err = { 0 };
    ck_assert(!search_run(&request, &result, &err));
    ck_assert_str_eq(err.where, "warp");
    struct arena arena = { 0 };
    struct plan plan = plan_default();
    struct standing rank;
    ck_assert(!search_standing(&request, &result, &plan, &arena, &rank, &err));
    arena_release(&arena);
    search_result_release(&result);
}
END_TEST

/* LLaMA-3 8B over sequences of half a million tokens: on 64 H100 no plan fits without context
 * ranks.
 */
START_TEST(long_sequences_need_context_ranks)
{
    system_release(&instance.system);
    struct err err = { 0 };
    bool ok = system_load("dgx-h100", "megatron-core", 64, &instance.system, &err) &&
              model_load("llama3-8b", &instance.model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    instance.model.seq = 1 << 19;
    instance.model.batch = 8;
    struct search_request request = new_request();
    request.fix = "recompute=none";
    struct search_result result = search_of(&request);
    ck_assert_int_gt(result.num_top, 0);
    for (int i = 0; i < result.num_top; i++)
        ck_assert_int_gt(result.top[i].plan.cp, 1);
    search_result_release(&result);
    request.forbid = "cp";
    result = search_of(&request);
    ck_assert_int_eq(result.num_top, 0);
    search_result_release(&result);
}
END_TEST

/* The stack megatron-2021 runs unfused attention, which context ranks cannot split; with flash
 * attention they can. */
START_TEST(unfused_attention_is_not_split_over_context_ranks)
{
    system_release(&instance.system);
    struct err err = { 0 };
    bool ok = system_load("dgx-a100-80g", "megatron-2021", 16, &instance.system, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    struct search_request request = new_request();
    struct search_result result = search_of(&request);
    ck_assert_ptr_nonnull(strstr(result.space_name, "; cp 1"));
    for (int i = 0; i < result.num_top; i++)
        ck_assert_int_eq(result.top[i].plan.cp, 1);
    search_result_release(&result);
    request.fix = "cp2";
    ck_assert(!search_run(&request, &result, &err));
    ck_assert_str_eq(err.where, "cp");
    search_result_release(&result);
}
END_TEST

START_TEST(every_method_is_found_by_its_name)
{
    for (int i = 0; i < num_search_methods; i++) {
        const struct search_method *method = &search_methods[i];
        ck_assert_ptr_eq(search_method_find(method->name), method);
        ck_assert(method->summary[0] != '\0' && method->run != NULL);
    }
    ck_assert_ptr_null(search_method_find(""));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("search: requests");
    TCase *cases = tcase_create("search");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, fixed_and_forbidden_words_hold_for_every_plan_found);
    tcase_add_test(cases, a_named_space_adds_what_the_method_supports);
    tcase_add_test(cases, no_plan_exceeds_the_memory_limit);
    tcase_add_test(cases, the_risk_of_a_peak_is_log_normal);
    tcase_add_test(cases, the_smaller_of_usable_and_whole_memory_limits_a_peak);
    tcase_add_test(cases, a_search_names_the_parts_of_the_space_that_it_leaves_out);
    tcase_add_test(cases, no_plan_above_the_accepted_risk_is_recommended);
    tcase_add_test(cases, a_plan_above_the_accepted_risk_still_fits_and_is_ranked);
    tcase_add_test(cases, the_tight_plan_is_the_fastest_above_the_accepted_risk);
    tcase_add_loop_test(cases, the_ith_plan_has_rank_i, 0, 3);
    tcase_add_test(cases, a_request_that_includes_a_plan_takes_its_other_words);
    tcase_add_test(cases, a_layout_outside_the_space_is_ranked_against_it);
    tcase_add_loop_test(cases, a_layout_that_breaks_a_rule_has_no_rank, 0, 3);
    tcase_add_test(cases, a_layout_that_the_system_cannot_run_has_no_rank);
    tcase_add_test(cases, a_layout_that_does_not_fit_has_no_rank);
    tcase_add_test(cases, an_interrupted_search_is_reported_and_proves_nothing);
    tcase_add_test(cases, a_search_out_of_time_is_reported_and_proves_nothing);
    tcase_add_loop_test(cases, progress_rises_to_one, 0, num_search_methods);
    tcase_add_test(cases, a_search_keeps_at_least_one_plan_and_at_most_the_limit);
    tcase_add_test(cases, an_unknown_method_is_a_usage_error);
    tcase_add_test(cases, an_unknown_word_ends_search_and_rank);
    tcase_add_test(cases, long_sequences_need_context_ranks);
    tcase_add_test(cases, unfused_attention_is_not_split_over_context_ranks);
    tcase_add_test(cases, every_method_is_found_by_its_name);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
