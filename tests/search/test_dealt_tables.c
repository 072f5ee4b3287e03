#include "search/milp/division.h"
#include "search/uneven/deal.h"
#include "search/uneven/expand.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Compares a dynamic program, an integer program and a loop over all divisions of layers, for
 * stages with several chunks and for schedules other than 1F1B. Each works on random tables, which
 * have a stage's times for each number of layers. */

enum {
    MOST_STAGES = 5,
    MOST_ROUNDS = 3,
    MOST_LAYERS = 13,
    MOST_CHUNKS = MOST_STAGES * MOST_ROUNDS
};

/* A random pipeline. Layer i takes weight[i] seconds. A pass of a chunk takes the sum of its
 * layers' weights times the pass's factor, plus the times of embedding and head if the chunk has
 * them. */
struct pipe {
    const struct generator *generator;
    struct schedule_shape shape;
    struct deal deal;
    bool are_equal; /* all layers have the same weight */
    double weight[MOST_LAYERS];
    double factor[MOST_CHUNKS], start_s[MOST_CHUNKS];
    double backward, weights; /* factors of the passes, relative to the forward pass */
    double spared; /* if a forward and a backward run as a pair, the saved share of the forward */
    double comm_s[MOST_STAGES], most[MOST_STAGES];
    double lag_s, step_s;
    bool validates;
    struct stage_table table;
};

static const char *const schedules[] = { "interleaved", "interleaved", "zb-v", "dualpipev",
                                         "zb-h1",       "zb-h2",       "gpipe" };

static void draw_shape(struct random *rng, struct pipe *pipe)
{
    const char *name = schedules[within(rng, 0, LENGTH(schedules) - 1)];
    pipe->generator = generator_find(name);
    int stages = within(rng, 2, MOST_STAGES);
    int rounds = pipe->generator->rule              ? 2
                 : strcmp(name, "interleaved") == 0 ? within(rng, 2, 3)
                                                    : 1;
    if (rounds == MOST_ROUNDS && stages > 4)
        stages = 4;
    int least = strcmp(name, "dualpipev") == 0 ? 2 * stages : stages;
    pipe->shape = (struct schedule_shape){ stages, rounds, within(rng, least, least + 7), 0 };
    enum { NO_MODULES, ALSO_NONE, BESIDE, APART };
    int modules = within(rng, NO_MODULES, stages > 2 ? APART : BESIDE);
    pipe->deal = (struct deal){ .placement = { stages, rounds, pipe->generator->rule },
                                .end_layers = between(rng, 0, 2.5),
                                .end_chunk = stages * rounds - 1 - (modules == APART),
                                .end_least = rounds == 1 && modules < BESIDE };
    int fewest = deal_least_sum(&pipe->deal);
    pipe->deal.num_layers =
        within(rng, fewest, fewest > MOST_LAYERS - 5 ? MOST_LAYERS : fewest + 5);
}

static void draw_layers(struct random *rng, struct pipe *pipe)
{
    enum { EQUAL, ALSO_EQUAL, FIRST_DENSE, IN_TURN };
    int kinds = within(rng, EQUAL, IN_TURN), every = within(rng, 2, 4);
    double other = between(rng, 0.2, 4);
    pipe->are_equal = kinds <= ALSO_EQUAL;
    for (int i = 0; i < pipe->deal.num_layers; i++) {
        bool is_other = kinds == FIRST_DENSE ? i < every : kinds == IN_TURN && i % every == 0;
        pipe->weight[i] = is_other ? other : 1;
    }
}

static struct pipe random_pipe(uint64_t seed)
{
    struct random rng = random_new(seed, 0);
    struct pipe pipe = { .generator = NULL };
    draw_shape(&rng, &pipe);
    draw_layers(&rng, &pipe);
    bool are_alike = within(&rng, 0, 1);
    for (int chunk = 0; chunk < placement_chunks(pipe.deal.placement); chunk++) {
        pipe.factor[chunk] = are_alike ? 1 : between(&rng, 0.7, 1.4);
        pipe.start_s[chunk] = chunk == 0 ? between(&rng, 0, 0.3) : 0;
        if (placement_has_head(pipe.deal.placement, chunk) && chunk > pipe.deal.end_chunk)
            pipe.start_s[chunk] += between(&rng, 0.1, 2);
        if (chunk == pipe.deal.end_chunk)
            pipe.start_s[chunk] += pipe.deal.end_layers * between(&rng, 0.8, 1.2);
    }
    for (int stage = 0; stage < pipe.shape.num_stages; stage++) {
        pipe.comm_s[stage] = within(&rng, 0, 1) ? between(&rng, 0, 2) : 0;
        pipe.most[stage] = within(&rng, 0, 4) ? HUGE_VAL : between(&rng, 2, 6);
    }
    pipe.backward = between(&rng, 1, 2.5);
    pipe.weights = generator_splits(pipe.generator) ? between(&rng, 0.5, 1.2) : 0;
    pipe.spared = between(&rng, 0, 0.4);
    pipe.lag_s = within(&rng, 0, 1) ? between(&rng, 0, 0.4) : 0;
    pipe.step_s = between(&rng, 0, 0.1);
    return pipe;
}

/* --- times, computed apart from the table ------------------------------------------------------
 */

struct times {
    double duration_s[CHUNK_PASSES * MOST_CHUNKS], pair_s[MOST_CHUNKS];
    double spared_s[MOST_STAGES]; /* seconds per step */
    bool fits;
};

static void time_chunks(const struct pipe *pipe, const int *chunks, struct times *times)
{
    int first = 0;
    for (int chunk = 0; chunk < placement_chunks(pipe->deal.placement); chunk++) {
        double forward_s = pipe->start_s[chunk];
        for (int i = 0; i < chunks[chunk]; i++)
            forward_s += pipe->factor[chunk] * pipe->weight[first + i];
        first += chunks[chunk];
        times->duration_s[CHUNK_PASSES * chunk + CHUNK_FORWARD] = forward_s;
        times->duration_s[CHUNK_PASSES * chunk + CHUNK_BACKWARD] = pipe->backward * forward_s;
        times->duration_s[CHUNK_PASSES * chunk + CHUNK_WEIGHT] = pipe->weights * forward_s;
    }
}

static void time_pairs(const struct pipe *pipe, struct times *times)
{
    for (int stage = 0; stage < pipe->shape.num_stages; stage++) {
        times->spared_s[stage] = 0;
        for (int round = 0; pipe->generator->pairs && round < 2; round++) {
            int chunk = placement_chunk(pipe->deal.placement, stage, round);
            int other = placement_chunk(pipe->deal.placement, stage, 1 - round);
            const double *of_s = &times->duration_s[CHUNK_PASSES * chunk];
            double forward_s = times->duration_s[CHUNK_PASSES * other];
            times->pair_s[chunk] =
                (1 - pipe->spared) * forward_s + of_s[CHUNK_BACKWARD] + of_s[CHUNK_WEIGHT];
            times->spared_s[stage] +=
                pipe->generator->pairs(&pipe->shape, stage, round) * pipe->spared * forward_s;
        }
    }
}

static struct times time_all(const struct pipe *pipe, const int *layers)
{
    struct times times = { .fits = true };
    int chunks[MOST_CHUNKS];
    deal_all(&pipe->deal, layers, chunks);
    time_chunks(pipe, chunks, &times);
    time_pairs(pipe, &times);
    for (int stage = 0; stage < pipe->shape.num_stages; stage++)
        times.fits = times.fits && layers[stage] <= pipe->most[stage];
    return times;
}

static double passes_s(const struct pipe *pipe, const struct times *times, double *end_s)
{
    double lag_s[MOST_STAGES];
    for (int stage = 0; stage < pipe->shape.num_stages; stage++)
        lag_s[stage] = pipe->lag_s;
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = pipe->generator,
                                 .shape = pipe->shape,
                                 .duration_s = times->duration_s,
                                 .lag_s = lag_s,
                                 .pair_s = times->pair_s };
    double all_s = pipeline_full_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    return all_s;
}

/* A lower bound for all divisions that give each stage at least these numbers of layers, for layers
 * of one kind. */
static double least_s(void *context, const int *layers)
{
    const struct pipe *pipe = context;
    struct times times = time_all(pipe, layers);
    double end_s[MOST_STAGES];
    return passes_s(pipe, &times, end_s) + pipe->table.longest_optimizer_s + pipe->step_s;
}

static double optimizer_s(const struct pipe *pipe, int layers)
{
    return 0.05 * layers + pipe->step_s;
}

/* The step time, computed with a recurrence over all microbatches. */
static double simulated_s(void *context, const int *layers, const int *recomputed)
{
    const struct pipe *pipe = context;
    struct times times = time_all(pipe, layers);
    double end_s[MOST_STAGES];
    (void)recomputed;
    if (!times.fits)
        return HUGE_VAL;
    passes_s(pipe, &times, end_s);
    double reduced_s = 0, longest_s = 0;
    for (int stage = 0; stage < pipe->shape.num_stages; stage++) {
        reduced_s = fmax(reduced_s, end_s[stage] + pipe->comm_s[stage]);
        longest_s = fmax(longest_s, optimizer_s(pipe, layers[stage]));
    }
    return reduced_s + longest_s + pipe->step_s;
}

/* --- all divisions one by one ------------------------------------------------------------------
 */

static void begin_divisions(const struct pipe *pipe, int *layers)
{
    for (int stage = 0; stage < pipe->shape.num_stages; stage++)
        layers[stage] = deal_least(&pipe->deal, stage);
    layers[0]--;
}

static bool next_division(const struct pipe *pipe, int *layers)
{
    for (;;) {
        int stage = 0, sum = 0;
        while (stage < pipe->shape.num_stages && layers[stage] == deal_most(&pipe->deal, stage)) {
            layers[stage] = deal_least(&pipe->deal, stage);
            stage++;
        }
        if (stage == pipe->shape.num_stages)
            return false;
        layers[stage]++;
        for (int s = 0; s < pipe->shape.num_stages; s++)
            sum += layers[s];
        if (sum == pipe->deal.num_layers)
            return true;
    }
}

/* --- the table ---------------------------------------------------------------------------------
 */

static struct stage_option *option_at(const struct pipe *pipe, int stage, int layers)
{
    return &pipe->table.options[stage * (pipe->table.most_layers + 1) + layers];
}

/* Returns the table's entry (option) for a stage with these times and this number of layers. */
static struct stage_option option_of(const struct pipe *pipe, const struct times *times, int stage,
                                     int layers)
{
    struct stage_option option = { .fits = true,
                                   .layers = layers,
                                   .data_comm_s = pipe->comm_s[stage],
                                   .optimizer_s = optimizer_s(pipe, layers) };
    for (int round = 0; round < pipe->shape.chunks_per_stage; round++) {
        int chunk = placement_chunk(pipe->deal.placement, stage, round);
        const double *of_s = &times->duration_s[CHUNK_PASSES * chunk];
        option.weights_s += of_s[CHUNK_WEIGHT];
        option.others_s += of_s[CHUNK_WEIGHT];
        if (round == 0) {
            option.forward_s = of_s[CHUNK_FORWARD];
            option.backward_s = of_s[CHUNK_BACKWARD];
            option.first_weights_s = of_s[CHUNK_WEIGHT];
        } else {
            option.others_s += of_s[CHUNK_FORWARD] + of_s[CHUNK_BACKWARD];
        }
    }
    option.others_s -= times->spared_s[stage] / pipe->shape.num_microbatches;
    return option;
}

/* Lowers every member of an option to the minimum of the two options. */
static void lower(struct stage_option *option, const struct stage_option *other)
{
    double pass_s = fmin(stage_pass_s(option), stage_pass_s(other));
    option->forward_s = fmin(option->forward_s, other->forward_s);
    option->backward_s = fmin(option->backward_s, other->backward_s);
    option->weights_s = fmax(option->weights_s, other->weights_s);
    option->first_weights_s = fmin(option->first_weights_s, other->first_weights_s);
    option->others_s = pass_s - option->forward_s - option->backward_s;
}

/* Each option gets the minimum times over all divisions that contain it. */
static void fill_table(struct pipe *pipe, struct arena *arena)
{
    int stages = pipe->shape.num_stages;
    pipe->table = (struct stage_table){ .num_stages = stages,
                                        .num_layers = pipe->deal.num_layers,
                                        .num_microbatches = pipe->shape.num_microbatches,
                                        .most_layers = pipe->deal.num_layers,
                                        .num_firsts = 1,
                                        .in_any_order = true,
                                        .lag_s = pipe->lag_s,
                                        .step_s = pipe->step_s };
    size_t count = (size_t)(stages * (pipe->deal.num_layers + 1));
    pipe->table.options = ARENA_ARRAY(arena, struct stage_option, count);
    int layers[MOST_STAGES];
    begin_divisions(pipe, layers);
    while (next_division(pipe, layers)) {
        struct times times = time_all(pipe, layers);
        for (int stage = 0; stage < stages; stage++) {
            struct stage_option option = option_of(pipe, &times, stage, layers[stage]);
            struct stage_option *kept = option_at(pipe, stage, layers[stage]);
            if (layers[stage] > pipe->most[stage])
                continue;
            if (kept->fits)
                lower(kept, &option);
            else
                *kept = option;
        }
    }
    stage_table_close(&pipe->table, arena);
}

/* --- comparing three methods ------------------------------------------------------------ */

struct enumerated {
    double divisions, bound_s, step_s, ways_s, slack;
};

static double composed_s(const struct pipe *pipe, const int *layers)
{
    struct suffix suffix = { 0 };
    for (int stage = pipe->shape.num_stages - 1; stage >= 0; stage--)
        suffix = any_order_bound.prepend(&pipe->table, stage, option_at(pipe, stage, layers[stage]),
                                         &suffix);
    return any_order_bound.total_s(&pipe->table, &suffix);
}

/* The integer program's objective, written from its description in search/milp/division.h. */
static double ways_s(const struct pipe *pipe, const int *layers)
{
    double longest_s = 0, there_s = 0, back_s = 0, m = pipe->shape.num_microbatches;
    for (int stage = 0; stage < pipe->shape.num_stages; stage++) {
        const struct stage_option *option = option_at(pipe, stage, layers[stage]);
        double pass_s = stage_pass_s(option);
        longest_s = fmax(longest_s, there_s + m * pass_s);
        longest_s = fmax(longest_s, there_s + m * (pass_s - option->weights_s) + back_s);
        there_s += option->forward_s + pipe->lag_s;
        back_s += option->backward_s + pipe->lag_s;
    }
    return longest_s;
}

static struct enumerated enumerate(struct pipe *pipe, int seed)
{
    struct enumerated best = { 0, HUGE_VAL, HUGE_VAL, HUGE_VAL, 0 };
    int layers[MOST_STAGES];
    begin_divisions(pipe, layers);
    while (next_division(pipe, layers)) {
        double step_s = simulated_s(pipe, layers, NULL);
        if (step_s == HUGE_VAL)
            continue;
        double bound_s = composed_s(pipe, layers);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-12),
                      "seed %d, %s: the lower bound %a exceeds the step time %a", seed,
                      pipe->generator->name, bound_s, step_s);
        best.bound_s = fmin(best.bound_s, bound_s);
        best.step_s = fmin(best.step_s, step_s);
        best.ways_s = fmin(best.ways_s, ways_s(pipe, layers));
        best.slack = fmax(best.slack, 1 - bound_s / step_s);
        best.divisions++;
    }
    return best;
}

static void check_equal(const char *what, int seed, double got_s, double expected_s)
{
    bool same = got_s == expected_s || fabs(got_s - expected_s) <= 1e-9 * expected_s;
    ck_assert_msg(same, "seed %d: %s: %.17g, but %.17g by enumeration", seed, what, got_s,
                  expected_s);
}

static double program_s(const struct pipe *pipe, struct arena *arena)
{
    int layers[MOST_STAGES];
    struct fronts fronts = fronts_new(&pipe->table, table_bound(&pipe->table), HUGE_VAL, arena);
    double best_s = fronts_best_s(&fronts, layers);
    if (best_s < HUGE_VAL)
        ck_assert_double_eq_tol(composed_s(pipe, layers), best_s, 1e-9 * best_s);
    return best_s;
}

static struct division_problem problem_of(const struct pipe *pipe, struct arena *arena)
{
    int stages = pipe->shape.num_stages;
    struct stage_choices *choices = ARENA_ARRAY(arena, struct stage_choices, (size_t)stages);
    for (int stage = 0; stage < stages; stage++) {
        size_t room = (size_t)pipe->table.most_layers + 1;
        struct stage_choice *at = ARENA_ARRAY(arena, struct stage_choice, room);
        int count = 0;
        for (int layers = 0; layers <= pipe->table.most_layers; layers++) {
            const struct stage_option *option = option_at(pipe, stage, layers);
            if (option->fits)
                at[count++] = (struct stage_choice){
                    .layers = layers,
                    .first = ANY_FIRST,
                    .pass_s = stage_pass_s(option),
                    .weights_s = option->weights_s,
                    .ahead_s = option->forward_s + pipe->lag_s,
                    .way_s = option->forward_s + option->backward_s + 2 * pipe->lag_s,
                };
        }
        choices[stage] = (struct stage_choices){ at, count };
    }
    return (struct division_problem){ .stages = choices,
                                      .num_stages = stages,
                                      .num_layers = pipe->deal.num_layers,
                                      .num_microbatches = pipe->shape.num_microbatches,
                                      .in_any_order = true,
                                      .host_bytes = HUGE_VAL };
}

/* The surrogate is a lower bound of the step time that is cheap to compute. Divisions are timed in
 * the order of their surrogates, until no other division can be faster. */
static void check_milp(struct pipe *pipe, const struct enumerated *best, int seed,
                       struct arena *arena)
{
    struct division_problem problem = problem_of(pipe, arena);
    struct program_limits no_limits = { 0 };
    struct divisions found;
    struct err err = { 0 };
    int most = best->divisions < 24 ? (int)best->divisions + 1 : 24;
    ck_assert_msg(divisions_best(&problem, most, &no_limits, arena, &found, &err), "%s", err.msg);
    ck_assert(found.is_proved);
    ck_assert_int_eq(found.count > 0, best->divisions > 0);
    if (found.count > 0)
        check_equal("integer program", seed, found.at[0].surrogate_s, best->ways_s);
    double step_s = HUGE_VAL;
    for (int i = 0; i < found.count; i++) {
        int layers[MOST_STAGES];
        for (int stage = 0; stage < pipe->shape.num_stages; stage++)
            layers[stage] = problem.stages[stage].at[found.at[i].choice[stage]].layers;
        check_equal("surrogate", seed, found.at[i].surrogate_s, ways_s(pipe, layers));
        ck_assert(i == 0 || found.at[i].surrogate_s >= found.at[i - 1].surrogate_s * (1 - 1e-9));
        step_s = fmin(step_s, simulated_s(pipe, layers, NULL));
    }
    double rest_s = found.count < most ? HUGE_VAL : found.at[found.count - 1].surrogate_s;
    if (rest_s >= step_s)
        check_equal("timed in the program's order", seed, step_s, best->step_s);
}

enum { ALL_TABLES = 1200, GATE_TABLES = 160, EVERY_MILP = 4 };

START_TEST(dynamic_and_integer_programming_equal_enumeration)
{
    double divisions = 0, timed = 0, most_slack = 0;
    int solved = 0, kinds = 0, turned = 0;
    for (int seed = 0; seed < SAMPLED(ALL_TABLES, GATE_TABLES); seed++) {
        struct arena arena = { 0 };
        struct pipe pipe = random_pipe((uint64_t)seed);
        fill_table(&pipe, &arena);
        struct enumerated best = enumerate(&pipe, seed);
        check_equal("bound", seed, program_s(&pipe, &arena), best.bound_s);
        if (seed % EVERY_MILP == 0 || is_campaign())
            check_milp(&pipe, &best, seed, &arena);
        struct expansion_request request = { &pipe.table, HUGE_VAL, HUGE_VAL, simulated_s,
                                             NULL,        &pipe,    NULL };
        if (pipe.are_equal && seed % 2)
            request.least_s = least_s;
        struct expansion found = expand(&request, &arena);
        ck_assert(found.is_proved);
        ck_assert_int_eq(found.found, best.divisions > 0);
        if (found.found) {
            check_equal("step", seed, found.step_s, best.step_s);
            ck_assert_double_eq(simulated_s(&pipe, found.layers, NULL), found.step_s);
            divisions += best.divisions;
            timed += found.timed;
            most_slack = fmax(most_slack, best.slack);
            kinds += !pipe.are_equal;
            turned += pipe.generator->rule != NULL;
            solved++;
        }
        arena_release(&arena);
    }
    printf("%d tables (%d with several kinds of layers, %d of V schedules), "
           "%.0f divisions, %.0f of them timed; "
           "the bound is at most %.0f %% too low\n",
           solved, kinds, turned, divisions, timed, 100 * most_slack);
    ck_assert_int_gt(kinds, solved / 4);
    ck_assert_int_gt(turned, solved / 6);
    ck_assert_double_lt(timed, divisions * 3 / 4);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("dealt: tables");
    TCase *tables = tcase_create("tables");
    tcase_set_timeout(tables, 300);
    tcase_add_test(tables, dynamic_and_integer_programming_equal_enumeration);
    suite_add_tcase(s, tables);
    return s;
}

TEST_MAIN(suite)
