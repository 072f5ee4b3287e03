#include "tests/testing.h"

#include "search/probe.h"
#include "search/questions/relax.h"
#include "sim/plan/ranks.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"

#include <string.h>

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 40;
    instance.model.layers = 2; /* too few layers for five stages */
}

static void tear_down(void)
{
    instance_release(&instance);
}

/* Whether any plan of the default space breaks no rule of plans and fits into memory. */
static bool is_feasible(int num_gpus, double batch)
{
    struct model changed = instance.model;
    struct system system = instance.system;
    changed.batch = batch;
    system.num_gpus = num_gpus;
    return naive_space_fits(&system, &changed);
}

static struct search_request request_of(int num_gpus, double batch)
{
    instance.system.num_gpus = num_gpus;
    instance.model.batch = batch;
    return instance_request(&instance);
}

struct answer {
    struct search_result result;
    struct relaxations relaxations;
};

static struct answer run(const struct search_request *request)
{
    struct answer answer;
    struct err err = { 0 };
    bool ok = search_run(request, &answer.result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    ck_assert_int_eq(answer.result.num_top, 0);
    search_relax(request, &answer.result, &answer.relaxations);
    return answer;
}

static void release(struct answer *answer)
{
    search_result_release(&answer->result);
    relaxations_release(&answer->relaxations);
}

/* The suggested change that raises or lowers the requested value; NULL if there is none. */
static const struct relaxation *find(const struct answer *answer, enum relaxed what, bool raises)
{
    const struct relaxations *all = &answer->relaxations;
    for (int i = 0; i < all->count; i++)
        if (all->at[i].what == what && (all->at[i].to > all->at[i].from) == raises)
            return &all->at[i];
    return NULL;
}

static void check(const struct relaxation *found, int expected)
{
    ck_assert_int_eq(found ? (int)found->to : 0, expected);
    if (found)
        ck_assert(found->best.prediction.fits);
}

/* In some cases the size of the whole model's state (weights, gradients, optimizer) decides, before
 * any plan is evaluated. */
START_TEST(whether_any_plan_fits_equals_a_brute_force_loop)
{
    struct search_request request = request_of(64, 64);
    int num_fitting = 0, num_memories = 0;
    for (double memory_bytes = 1e6; memory_bytes < 1e11; memory_bytes *= is_campaign() ? 1.2 : 2) {
        instance.system.gpu.memory_bytes = memory_bytes;
        bool fits = is_feasible(64, 64);
        ck_assert_int_eq(probe_fits(&request).fits, fits);
        num_fitting += fits;
        num_memories++;
    }
    ck_assert_int_gt(num_fitting, 3);
    ck_assert_int_lt(num_fitting, num_memories - 3);
}
END_TEST

static struct search_result search_by(const char *method, const struct search_request *request)
{
    struct search_request asked = *request;
    struct search_result result;
    struct err err = { 0 };
    asked.method = method;
    ck_assert_msg(search_run(&asked, &result, &err), "%s: %s", err.where, err.msg);
    return result;
}

static void check_same_reasons(const struct search_result *a, const struct search_result *b)
{
    ck_assert_double_eq(a->candidates, b->candidates);
    ck_assert_double_eq(a->infeasible, b->infeasible);
    ck_assert_int_eq(a->num_exclusions, b->num_exclusions);
    for (int i = 0; i < a->num_exclusions; i++) {
        ck_assert_str_eq(a->exclusions[i].rule, b->exclusions[i].rule);
        ck_assert_double_eq(a->exclusions[i].count, b->exclusions[i].count);
    }
    ck_assert(a->has_nearest && b->has_nearest);
    ck_assert(plan_equal(&a->nearest.plan, &b->nearest.plan));
}

/* Rank orders differ in the memory of their communicators, so that a limit one byte lower may
 * exclude some orders and not others. When no order fits, all orders are excluded together but
 * counted one by one. */
START_TEST(whether_any_rank_order_fits_equals_testing_each)
{
    static const double less_bytes[] = { 1, 0 };
    instance.model.batch = 12;
    instance.system.num_gpus = 4;
    struct search_request request = instance_request(&instance);
    request.placement = true;
    request.fix = "mb1";
    instance.system.gpu.memory_bytes = 1e6;
    struct search_result none = search_by("exhaustive", &request);
    double needed_bytes = none.nearest.prediction.peak_memory_bytes;
    search_result_release(&none);
    for (int i = 0; i < LENGTH(less_bytes); i++) {
        instance.system.gpu.memory_bytes = needed_bytes - less_bytes[i];
        struct search_result each = search_by("exhaustive", &request);
        struct search_result together = search_by("bnb", &request);
        ck_assert_int_eq(each.num_top > 0, less_bytes[i] <= 0);
        ck_assert_int_eq(together.num_top, each.num_top);
        ck_assert_int_eq(probe_fits(&request).fits, each.num_top > 0);
        if (each.num_top == 0)
            check_same_reasons(&each, &together);
        search_result_release(&each);
        search_result_release(&together);
    }
}
END_TEST

static const struct {
    int num_gpus, batch;
} odd_cases[] = {
    { 40, 24 }, { 40, 9 }, { 40, 3 }, { 80, 7 }, { 120, 4 }, { 56, 100 }, { 88, 64 }
};
enum { NUM_ODD_CASES = LENGTH(odd_cases) };

START_TEST(the_nearest_batches_equal_a_brute_force_loop)
{
    int num_gpus = odd_cases[_i].num_gpus;
    int batch = odd_cases[_i].batch;
    struct search_request request = request_of(num_gpus, batch);
    struct answer answer = run(&request);
    int below = batch - 1;
    while (below > 0 && !is_feasible(num_gpus, below))
        below--;
    int above = batch + 1;
    while (!is_feasible(num_gpus, above))
        above++;
    check(find(&answer, RELAXED_BATCH, false), below);
    check(find(&answer, RELAXED_BATCH, true), above);
    release(&answer);
}
END_TEST

/* The batch is the only reason why every plan breaks a rule. */
START_TEST(a_batch_is_suggested_if_only_the_batch_excludes_plans)
{
    struct search_request request = request_of(8, 12);
    request.fix = "tp1 cp1 pp1 vpp1 mb1 sp0 zero1 recompute=full";
    struct answer answer = run(&request);
    ck_assert_int_eq(answer.result.num_exclusions, 1);
    ck_assert_str_eq(answer.result.exclusions[0].rule, "batch");
    check(find(&answer, RELAXED_BATCH, false), 8);
    check(find(&answer, RELAXED_BATCH, true), 16);
    release(&answer);
}
END_TEST

START_TEST(the_nearest_numbers_of_gpus_equal_a_brute_force_loop)
{
    int num_gpus = odd_cases[_i].num_gpus;
    int batch = odd_cases[_i].batch;
    struct search_request request = request_of(num_gpus, batch);
    struct answer answer = run(&request);
    int below = num_gpus;
    do
        below -= below > 8 ? 8 : 1;
    while (below > 0 && !is_feasible(below, batch));
    int above = num_gpus + 8;
    while (above <= num_gpus + 64 * 8 && !is_feasible(above, batch))
        above += 8;
    check(find(&answer, RELAXED_GPUS, false), below);
    check(find(&answer, RELAXED_GPUS, true), above <= num_gpus + 64 * 8 ? above : 0);
    const struct relaxation *found = find(&answer, RELAXED_GPUS, false);
    ck_assert_int_eq(plan_ranks(&found->best.plan), below);
    release(&answer);
}
END_TEST

START_TEST(a_suggestions_plan_is_the_best_of_the_changed_request)
{
    instance.model.batch = 24;
    struct search_request request = instance_request(&instance);
    struct answer answer = run(&request);
    const struct relaxation *found = find(&answer, RELAXED_BATCH, true);
    struct search_result changed;
    struct err err = { 0 };
    instance.model.batch = found->to;
    request.method = "exhaustive";
    ck_assert(search_run(&request, &changed, &err));
    ck_assert(plan_equal(&found->best.plan, &changed.top[0].plan));
    ck_assert_double_eq(found->best.prediction.step_s, changed.top[0].prediction.step_s);
    ck_assert_mem_eq(found->best.prediction.stages, changed.top[0].prediction.stages,
                     (size_t)found->best.prediction.num_stages * sizeof(struct stage_memory));
    search_result_release(&changed);
    release(&answer);
}
END_TEST

START_TEST(fixed_interleaving_suggests_as_many_microbatches_as_stages)
{
    struct search_request request = request_of(3, 2); /* pp is 1 or 3 */
    instance.model.layers = 6;
    request.fix = "vpp2";
    struct answer answer = run(&request);
    check(find(&answer, RELAXED_BATCH, false), 0);
    check(find(&answer, RELAXED_BATCH, true), 3);
    release(&answer);
}
END_TEST

START_TEST(a_fixed_word_that_excludes_every_plan_is_named)
{
    struct search_request request = request_of(8, 64);
    request.fix = " zero1  tp5 mb2";
    request.forbid = "recompute=full sp";
    struct answer answer = run(&request);
    ck_assert_int_eq(answer.relaxations.count, 1);
    const struct relaxation *found = &answer.relaxations.at[0];
    ck_assert_int_eq(found->what, RELAXED_FIX);
    ck_assert_str_eq(found->word, "tp5");
    ck_assert_str_eq(found->words, "zero1 mb2");
    ck_assert_int_eq(found->best.plan.zero, 1);
    ck_assert_int_eq(found->best.plan.microbatch, 2);
    release(&answer);
}
END_TEST

START_TEST(fixed_words_that_only_jointly_exclude_every_plan_are_named_together)
{
    struct search_request request = request_of(8, 64);
    request.fix = "tp5 pp5";
    struct answer answer = run(&request);
    ck_assert_int_eq(answer.relaxations.count, 1);
    ck_assert_str_eq(answer.relaxations.at[0].word, "tp5 pp5");
    ck_assert_str_eq(answer.relaxations.at[0].words, "");
    release(&answer);
}
END_TEST

START_TEST(a_forbidden_axis_that_is_needed_is_named)
{
    instance.system.gpu.memory_bytes = 7e9;
    struct search_request request = request_of(8, 64);
    instance.model.layers = 6;
    request.forbid = "tp pp zero";
    struct answer answer = run(&request);
    ck_assert_int_gt(answer.relaxations.count, 0);
    for (int i = 0; i < answer.relaxations.count; i++) {
        ck_assert_int_eq(answer.relaxations.at[i].what, RELAXED_FORBID);
        ck_assert(answer.relaxations.at[i].best.prediction.fits);
    }
    release(&answer);
}
END_TEST

START_TEST(a_memory_limit_that_excludes_every_plan_is_named)
{
    struct search_request request = request_of(8, 64);
    instance.model.layers = 6;
    request.max_memory_bytes = 3e9;
    struct answer answer = run(&request);
    ck_assert_int_eq(answer.relaxations.at[0].what, RELAXED_MEMORY);
    ck_assert_str_eq(answer.relaxations.at[0].word, "");
    double needed = answer.relaxations.at[0].to;
    ck_assert_double_gt(needed, 3e9);
    ck_assert_double_le(answer.relaxations.at[0].best.prediction.peak_memory_bytes, needed);
    request.max_memory_bytes = needed - 2;
    struct search_result result;
    struct err err = { 0 };
    ck_assert(search_run(&request, &result, &err));
    ck_assert_int_eq(result.num_top, 0);
    search_result_release(&result);
    release(&answer);
}
END_TEST

START_TEST(if_no_change_helps_none_is_suggested)
{
    instance.system.gpu.memory_bytes = 1e8;
    struct search_request request = request_of(40, 24);
    request.fix = "zero1";
    struct answer answer = run(&request);
    ck_assert_int_eq(answer.relaxations.count, 0);
    release(&answer);
}
END_TEST

static void count_call(double done, void *context)
{
    (void)done;
    ++*(int *)context;
}

/* Searches for suggestions when no plan fits, so that every number of GPUs and batch is tried. */
static int tried(struct search_request *request, const struct search_result *result)
{
    int searches = 0;
    struct relaxations none;
    instance.system.gpu.memory_bytes = 1e6;
    request->progress = count_call;
    request->progress_context = &searches;
    search_relax(request, result, &none);
    ck_assert_int_eq(none.count, 0);
    relaxations_release(&none);
    return searches;
}

/* Below the request: the numbers that fill nodes of 8 or lie in one, down to the fewest GPUs.
 * Above: up to 64 nodes more, as far as the cluster has them. */
START_TEST(all_numbers_of_gpus_from_the_fewest_on_are_tried)
{
    static const struct {
        int asked, fewest, num_nodes, below, above;
    } rows[] = {
        { 40, 0, 6, 0, 0 },  { 40, 40, 6, 0, 0 }, { 40, 41, 6, 0, 0 },   { 40, 32, 6, 1, 1 },
        { 40, 31, 6, 1, 1 }, { 40, 24, 6, 2, 1 }, { 40, 3, 5, 9, 0 },    { 40, 1, 7, 11, 2 },
        { 5, 1, 2, 4, 2 },   { 8, 8, 2, 0, 0 },   { 8, 7, 2, 1, 1 },     { 9, 8, 70, 1, 64 },
        { 8, 7, 0, 1, 64 },  { 8, 7, 66, 1, 64 }, { 16, 15, 65, 0, 63 }, { 2, 1, 1, 1, 1 },
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct search_request request = request_of(rows[i].asked, 7);
        struct search_result result = { .fewest_gpus = rows[i].fewest };
        instance.system.cluster.num_nodes = rows[i].num_nodes;
        ck_assert_int_eq(tried(&request, &result), rows[i].below + rows[i].above);
    }
}
END_TEST

/* The next multiples of dp x microbatch below and above the requested batch for each dp that the
 * fixed degrees allow, and with fixed interleaving dp x microbatch x pp, each once. */
START_TEST(all_next_batches_are_tried)
{
    static const struct {
        int num_gpus, batch;
        const char *fix;
        int batches; /* without the requested one */
    } rows[] = {
        { 8, 7, "cp1 tp1 pp1 mb1", 1 },      /* 8 */
        { 8, 12, "cp1 tp1 pp1 mb1", 2 },     /* 8 16 */
        { 8, 12, "cp1 tp2 pp1 mb1", 1 },     /* 16, as 12 is a multiple of 4 */
        { 8, 12, "cp1 tp2 pp1 mb2", 2 },     /* 8 16 */
        { 8, 13, "cp1 tp1 mb1", 4 },         /* dp 8, 4, 2, 1: 8 16, 12 16, 12 14, 14 */
        { 4, 1, "cp1 tp1 pp4 mb1 vpp1", 1 }, /* 2 */
        { 4, 1, "cp1 tp1 pp4 mb1 vpp2", 2 }, /* 2 and 4 microbatches */
        { 8, 5, "cp1 tp1 pp4 mb1 vpp2", 3 }, /* 4 6 8 */
        { 6, 13, "mb1 vpp1", 4 },            /* dp 6, 3, 2, 1: 12 18, 12 15, 12 14, 14 */
        { 6, 13, "mb1 vpp2", 8 },            /* and dp x pp: 1 2 3 6 */
        { 3, 1, "cp1 tp1 pp3 mb1 vpp2", 2 }, /* 2 3 */
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct search_request request = request_of(rows[i].num_gpus, rows[i].batch);
        struct exclusion exclusion = { .rule = i % 2 == 0 ? "batch" : "interleave" };
        struct search_result result = { .exclusions = &exclusion, .num_exclusions = 1 };
        int words = 0; /* each is also dropped alone, and then all */
        for (const char *at = rows[i].fix; at; at = strchr(at + 1, ' '))
            words++;
        request.fix = rows[i].fix;
        ck_assert_int_eq(tried(&request, &result), words + 1 + rows[i].batches);
        result.num_exclusions = 0;
        ck_assert_int_eq(tried(&request, &result), words + 1);
    }
}
END_TEST

/* The search for suggestions ("hints") may use only what is left of the search's time limit; it
 * reports progress. */
START_TEST(suggestions_use_only_the_searchs_remaining_time)
{
    static const double taken_s[] = { 0, 2000 };
    for (int i = 0; i < LENGTH(taken_s); i++) {
        int calls = 0;
        struct search_request request = request_of(40, 7);
        struct answer answer = run(&request);
        relaxations_release(&answer.relaxations);
        request.progress = count_call;
        request.progress_context = &calls;
        request.time_limit_s = 1000;
        answer.result.elapsed_s = taken_s[i];
        search_relax(&request, &answer.result, &answer.relaxations);
        ck_assert_int_eq(answer.relaxations.count > 0, i == 0);
        ck_assert_int_gt(calls, 0);
        release(&answer);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("relax");
    TCase *cases = tcase_create("relax");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, whether_any_plan_fits_equals_a_brute_force_loop);
    tcase_add_test(cases, whether_any_rank_order_fits_equals_testing_each);
    tcase_add_loop_test(cases, the_nearest_batches_equal_a_brute_force_loop, 0,
                        TURNS(NUM_ODD_CASES));
    tcase_add_loop_test(cases, the_nearest_numbers_of_gpus_equal_a_brute_force_loop, 0,
                        TURNS(NUM_ODD_CASES));
    tcase_add_test(cases, a_suggestions_plan_is_the_best_of_the_changed_request);
    tcase_add_test(cases, a_batch_is_suggested_if_only_the_batch_excludes_plans);
    tcase_add_test(cases, fixed_interleaving_suggests_as_many_microbatches_as_stages);
    tcase_add_test(cases, a_fixed_word_that_excludes_every_plan_is_named);
    tcase_add_test(cases, fixed_words_that_only_jointly_exclude_every_plan_are_named_together);
    tcase_add_test(cases, a_forbidden_axis_that_is_needed_is_named);
    tcase_add_test(cases, a_memory_limit_that_excludes_every_plan_is_named);
    tcase_add_test(cases, suggestions_use_only_the_searchs_remaining_time);
    tcase_add_test(cases, if_no_change_helps_none_is_suggested);
    tcase_add_test(cases, all_numbers_of_gpus_from_the_fewest_on_are_tried);
    tcase_add_test(cases, all_next_batches_are_tried);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
