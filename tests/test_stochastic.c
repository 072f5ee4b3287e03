#include "tests/testing.h"

#include "search/stochastic/strategy.h"
#include "tests/naive_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1.3 B parameters on 16 GPUs: a thousand candidates that keep the rules, some of which fit. */
static struct system system_16;
static struct model model;
static struct arena arena;

static void set_up(void)
{
    struct err err = { 0 };
    bool ok = system_load("dgx-h100", "megatron-core", 16, &system_16, &err) &&
              model_load("gpt3-1.3b", &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    model.batch = 64;
    system_16.gpu.memory_bytes = 12e9;
}

static void tear_down(void)
{
    system_release(&system_16);
    arena_release(&arena);
}

static struct search_request new_request(const char *method)
{
    return (struct search_request){ .system = &system_16,
                                    .model = &model,
                                    .method = method,
                                    .base = plan_default(),
                                    .top = 10,
                                    .jobs = 1,
                                    .budget = TURNS(800) };
}

static struct search_result run(const struct search_request *request)
{
    struct search_result result;
    struct err err = { 0 };
    ck_assert_msg(search_run(request, &result, &err), "%s: %s", err.where, err.msg);
    return result;
}

static struct prepared *prepare(const struct search_request *request)
{
    struct prepared *prepared = ARENA_NEW(&arena, struct prepared);
    struct err err = { 0 };
    ck_assert_msg(search_prepare(request, &arena, prepared, &err), "%s: %s", err.where, err.msg);
    return prepared;
}

/* Methods that draw, for loops over them. */
static const char *const drawing[] = { "zo", "rl", "random" };
enum { NUM_DRAWING = sizeof drawing / sizeof *drawing, NUM_STRATEGIES = 4 };

START_TEST(every_method_and_strategy_is_tested_here)
{
    int count = 0;
    for (int i = 0; i < num_search_methods; i++)
        count += search_methods[i].is_drawn;
    ck_assert_int_eq(count, NUM_DRAWING);
    for (int i = 0; i < NUM_DRAWING; i++)
        ck_assert(search_method_find(drawing[i])->is_drawn);
    ck_assert_int_eq(num_strategies, NUM_STRATEGIES);
}
END_TEST

/* --- the encoding ------------------------------------------------------------------------- */

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

START_TEST(points_are_the_candidates_of_the_space_each_once)
{
    static const int gpus[] = { 1, 8, 12, 16 };
    static const int layers[] = { 24, 13, 8, 12 };
    system_16.num_gpus = gpus[_i];
    model.layers = layers[_i];
    struct naive_space naive = naive_space_new(&model, gpus[_i]);
    char **expected = ARENA_ARRAY(&arena, char *, (size_t)naive.count);
    char **found = ARENA_ARRAY(&arena, char *, (size_t)naive.count);
    for (int i = 0; i < naive.count; i++)
        expected[i] = naive_layout(&naive.at[i]);
    struct search_request request = new_request("zo");
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

START_TEST(fixed_and_forbidden_words_narrow_points_as_they_narrow_the_walk)
{
    static const char *const fixed[] = { "dp4", "vpp2", "tp8 sp", "tp3", "pp4 zero1", "" };
    static const char *const forbidden[] = { "", "pp2", "mb2", "", "vpp", "sp dp16" };
    struct search_request request = new_request("zo");
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

START_TEST(drawing_reaches_every_candidate_and_mutation_moves_within_the_digits)
{
    struct search_request request = new_request("zo");
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

START_TEST(what_was_met_is_found_and_nothing_else)
{
    struct met_table table = { 0 };
    struct random rng = random_new(5, 0);
    ck_assert_ptr_null(met_find(&table, 0));
    for (int i = 0; i < TURNS(5000); i++) {
        struct met met = { .key = random_bits(&rng) & ~1u, .rule = i };
        met_add(&table, &met);
        met.rule = -1; /* the first stays */
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
    double half, first_sum, last_sum; /* log scores of both halves of the budget */
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
    struct search_request request = new_request("zo");
    struct prepared *prepared = prepare(&request);
    struct tuning wild = tuning_default();
    wild.learning_rate = 100; /* one plan alone after an update, and then anew */
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

START_TEST(a_space_of_one_plan_takes_the_whole_budget_too)
{
    struct search_request request = new_request("zo");
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none";
    struct prepared *prepared = prepare(&request);
    struct tuning usual = tuning_default();
    struct watch seen = spend(&strategies[_i], &prepared->search, true, &usual, 50, 1);
    ck_assert_double_eq(seen.count, 50);
}
END_TEST

START_TEST(a_plan_over_memory_scores_its_time_by_two_and_its_share_of_memory)
{
    struct search_request request = new_request("zo");
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none";
    struct prepared *prepared = prepare(&request);
    struct encoding encoding = encoding_new(&prepared->space, &arena);
    struct point only = { 0 };
    struct plan plan;
    ck_assert(encoding_plan(&encoding, &only, &plan));
    struct evaluator *evaluator = evaluator_new(&prepared->system, &model);
    struct prediction p = evaluate(evaluator, &plan);
    double score;
    for (int part = 1; part <= 4; part *= 2) { /* all of what it needs, a half, a quarter */
        prepared->system.gpu.memory_bytes = p.peak_memory_bytes / part;
        struct scorer scorer = scorer_new(&prepared->search, &encoding, 1);
        ck_assert_int_eq(scorer_score(&scorer, &only, &score), SCORED);
        ck_assert_double_eq(score, part == 1 ? p.step_s : p.step_s * (2 + part));
        ck_assert_int_eq(scorer_score(&scorer, &only, &score), OVER);
        scorer_release(&scorer);
    }
    evaluator_free(evaluator);
}
END_TEST

START_TEST(the_mask_makes_broken_rules_free)
{
    struct search_request request = new_request("zo");
    request.fix = "tp2 cp1 pp1 mb1 sp zero1 recompute=none vpp3"; /* vpp wants pp */
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

/* In the mean of the second half of the budget, by more than 20 %. */
START_TEST(what_learns_scores_better_in_the_end_than_chance)
{
    const int budget = 600; /* one annealing, one policy: they need their length */
    struct search_request request = new_request("zo");
    struct prepared *prepared = prepare(&request);
    struct tuning long_run = tuning_default();
    long_run.anneal_scores = long_run.patience_scores = budget;
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

/* --- the methods -------------------------------------------------------------------------- */

static void check_same(const struct search_result *a, const struct search_result *b)
{
    ck_assert_int_eq(a->num_top, b->num_top);
    for (int i = 0; i < a->num_top; i++) {
        ck_assert(plan_equal(&a->top[i].plan, &b->top[i].plan));
        ck_assert_double_eq(a->top[i].prediction.step_s, b->top[i].prediction.step_s);
    }
    ck_assert_double_eq(a->evaluated, b->evaluated);
    ck_assert_int_eq(a->num_exclusions, b->num_exclusions);
    for (int i = 0; i < a->num_exclusions; i++)
        ck_assert_mem_eq(&a->exclusions[i], &b->exclusions[i], sizeof *a->exclusions);
}

START_TEST(one_seed_has_one_answer_whatever_the_jobs)
{
    struct search_request request = new_request(drawing[_i]);
    request.seed = 42;
    struct search_result one = run(&request);
    request.jobs = 8;
    struct search_result eight = run(&request);
    check_same(&one, &eight);
    request.seed = 43;
    struct search_result other = run(&request);
    ck_assert(one.candidates != other.candidates || one.evaluated != other.evaluated ||
              one.bounded != other.bounded);
    search_result_release(&one);
    search_result_release(&eight);
    search_result_release(&other);
}
END_TEST

static double exclusion_of(const struct search_result *result, const char *rule)
{
    for (int i = 0; i < result->num_exclusions; i++)
        if (strcmp(result->exclusions[i].rule, rule) == 0)
            return result->exclusions[i].count;
    return 0;
}

static bool is_candidate(const struct naive_space *space, const struct plan *plan)
{
    for (int i = 0; i < space->count; i++) {
        const struct plan *at = &space->at[i];
        if (at->tp == plan->tp && at->pp == plan->pp && at->zero == plan->zero &&
            at->microbatch == plan->microbatch && plan_equal(at, plan)) /* the last is slow */
            return true;
    }
    return false;
}

static double value_of(int objective, const struct scored_plan *scored)
{
    return objective == OBJECTIVE_MEMORY ? scored->prediction.peak_memory_bytes
                                         : scored->prediction.step_s;
}

START_TEST(answers_are_plans_of_the_space_that_fit_and_beat_no_optimum)
{
    int objective = _i / NUM_DRAWING;
    struct search_request request = new_request(drawing[_i % NUM_DRAWING]);
    request.objective = objective;
    struct search_result drawn = run(&request);
    request.method = "exhaustive";
    struct search_result best = run(&request);
    struct naive_space space = naive_space_new(&model, 16);
    ck_assert_int_eq(drawn.num_top, request.top);
    for (int i = 0; i < drawn.num_top; i++) {
        const struct scored_plan *scored = &drawn.top[i];
        struct err err = { 0 };
        ck_assert(is_candidate(&space, &scored->plan));
        ck_assert_ptr_null(plan_check(&scored->plan, &model, model.batch, 16, &err));
        ck_assert(scored->prediction.fits);
        ck_assert_double_ge(value_of(objective, scored), value_of(objective, &best.top[i]));
        for (int j = 0; j < i; j++)
            ck_assert(!plan_equal(&drawn.top[j].plan, &scored->plan));
        if (i > 0)
            ck_assert_double_ge(value_of(objective, scored), value_of(objective, scored - 1));
    }
    free(space.at);
    search_result_release(&drawn);
    search_result_release(&best);
}
END_TEST

START_TEST(counts_add_up_and_stay_within_space_and_budget)
{
    struct search_request request = new_request(drawing[_i]);
    struct search_result drawn = run(&request);
    request.method = "exhaustive";
    struct search_result all = run(&request);
    double sum = 0;
    for (int i = 0; i < drawn.num_exclusions; i++) {
        double most = exclusion_of(&all, drawn.exclusions[i].rule);
        ck_assert_double_le(drawn.exclusions[i].count, most);
        sum += drawn.exclusions[i].count;
    }
    ck_assert_double_eq(sum, drawn.infeasible);
    ck_assert_double_eq(drawn.candidates, drawn.evaluated + drawn.bounded + drawn.infeasible);
    ck_assert_double_le(drawn.evaluated, all.evaluated);
    ck_assert_double_le(drawn.evaluated + exclusion_of(&drawn, "memory"), request.budget);
    ck_assert(!drawn.proved_optimal);
    ck_assert_double_gt(drawn.lower_bound_s, 0);
    ck_assert_double_le(drawn.lower_bound_s, all.top[0].prediction.step_s);
    search_result_release(&drawn);
    search_result_release(&all);
}
END_TEST

START_TEST(many_times_a_tiny_space_finds_its_optimum_from_nearly_every_seed)
{
    enum { SEEDS = 20, AT_LEAST = 18 };
    struct search_request request = new_request("exhaustive");
    request.fix = "cp1 mb1 zero1"; /* 228 candidates */
    struct search_result best = run(&request);
    ck_assert_double_lt(best.candidates, 300);
    request.method = drawing[_i];
    request.budget = 3000;
    int found = 0;
    for (request.seed = 1; request.seed <= SEEDS; request.seed++) {
        struct search_result drawn = run(&request);
        found += drawn.num_top > 0 && plan_equal(&drawn.top[0].plan, &best.top[0].plan);
        search_result_release(&drawn);
    }
    ck_assert_msg(found >= AT_LEAST, "%s found it from %d of seeds 1 to %d", drawing[_i], found,
                  SEEDS);
    search_result_release(&best);
}
END_TEST

START_TEST(where_nothing_fits_the_exclusions_say_so)
{
    struct search_request request = new_request(drawing[_i]);
    system_16.gpu.memory_bytes = 1e9;
    struct search_result result = run(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert_double_eq(result.evaluated, 0);
    ck_assert_double_gt(exclusion_of(&result, "memory"), 0);
    ck_assert(result.has_nearest);
    ck_assert_double_gt(result.nearest.prediction.peak_memory_bytes, 1e9);
    search_result_release(&result);
}
END_TEST

START_TEST(where_every_plan_breaks_a_rule_the_exclusions_name_it)
{
    struct search_request request = new_request(drawing[_i]);
    request.fix = "tp3";
    struct search_result result = run(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert(!result.has_nearest);
    ck_assert_double_gt(result.infeasible, 0);
    ck_assert_double_eq(result.candidates, result.infeasible);
    search_result_release(&result);
}
END_TEST

START_TEST(an_empty_space_ends_at_once)
{
    struct search_request request = new_request(drawing[_i]);
    request.fix = "tp2";
    request.forbid = "tp2";
    struct search_result result = run(&request);
    ck_assert_int_eq(result.num_top, 0);
    ck_assert_double_eq(result.candidates, 0);
    search_result_release(&result);
}
END_TEST

static bool always(void)
{
    return true;
}

START_TEST(a_search_that_is_ended_early_says_so_and_keeps_what_it_has)
{
    struct search_request request = new_request(drawing[_i]);
    request.interrupted = always;
    struct search_result result = run(&request);
    ck_assert(result.was_interrupted);
    ck_assert_double_eq(result.evaluated, 0);
    search_result_release(&result);
    request.interrupted = NULL;
    request.budget = 1e9;
    request.time_limit_s = 0.05;
    result = run(&request);
    ck_assert(result.timed_out);
    ck_assert_int_gt(result.num_top, 0);
    search_result_release(&result);
}
END_TEST

static void see_progress(double done, void *context)
{
    double *last = context;
    ck_assert(done >= *last && done <= 1);
    *last = done;
}

START_TEST(progress_rises_to_the_end)
{
    double last = 0;
    struct search_request request = new_request(drawing[_i]);
    request.progress = see_progress;
    request.progress_context = &last;
    struct search_result result = run(&request);
    ck_assert_double_eq(last, 1);
    search_result_release(&result);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stochastic");
    TCase *tests = tcase_create("stochastic");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, every_method_and_strategy_is_tested_here);
    tcase_add_loop_test(tests, points_are_the_candidates_of_the_space_each_once, 0, 4);
    tcase_add_loop_test(tests, fixed_and_forbidden_words_narrow_points_as_they_narrow_the_walk, 0,
                        6);
    tcase_add_test(tests, drawing_reaches_every_candidate_and_mutation_moves_within_the_digits);
    tcase_add_test(tests, what_was_met_is_found_and_nothing_else);
    tcase_add_loop_test(tests, every_strategy_spends_its_budget_exactly, 0, NUM_STRATEGIES);
    tcase_add_loop_test(tests, a_space_of_one_plan_takes_the_whole_budget_too, 0, NUM_STRATEGIES);
    tcase_add_test(tests, a_plan_over_memory_scores_its_time_by_two_and_its_share_of_memory);
    tcase_add_test(tests, the_mask_makes_broken_rules_free);
    tcase_add_loop_test(tests, what_learns_scores_better_in_the_end_than_chance, 0, NUM_STRATEGIES);
    tcase_add_loop_test(tests, one_seed_has_one_answer_whatever_the_jobs, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, answers_are_plans_of_the_space_that_fit_and_beat_no_optimum, 0,
                        3 * NUM_DRAWING);
    tcase_add_loop_test(tests, counts_add_up_and_stay_within_space_and_budget, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, many_times_a_tiny_space_finds_its_optimum_from_nearly_every_seed, 0,
                        NUM_DRAWING);
    tcase_add_loop_test(tests, where_nothing_fits_the_exclusions_say_so, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, where_every_plan_breaks_a_rule_the_exclusions_name_it, 0,
                        NUM_DRAWING);
    tcase_add_loop_test(tests, an_empty_space_ends_at_once, 0, NUM_DRAWING);
    tcase_add_loop_test(tests, a_search_that_is_ended_early_says_so_and_keeps_what_it_has, 0,
                        NUM_DRAWING);
    tcase_add_loop_test(tests, progress_rises_to_the_end, 0, NUM_DRAWING);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
