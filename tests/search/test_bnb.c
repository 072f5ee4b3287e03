#include "search/evaluators.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/testing.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* Compares branch and bound (bnb) with a loop over all plans (exhaustive), on random instances with
 * little memory. The message of a failure has the seed. `make test` runs a ninth of the instances,
 * `make campaign` all. */
enum { BATCHES = 12, INSTANCES = 45, SAMPLE = TURNS(INSTANCES) < 5 ? TURNS(INSTANCES) : 5 };

static const struct {
    const char *cluster, *stack;
} worlds[] = {
    { "dgx-h100", "megatron-core" },
    { "dgx-a100-80g", "torchtitan" },
    { "dgx-a100-80g", "megatron-2021" },
};

static const char *const fixed[] = { NULL,
                                     NULL,
                                     "zero1",
                                     "vpp1",
                                     "vpp1 schedule=zb-h1",
                                     "schedule=dualpipe",
                                     "vpp2 schedule=dualpipev",
                                     "recompute=full",
                                     "mb2 sp",
                                     "pp4",
                                     "offload=optimizer",
                                     "offload=activations" };
static const char *const forbidden[] = { NULL,        NULL,        "cp", "recompute=none",
                                         "zero0 tp2", "mtp=beside" };

static struct search_request random_request(const struct instance *instance, uint64_t seed)
{
    struct random rng = random_new(seed, 1);
    struct search_request request = instance_request(instance);
    request.fix = fixed[random_below(&rng, LENGTH(fixed))];
    request.forbid = forbidden[random_below(&rng, LENGTH(forbidden))];
    request.objective = PICK(&rng, OBJECTIVE_TIME, OBJECTIVE_TIME, OBJECTIVE_MEMORY);
    request.top = PICK(&rng, 1, 1, 5, 40);
    request.placement = instance->system.num_gpus <= 12 && random_below(&rng, 4) == 0;
    request.jobs = PICK(&rng, 1, 3);
    return request;
}

static void find(struct search_request *request, const char *method, struct search_result *result,
                 uint64_t seed)
{
    struct err err = { 0 };
    request->method = method;
    bool ok = search_run(request, result, &err);
    ck_assert_msg(ok, "seed %d, %s: %s", (int)seed, err.where, err.msg);
}

static void check_same(const struct search_result *a, const struct search_result *b, uint64_t seed)
{
    ck_assert_msg(a->num_top == b->num_top, "seed %d: the two methods found %d and %d best plans",
                  (int)seed, a->num_top, b->num_top);
    for (int i = 0; i < a->num_top; i++) {
        ck_assert_msg(plan_equal(&a->top[i].plan, &b->top[i].plan),
                      "seed %d: the two methods differ in best plan %d", (int)seed, i);
        ck_assert_double_eq(a->top[i].prediction.step_s, b->top[i].prediction.step_s);
    }
    ck_assert_msg(a->candidates == b->candidates,
                  "seed %d: the two methods count %g and %g candidates", (int)seed, a->candidates,
                  b->candidates);
    ck_assert(a->proved_optimal && b->proved_optimal);
}

/* With a limit of the step time, exactly the plans within the limit must be found, also if the
 * evaluators were used before. */
static void check_limit(const struct search_request *request, const struct search_result *all,
                        uint64_t seed)
{
    struct evaluators evaluators = { 0 };
    struct search_request limited = *request;
    limited.evaluators = &evaluators;
    for (int last = all->num_top - 1; last >= 0; last /= 2) {
        struct search_result within;
        limited.limit_s = all->top[last].prediction.step_s;
        find(&limited, "bnb", &within, seed);
        ck_assert_int_gt(within.num_top, last);
        for (int i = 0; i <= last; i++)
            ck_assert_double_eq(within.top[i].prediction.step_s, all->top[i].prediction.step_s);
        search_result_release(&within);
        if (last == 0)
            break;
    }
    evaluators_release(&evaluators);
}

/* With a limit of the step time below that of the fastest plan, the lower bound still holds for all
 * plans of the space, and all candidates are counted. */
static void check_limited_bound(const struct search_request *asked, const struct search_result *all,
                                uint64_t seed)
{
    static const double shares[] = { 1e-9, 0.9, 0.9999 };
    for (int i = 0; i < LENGTH(shares); i++) {
        struct search_request request = *asked;
        struct search_result within;
        request.limit_s = shares[i] * all->top[0].prediction.step_s;
        request.without_hints = true;
        find(&request, "bnb", &within, seed);
        ck_assert_double_gt(within.lower_bound_s, 0);
        ck_assert_double_le(within.lower_bound_s, all->top[0].prediction.step_s);
        ck_assert_double_eq(within.candidates, all->candidates);
        ck_assert_double_eq(within.candidates,
                            within.evaluated + within.bounded + within.infeasible);
        search_result_release(&within);
    }
}

START_TEST(branch_and_bound_equals_a_loop_over_all_plans)
{
    if (is_spared(_i, 1))
        return;
    double bounded = 0, fits = 0;
    int count = is_campaign() ? INSTANCES : SAMPLE;
    for (int i = 0; i < count; i++) {
        uint64_t seed = (uint64_t)(5000 + INSTANCES * _i + i);
        struct instance instance;
        instance_load_with(&instance, worlds[i % 3].cluster, worlds[i % 3].stack);
        instance_randomize(&instance, seed);
        draw_modules(&instance.model, seed);
        struct search_request request = random_request(&instance, seed);
        struct search_result bnb, all;
        find(&request, "exhaustive", &all, seed);
        find(&request, "bnb", &bnb, seed);
        check_same(&bnb, &all, seed);
        ck_assert_double_eq(bnb.candidates, bnb.evaluated + bnb.bounded + bnb.infeasible);
        if (all.num_top > 0)
            ck_assert_msg(
                bnb.lower_bound_s <= all.lower_bound_s,
                "seed %d: bnb's lower bound is %g s, but that of exhaustive search is %g s",
                (int)seed, bnb.lower_bound_s, all.lower_bound_s);
        if (all.num_top > 0 && request.objective == OBJECTIVE_TIME) {
            ck_assert_double_eq(bnb.lower_bound_s, all.top[0].prediction.step_s);
            check_limit(&request, &all, seed);
            if (seed % 3 == 0)
                check_limited_bound(&request, &all, seed);
        }
        bounded += bnb.bounded;
        fits += all.evaluated;
        search_result_release(&bnb);
        search_result_release(&all);
        instance_release(&instance);
    }
    /* checks that the bounds exclude enough plans to be useful */
    ck_assert_double_gt(bounded, 0.3 * fits);
}
END_TEST

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
}

static void tear_down(void)
{
    instance_release(&instance);
}

START_TEST(answer_and_counts_do_not_depend_on_the_number_of_workers)
{
    if (is_spared(_i, 1))
        return;
    instance_randomize(&instance, (uint64_t)(100 + _i));
    struct search_request request = instance_request(&instance);
    request.objective = _i % 2 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
    struct search_result one, eight;
    request.jobs = 1;
    find(&request, "bnb", &one, (uint64_t)_i);
    request.jobs = 8;
    find(&request, "bnb", &eight, (uint64_t)_i);
    check_same(&one, &eight, (uint64_t)_i);
    ck_assert_double_eq(one.evaluated, eight.evaluated);
    ck_assert_double_eq(one.bounded, eight.bounded);
    ck_assert_double_eq(one.lower_bound_s, eight.lower_bound_s);
    search_result_release(&one);
    search_result_release(&eight);
}
END_TEST

/* A callback `interrupted` that returns true from its n-th call on. */
static int patience, times_asked;

static bool loses_patience(void)
{
    times_asked++;
    return patience-- <= 0;
}

static void check_part(const struct search_result *part, const struct search_result *all)
{
    ck_assert(part->was_interrupted && !part->timed_out && !part->proved_optimal);
    ck_assert_double_le(part->lower_bound_s, all->top[0].prediction.step_s);
    if (part->num_top > 0) {
        ck_assert_double_gt(part->lower_bound_s, 0);
        ck_assert_double_ge(part->top[0].prediction.step_s, all->top[0].prediction.step_s);
        ck_assert_double_eq(part->candidates, part->evaluated + part->bounded + part->infeasible);
    }
}

/* A search that is stopped at its last check for an interrupt has found a plan. The other searches
 * are stopped after half of the checks, after a quarter, and so on. */
START_TEST(an_early_end_gives_a_valid_gap_to_the_optimum)
{
    struct search_request request = instance_request(&instance);
    struct search_result all, part;
    request.jobs = 1;
    request.top = 1;
    request.interrupted = loses_patience;
    patience = INT_MAX;
    find(&request, "bnb", &all, 0);
    int last = times_asked - 1;
    ck_assert(all.num_top > 0 && last > 0);
    for (int asked = last; asked > 0; asked /= 2) {
        patience = asked;
        find(&request, "bnb", &part, 0);
        check_part(&part, &all);
        ck_assert(asked < last || part.num_top > 0);
        search_result_release(&part);
    }
    search_result_release(&all);
}
END_TEST

/* 16 GPUs cannot be divided into groups of three tensor ranks. */
START_TEST(a_space_without_plans_has_no_answer_by_time_or_memory)
{
    struct search_request request = instance_request(&instance);
    struct search_result result;
    request.fix = "tp3";
    request.without_hints = true;
    for (request.objective = 0; request.objective <= OBJECTIVE_MEMORY; request.objective++) {
        find(&request, "bnb", &result, 0);
        ck_assert_int_eq(result.num_top, 0);
        ck_assert(result.proved_optimal && result.evaluated == 0);
        search_result_release(&result);
    }
}
END_TEST

START_TEST(each_distinct_rank_order_is_evaluated_once)
{
    struct search_request request = instance_request(&instance);
    struct search_result usual, placed;
    /* with this slow network the placement of ranks matters */
    instance.system.cluster.levels[1].bytes_per_s /= 50;
    /* only cp and dp are searched, so there are two orders if both exceed 1 */
    request.forbid = "tp pp";
    find(&request, "exhaustive", &usual, 0);
    request.placement = true;
    find(&request, "exhaustive", &placed, 0);
    request.fix = "cp1"; /* only dp can exceed 1, so there is one order */
    struct search_result alone;
    find(&request, "exhaustive", &alone, 0);
    ck_assert_double_eq(placed.candidates - alone.candidates,
                        2 * (usual.candidates - alone.candidates));
    ck_assert_double_le(placed.top[0].prediction.step_s, usual.top[0].prediction.step_s);
    search_result_release(&usual);
    search_result_release(&placed);
    search_result_release(&alone);
}
END_TEST

static Suite *suite(void)
{
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 120);
    tcase_add_loop_test(random, branch_and_bound_equals_a_loop_over_all_plans, 0, BATCHES);
    TCase *fixture = tcase_create("fixture");
    tcase_add_checked_fixture(fixture, set_up, tear_down);
    tcase_add_loop_test(fixture, answer_and_counts_do_not_depend_on_the_number_of_workers, 0, 6);
    tcase_add_test(fixture, an_early_end_gives_a_valid_gap_to_the_optimum);
    tcase_add_test(fixture, a_space_without_plans_has_no_answer_by_time_or_memory);
    tcase_add_test(fixture, each_distinct_rank_order_is_evaluated_once);
    Suite *s = suite_create("search/bnb");
    suite_add_tcase(s, random);
    suite_add_tcase(s, fixture);
    return s;
}

TEST_MAIN(suite)
