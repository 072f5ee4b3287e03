#include "search/search.h"

#include "base/text.h"
#include "models/replay.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Tests how a search chooses the parts (modules) of a layer that selective recompute recomputes. */

static struct instance instance;

static void tear_down(void)
{
    instance_release(&instance);
}

static void make(uint64_t seed)
{
    struct random rng = random_new(seed, 7);
    instance_load(&instance);
    instance_randomize(&instance, seed);
    instance.system.gpu.memory_bytes *= between(&rng, 0.5, 1);
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

enum { ALL_INSTANCES = 300, GATE_INSTANCES = 4 };

START_TEST(branch_and_bound_chooses_the_parts_of_exhaustive_search)
{
    int chosen = 0;
    for (int seed = 0; seed < SAMPLED(ALL_INSTANCES, GATE_INSTANCES); seed++) {
        make(700 + (uint64_t)seed);
        struct search_request one = new_request("exhaustive"), other = new_request("bnb");
        struct search_result all = search_of(&one), found = search_of(&other);
        ck_assert_msg(all.num_top == found.num_top, "seed %d", seed);
        ck_assert_double_eq(all.candidates, found.candidates);
        for (int i = 0; i < all.num_top; i++) {
            ck_assert_msg(plan_equal(&all.top[i].plan, &found.top[i].plan), "seed %d, %d", seed, i);
            chosen += has_parts(&all.top[i].plan);
        }
        search_result_release(&all);
        search_result_release(&found);
        instance_release(&instance);
    }
    instance_load(&instance);
    ck_assert_int_gt(chosen, 0);
}
END_TEST

/* The layout words of a set of parts. */
static void write_parts(unsigned parts, struct text *out)
{
    const char *separator = "recompute=selective:";
    for (int i = 0; i < REPLAY_PER_OP; i++)
        if (parts >> i & 1) {
            text_add(out, "%s%s", separator, replay_names[i]);
            separator = "+";
        }
}

/* The step time of the fastest plan of a space with fixed recompute; HUGE_VAL if no plan fits. */
static double fixed_s(const char *words)
{
    struct search_request request = new_request("bnb");
    request.recompute_modules = false;
    request.fix = words;
    struct search_result result = search_of(&request);
    double step_s = result.num_top > 0 ? result.top[0].prediction.step_s : HUGE_VAL;
    search_result_release(&result);
    return step_s;
}

/* recompute=full also stands for full:K, if full itself does not fit. */
static double without_parts_s(void)
{
    struct search_request request = new_request("bnb");
    request.recompute_modules = false;
    struct search_result result = search_of(&request);
    double step_s = result.num_top > 0 ? result.top[0].prediction.step_s : HUGE_VAL;
    search_result_release(&result);
    return step_s;
}

/* The answer must be the fastest of the answers of separate searches, one for each set of parts. */
START_TEST(the_best_set_of_parts_equals_searching_each_set)
{
    int gained = 0;
    for (int seed = 0; seed < SAMPLED(60, 1); seed++) {
        make(903 + (uint64_t)seed);
        unsigned possible = plan_possible_replays(&instance.model);
        double least_s = without_parts_s(), none_s = least_s;
        for (unsigned parts = 1; parts <= possible; parts++) {
            struct text words = { 0 };
            if ((parts & possible) != parts)
                continue;
            write_parts(parts, &words);
            least_s = fmin(least_s, fixed_s(text_get(&words)));
            text_release(&words);
        }
        struct search_request request = new_request("bnb");
        struct search_result result = search_of(&request);
        double step_s = result.num_top > 0 ? result.top[0].prediction.step_s : HUGE_VAL;
        ck_assert_msg(step_s == least_s || fabs(step_s - least_s) <= 1e-12 * least_s,
                      "seed %d: %.17g, each set %.17g", seed, step_s, least_s);
        gained += step_s < none_s;
        search_result_release(&result);
        instance_release(&instance);
    }
    instance_load(&instance);
    ck_assert_int_gt(gained, 0);
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

static Suite *suite(void)
{
    Suite *s = suite_create("modules");
    TCase *tc = tcase_create("modules");
    tcase_set_timeout(tc, 600);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, branch_and_bound_chooses_the_parts_of_exhaustive_search);
    tcase_add_test(tc, the_best_set_of_parts_equals_searching_each_set);
    tcase_add_test(tc, parts_are_not_chosen_if_recompute_is_fixed_or_memory_is_the_objective);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
