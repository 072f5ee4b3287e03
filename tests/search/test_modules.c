#include "search/search.h"

#include "base/text.h"
#include "models/recompute.h"
#include "search/method.h"
#include "search/parts.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/search/uneven_space.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Tests how a search chooses the modules (sub-layers) that selective recompute recomputes. */

static struct instance instance;

static void tear_down(void)
{
    instance_release(&instance);
}

static void make_with_memory(uint64_t seed, double least, double most)
{
    struct random rng = random_new(seed, 7);
    instance_load(&instance);
    instance_randomize(&instance, seed);
    instance.system.gpu.memory_bytes *= between(&rng, least, most);
}

static void make(uint64_t seed)
{
    make_with_memory(seed, 0.5, 1);
}

static struct search_request new_request(const char *method)
{
    struct search_request request = instance_request(&instance);
    request.method = method;
    request.recompute_modules = true;
    request.top = 3;
    return request;
}

static bool has_parts(const struct plan *plan)
{
    return plan->recompute == RECOMPUTE_SELECTIVE && plan->replays != 0;
}

/* Compares the answers of both methods. Adds to *chosen the number of plans that recompute modules
 * other than attention's core. */
static void check_methods(int seed, int *chosen)
{
    struct search_request one = new_request("exhaustive"), other = new_request("bnb");
    one.top = other.top = 10;
    struct search_result all = search_of(&one), found = search_of(&other);
    ck_assert_msg(all.num_top == found.num_top, "seed %d: exhaustive lists %d plans, but bnb %d",
                  seed, all.num_top, found.num_top);
    ck_assert_double_eq(all.candidates, found.candidates);
    for (int i = 0; i < all.num_top; i++) {
        ck_assert_msg(plan_equal(&all.top[i].plan, &found.top[i].plan),
                      "seed %d: plan %d in the lists differs", seed, i);
        ck_assert_double_eq(all.top[i].prediction.step_s, found.top[i].prediction.step_s);
        *chosen += has_parts(&all.top[i].plan);
    }
    search_result_release(&all);
    search_result_release(&found);
}

/* `make campaign` and `make test` draw instances until this many of them have a model with
 * experts. */
enum { ALL_OF_EXPERTS = 300, GATE_OF_EXPERTS = 2 };

START_TEST(branch_and_bound_chooses_the_parts_of_exhaustive_search)
{
    int chosen = 0, of_experts = 0, count = 0;
    for (; of_experts < SAMPLED(ALL_OF_EXPERTS, GATE_OF_EXPERTS); count++) {
        make(700 + (uint64_t)count);
        of_experts += instance.model.experts > 0;
        check_methods(count, &chosen);
        instance_release(&instance);
    }
    if (is_campaign())
        printf(
            "%d instances, %d of models with experts, %d plans that recompute modules other than "
            "attention's core\n",
            count, of_experts, chosen);
    instance_load(&instance);
    ck_assert_int_gt(chosen, 0);
}
END_TEST

/* Writes the layout words of a set of modules. */
static void write_parts(unsigned parts, struct text *out)
{
    const char *separator = "recompute=selective:";
    for (int i = 0; i < REPLAY_PER_OP; i++)
        if (parts >> i & 1) {
            text_add(out, "%s%s", separator, replay_names[i]);
            separator = "+";
        }
}

/* The step time of the fastest plan; HUGE_VAL if no plan fits. */
static double least_step_s(struct search_request request)
{
    struct search_result result = search_of(&request);
    double step_s = result.num_top > 0 ? result.top[0].prediction.step_s : HUGE_VAL;
    search_result_release(&result);
    return step_s;
}

/* The step time of the fastest plan if `words` fix the recompute. If `words` is NULL, all kinds of
 * recompute are searched, but not the sets of modules. Where full recompute does not fit, the
 * search tries full:K (one kept input per K layers) instead. */
static double fixed_s(const char *words)
{
    struct search_request request = new_request("bnb");
    request.recompute_modules = false;
    request.fix = words;
    return least_step_s(request);
}

/* The step time of the fastest plan of separate searches, one for each set of modules. */
static double each_set_s(double none_s)
{
    unsigned possible = plan_possible_replays(&instance.model);
    double least_s = none_s;
    for (unsigned parts = 1; parts <= possible; parts++) {
        struct text words = { 0 };
        if ((parts & possible) != parts)
            continue;
        write_parts(parts, &words);
        least_s = fmin(least_s, fixed_s(text_get(&words)));
        text_release(&words);
    }
    return least_s;
}

/* The answer must be the fastest of the answers of separate searches, one for each set of modules.
 * With so little memory recomputing some set is faster than recomputing none in about one of eight
 * instances. Outside a campaign the separate searches are made only for the first instance and for
 * the first instance in which a set is faster. */
START_TEST(the_best_set_of_parts_equals_searching_each_set)
{
    int gained = 0;
    for (int seed = 0; seed < SAMPLED(60, 1) || (gained == 0 && seed < 60); seed++) {
        make_with_memory(903 + (uint64_t)seed, 0.35, 0.5);
        double step_s = least_step_s(new_request("bnb")), none_s = fixed_s(NULL);
        gained += step_s < none_s;
        if (seed == 0 || step_s < none_s || is_campaign()) {
            double least_s = each_set_s(none_s);
            ck_assert_msg(step_s == least_s || fabs(step_s - least_s) <= 1e-12 * least_s,
                          "seed %d: the best step takes %.17g s, but %.17g s by separate searches",
                          seed, step_s, least_s);
        }
        instance_release(&instance);
    }
    instance_load(&instance);
    ck_assert_int_gt(gained, 0);
}
END_TEST

/* --- different recompute on each stage ---------------------------------------------------- */

/* The peak memory of a plan without recompute that has one stage per GPU. */
static double most_bytes(int num_stages)
{
    struct plan plan = plan_default();
    plan.pp = num_stages;
    plan.dp = 1;
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    double bytes = evaluate_peak_bytes(evaluator, &plan);
    evaluator_free(evaluator);
    return bytes;
}

/* Makes an instance with two or three stages, so small that every division of its layers with every
 * combination of recomputed modules can be listed. The activations of the first stage hardly fit.
 * Returns the fixed words of the layout. */
static const char *make_small(uint64_t seed)
{
    struct random rng = random_new(seed, 11);
    struct model *model = &instance.model;
    instance_load(&instance);
    instance_randomize(&instance, seed);
    int stages = PICK(&rng, 2, 2, 3);
    instance.system.num_gpus = stages;
    model->blocks = (struct blocks){ 0 };
    model->layers = 2 * stages;
    model->batch = 6 * within(&rng, 2, 5);
    model->vocab = PICK(&rng, 8000, 51200);
    instance.system.gpu.memory_bytes = between(&rng, 0.9, 1.02) * most_bytes(stages);
    return stages == 2 ? "tp1 pp2 mb1" : "tp1 pp3 mb1";
}

/* What a search found; answers of several methods are compared. */
struct answer {
    double step_s, candidates;
    bool is_proved;
    int mixed; /* number of listed plans whose stages recompute different modules */
    char layout[400];
};

static struct answer answer_of(struct search_request request, const char *method)
{
    request.method = method;
    struct search_result result = search_of(&request);
    struct answer answer = { HUGE_VAL, result.candidates, result.proved_optimal, 0, "" };
    for (int i = 0; i < result.num_top; i++)
        answer.mixed += plan_mixes_parts(&result.top[i].plan);
    if (result.num_top > 0) {
        struct text layout = { 0 };
        plan_write(&result.top[0].plan, &layout);
        answer.step_s = result.top[0].prediction.step_s;
        snprintf(answer.layout, sizeof answer.layout, "%s", text_get(&layout));
        text_release(&layout);
    }
    search_result_release(&result);
    return answer;
}

static void check_stages(uint64_t seed, const char *fix, int *mixed)
{
    struct search_request request = new_request("bnb");
    request.fix = fix;
    request.uneven = true;
    request.recompute_mixes = true;
    request.recompute_modules = seed % 4 > 0;
    struct uneven_space listed = uneven_space_list(&request);
    struct answer bnb = answer_of(request, "bnb"), dp = answer_of(request, "dp"),
                  milp = answer_of(request, "milp");
    ck_assert_msg(bnb.is_proved && dp.is_proved, "seed %d: bnb or dp did not prove its answer",
                  (int)seed);
    ck_assert_msg(bnb.step_s == listed.fastest_s ||
                      fabs(bnb.step_s - listed.fastest_s) <= 1e-12 * listed.fastest_s,
                  "seed %d: bnb found %s, which takes %.17g s, but the fastest plan takes %.17g s",
                  (int)seed, bnb.layout, bnb.step_s, listed.fastest_s);
    ck_assert_double_eq(bnb.candidates, listed.plans);
    ck_assert_double_eq(dp.candidates, listed.plans);
    ck_assert_str_eq(dp.layout, bnb.layout);
    ck_assert_double_ge(milp.step_s, bnb.step_s * (1 - 1e-12));
    if (milp.is_proved)
        ck_assert_msg(strcmp(milp.layout, bnb.layout) == 0,
                      "seed %d: bnb found %s, but milp found %s", (int)seed, bnb.layout,
                      milp.layout);
    *mixed += bnb.mixed;
}

START_TEST(the_parts_of_each_stage_equal_those_of_listing_all_combinations)
{
    int mixed = 0, count = 0, of_experts = 0;
    for (; count < SAMPLED(200, 4) || (mixed == 0 && count < 60); count++) {
        const char *fix = make_small(5200 + (uint64_t)count);
        of_experts += instance.model.experts > 0;
        check_stages(5200 + (uint64_t)count, fix, &mixed);
        instance_release(&instance);
    }
    if (is_campaign())
        printf("%d instances with modules chosen per stage, %d of models with experts, %d plans "
               "whose stages differ\n",
               count, of_experts, mixed);
    instance_load(&instance);
    ck_assert_int_gt(mixed, 0);
}
END_TEST

START_TEST(parts_are_not_chosen_if_recompute_is_fixed_or_memory_is_the_objective)
{
    make(700);
    struct search_request request = new_request("bnb");
    struct search_result result;
    struct err err = { 0 };
    request.objective = OBJECTIVE_MEMORY;
    ck_assert(!search_run(&request, &result, &err));
    ck_assert_str_eq(err.where, "--recompute-modules");
    request.objective = OBJECTIVE_TIME;
    request.fix = "recompute=selective";
    result = search_of(&request);
    for (int i = 0; i < result.num_top; i++)
        ck_assert(!has_parts(&result.top[i].plan));
    search_result_release(&result);
}
END_TEST

/* A walk over plans with selective recompute, which checks the lower bounds of the memory of each
 * set of modules. */
struct floored {
    struct evaluator *evaluator;
    const struct space *space;
    int checked;
    double tightest; /* smallest relative distance of a set's bound from its peak */
};

static bool check_sets(void *context, const struct plan *first)
{
    struct floored *of = context;
    struct plan plan = *first;
    unsigned possible = plan_possible_replays(of->space->model);
    if (plan.recompute != RECOMPUTE_SELECTIVE || of->checked % 7 != 0)
        return ++of->checked > 0;
    double least_bytes = evaluate_leanest_bytes(of->evaluator, &plan);
    double parts_bytes = parts_least_bytes(of->evaluator, &plan);
    const struct sets_memory *sets = evaluate_sets_memory(of->evaluator, &plan);
    for (plan.replays = 1; plan.replays <= possible; plan.replays++) {
        if ((plan.replays & possible) != plan.replays || space_check(of->space, &plan))
            continue;
        double bytes = evaluate_peak_bytes(of->evaluator, &plan);
        ck_assert_double_le(least_bytes, bytes * (1 + 1e-12));
        if (replays_overlap(plan.replays))
            continue;
        double bound_bytes = sets_least_bytes(sets, plan.replays, HUGE_VAL);
        ck_assert_double_le(parts_bytes, bound_bytes);
        ck_assert_double_le(bound_bytes, bytes);
        ck_assert_double_le(fmin(bytes, bound_bytes / 2),
                            sets_least_bytes(sets, plan.replays, bound_bytes / 2));
        of->tightest = fmin(of->tightest, 1 - bound_bytes / bytes);
    }
    return ++of->checked > 0;
}

static void ignore(void *context, const struct plan_rule *rule, double count)
{
    (void)context, (void)rule, (void)count;
}

START_TEST(no_set_of_parts_needs_less_memory_than_their_bounds)
{
    for (int seed = 0; seed < SAMPLED(60, 2); seed++) {
        make(300 + (uint64_t)seed);
        struct search_request request = new_request("bnb");
        struct prepared prepared;
        struct arena arena = { 0 };
        struct err err = { 0 };
        ck_assert_msg(search_prepare(&request, &arena, &prepared, &err), "%s", err.msg);
        struct floored of = { evaluator_new(&prepared.system, &instance.model), &prepared.space, 0,
                              1 };
        struct visitor visitor = { check_sets, ignore, &of };
        for (size_t i = 0; i < space_num_blocks(&prepared.space); i++)
            space_walk_block(&prepared.space, i, &visitor);
        ck_assert_int_gt(of.checked, 0);
        ck_assert_double_lt(of.tightest, 1e-8);
        evaluator_free(of.evaluator);
        arena_release(&arena);
        instance_release(&instance);
    }
    instance_load(&instance);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("modules");
    TCase *tc = tcase_create("modules");
    tcase_set_timeout(tc, 600);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, branch_and_bound_chooses_the_parts_of_exhaustive_search);
    tcase_add_test(tc, the_best_set_of_parts_equals_searching_each_set);
    tcase_add_test(tc, no_set_of_parts_needs_less_memory_than_their_bounds);
    tcase_add_test(tc, the_parts_of_each_stage_equal_those_of_listing_all_combinations);
    tcase_add_test(tc, parts_are_not_chosen_if_recompute_is_fixed_or_memory_is_the_objective);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
