#include "search/time_to_accuracy.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct instance instance;
static struct accuracy_result result;
static struct err err;

static void setup(void)
{
    instance_load_with(&instance, "p3-v100-16g", "megatron-core");
    instance.model.tokens = 1e10;
    err = (struct err){ 0 };
}

static void teardown(void)
{
    accuracy_result_release(&result);
    instance_release(&instance);
}

static struct search_request request(const char *method, const char *fix)
{
    struct search_request request = instance_request(&instance);
    struct arena arena = { 0 };
    ck_assert(plan_parse("mb1 dtype=fp16", &arena, &request.base, &err));
    arena_release(&arena);
    request.method = method;
    request.fix = fix;
    return request;
}

START_TEST(branch_and_bound_equals_evaluating_every_plan)
{
    struct search_request fast = request("bnb", "tp4"), slow = request("exhaustive", "tp4");
    struct accuracy_result all;
    ck_assert_msg(search_time_to_accuracy(&fast, &result, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(search_time_to_accuracy(&slow, &all, &err), "%s: %s", err.where, err.msg);
    ck_assert(result.proved);
    ck_assert_int_eq(result.count, all.count);
    for (int i = 0; i < result.count; i++) {
        ck_assert_double_eq(result.at[i].to.seconds, all.at[i].to.seconds);
        ck_assert(plan_equal(&result.at[i].scored.plan, &all.at[i].scored.plan));
    }
    accuracy_result_release(&all);
}
END_TEST

/* --- numbers of ranks that cannot be the fastest ---------------------------------------- */

/* A request for one exchange whose transient (the steps that it needs in addition to those of
 * all-reduce) is scaled. */
struct bent {
    struct search_request asked;
    struct convergence convergence;
    struct exchange exchange;
};

static double seconds_of(const struct bent *bent, int data_ranks, double step_s)
{
    struct plan plan = bent->asked.base;
    plan.dp = data_ranks;
    plan.exchange = bent->exchange;
    return time_to_accuracy(&bent->convergence, &instance.system, &instance.model, &plan, step_s)
        .seconds;
}

/* The fastest step on a number of data ranks. */
static double step_s(const struct bent *bent, int data_ranks)
{
    char fix[64];
    struct search_request request = bent->asked;
    snprintf(fix, sizeof fix, "%s dp%d exchange=local:8", request.fix, data_ranks);
    request.fix = fix;
    struct search_result found = search_of(&request);
    ck_assert_int_gt(found.num_top, 0);
    double fastest_s = found.top[0].prediction.step_s;
    search_result_release(&found);
    return fastest_s;
}

/* The time of a step if all GPUs compute at their peak and do nothing else. */
static double peak_s(void)
{
    const struct system *system = &instance.system;
    return model_step_flops(&instance.model, instance.model.batch, instance.model.seq) /
           (system->num_gpus * system->gpu.peak_flops_per_s[DTYPE_FP16]);
}

/* Searches with this scale of the transient. Returns the number of searches and stores the time of
 * the exchange's best plan. */
static int searches_at(struct bent *bent, double scale, double *seconds)
{
    bent->convergence.mixing_scale = scale;
    ck_assert(search_time_to_accuracy(&bent->asked, &result, &err));
    for (int i = 0; i < result.count; i++)
        if (result.at[i].scored.plan.exchange.method == bent->exchange.method)
            *seconds = result.at[i].to.seconds;
    int searches = result.searches;
    accuracy_result_release(&result);
    return searches;
}

/* Local SGD needs more steps with more ranks. At a certain scale of its transient, four ranks at
 * peak arithmetic take as long as two ranks really take. Below that scale four ranks are searched,
 * above it they are not. Two ranks are the answer in both cases. */
START_TEST(numbers_of_ranks_that_cannot_win_at_peak_arithmetic_are_skipped)
{
    struct bent bent = { .asked = request("bnb", "tp4"), .convergence = convergence_published };
    ck_assert(exchange_read("local:8", &bent.exchange, &err));
    bent.asked.convergence = &bent.convergence;
    bent.asked.top = 1;
    double two_s = step_s(&bent, 2), low = 0, high = 1e9, below_s = 0, above_s = 0;
    for (int i = 0; i < 100; i++) {
        bent.convergence.mixing_scale = (low + high) / 2;
        bool can_win = seconds_of(&bent, 4, peak_s()) <= seconds_of(&bent, 2, two_s);
        *(can_win ? &low : &high) = bent.convergence.mixing_scale;
    }
    ck_assert_double_gt(low, 0);
    int below = searches_at(&bent, low * (1 - 1e-6), &below_s);
    int above = searches_at(&bent, high * (1 + 1e-6), &above_s);
    ck_assert_int_eq(below, above + 1);
    ck_assert_double_eq_tol(below_s, seconds_of(&bent, 2, two_s), 1e-5 * below_s);
    ck_assert_double_eq_tol(above_s, below_s, 1e-5 * below_s);
}
END_TEST

START_TEST(rows_are_sorted_and_time_is_steps_times_step_time)
{
    struct search_request asked = request(NULL, "tp4");
    ck_assert(search_time_to_accuracy(&asked, &result, &err));
    ck_assert_int_gt(result.count, 5);
    for (int i = 0; i < result.count; i++) {
        const struct accurate_plan *plan = &result.at[i];
        ck_assert_double_eq(plan->to.seconds, plan->to.steps * plan->scored.prediction.step_s);
        ck_assert_double_ge(plan->to.steps, plan->to.all_reduce_steps);
        ck_assert_double_ge(plan->to.most_steps, plan->to.steps);
        if (i > 0)
            ck_assert_double_ge(plan->to.seconds, result.at[i - 1].to.seconds);
    }
}
END_TEST

static const struct {
    bool uneven, recompute_mixes;
    const char *method, *fix;
} divisions[] = {
    { false, false, "bnb", "tp4" },    { true, false, "bnb", "tp1 pp4" },
    { false, true, "bnb", "tp1 pp4" }, { true, true, "bnb", "tp1 pp4" },
    { true, false, "dp", "tp1 pp4" },  { true, true, "milp", "tp1 pp4" },
};

/* Each row of the result owns copies of its plan's arrays (such as the layers of each stage),
 * because the search that found the plan has been released. */
START_TEST(rows_stay_valid_after_their_searches_are_released)
{
    if (is_spared(_i, 2))
        return;
    struct search_request asked = request(divisions[_i].method, divisions[_i].fix);
    asked.uneven = divisions[_i].uneven;
    asked.recompute_mixes = divisions[_i].recompute_mixes;
    ck_assert_msg(search_time_to_accuracy(&asked, &result, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_gt(result.count, 0);
    for (int i = 0; i < result.count; i++) {
        const struct plan *plan = &result.at[i].scored.plan;
        const struct prediction *prediction = &result.at[i].scored.prediction;
        double peak_bytes = 0;
        int layers = 0;
        ck_assert_int_eq(prediction->num_stages, plan->pp);
        for (int stage = 0; stage < prediction->num_stages; stage++)
            peak_bytes = fmax(peak_bytes, prediction->stages[stage].total_bytes);
        ck_assert_double_eq(peak_bytes, prediction->peak_memory_bytes);
        for (int chunk = 0; chunk < plan_chunks(plan); chunk++)
            layers += plan_chunk_layers(plan, &instance.model, chunk);
        ck_assert_int_eq(layers, instance.model.layers);
        for (int j = 0; j < plan->num_recompute_layers; j++)
            ck_assert_int_le(plan->recompute_layers[j], instance.model.layers);
    }
}
END_TEST

START_TEST(all_searches_share_one_time_limit)
{
    struct search_request asked = request(NULL, "tp4");
    asked.time_limit_s = 1e-9;
    ck_assert_msg(search_time_to_accuracy(&asked, &result, &err), "%s: %s", err.where, err.msg);
    ck_assert(result.timed_out);
    ck_assert(!result.proved);
    ck_assert_int_le(result.searches, 1);
}
END_TEST

START_TEST(an_interrupted_search_begins_no_further_one)
{
    struct search_request asked = request(NULL, "tp4");
    asked.interrupted = always;
    ck_assert_msg(search_time_to_accuracy(&asked, &result, &err), "%s: %s", err.where, err.msg);
    ck_assert(result.was_interrupted);
    ck_assert(!result.proved);
    ck_assert_int_le(result.searches, 1);
}
END_TEST

START_TEST(words_that_the_objective_chooses_cannot_be_fixed)
{
    static const char *const fixed[] = { "tp4 dp2", "dp=2", "exchange=local:4 tp4",
                                         "order=tp-cp-dp-pp dp2" };
    for (int i = 0; i < LENGTH(fixed); i++) {
        struct search_request asked = request(NULL, fixed[i]);
        err = (struct err){ 0 };
        ck_assert(!search_time_to_accuracy(&asked, &result, &err));
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_str_eq(err.where, "--fix");
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("accuracy");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, branch_and_bound_equals_evaluating_every_plan);
    tcase_add_test(tc, numbers_of_ranks_that_cannot_win_at_peak_arithmetic_are_skipped);
    tcase_add_test(tc, rows_are_sorted_and_time_is_steps_times_step_time);
    tcase_add_loop_test(tc, rows_stay_valid_after_their_searches_are_released, 0,
                        LENGTH(divisions));
    tcase_add_test(tc, all_searches_share_one_time_limit);
    tcase_add_test(tc, an_interrupted_search_begins_no_further_one);
    tcase_add_test(tc, words_that_the_objective_chooses_cannot_be_fixed);
    Suite *s = suite_create("search/time_to_accuracy");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
