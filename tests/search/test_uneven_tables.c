#include "search/milp/division.h"
#include "search/uneven/divided.h"
#include "search/uneven/expand.h"

#include "search/uneven/lattice.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* Tests the search of uneven stages for one plan of the space, on random tables and one thread. */

enum { MOST_STAGES = 5, MOST_LAYERS = 9 };

/* The time of each layer in a random table. In half of the tables all layers take 1 s. In the other
 * tables, layers are of several kinds, such as a few dense blocks before blocks with experts, or
 * two alternating kinds. before[i] is the sum over all layers before i. */
struct weights {
    bool are_equal;
    double before[MOST_LAYERS + 1];
};

static struct weights random_weights(struct random *rng, int layers)
{
    enum { EQUAL, ALSO_EQUAL, FIRST_DENSE, IN_TURN };
    int kinds = within(rng, EQUAL, IN_TURN), every = within(rng, 1, layers);
    double first = between(rng, 0.2, 4);
    struct weights out = { .are_equal = kinds <= ALSO_EQUAL };
    for (int i = 0; i < layers; i++) {
        bool is_first = kinds == FIRST_DENSE ? i < every : kinds == IN_TURN && i % every == 0;
        out.before[i + 1] = out.before[i] + (is_first ? first : 1);
    }
    return out;
}

/* Whether a stage that begins at layer `first` may have `layers` layers: each later stage needs at
 * least one layer, and the last stage has all that are left. */
static bool may_have(const struct stage_table *table, int stage, int first, int layers)
{
    int behind = table->num_stages - 1 - stage, left = table->num_layers - first;
    if (table->num_firsts == 1)
        return true;
    return first >= stage && (stage > 0 || first == 0) &&
           (behind == 0 ? layers == left : layers <= left - behind);
}

/* Draws stages with embedding, head, gradient reductions and partial recompute. */
static void fill_stage(struct random *rng, struct stage_table *table, const struct weights *weights,
                       int stage)
{
    double start_s = stage == 0 ? between(rng, 0, 1) : 0;
    start_s += stage == table->num_stages - 1 ? between(rng, 0, 2) : 0;
    double whole = weights->before[table->num_layers];
    double kept = within(rng, 0, 3) ? whole : between(rng, 0, 4);
    double most = within(rng, 0, 4) ? whole : between(rng, 1, 4);
    double comm_s = within(rng, 0, 1) ? between(rng, 0, 3) : 0;
    for (int first = 0; first < table->num_firsts; first++)
        for (int k = 1; k <= table->most_layers && first + k <= table->num_layers; k++) {
            double work_s = weights->before[first + k] - weights->before[first];
            int row = (stage * table->num_firsts + first) * (table->most_layers + 1);
            table->options[row + k] = (struct stage_option){
                .fits = work_s <= most && may_have(table, stage, first, k),
                .layers = k,
                .forward_s = work_s + start_s,
                .backward_s = 2 * (work_s + start_s) + fmax(0, work_s - kept),
                .data_comm_s = comm_s * k,
                .optimizer_s = 0.1 * (k + start_s),
            };
        }
}

static struct stage_table random_table(uint64_t seed, struct arena *arena)
{
    struct random rng = random_new(seed, 0);
    int stages = within(&rng, 1, MOST_STAGES);
    int layers = within(&rng, stages, MOST_LAYERS);
    struct weights weights = random_weights(&rng, layers);
    struct stage_table table = {
        .num_stages = stages,
        .num_layers = layers,
        .num_microbatches = within(&rng, 1, 14),
        .most_layers = layers - stages + 1,
        .num_firsts = weights.are_equal ? 1 : layers + 1,
        .lag_s = within(&rng, 0, 1) ? between(&rng, 0, 0.5) : 0,
        .step_s = between(&rng, 0, 0.1),
    };
    size_t count = (size_t)(stages * table.num_firsts) * ((size_t)table.most_layers + 1);
    table.options = ARENA_ARRAY(arena, struct stage_option, count);
    for (int stage = 0; stage < stages; stage++)
        fill_stage(&rng, &table, &weights, stage);
    stage_table_close(&table, arena);
    return table;
}

static const struct stage_option *option_of(const struct stage_table *table, int stage,
                                            const int *layers)
{
    int first = 0;
    for (int before = 0; before < stage; before++)
        first += layers[before];
    if (first >= table->num_layers) /* intermediate lists of the iteration may be too long */
        first = table->num_layers - 1;
    return &stage_options(table, stage, first)[layers[stage]];
}

/* Computes the same as time_pipeline and step_s of sim/engine, by the recurrence over every
 * microbatch. */
static double simulated_s(void *context, const int *layers, const int *recomputed)
{
    (void)recomputed;
    const struct stage_table *table = context;
    double duration_s[CHUNK_PASSES * MOST_STAGES] = { 0 };
    double end_s[MOST_STAGES];
    for (int stage = 0; stage < table->num_stages; stage++) {
        duration_s[CHUNK_PASSES * stage + CHUNK_FORWARD] =
            option_of(table, stage, layers)->forward_s;
        duration_s[CHUNK_PASSES * stage + CHUNK_BACKWARD] =
            option_of(table, stage, layers)->backward_s;
    }
    double lag_s[MOST_STAGES];
    for (int stage = 0; stage < table->num_stages; stage++)
        lag_s[stage] = table->lag_s;
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator_find("1f1b"),
                                 .shape = { table->num_stages, 1, table->num_microbatches, 0 },
                                 .duration_s = duration_s,
                                 .lag_s = lag_s };
    pipeline_full_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    double reduced_s = 0, optimizer_s = 0;
    for (int stage = 0; stage < table->num_stages; stage++) {
        const struct stage_option *option = option_of(table, stage, layers);
        reduced_s = fmax(reduced_s, end_s[stage] + option->data_comm_s);
        optimizer_s = fmax(optimizer_s, option->optimizer_s);
    }
    return reduced_s + optimizer_s + table->step_s;
}

static double composed_s(const struct stage_table *table, const struct composition *composition,
                         const int *layers)
{
    struct suffix suffix = { 0 };
    for (int stage = table->num_stages - 1; stage >= 0; stage--)
        suffix = composition->prepend(table, stage, option_of(table, stage, layers), &suffix);
    return composition->total_s(table, &suffix);
}

static double alpa_s(const struct stage_table *table, const int *layers)
{
    double sum_s = 0, longest_s = 0;
    for (int stage = 0; stage < table->num_stages; stage++) {
        const struct stage_option *option = option_of(table, stage, layers);
        sum_s += option->forward_s + option->backward_s;
        longest_s = fmax(longest_s, option->forward_s + option->backward_s);
    }
    return sum_s + (table->num_microbatches - 1) * longest_s;
}

/* Replaces `layers` by the next division whose sum is the table's number of layers and that fits in
 * memory. The iteration begins with one layer on each stage except the first, which has none. */
static bool next_division(const struct stage_table *table, int *layers)
{
    for (;;) {
        int stage = 0;
        while (stage < table->num_stages && layers[stage] == table->most_layers)
            layers[stage++] = 1;
        if (stage == table->num_stages)
            return false;
        layers[stage]++;
        int sum = 0;
        bool fits = true;
        for (int s = 0; s < table->num_stages; s++) {
            sum += layers[s];
            fits = fits && option_of(table, s, layers)->fits;
        }
        if (fits && sum == table->num_layers)
            return true;
    }
}

static void begin_divisions(const struct stage_table *table, int *layers)
{
    for (int stage = 0; stage < table->num_stages; stage++)
        layers[stage] = 1;
    layers[0] = 0;
}

/* The best of all divisions, found by enumeration. */
struct enumerated {
    double divisions;
    double surrogate_s, bound_s, step_s;
    double surrogate_step_s; /* lower bound of the step of the first division with the least
                                surrogate */
    double slack;            /* largest relative difference between a step and its bound */
};

static struct enumerated enumerate(const struct stage_table *table, int seed)
{
    struct enumerated best = { .surrogate_s = HUGE_VAL, .bound_s = HUGE_VAL, .step_s = HUGE_VAL };
    int layers[MOST_STAGES];
    begin_divisions(table, layers);
    while (next_division(table, layers)) {
        double step_s = simulated_s((void *)(uintptr_t)table, layers, NULL);
        double bound_s = composed_s(table, &lower_bound, layers);
        double alpas_s = alpa_s(table, layers);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-12),
                      "seed %d: the lower bound %a exceeds the step time %a", seed, bound_s,
                      step_s);
        ck_assert_double_eq_tol(composed_s(table, &surrogate, layers), alpas_s, 1e-9);
        if (alpas_s < best.surrogate_s * (1 - 1e-12)) {
            best.surrogate_s = alpas_s;
            best.surrogate_step_s = step_s;
        }
        best.bound_s = fmin(best.bound_s, bound_s);
        best.step_s = fmin(best.step_s, step_s);
        best.slack = fmax(best.slack, 1 - bound_s / step_s);
        best.divisions++;
    }
    return best;
}

static double program_s(const struct stage_table *table, const struct composition *composition,
                        struct arena *arena)
{
    int layers[MOST_STAGES];
    struct fronts fronts = fronts_new(table, composition, HUGE_VAL, arena);
    double best_s = fronts_best_s(&fronts, layers);
    if (best_s < HUGE_VAL)
        ck_assert_double_eq_tol(composed_s(table, composition, layers), best_s, 1e-9 * best_s);
    return best_s;
}

static void check_equal(const char *what, int seed, double got_s, double expected_s)
{
    bool same = got_s == expected_s || fabs(got_s - expected_s) <= 1e-9 * expected_s;
    ck_assert_msg(same, "seed %d: %s: %.17g, but %.17g by enumeration", seed, what, got_s,
                  expected_s);
}

/* Passes the options of the table to the integer program. */
static double milp_s(const struct stage_table *table, struct arena *arena)
{
    struct stage_choices *stages =
        ARENA_ARRAY(arena, struct stage_choices, (size_t)table->num_stages);
    for (int stage = 0; stage < table->num_stages; stage++) {
        size_t room = (size_t)(table->num_firsts * (table->most_layers + 1));
        struct stage_choice *at = ARENA_ARRAY(arena, struct stage_choice, room);
        int count = 0;
        for (int first = 0; first < table->num_firsts; first++)
            for (int k = 0; k <= table->most_layers; k++) {
                const struct stage_option *option = &stage_options(table, stage, first)[k];
                if (option->fits)
                    at[count++] = (struct stage_choice){
                        .layers = option->layers,
                        .first = table->num_firsts > 1 ? first : ANY_FIRST,
                        .pass_s = stage_pass_s(option),
                    };
            }
        stages[stage] = (struct stage_choices){ at, count };
    }
    struct division_problem problem = { .stages = stages,
                                        .num_stages = table->num_stages,
                                        .num_layers = table->num_layers,
                                        .num_microbatches = table->num_microbatches,
                                        .host_bytes = HUGE_VAL };
    struct program_limits no_limits = { 0 };
    struct divisions found;
    struct err err = { 0 };
    ck_assert_msg(divisions_best(&problem, 1, &no_limits, arena, &found, &err), "%s", err.msg);
    ck_assert(found.is_proved);
    return found.count > 0 ? found.at[0].surrogate_s : HUGE_VAL;
}

enum { NUM_TABLES = 800, EVERY_MILP = 4 };

/* The dynamic program finds the same minimum as enumeration, for the surrogate (sum of passes +
 * (microbatches - 1) x the longest), for the lower bound, and for the simulated step, for which it
 * lists ("expands") all divisions below a limit. */
START_TEST(the_dynamic_program_equals_enumeration)
{
    double regrets = 0, most_regret = 0, most_slack = 0, divisions = 0, timed = 0;
    int solved = 0, missed = 0;
    for (int seed = 0; seed < TURNS(NUM_TABLES); seed++) {
        struct arena arena = { 0 };
        struct stage_table table = random_table((uint64_t)seed, &arena);
        struct enumerated best = enumerate(&table, seed);
        check_equal("surrogate", seed, program_s(&table, &surrogate, &arena), best.surrogate_s);
        check_equal("bound", seed, program_s(&table, &lower_bound, &arena), best.bound_s);
        if (seed % EVERY_MILP == 0 || is_campaign())
            check_equal("integer program", seed, milp_s(&table, &arena), best.surrogate_s);
        struct expansion_request request = { &table, HUGE_VAL, HUGE_VAL, simulated_s,
                                             NULL,   &table,   NULL };
        struct expansion found = expand(&request, &arena);
        ck_assert(found.is_proved);
        ck_assert_int_eq(found.found, best.divisions > 0);
        if (found.found) {
            check_equal("step", seed, found.step_s, best.step_s);
            ck_assert_double_eq(simulated_s(&table, found.layers, NULL), found.step_s);
            double regret = best.surrogate_step_s / best.step_s - 1;
            regrets += regret;
            missed += regret > 1e-9;
            most_regret = fmax(most_regret, regret);
            most_slack = fmax(most_slack, best.slack);
            divisions += best.divisions;
            timed += found.timed;
            solved++;
        }
        arena_release(&arena);
    }
    printf("%d tables, %.0f divisions, %.0f timed to prove the best; the surrogate misses the "
           "best in %d, "
           "with a loss of %.2f %% on average and %.1f %% at most; the bound is at most %.1f %% "
           "too low\n",
           solved, divisions, timed, missed, 100 * regrets / solved, 100 * most_regret,
           100 * most_slack);
    ck_assert_int_gt(solved, TURNS(NUM_TABLES) * 5 / 8);
    ck_assert_int_gt(missed, 0); /* otherwise the tables would be too easy */
    ck_assert_double_lt(timed, divisions / 2);
}
END_TEST

/* Every stage has one layer. One stage's passes take at least four times as long as those of the
 * others. Gradient reductions are slow on that stage, on the first, or equally on all. In the
 * table, stages of two layers take no time. No division has such stages, but they make bounds over
 * all divisions weak. */
static struct stage_table one_slow_stage(struct random *rng, int stages, int slow,
                                         double most_lag_s,
                                         struct stage_option options[3 * MOST_STAGES],
                                         struct arena *arena)
{
    enum { OF_SLOW, OF_FIRST, OF_ALL };
    int reducing = within(rng, OF_SLOW, OF_ALL);
    struct stage_table table = { .num_stages = stages,
                                 .num_layers = stages,
                                 .num_microbatches = within(rng, 1, 12),
                                 .most_layers = 2,
                                 .num_firsts = 1,
                                 .lag_s = between(rng, most_lag_s / 2, most_lag_s),
                                 .options = options };
    for (int stage = 0; stage < stages; stage++) {
        int reducer = reducing == OF_SLOW ? slow : reducing == OF_FIRST ? 0 : stage;
        double least_s = stage == slow ? 4 : 0.2, most_s = stage == slow ? 5 : 1;
        options[3 * stage + 1] = (struct stage_option){
            .fits = true,
            .layers = 1,
            .forward_s = between(rng, least_s, most_s),
            .backward_s = between(rng, least_s, most_s),
            .data_comm_s = stage == reducer ? 3 : 0,
            .optimizer_s = between(rng, 0, 1),
        };
        options[3 * stage] = (struct stage_option){ 0 };
        options[3 * stage + 2] = (struct stage_option){ .fits = true, .layers = 2 };
    }
    stage_table_close(&table, arena);
    return table;
}

/* When the last stage or the one before it is by far the slowest, it always has work between its
 * first and last microbatch. The first of two stages, with slow messages, waits only for round
 * trips. In both cases the lower bound equals the step. */
START_TEST(the_bound_equals_the_step_if_one_stage_limits)
{
    static const int layers[MOST_STAGES] = { 1, 1, 1, 1, 1 };
    for (int seed = 0; seed < TURNS(400); seed++) {
        struct random rng = random_new((uint64_t)seed, 0);
        struct stage_option options[3 * MOST_STAGES];
        struct arena arena = { 0 };
        int stages = within(&rng, 2, MOST_STAGES);
        int slow = stages - within(&rng, 1, 2);
        double most_lag_s = stages == 2 && slow == 0 ? 6 : 0.5;
        struct stage_table table = one_slow_stage(&rng, stages, slow, most_lag_s, options, &arena);
        check_equal("bound", seed, composed_s(&table, &lower_bound, layers),
                    simulated_s(&table, layers, NULL));
        arena_release(&arena);
    }
}
END_TEST

/* The first of three stages has three microbatches in flight, the second two. Its passes take 4 s,
 * those of the other stages 0.5 s, and messages 6 s. A round trip from the second stage takes 4 + 4
 * + 2 x 6 + 2 x 0.5 = 21 s, which is longer than the 16 s of work of its two microbatches. For the
 * numbers of microbatches in the table the bound equals the step. */
START_TEST(the_bound_depends_on_the_number_of_microbatches_in_flight)
{
    static const struct {
        int slow, microbatches;
    } rows[] = { { 0, 4 }, { 0, 5 }, { 0, 8 }, { 1, 3 }, { 1, 4 }, { 1, 5 } };
    static const int layers[] = { 1, 1, 1 };
    for (int row = 0; row < LENGTH(rows); row++) {
        struct stage_option options[6] = { { 0 } };
        struct arena arena = { 0 };
        struct stage_table table = { .num_stages = 3,
                                     .num_layers = 3,
                                     .num_microbatches = rows[row].microbatches,
                                     .most_layers = 1,
                                     .num_firsts = 1,
                                     .lag_s = 6,
                                     .options = options };
        for (int stage = 0; stage < 3; stage++) {
            double pass_s = stage == rows[row].slow ? 4 : 0.5;
            options[2 * stage + 1] = (struct stage_option){
                .fits = true, .layers = 1, .forward_s = pass_s, .backward_s = pass_s
            };
        }
        stage_table_close(&table, &arena);
        check_equal("bound", row, composed_s(&table, &lower_bound, layers),
                    simulated_s(&table, layers, NULL));
        arena_release(&arena);
    }
}
END_TEST

/* If the expansion has a limit in seconds, it finds only divisions faster than the limit. If it may
 * time only a few divisions, it reports a gap. */
START_TEST(an_expansion_that_was_cut_short_reports_a_valid_gap)
{
    int open = 0;
    for (int seed = 0; seed < TURNS(300); seed++) {
        struct arena arena = { 0 };
        struct stage_table table = random_table((uint64_t)seed, &arena);
        struct enumerated best = enumerate(&table, seed);
        struct expansion_request request = { &table, best.step_s, HUGE_VAL, simulated_s,
                                             NULL,   &table,      NULL };
        struct expansion none = expand(&request, &arena);
        ck_assert_msg(!none.found && none.is_proved,
                      "seed %d: found a division faster than the fastest, or did not prove that "
                      "there is none",
                      seed);
        request.limit_s = HUGE_VAL;
        request.most_timed = 1;
        struct expansion one = expand(&request, &arena);
        ck_assert_msg(one.open_s <= best.step_s * (1 + 1e-9),
                      "seed %d: the bound of untimed divisions, %a, exceeds the best step, %a",
                      seed, one.open_s, best.step_s);
        ck_assert(one.timed <= 1);
        if (!one.is_proved)
            open++;
        arena_release(&arena);
    }
    ck_assert_int_gt(open, 0);
}
END_TEST

/* Divisions are written with the shortest words. */
START_TEST(a_division_is_written_with_the_shortest_words)
{
    static const int even[] = { 3, 3, 3 }, uneven[] = { 2, 4, 3 };
    static const int none[] = { 0, 0, 0 }, alike[] = { 2, 2, 2 }, apart[] = { 2, 0, 1 };
    static const struct {
        const int *layers, *recomputed;
        int recompute, num_recomputed, num_layers;
    } cases[] = {
        { even, none, RECOMPUTE_NONE, 0, 0 },   { uneven, none, RECOMPUTE_NONE, 0, 3 },
        { even, even, RECOMPUTE_FULL, 0, 0 },   { uneven, uneven, RECOMPUTE_FULL, 0, 3 },
        { even, alike, RECOMPUTE_BLOCK, 1, 0 }, { uneven, alike, RECOMPUTE_BLOCK, 1, 3 },
        { even, apart, RECOMPUTE_BLOCK, 3, 0 }, { uneven, apart, RECOMPUTE_BLOCK, 3, 3 },
    };
    int threes[] = { 3 };
    struct split all_even = { .vpp = 1, .kind = SPLIT_EVEN };
    struct splits splits = { &all_even, 1 };
    const struct space space = { .pp = { threes, 1 }, .splits = &splits };
    struct plan point = plan_default();
    point.pp = 3;
    for (int i = 0; i < LENGTH(cases); i++) {
        point.recompute = RECOMPUTE_BLOCK;
        struct plan plan = division_plan(&point, cases[i].layers, cases[i].recomputed);
        ck_assert_int_eq(plan.recompute, cases[i].recompute);
        ck_assert_int_eq(plan.num_recompute_layers, cases[i].num_recomputed);
        ck_assert_int_eq(plan.num_chunk_layers, cases[i].num_layers);
        ck_assert_int_eq(division_is_known(&space, &plan),
                         cases[i].num_layers == 0 && cases[i].num_recomputed == 0);
        point.recompute = RECOMPUTE_SELECTIVE;
        plan = division_plan(&point, cases[i].layers, cases[i].recomputed);
        ck_assert_int_eq(plan.recompute, RECOMPUTE_SELECTIVE);
        ck_assert_int_eq(plan.num_recompute_layers, 0);
    }
}
END_TEST

/* L layers are divided over p stages in C(L - 1, p - 1) ways. If recomputed layers are chosen per
 * stage, a stage of k layers has k + 1 choices. The number of plans is then the sum, over all
 * divisions, of the product of these choices. */
START_TEST(the_number_of_divisions_equals_their_enumeration)
{
    for (int layers = 1; layers <= MOST_LAYERS; layers++)
        for (int stages = 1; stages <= MOST_STAGES && stages <= layers; stages++) {
            struct arena arena = { 0 };
            struct stage_table table = { .num_stages = stages,
                                         .num_layers = layers,
                                         .most_layers = layers - stages + 1,
                                         .num_firsts = 1 };
            size_t count = (size_t)stages * ((size_t)table.most_layers + 1);
            table.options = ARENA_ARRAY(&arena, struct stage_option, count);
            for (size_t i = 0; i < count; i++)
                table.options[i].fits = true;
            double divisions = 0, mixes = 0;
            int list[MOST_STAGES];
            begin_divisions(&table, list);
            while (next_division(&table, list)) {
                double product = 1;
                for (int stage = 0; stage < stages; stage++)
                    product *= list[stage] + 1;
                divisions++;
                mixes += product;
            }
            ck_assert_double_eq(count_divisions(layers, stages, false), divisions);
            ck_assert_double_eq(count_divisions(layers, stages, true), mixes);
            arena_release(&arena);
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("uneven: tables");
    TCase *tables = tcase_create("tables");
    tcase_set_timeout(tables, 60);
    tcase_add_test(tables, the_bound_equals_the_step_if_one_stage_limits);
    tcase_add_test(tables, the_bound_depends_on_the_number_of_microbatches_in_flight);
    tcase_add_test(tables, the_dynamic_program_equals_enumeration);
    tcase_add_test(tables, an_expansion_that_was_cut_short_reports_a_valid_gap);
    tcase_add_test(tables, the_number_of_divisions_equals_their_enumeration);
    tcase_add_test(tables, a_division_is_written_with_the_shortest_words);
    suite_add_tcase(s, tables);
    return s;
}

TEST_MAIN(suite)
