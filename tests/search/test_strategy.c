#include "search/stochastic/strategy.h"

#include "tests/check_ok.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The model has 1.3 billion parameters and runs on 16 GPUs. A thousand candidates break no rule of
 * plans, and some of them fit into memory. */
static struct instance instance;
static struct arena arena;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.gpu.memory_bytes = 12e9;
}

static void tear_down(void)
{
    instance_release(&instance);
    arena_release(&arena);
}

static struct search_request new_request(void)
{
    struct search_request request = instance_request(&instance);
    request.method = "zo";
    request.top = 10;
    request.jobs = 1;
    return request;
}

static struct prepared *prepare(const struct search_request *request)
{
    struct prepared *prepared = ARENA_NEW(&arena, struct prepared);
    struct err err = { 0 };
    check_ok(search_prepare(request, &arena, prepared, &err), &err);
    return prepared;
}

/* --- encoding of plans as numbers ------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool follows_allowed_digits(const struct encoding *encoding, const struct point *point)
{
    for (int i = 0; i < NUM_FACTORS; i++)
        if (!encoding_allows(encoding, point, (enum factor)i, point->digit[i]))
            return false;
    return true;
}

static uint64_t num_points(const struct encoding *encoding)
{
    uint64_t count = 1;
    for (int i = 0; i < NUM_FACTORS; i++)
        count *= (uint64_t)encoding->values[i].count;
    return count;
}

START_TEST(encoded_points_are_the_candidates_each_once)
{
    static const int gpus[] = { 1, 8, 12, 16 };
    static const int layers[] = { 24, 13, 8, 12 };
    instance.system.num_gpus = gpus[_i];
    instance.model.layers = layers[_i];
    struct naive_space naive = naive_space_new(&instance.model, gpus[_i]);
    char **expected = ARENA_ARRAY(&arena, char *, (size_t)naive.count);
    char **found = ARENA_ARRAY(&arena, char *, (size_t)naive.count);
    for (int i = 0; i < naive.count; i++)
        expected[i] = naive_layout(&naive.at[i]);
    struct search_request request = new_request();
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    int count = 0;
    for (uint64_t key = 0; key < num_points(&encoding); key++) {
        struct point point = encoding_point(&encoding, key);
        struct plan plan;
        ck_assert_uint_eq(encoding_key(&encoding, &point), key);
        if (!encoding_plan(&encoding, &point, &plan))
            continue;
        ck_assert(follows_allowed_digits(&encoding, &point));
        ck_assert_int_lt(count, naive.count);
        found[count++] = naive_layout(&plan);
    }
    ck_assert_int_eq(count, naive.count);
    qsort(expected, (size_t)count, sizeof *expected, compare_texts);
    qsort(found, (size_t)count, sizeof *found, compare_texts);
    for (int i = 0; i < count; i++) {
        ck_assert_str_eq(found[i], expected[i]);
        free(found[i]);
        free(expected[i]);
    }
    free(naive.at);
}
END_TEST

static bool count_one(void *context, const struct plan *plan)
{
    (void)plan;
    ++*(double *)context;
    return true;
}

static void count_more(void *context, const struct plan_rule *rule, double count)
{
    (void)rule;
    *(double *)context += count;
}

START_TEST(fixed_and_forbidden_words_restrict_points_as_they_restrict_candidates)
{
    if (is_spared(_i, 2))
        return;
    static const char *const fixed[] = { "dp4", "vpp2", "tp8 sp", "tp3", "pp4 zero1", "" };
    static const char *const forbidden[] = { "", "pp2", "mb2", "", "vpp", "sp dp16" };
    struct search_request request = new_request();
    request.placement = _i % 2;
    request.fix = fixed[_i];
    request.forbid = forbidden[_i];
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    double points = 0, walked = 0;
    struct plan plan;
    for (uint64_t key = 0; key < num_points(&encoding); key++) {
        struct point point = encoding_point(&encoding, key);
        points += encoding_plan(&encoding, &point, &plan);
    }
    struct visitor visitor = { count_one, count_more, &walked };
    for (size_t block = 0; block < space_num_blocks(&prepared->space); block++)
        space_walk_block(&prepared->space, block, &visitor);
    ck_assert_double_gt(walked, 0);
    ck_assert_double_eq(points, walked);
}
END_TEST

START_TEST(draws_reach_every_candidate_and_mutations_stay_in_range)
{
    struct search_request request = new_request();
    request.fix = "tp2 mb1 cp1";
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    size_t count = (size_t)num_points(&encoding);
    bool *is_drawn = ARENA_ARRAY(&arena, bool, count);
    struct random rng = random_new(3, 0);
    struct point point;
    struct plan plan;
    for (int i = 0; i < 20000; i++) {
        ck_assert(point_draw(&encoding, &rng, &point));
        is_drawn[encoding_key(&encoding, &point)] = true;
        struct point mutant = point;
        point_mutate(&encoding, &rng, &mutant);
        ck_assert_mem_ne(&mutant, &point, sizeof point);
        for (int j = 0; j < NUM_FACTORS; j++)
            ck_assert(mutant.digit[j] >= 0 && mutant.digit[j] < encoding.values[j].count);
    }
    for (uint64_t key = 0; key < count; key++) {
        point = encoding_point(&encoding, key);
        ck_assert_int_eq(is_drawn[key], encoding_plan(&encoding, &point, &plan));
    }
}
END_TEST

START_TEST(only_visited_points_are_found)
{
    struct met_table table = { 0 };
    struct random rng = random_new(5, 0);
    ck_assert_ptr_null(met_find(&table, 0));
    for (int i = 0; i < TURNS(5000); i++) {
        struct met met = { .key = random_bits(&rng) & ~1u, .rule = i };
        met_add(&table, &met);
        met.rule = -1; /* a plan with a key that is already stored is ignored */
        met_add(&table, &met);
        ck_assert_uint_eq(table.count, (size_t)i + 1);
    }
    rng = random_new(5, 0);
    for (int i = 0; i < TURNS(5000); i++) {
        uint64_t key = random_bits(&rng) & ~1u;
        ck_assert_ptr_nonnull(met_find(&table, key));
        ck_assert_int_eq(met_find(&table, key)->rule, i);
        ck_assert_ptr_null(met_find(&table, key | 1));
    }
    met_release(&table);
}
END_TEST

/* --- scores ------------------------------------------------------------------------------- */

struct watch {
    double count, least;
    double half, first_sum, last_sum; /* sums of log scores in both halves of the budget */
};

static void watch(void *context, const struct scorer *scorer, double score, bool fits)
{
    struct watch *seen = context;
    seen->count++;
    ck_assert_double_eq(seen->count, scorer->spent);
    if (fits)
        seen->least = fmin(seen->least, score);
    double *sum = seen->count <= seen->half ? &seen->first_sum : &seen->last_sum;
    *sum += score < HUGE_VAL ? log(score) : 0;
}

static struct watch spend(const struct strategy *strategy, const struct search *search,
                          bool is_masked, const struct tuning *tuning, double budget, uint64_t seed)
{
    struct encoding encoding = encoding_new(search->space, &arena);
    struct scorer scorer = scorer_new(search, &encoding, budget);
    struct watch seen = { .least = HUGE_VAL, .half = budget / 2 };
    struct random rng = random_new(seed, 0);
    scorer.is_masked = is_masked;
    scorer.scored = watch;
    scorer.context = &seen;
    strategy->run(&scorer, tuning, &rng);
    ck_assert_double_eq(scorer.spent, seen.count);
    scorer_release(&scorer);
    return seen;
}

START_TEST(every_strategy_spends_its_budget_exactly)
{
    struct search_request request = new_request();
    struct prepared *prepared = prepare(&request);
    struct tuning wild = tuning_default();
    wild.learning_rate = 100; /* a policy that draws only one plan after an update starts anew */
    wild.patience_scores = 1;
    wild.anneal_scores = 1;
    struct tuning usual = tuning_default();
    static const double budgets[] = { 1, 2, 17, 333 };
    for (int i = 0; i < 4; i++)
        for (int masked = 0; masked < 2; masked++) {
            const struct strategy *strategy = &strategies[_i];
            const struct search *search = &prepared->search;
            double budget = budgets[i];
            ck_assert_double_eq(spend(strategy, search, masked, &usual, budget, 1).count, budget);
            ck_assert_double_eq(spend(strategy, search, masked, &wild, budget, 1).count, budget);
        }
}
END_TEST

START_TEST(a_space_of_one_plan_uses_the_whole_budget)
{
    struct search_request request = new_request();
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none";
    struct prepared *prepared = prepare(&request);
    struct tuning usual = tuning_default();
    struct watch seen = spend(&strategies[_i], &prepared->search, true, &usual, 50, 1);
    ck_assert_double_eq(seen.count, 50);
}
END_TEST

START_TEST(a_plan_over_memory_scores_its_time_multiplied_by_2_plus_its_memory_ratio)
{
    struct search_request request = new_request();
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none";
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    struct point only = { 0 };
    struct plan plan;
    ck_assert(encoding_plan(&encoding, &only, &plan));
    struct evaluator *evaluator = evaluator_new(&prepared->system, &instance.model);
    struct prediction p = evaluate(evaluator, &plan);
    double score;
    for (int part = 1; part <= 4; part *= 2) { /* the full budget, a half, a quarter */
        prepared->system.gpu.memory_bytes = p.peak_memory_bytes / part;
        struct scorer scorer = scorer_new(&prepared->search, &encoding, 1);
        ck_assert_int_eq(scorer_score(&scorer, &only, &score), SCORED);
        ck_assert_double_eq_tol(score / p.step_s, part == 1 ? 1 : 2 + part, 1e-12);
        ck_assert_int_eq(scorer_score(&scorer, &only, &score), OVER);
        scorer_release(&scorer);
    }
    evaluator_free(evaluator);
}
END_TEST

START_TEST(with_the_mask_plans_that_break_rules_use_no_budget)
{
    struct search_request request = new_request();
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none vpp3"; /* vpp3 breaks a rule with pp1 */
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    struct scorer scorer = scorer_new(&prepared->search, &encoding, 2);
    struct point only = { 0 };
    double score = 0;
    ck_assert_int_eq(scorer_score(&scorer, &only, &score), OUT);
    ck_assert_double_eq(scorer.spent, 0);
    scorer.is_masked = false;
    ck_assert_int_eq(scorer_score(&scorer, &only, &score), SCORED);
    ck_assert_double_eq(score, HUGE_VAL);
    ck_assert_double_eq(scorer.spent, 1);
    scorer_release(&scorer);
}
END_TEST

/* The mean score in the second half of the budget is more than 20 % better than in the first. */
START_TEST(learning_strategies_score_better_in_the_second_half)
{
    /* annealing and the policy get a single long run, because they need many scores */
    const int budget = 600;
    struct search_request request = new_request();
    struct prepared *prepared = prepare(&request);
    struct tuning long_run = tuning_default();
    long_run.anneal_scores = long_run.patience_scores = budget;
    long_run.policy_patience_scores = budget;
    const struct strategy *chance = strategy_find("random");
    int better = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct watch theirs =
            spend(&strategies[_i], &prepared->search, true, &long_run, budget, seed);
        struct watch drawn = spend(chance, &prepared->search, true, &long_run, budget, seed + 5);
        double random_mean = (drawn.first_sum + drawn.last_sum) / budget;
        better += theirs.last_sum / (budget / 2.0) < random_mean - 0.2;
    }
    ck_assert_int_eq(better, &strategies[_i] == chance ? 0 : 5);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stochastic: points, scores, strategies");
    TCase *tests = tcase_create("stochastic");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, encoded_points_are_the_candidates_each_once, 0, 4);
    tcase_add_loop_test(
        tests, fixed_and_forbidden_words_restrict_points_as_they_restrict_candidates, 0, 6);
    tcase_add_test(tests, draws_reach_every_candidate_and_mutations_stay_in_range);
    tcase_add_test(tests, only_visited_points_are_found);
    tcase_add_loop_test(tests, every_strategy_spends_its_budget_exactly, 0, num_strategies);
    tcase_add_loop_test(tests, a_space_of_one_plan_uses_the_whole_budget, 0, num_strategies);
    tcase_add_test(tests, a_plan_over_memory_scores_its_time_multiplied_by_2_plus_its_memory_ratio);
    tcase_add_test(tests, with_the_mask_plans_that_break_rules_use_no_budget);
    tcase_add_loop_test(tests, learning_strategies_score_better_in_the_second_half, 0,
                        num_strategies);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
