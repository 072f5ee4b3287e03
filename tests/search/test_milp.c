#include "tests/testing.h"

#include "search/milp/division.h"
#include "search/uneven/fronts.h"
#include "tests/draw.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;

static void tear_down(void)
{
    arena_release(&arena);
}

/* --- instances -------------------------------------------------------------------------------- */

enum { MOST_STAGES = 6 };

/* Random options for one stage, with up to `most` layers, of which some are recomputed. */
static struct stage_choices random_choices(struct random *rng, int most, double layer_s)
{
    double extra_s = between(rng, 0, 2) * layer_s;
    int fits_plain = within(rng, 1, most);
    struct stage_choice *at = ARENA_ARRAY(&arena, struct stage_choice, (size_t)most);
    for (int k = 1; k <= most; k++) {
        int recomputed = k > fits_plain ? k - fits_plain : 0;
        at[k - 1] = (struct stage_choice){
            .layers = k,
            .recomputed = recomputed,
            .first = ANY_FIRST,
            .pass_s = extra_s + layer_s * (k + 0.3 * recomputed) * between(rng, 0.98, 1.02),
            .host_bytes = k * between(rng, 0.9, 1.1),
        };
    }
    return (struct stage_choices){ at, most };
}

static struct division_problem random_problem(struct random *rng, int most_stages, int most_layers)
{
    int num_stages = within(rng, 2, most_stages);
    int num_layers = within(rng, num_stages, most_layers);
    struct stage_choices *stages = ARENA_ARRAY(&arena, struct stage_choices, (size_t)num_stages);
    for (int stage = 0; stage < num_stages; stage++)
        stages[stage] =
            random_choices(rng, num_layers - num_stages + 1, between(rng, 0.8e-3, 1.2e-3));
    return (struct division_problem){ .stages = stages,
                                      .num_stages = num_stages,
                                      .num_layers = num_layers,
                                      .num_microbatches = within(rng, 1, 40),
                                      .host_bytes = HUGE_VAL };
}

/* --- two reference solutions ------------------------------------------------------------------ */

/* The least sum of the stages' passes, none of which is longer than `longest_s`, computed stage by
 * stage. */
static double least_sum_s(const struct division_problem *problem, double longest_s)
{
    double least[2][64];
    ck_assert_int_lt(problem->num_layers, 64);
    for (int k = 0; k <= problem->num_layers; k++)
        least[0][k] = k == 0 ? 0 : HUGE_VAL;
    for (int stage = 0; stage < problem->num_stages; stage++) {
        double *before = least[stage % 2], *after = least[(stage + 1) % 2];
        for (int k = 0; k <= problem->num_layers; k++) {
            after[k] = HUGE_VAL;
            for (int i = 0; i < problem->stages[stage].count; i++) {
                const struct stage_choice *choice = &problem->stages[stage].at[i];
                if (choice->layers <= k && choice->pass_s <= longest_s)
                    after[k] = fmin(after[k], before[k - choice->layers] + choice->pass_s);
            }
        }
    }
    return least[problem->num_stages % 2][problem->num_layers];
}

/* A dynamic program for the surrogate (sum of all stages' passes + (microbatches - 1) x the longest
 * pass). It tries the pass of each option as the longest one. */
static double dynamic_s(const struct division_problem *problem)
{
    double least_s = HUGE_VAL;
    for (int stage = 0; stage < problem->num_stages; stage++)
        for (int i = 0; i < problem->stages[stage].count; i++) {
            double longest_s = problem->stages[stage].at[i].pass_s;
            double sum_s = least_sum_s(problem, longest_s);
            least_s = fmin(least_s, sum_s + (problem->num_microbatches - 1) * longest_s);
        }
    return least_s;
}

static const struct stage_choice *chosen(const struct division_problem *problem, const int *choice,
                                         int stage)
{
    return &problem->stages[stage].at[choice[stage]];
}

static int count_types(const struct division_problem *problem, const int *choice)
{
    int types = 0;
    for (int i = 0; i < problem->num_stages; i++) {
        const struct stage_choice *a = chosen(problem, choice, i);
        bool is_new = true;
        for (int j = 0; j < i; j++) {
            const struct stage_choice *b = chosen(problem, choice, j);
            is_new = is_new && (a->layers != b->layers || a->recomputed != b->recomputed);
        }
        types += is_new;
    }
    return types;
}

static bool recomputes_alike(const struct division_problem *problem, const int *choice)
{
    bool same_number = true, all = true;
    for (int i = 0; i < problem->num_stages; i++) {
        const struct stage_choice *a = chosen(problem, choice, i);
        same_number = same_number && a->recomputed == chosen(problem, choice, 0)->recomputed;
        all = all && a->recomputed == a->layers;
    }
    return same_number || all;
}

static bool hosts_hold(const struct division_problem *problem, const int *choice)
{
    for (int node = 0; node < problem->num_nodes; node++) {
        double bytes = 0;
        for (int stage = 0; stage < problem->num_stages; stage++)
            bytes += problem->nodes[node].ranks[stage] * chosen(problem, choice, stage)->host_bytes;
        if (bytes > problem->host_bytes)
            return false;
    }
    return true;
}

static bool is_allowed(const struct division_problem *problem, const int *choice)
{
    int layers = 0;
    for (int stage = 0; stage < problem->num_stages; stage++)
        layers += chosen(problem, choice, stage)->layers;
    return layers == problem->num_layers &&
           (problem->most_types == 0 || count_types(problem, choice) <= problem->most_types) &&
           (!problem->same_recompute || recomputes_alike(problem, choice)) &&
           hosts_hold(problem, choice);
}

enum { MOST_FOUND = 5 };

/* The smallest surrogates of all divisions, sorted. */
struct brute {
    double surrogate_s[MOST_FOUND];
    int count;
};

static void insert(struct brute *brute, double surrogate_s)
{
    int i = brute->count < MOST_FOUND ? brute->count++ : MOST_FOUND;
    for (; i > 0 && brute->surrogate_s[i - 1] > surrogate_s; i--)
        if (i < MOST_FOUND)
            brute->surrogate_s[i] = brute->surrogate_s[i - 1];
    if (i < MOST_FOUND)
        brute->surrogate_s[i] = surrogate_s;
}

static void try_all(const struct division_problem *problem, int stage, int *choice,
                    struct brute *brute)
{
    if (stage == problem->num_stages) {
        if (is_allowed(problem, choice))
            insert(brute, division_surrogate_s(problem, choice));
        return;
    }
    for (int i = 0; i < problem->stages[stage].count; i++) {
        choice[stage] = i;
        try_all(problem, stage + 1, choice, brute);
    }
}

static struct brute brute_force(const struct division_problem *problem)
{
    struct brute brute = { 0 };
    int choice[MOST_STAGES];
    try_all(problem, 0, choice, &brute);
    return brute;
}

static struct divisions best_of(const struct division_problem *problem, int most)
{
    struct divisions found;
    struct program_limits limits = { 0 };
    struct err err = { 0 };
    bool ok = divisions_best(problem, most, &limits, &arena, &found, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return found;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Writes the same problem in the form that the dynamic program in search/uneven/fronts reads. */
static double fronts_s(const struct division_problem *problem)
{
    int most = problem->num_layers - problem->num_stages + 1;
    int layers[MOST_STAGES];
    struct stage_table table = {
        .num_stages = problem->num_stages,
        .num_layers = problem->num_layers,
        .num_microbatches = problem->num_microbatches,
        .most_layers = most,
        .num_firsts = 1,
        .options =
            ARENA_ARRAY(&arena, struct stage_option, (size_t)(problem->num_stages * (most + 1))),
    };
    for (int stage = 0; stage < problem->num_stages; stage++)
        for (int i = 0; i < problem->stages[stage].count; i++) {
            const struct stage_choice *choice = &problem->stages[stage].at[i];
            table.options[stage * (most + 1) + choice->layers] = (struct stage_option){
                .fits = true,
                .layers = choice->layers,
                .recomputed = choice->recomputed,
                .forward_s = choice->pass_s / 3,
                .backward_s = choice->pass_s - choice->pass_s / 3,
            };
        }
    struct fronts fronts = fronts_new(&table, &surrogate, HUGE_VAL, &arena);
    return fronts_best_s(&fronts, layers);
}

/* The least sum of passes and the least longest pass over all divisions. */
static void least_of_all(const struct division_problem *problem, int stage, int *choice,
                         double *sum_s, double *longest_s)
{
    if (stage < problem->num_stages) {
        for (int i = 0; i < problem->stages[stage].count; i++) {
            choice[stage] = i;
            least_of_all(problem, stage + 1, choice, sum_s, longest_s);
        }
        return;
    }
    int layers = 0;
    double passes_s = 0, most_s = 0;
    for (int k = 0; k < problem->num_stages; k++) {
        const struct stage_choice *own = chosen(problem, choice, k);
        if (own->first != ANY_FIRST && own->first != layers)
            return;
        layers += own->layers;
        passes_s += own->pass_s;
        most_s = fmax(most_s, own->pass_s);
    }
    if (layers != problem->num_layers)
        return;
    *sum_s = fmin(*sum_s, passes_s);
    *longest_s = fmin(*longest_s, most_s);
}

/* Gives each choice a first layer. */
static void add_firsts(struct random *rng, struct division_problem *problem)
{
    size_t num_stages = (size_t)problem->num_stages;
    struct stage_choices *stages = ARENA_ARRAY(&arena, struct stage_choices, num_stages);
    for (int stage = 0; stage < problem->num_stages; stage++) {
        const struct stage_choices *of = &problem->stages[stage];
        struct stage_choice *at = ARENA_ARRAY(&arena, struct stage_choice, (size_t)of->count);
        for (int i = 0; i < of->count; i++) {
            at[i] = of->at[i];
            at[i].first = stage == 0 ? 0 : within(rng, 1, problem->num_layers - at[i].layers);
        }
        stages[stage] = (struct stage_choices){ at, of->count };
    }
    problem->stages = stages;
}

/* In half of the problems a choice has a first layer. */
START_TEST(floors_of_sum_and_longest_pass_equal_enumeration)
{
    struct random rng = random_new(16, 0);
    for (int i = 0; i < 60; i++) {
        struct arena_mark mark = arena_mark(&arena);
        struct division_problem problem = random_problem(&rng, 4, 8);
        double sum_s = HUGE_VAL, longest_s = HUGE_VAL;
        int choice[MOST_STAGES];
        if (i % 2 == 1)
            add_firsts(&rng, &problem);
        least_of_all(&problem, 0, choice, &sum_s, &longest_s);
        double floor_s = division_least_sum_s(&problem);
        ck_assert(floor_s == sum_s || fabs(floor_s - sum_s) < 1e-12);
        if (i % 2 == 0)
            ck_assert_double_eq(division_least_longest_s(&problem), longest_s);
        else
            ck_assert_double_le(division_least_longest_s(&problem), longest_s);
        problem.num_layers = 1000; /* more than all stages hold */
        ck_assert_double_eq(division_least_longest_s(&problem), HUGE_VAL);
        ck_assert_double_eq(division_least_sum_s(&problem), HUGE_VAL);
        arena_reset(&arena, mark);
    }
}
END_TEST

/* If no upper bound on the longest pass T is given, the integer program's answer is independent of
 * the dynamic program's. */
START_TEST(without_a_guess_the_optimum_equals_dynamic_programming)
{
    const uint64_t seed = 11;
    struct random rng = random_new(seed, 0);
    printf("divisions without a guess: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < SAMPLED(600, 200); i++) {
        struct arena_mark mark = arena_mark(&arena);
        struct division_problem problem = random_problem(&rng, 4, 9);
        struct excluded none = { 0 };
        struct program_limits limits = { 0 };
        struct program_result result;
        struct err err = { 0 };
        int choice[MOST_STAGES];
        ck_assert(
            division_within(&problem, &none, HUGE_VAL, &limits, &arena, choice, &result, &err));
        ck_assert_int_eq(result.status, PROGRAM_OPTIMAL);
        ck_assert(is_allowed(&problem, choice));
        double expected_s = fronts_s(&problem);
        double got_s = division_surrogate_s(&problem, choice);
        ck_assert_double_eq_tol(dynamic_s(&problem), expected_s, 1e-12);
        ck_assert_msg(fabs(got_s / expected_s - 1) < 1e-6,
                      "instance %d: the surrogate is %.12g s, not %.12g s", i, got_s, expected_s);
        arena_reset(&arena, mark);
    }
}
END_TEST

START_TEST(with_guesses_the_optimum_equals_dynamic_programming_at_any_size)
{
    const uint64_t seed = 12;
    struct random rng = random_new(seed, 0);
    printf("divisions with guesses: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < SAMPLED(150, 40); i++) {
        struct arena_mark mark = arena_mark(&arena);
        struct division_problem problem = random_problem(&rng, 24, 48);
        struct divisions found = best_of(&problem, 1);
        ck_assert_int_eq(found.count, 1);
        ck_assert(found.is_proved);
        ck_assert_double_eq(found.gap, 0);
        double expected_s = dynamic_s(&problem);
        ck_assert_msg(fabs(found.at[0].surrogate_s / expected_s - 1) < 1e-6,
                      "instance %d: the surrogate is %.12g s, not %.12g s", i,
                      found.at[0].surrogate_s, expected_s);
        arena_reset(&arena, mark);
    }
}
END_TEST

/* Limits the host memory of nodes, each of which two neighbouring stages share. */
static void share_hosts(struct random *rng, struct division_problem *problem)
{
    int count = problem->num_stages / 2;
    struct host_node *nodes = ARENA_ARRAY(&arena, struct host_node, (size_t)count);
    for (int node = 0; node < count; node++) {
        double *ranks = ARENA_ARRAY(&arena, double, (size_t)problem->num_stages);
        ranks[2 * node] = ranks[2 * node + 1] = 4;
        nodes[node].ranks = ranks;
    }
    problem->nodes = nodes;
    problem->num_nodes = count;
    problem->host_bytes = 8 * problem->num_layers * between(rng, 0.8, 2) / problem->num_stages;
}

START_TEST(limits_over_several_stages_hold_and_solutions_come_in_order)
{
    const uint64_t seed = 13;
    struct random rng = random_new(seed, 0);
    int none = 0;
    printf("divisions with limits across stages: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < SAMPLED(120, 60); i++) {
        struct arena_mark mark = arena_mark(&arena);
        struct division_problem problem = random_problem(&rng, 4, 9);
        if (within(&rng, 0, 1))
            problem.most_types = within(&rng, 1, 2);
        problem.same_recompute = within(&rng, 0, 1);
        if (within(&rng, 0, 1))
            share_hosts(&rng, &problem);
        struct brute brute = brute_force(&problem);
        struct divisions found = best_of(&problem, MOST_FOUND);
        none += brute.count == 0;
        ck_assert_msg(found.count == brute.count, "instance %d: %d divisions were found, not %d", i,
                      found.count, brute.count);
        ck_assert(found.is_proved);
        for (int j = 0; j < found.count; j++) {
            ck_assert(is_allowed(&problem, found.at[j].choice));
            ck_assert_msg(fabs(found.at[j].surrogate_s / brute.surrogate_s[j] - 1) < 1e-6,
                          "instance %d: the surrogate of division %d is %.12g s, not %.12g s", i, j,
                          found.at[j].surrogate_s, brute.surrogate_s[j]);
        }
        arena_reset(&arena, mark);
    }
    ck_assert_int_gt(none, 0);
}
END_TEST

/* After the best division, the test asks for the second-best, which must differ. */
START_TEST(no_division_is_returned_twice)
{
    struct random rng = random_new(14, 0);
    struct division_problem problem;
    do
        problem = random_problem(&rng, 6, 12);
    while (problem.num_stages < 4 || problem.num_layers < 8);
    struct divisions found = best_of(&problem, 8);
    ck_assert_int_eq(found.count, 8);
    for (int i = 0; i < found.count; i++)
        for (int j = 0; j < i; j++)
            ck_assert(memcmp(found.at[i].choice, found.at[j].choice,
                             (size_t)problem.num_stages * sizeof(int)) != 0);
}
END_TEST

START_TEST(stages_that_cannot_hold_the_layers_have_no_division)
{
    const struct stage_choice one = { .layers = 1, .first = ANY_FIRST, .pass_s = 1 };
    const struct stage_choices stages[] = { { &one, 1 }, { &one, 1 } };
    struct division_problem problem = { .stages = stages,
                                        .num_stages = 2,
                                        .num_layers = 3,
                                        .num_microbatches = 4,
                                        .host_bytes = HUGE_VAL };
    struct divisions found = best_of(&problem, 3);
    ck_assert_int_eq(found.count, 0);
    ck_assert(found.is_proved);
    problem.num_layers = 2;
    found = best_of(&problem, 3);
    ck_assert_int_eq(found.count, 1);
    ck_assert_double_eq(found.at[0].surrogate_s, 5);
}
END_TEST

/* A hard problem: few types of stages, many microbatches, and stages that all differ. */
static struct division_problem hard_problem(void)
{
    struct random rng = random_new(15, 0);
    struct division_problem problem;
    do
        problem = random_problem(&rng, 16, 48);
    while (problem.num_stages < 14 || problem.num_layers < 40 || problem.num_microbatches < 20);
    problem.most_types = 4;
    return problem;
}

/* A lower bound of the surrogate from the least sum of passes and the least longest pass. No
 * division of the hard problem attains both, so the bound found by branch and bound must be
 * higher. */
static double floor_of(const struct division_problem *problem)
{
    return division_least_sum_s(problem) +
           (problem->num_microbatches - 1) * division_least_longest_s(problem);
}

START_TEST(at_a_limit_the_best_division_and_its_gap_are_returned)
{
    struct division_problem problem = hard_problem();
    struct program_limits limits = { .nodes = 20 };
    struct divisions found;
    struct err err = { 0 };
    ck_assert(divisions_best(&problem, 1, &limits, &arena, &found, &err));
    ck_assert(!found.is_proved);
    ck_assert_double_gt(found.gap, 0);
    ck_assert_int_ge(found.nodes, 20);
    ck_assert_double_gt(found.bound_s, floor_of(&problem));
    if (found.count > 0) {
        ck_assert(is_allowed(&problem, found.at[0].choice));
        ck_assert_double_le(found.bound_s, found.at[0].surrogate_s);
    }
}
END_TEST

START_TEST(at_a_time_limit_it_reports_it)
{
    struct division_problem problem = hard_problem();
    struct program_limits limits = { .time_s = 1e-3 };
    struct divisions found;
    struct err err = { 0 };
    ck_assert(divisions_best(&problem, 3, &limits, &arena, &found, &err));
    ck_assert(found.timed_out);
    ck_assert(!found.is_proved);
    ck_assert_double_gt(found.bound_s, floor_of(&problem));
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("milp");
    TCase *cases = tcase_create("milp");
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, without_a_guess_the_optimum_equals_dynamic_programming);
    tcase_add_test(cases, with_guesses_the_optimum_equals_dynamic_programming_at_any_size);
    tcase_add_test(cases, limits_over_several_stages_hold_and_solutions_come_in_order);
    tcase_add_test(cases, floors_of_sum_and_longest_pass_equal_enumeration);
    tcase_add_test(cases, no_division_is_returned_twice);
    tcase_add_test(cases, stages_that_cannot_hold_the_layers_have_no_division);
    tcase_add_test(cases, at_a_limit_the_best_division_and_its_gap_are_returned);
    tcase_add_test(cases, at_a_time_limit_it_reports_it);
    suite_add_tcase(suite, cases);
    return suite;
}

TEST_MAIN(suite)
