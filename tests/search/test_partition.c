#include "tests/testing.h"

#include "base/file.h"
#include "base/text.h"
#include "search/partition/chain_file.h"
#include "search/partition/layer.h"
#include "sim/cost/piece.h"
#include "tests/draw.h"
#include "tests/sim/named.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COLUMN = 1 << SHARDING_COLUMN,
    ROW = 1 << SHARDING_ROW,
    REPLICATED = 1 << SHARDING_REPLICATED,
    SEQUENCE = 1 << SHARDING_SEQUENCE,
    HIDDEN = 1 << SHARDING_HIDDEN
};

static struct arena arena;
static struct system hardware;
static struct model model;

static void load(const char *cluster, int num_gpus, const char *name)
{
    struct err err = { 0 };
    bool ok = system_load(cluster, "megatron-core", num_gpus, &hardware, &err) &&
              model_load(name, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    if (model.batch == 0)
        model.batch = 512;
    /* Llama 3 has no norms of queries and keys; it gets them here to test them */
    model.qk_norm = strcmp(name, "llama3-70b") == 0;
}

static void tear_down(void)
{
    arena_release(&arena);
    system_release(&hardware);
}

/* Between two operators the sharding may change. The name and the cost of a change must describe
 * the same collective. */
START_TEST(a_change_of_sharding_costs_its_named_collective)
{
    static const struct reshard costs = {
        .all_reduce = 1, .all_gather = 2, .reduce_scatter = 3, .all_to_all = 4
    };
    static const char *const names[] = { "", "all-reduce", "all-gather", "reduce-scatter",
                                         "all-to-all" };
    static const struct {
        enum tensor_placement from, to;
        int name;
    } table[] = {
        { PLACED_WHOLE, PLACED_WHOLE, 0 },     { PLACED_WHOLE, PLACED_HIDDEN, 0 },
        { PLACED_WHOLE, PLACED_SEQUENCE, 0 },  { PLACED_PARTIAL, PLACED_WHOLE, 1 },
        { PLACED_PARTIAL, PLACED_HIDDEN, 3 },  { PLACED_PARTIAL, PLACED_SEQUENCE, 3 },
        { PLACED_HIDDEN, PLACED_WHOLE, 2 },    { PLACED_HIDDEN, PLACED_HIDDEN, 0 },
        { PLACED_HIDDEN, PLACED_SEQUENCE, 4 }, { PLACED_SEQUENCE, PLACED_WHOLE, 2 },
        { PLACED_SEQUENCE, PLACED_HIDDEN, 4 }, { PLACED_SEQUENCE, PLACED_SEQUENCE, 0 },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        enum tensor_placement from = table[i].from, to = table[i].to;
        ck_assert_str_eq(reshard_name(from, to), names[table[i].name]);
        ck_assert_double_eq(reshard_cost(&costs, from, to), table[i].name);
        ck_assert_int_eq(reshard_gathers(from, to), table[i].name == 2);
    }
}
END_TEST

static struct partition best_of(const struct partition_problem *problem)
{
    struct partition partition;
    ck_assert(partition_by_dynamic(problem, &partition));
    return partition;
}

static struct partition programmed(const struct partition_problem *problem)
{
    struct program_limits limits = { 0 };
    struct program_result result;
    struct partition partition;
    struct err err = { 0 };
    bool ok = partition_by_program(problem, &limits, &arena, &partition, &result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    if (result.status == PROGRAM_INFEASIBLE)
        partition.total.cost = HUGE_VAL;
    else
        ck_assert_int_eq(result.status, PROGRAM_OPTIMAL);
    return partition;
}

/* --- the chain of the lecture (docs/lecture.md) --------------------------------------------- */

/* The chain is X W1 W2 W3, and all activations have size S. Costs are in units of S (n - 1) / n for
 * n ranks. */
static struct partition_problem three_products(bool has_reduce_scatter, unsigned first,
                                               unsigned second, unsigned third)
{
    const struct chain_product products[] = { { "W1", first, 1, 1 },
                                              { "W2", second, 1, 1 },
                                              { "W3", third, 1, 1 } };
    struct chain chain = { products, 3, 8, has_reduce_scatter };
    return chain_problem(&chain, &arena);
}

static double units_of(bool has_reduce_scatter, unsigned first, unsigned second, unsigned third)
{
    struct partition_problem problem = three_products(has_reduce_scatter, first, second, third);
    return best_of(&problem).total.units;
}

START_TEST(the_lectures_two_partitions_cost_5_and_4_units_with_all_reduces)
{
    ck_assert_double_eq(units_of(false, COLUMN, COLUMN, ROW), 5);
    ck_assert_double_eq(units_of(false, COLUMN, ROW, COLUMN), 4);
}
END_TEST

START_TEST(the_lectures_two_partitions_cost_4_units_with_reduce_scatters)
{
    ck_assert_double_eq(units_of(true, COLUMN, COLUMN, ROW), 4);
    ck_assert_double_eq(units_of(true, COLUMN, ROW, COLUMN), 4);
}
END_TEST

/* The costs are computed by hand from the rules in search/partition/chain.h. */
START_TEST(the_cost_of_a_partition_is_the_sum_over_adjacent_products)
{
    const unsigned letter[] = { COLUMN, ROW };
    const double pair_all_reduce[2][2] = { { 3, 0 }, { 4, 3 } };
    const double pair_reduce_scatter[2][2] = { { 2, 0 }, { 4, 2 } };
    for (int i = 0; i < 8; i++) {
        int a = i & 1, b = i >> 1 & 1, c = i >> 2 & 1;
        double end = c == 1 ? 2 : 0;
        ck_assert_double_eq(units_of(false, letter[a], letter[b], letter[c]),
                            pair_all_reduce[a][b] + pair_all_reduce[b][c] + end);
        ck_assert_double_eq(units_of(true, letter[a], letter[b], letter[c]),
                            pair_reduce_scatter[a][b] + pair_reduce_scatter[b][c] + end);
    }
}
END_TEST

START_TEST(with_all_reduces_only_column_row_column_is_best)
{
    struct partition_problem problem =
        three_products(false, COLUMN | ROW, COLUMN | ROW, COLUMN | ROW);
    struct partition best = best_of(&problem);
    ck_assert_double_eq(best.total.units, 4);
    ck_assert_int_eq(best.of[0], SHARDING_COLUMN);
    ck_assert_int_eq(best.of[1], SHARDING_ROW);
    ck_assert_int_eq(best.of[2], SHARDING_COLUMN);
}
END_TEST

/* Megatron's pairs: the first product is split by columns, the second by rows, so the output of the
 * first is not moved. */
START_TEST(two_products_are_best_split_by_columns_then_rows)
{
    const struct chain_product products[] = { { "fc1", COLUMN | ROW, 4, 1 },
                                              { "fc2", COLUMN | ROW, 1, 1 } };
    struct chain chain = { products, 2, 8, true };
    struct partition_problem problem = chain_problem(&chain, &arena);
    struct partition best = best_of(&problem);
    ck_assert_double_eq(best.total.units, 2);
    ck_assert_int_eq(best.of[0], SHARDING_COLUMN);
    ck_assert_int_eq(best.of[1], SHARDING_ROW);
}
END_TEST

/* Reducing a weight gradient costs one unit, changing from rows to columns costs four. X is whole
 * on all ranks, so splitting W1 by columns costs nothing. An all-to-all of 1/8 unit in each
 * direction then changes from columns to tokens. */
START_TEST(with_small_weights_splitting_tokens_is_best)
{
    const struct chain_product products[] = { { "W1", COLUMN | SEQUENCE, 1, 0.5 },
                                              { "W2", ROW | SEQUENCE, 1, 0.5 },
                                              { "W3", COLUMN | SEQUENCE, 1, 0.5 } };
    struct chain chain = { products, 3, 8, true };
    struct partition_problem problem = chain_problem(&chain, &arena);
    struct partition best = best_of(&problem);
    ck_assert_double_eq(best.total.units, 2 + 2.0 / 8);
    ck_assert_int_eq(best.of[0], SHARDING_COLUMN);
    ck_assert_int_eq(best.of[1], SHARDING_SEQUENCE);
    ck_assert_int_eq(best.of[2], SHARDING_SEQUENCE);
}
END_TEST

/* --- dynamic programming, integer programming and trying all ---------------------------------- */

static double brute_force(const struct partition_problem *problem, unsigned char *of, int i)
{
    if (i == problem->num_operators) {
        struct partition_score score = partition_score(problem, of);
        return partition_fits(problem, &score) ? score.cost : HUGE_VAL;
    }
    double least = HUGE_VAL;
    for (int j = 0; j < NUM_SHARDINGS; j++)
        if (partition_allows(problem, i, (enum sharding)j)) {
            of[i] = (unsigned char)j;
            least = fmin(least, brute_force(problem, of, i + 1));
        }
    return least;
}

/* Checks the list of cheapest partitions: no partition outside the list is cheaper, and each score
 * is correct. */
static void check_cheapest(const struct partition_problem *problem, double least)
{
    enum { MOST = 5 };
    struct partition listed[MOST], all[6000];
    int count = partition_cheapest(problem, MOST, listed);
    int num_all = partition_cheapest(problem, LENGTH(all), all);
    ck_assert_int_eq(count, num_all < MOST ? num_all : MOST);
    ck_assert(num_all == 0 ? least == HUGE_VAL : listed[0].total.cost == least);
    ck_assert(num_all <= partition_count(problem));
    for (int i = 0; i < num_all; i++) {
        ck_assert(i == 0 || all[i].total.cost >= all[i - 1].total.cost);
        ck_assert(i >= count || memcmp(listed[i].of, all[i].of, sizeof all[i].of) == 0);
        ck_assert(partition_score(problem, all[i].of).cost == all[i].total.cost);
        ck_assert(partition_fits(problem, &all[i].total));
    }
}

/* --- chains in files -------------------------------------------------------------------------- */

static bool read_chain(const char *text, struct chain_file *out, struct err *err)
{
    char path[] = "/tmp/test_partition.XXXXXX";
    close(mkstemp(path));
    ck_assert(file_write(path, text, strlen(text), err));
    bool ok = chain_file_read(path, &arena, out, err);
    unlink(path);
    return ok;
}

/* Random chains of products, pointwise operators and norms with random widths. The memory of a rank
 * is unlimited, tight, or less than one value per token. */
static void write_chain(struct random *rng, int turn, struct text *out)
{
    static const char *const kinds[] = { "product", "product", "pointwise", "norm" };
    int count = within(rng, 1, 6);
    text_add(out, "{\"ranks\": %d, \"tokens\": %d, \"width\": %d, \"reduce_scatter\": %s,",
             within(rng, 1, 16), within(rng, 1, 64), within(rng, 1, 64),
             within(rng, 0, 1) ? "true" : "false");
    if (turn % 3 > 0)
        text_add(out, "\"memory\": \"%d B\",", turn % 3 == 1 ? 1000 * within(rng, 1, 60) : 1);
    text_add(out, "\"operators\": [");
    for (int i = 0; i < count; i++) {
        const char *kind = kinds[within(rng, 0, LENGTH(kinds) - 1)];
        text_add(out, "%s{\"name\": \"o%d\", \"kind\": \"%s\"", i ? "," : "", i, kind);
        if (strcmp(kind, "product") == 0)
            text_add(out, ", \"width\": %d", within(rng, 1, 64));
        text_add(out, "}");
    }
    text_add(out, "]}");
}

START_TEST(both_programs_find_the_optimum_of_a_chain_in_a_file)
{
    struct random rng = random_new(told_seed(), 3);
    int infeasible = 0;
    for (int i = 0; i < TURNS(60); i++) {
        struct text text = { 0 };
        struct chain_file file;
        struct err err = { 0 };
        unsigned char of[MAX_OPERATORS] = { 0 };
        struct partition dynamic;
        write_chain(&rng, i, &text);
        ck_assert_msg(read_chain(text_get(&text), &file, &err), "%s: %s", err.where, err.msg);
        struct partition_problem problem = chain_file_problem(&file, &arena);
        double least = brute_force(&problem, of, 0);
        bool found = partition_by_dynamic(&problem, &dynamic);
        infeasible += !found;
        ck_assert_msg(found == (least < HUGE_VAL), "%s", text_get(&text));
        check_cheapest(&problem, least);
        double by_program = programmed(&problem).total.cost;
        ck_assert(by_program == least || fabs(by_program - least) < 1e-9 * fmax(1, least));
        if (found)
            ck_assert_msg(fabs(dynamic.total.cost - least) < 1e-12 * fmax(1, least), "%s",
                          text_get(&text));
        text_release(&text);
    }
    ck_assert_int_gt(infeasible, 0);
}
END_TEST

/* X has 4 x 2 values of 2 bytes, so its size S is 16 bytes. W1 is 2 x 4, so the size of its output
 * is 2 S. If 2 ranks split W1 by columns, a rank keeps 8 bytes of weights and 16 bytes of the
 * output. */
START_TEST(a_chain_file_gives_sizes_relative_to_x)
{
    struct chain_file file;
    struct err err = { 0 };
    ck_assert_msg(read_chain("{ \"ranks\": 2, \"tokens\": 4, \"width\": 2, \"operators\": [\n"
                             "{ \"name\": \"W1\", \"width\": 4, \"allowed\": [\"column\"] },\n"
                             "{ \"name\": \"W2\", \"width\": 2, \"allowed\": [\"row\"] } ] }",
                             &file, &err),
                  "%s: %s", err.where, err.msg);
    ck_assert_double_eq(chain_file_unit_bytes(&file), 16);
    ck_assert_double_eq(file.products[0].output_size, 2);
    ck_assert_double_eq(file.products[0].weight_size, 1);
    struct partition_problem problem = chain_file_problem(&file, &arena);
    ck_assert_double_eq(problem.operators[0].score[SHARDING_COLUMN].bytes, 8 + 16);
    ck_assert_double_eq(problem.operators[1].score[SHARDING_ROW].bytes, 8 + 16);
    ck_assert_double_eq(best_of(&problem).total.units, 2);
}
END_TEST

/* Each operator of these files is on a line of its own, from line 2 on. */
static const struct {
    const char *operators, *where, *says;
} faulty[] = {
    { "[]", "1: operators", "expected a list of 1 to 64" },
    { "[\n{\"name\": \"a\", \"kind\": \"nrm\"}]", "2: operators[0].kind", "found \"nrm\"" },
    { "[\n{\"name\": \"a\", \"kind\": \"norm\", \"width\": 4}]", "2: operators[0].width",
      "a norm keeps the width of its input" },
    { "[\n{\"name\": \"a\", \"kind\": \"norm\", \"allowed\": [\"hidden\"]}]",
      "2: operators[0].allowed", "a norm cannot have the sharding hidden" },
    { "[\n{\"name\": \"a\", \"size\": 4}]", "2: operators[0].size", "" },
    { "[\n{\"name\": \"a\", \"kind\": \"norm\"},\n{\"name\": \"b\", \"kind\": \"nrm\"}]",
      "3: operators[1].kind", "found \"nrm\"" },
    { "[4]", "operators[0]", "expected an object" },
};

START_TEST(an_error_in_a_chain_names_line_and_key)
{
    char text[300];
    struct chain_file file;
    struct err err = { 0 };
    snprintf(text, sizeof text, "{\"ranks\": 2, \"tokens\": 4, \"width\": 2, \"operators\": %s}",
             faulty[_i].operators);
    ck_assert(!read_chain(text, &file, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, faulty[_i].where) && strstr(err.msg, faulty[_i].says), "%s: %s",
                  err.where, err.msg);
}
END_TEST

static struct partition_score random_score(struct random *rng, double unit)
{
    return (struct partition_score){ .cost = between(rng, 0, unit), .bytes = between(rng, 0, 1) };
}

/* A random chain with some additional edges (residuals). In some chains the last operator is also
 * joined to the first. */
static struct partition_problem random_problem(struct random *rng, double unit)
{
    int count = within(rng, 2, 6);
    struct partition_problem problem = {
        .operators = ARENA_ARRAY(&arena, struct partition_operator, (size_t)count),
        .num_operators = count,
        .edges = ARENA_ARRAY(&arena, struct partition_edge, (size_t)count + 3),
        .budget_bytes = within(rng, 0, 1) ? between(rng, 0.2, 0.9) * count : HUGE_VAL,
    };
    for (int i = 0; i < count; i++) {
        problem.operators[i].allowed = (unsigned)within(rng, 1, (1 << NUM_SHARDINGS) - 1);
        for (int j = 0; j < NUM_SHARDINGS; j++)
            problem.operators[i].score[j] = random_score(rng, unit);
    }
    problem.num_edges = count - 1 + within(rng, 0, 3);
    for (int e = 0; e < problem.num_edges; e++) {
        struct partition_edge *edge = &problem.edges[e];
        bool is_chain = e < count - 1;
        edge->from = is_chain ? e : within(rng, 1, count - 1);
        edge->to = is_chain ? e + 1 : within(rng, 0, edge->from - 1);
        for (int j = 0; j < NUM_SHARDINGS; j++)
            for (int k = 0; k < NUM_SHARDINGS; k++)
                edge->score[j][k] = random_score(rng, unit);
    }
    return problem;
}

START_TEST(both_programs_equal_enumeration)
{
    const uint64_t seed = 1120;
    struct random rng = random_new(seed, 0);
    int infeasible = 0;
    printf("partitions: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < TURNS(200); i++) {
        struct arena_mark mark = arena_mark(&arena);
        double unit = i % 4 == 0 ? 1e-9 : 1; /* the costs are seconds, which are small */
        struct partition_problem problem = random_problem(&rng, unit);
        unsigned char of[MAX_OPERATORS] = { 0 };
        struct partition dynamic;
        double least = brute_force(&problem, of, 0);
        bool found = partition_by_dynamic(&problem, &dynamic);
        struct partition by_program = programmed(&problem);
        infeasible += least == HUGE_VAL;
        ck_assert_msg(found == (least < HUGE_VAL), "problem %d: the dynamic program %s a partition",
                      i, found ? "found" : "did not find");
        if (found) {
            ck_assert_msg(fabs(dynamic.total.cost - least) < 1e-12 * unit,
                          "problem %d: the dynamic program's cost is %.17g, not %.17g", i,
                          dynamic.total.cost, least);
            ck_assert(partition_fits(&problem, &dynamic.total));
        }
        ck_assert_msg(by_program.total.cost == least ||
                          fabs(by_program.total.cost - least) < 1e-9 * unit,
                      "problem %d: the integer program's cost is %.17g, not %.17g", i,
                      by_program.total.cost, least);
        arena_reset(&arena, mark);
    }
    ck_assert_int_gt(infeasible, 0);
}
END_TEST

/* --- a layer ---------------------------------------------------------------------------------- */

static struct partition_problem problem_of(const struct plan *plan)
{
    struct layer_partition of = { &hardware, &model, plan };
    return layer_partition_problem(&of, &arena);
}

static const struct known_partition *known(const char *name)
{
    for (int i = 0; i < num_known_partitions; i++)
        if (strcmp(known_partitions[i].name, name) == 0)
            return &known_partitions[i];
    ck_abort_msg("no partition is called %s", name);
}

static struct partition_score known_score(const struct partition_problem *problem, const char *name)
{
    return known_partition_of(known(name), problem).total;
}

static struct piece_cost layer_of(const struct plan *plan)
{
    return pieces_cost(&hardware, &model, plan, &arena).at[0];
}

/* The costs that the partition problem gives Megatron's two partitions must equal those that the
 * cost model gives a layer, which it computes from another op list (sequence of operations). */
static void check_against_layer(const char *layout, const char *name)
{
    /* user buffers split collectives into pieces, which partitions do not model */
    hardware.stack.user_buffers = false;
    struct plan plan = plan_on(&hardware, &model, layout, &arena);
    struct partition_problem problem = problem_of(&plan);
    struct piece_cost layer = layer_of(&plan);
    struct partition_score score = known_score(&problem, name);
    double expected_s = layer.forward.total_s + layer.backward.total_s;
    ck_assert_msg(fabs(score.cost / expected_s - 1) < 1e-9,
                  "%s of %s, %s: the cost is %.9g s, not %.9g s", layout, model.name, name,
                  score.cost, expected_s);
    double comm_s = layer.forward.comm_s + layer.backward.comm_s;
    ck_assert_msg(fabs(score.comm / comm_s - 1) < 1e-9,
                  "%s of %s, %s: communication takes %.9g s, not %.9g s", layout, model.name, name,
                  score.comm, comm_s);
}

static const char *const models[] = { "gpt3-175b", "llama3-70b", "gpt3-1.3b" };

START_TEST(megatrons_partitions_cost_the_seconds_of_the_cost_model)
{
    load("dgx-h100", 64, models[_i]);
    check_against_layer("tp8 pp1 mb1 overlap=none", "megatron");
    check_against_layer("tp8 pp1 mb1 sp overlap=none", "megatron-sp");
    check_against_layer("tp4 pp2 mb2 overlap=tp", "megatron");
    check_against_layer("tp4 pp2 mb2 sp overlap=tp", "megatron-sp");
}
END_TEST

/* If memory is slow, a product takes as long as reading its operands. */
START_TEST(with_slow_memory_megatrons_partitions_cost_the_seconds_of_the_cost_model)
{
    load("dgx-h100", 64, models[_i]);
    hardware.gpu.memory_bytes_per_s /= 1000;
    check_against_layer("tp8 pp1 mb1 overlap=none", "megatron");
    check_against_layer("tp8 pp1 mb1 sp overlap=none", "megatron-sp");
}
END_TEST

START_TEST(megatrons_partitions_hold_the_bytes_of_the_cost_model)
{
    load("dgx-h100", 64, models[_i]);
    const char *const layouts[] = { "tp8 pp1 mb1", "tp8 pp1 mb1 sp" };
    const char *const names[] = { "megatron", "megatron-sp" };
    for (int i = 0; i < 2; i++) {
        struct plan plan = plan_on(&hardware, &model, layouts[i], &arena);
        struct partition_problem problem = problem_of(&plan);
        struct piece_cost layer = layer_of(&plan);
        struct state_bytes state = plan_state_bytes(&plan, &model);
        double per_parameter = state.weights + state.gradients + state.optimizer;
        double expected = layer.saved_bytes + per_parameter * layer.parameters;
        double got = known_score(&problem, names[i]).bytes;
        ck_assert_msg(fabs(got / expected - 1) < 1e-12,
                      "%s of %s: a rank keeps %.9g bytes, not %.9g", layouts[i], model.name, got,
                      expected);
    }
}
END_TEST

/* With 8 data ranks, or shard groups of 2, each rank keeps its shard of the state; with offload the
 * host keeps the shard of the optimizer state. */
START_TEST(a_layers_state_is_sharded_by_its_zero_stage)
{
    static const struct {
        const char *layout;
        double weights, gradients, optimizer; /* fractions of the state that a rank keeps */
    } cases[] = { { "tp8 sp pp1 mb1 zero1", 1, 1, 0.125 },
                  { "tp8 sp pp1 mb1 zero2", 1, 0.125, 0.125 },
                  { "tp8 sp pp1 mb1 zero3", 0.125, 0.125, 0.125 },
                  { "tp8 sp pp1 mb1 zero3 shard=2", 0.5, 0.5, 0.5 },
                  { "tp8 sp pp1 mb1 zero1 offload=optimizer", 1, 1, 0 } };
    load("dgx-h100", 64, "gpt3-1.3b");
    for (int i = 0; i < LENGTH(cases); i++) {
        struct plan plan = plan_on(&hardware, &model, cases[i].layout, &arena);
        struct partition_problem problem = problem_of(&plan);
        struct piece_cost layer = layer_of(&plan);
        struct state_bytes state = plan_state_bytes(&plan, &model);
        double per_parameter = state.weights * cases[i].weights +
                               state.gradients * cases[i].gradients +
                               state.optimizer * cases[i].optimizer;
        double expected = layer.saved_bytes + per_parameter * layer.parameters;
        double got = known_score(&problem, "megatron-sp").bytes;
        ck_assert_msg(fabs(got / expected - 1) < 1e-12, "%s: a rank keeps %.9g bytes, not %.9g",
                      cases[i].layout, got, expected);
    }
}
END_TEST

/* 175B does not fit unsharded. Among the partitions that fit, Megatron's with sequence parallelism
 * is the fastest. */
START_TEST(if_weights_must_be_split_megatrons_sequence_parallelism_is_best)
{
    load("dgx-a100-80g", 512, "gpt3-175b");
    struct plan plan = plan_on(&hardware, &model, "tp8 pp8 mb1", &arena);
    struct partition_problem problem = problem_of(&plan);
    struct partition best = best_of(&problem);
    const struct known_partition *found = known_partition_find(&problem, &best);
    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(found->name, "megatron-sp");
    ck_assert(partition_fits(&problem, &best.total));
    struct partition_score whole = known_score(&problem, "ulysses");
    ck_assert(!partition_fits(&problem, &whole));
}
END_TEST

/* A claim of the lecture (docs/lecture.md) about sequence parallelism: communication stays the same
 * except for a second gather in the backward, the time outside the matrix products falls, and so
 * does memory. */
START_TEST(sequence_parallelism_saves_memory_and_the_time_of_norms)
{
    load("dgx-a100-80g", 512, "gpt3-175b");
    struct plan plan = plan_on(&hardware, &model, "tp8 pp8 mb1 overlap=none", &arena);
    struct partition_problem problem = problem_of(&plan);
    struct partition_score with = known_score(&problem, "megatron-sp");
    struct partition_score without = known_score(&problem, "megatron");
    ck_assert_double_lt(with.bytes, without.bytes);
    ck_assert_double_lt(with.cost - with.comm, without.cost - without.comm);
    ck_assert_double_eq_tol(without.units, 8, 1e-12);
    ck_assert_double_eq_tol(with.units, 10, 1e-12);
}
END_TEST

START_TEST(without_a_memory_limit_no_named_partition_is_faster_than_the_optimum)
{
    load("dgx-h100", 64, models[_i]);
    struct plan plan = plan_on(&hardware, &model, "tp8 pp1 mb1", &arena);
    struct partition_problem problem = problem_of(&plan);
    problem.budget_bytes = HUGE_VAL;
    struct partition best = best_of(&problem);
    for (int i = 0; i < num_known_partitions; i++)
        ck_assert_double_ge(known_partition_of(&known_partitions[i], &problem).total.cost,
                            best.total.cost - 1e-15);
    ck_assert_double_eq_tol(programmed(&problem).total.cost, best.total.cost,
                            1e-9 * best.total.cost);
}
END_TEST

START_TEST(both_programs_agree_for_any_memory_limit)
{
    load("dgx-h100", 64, models[_i]);
    struct plan plan = plan_on(&hardware, &model, "tp8 pp2 mb1 sp", &arena);
    struct partition_problem problem = problem_of(&plan);
    double ulysses = known_score(&problem, "ulysses").bytes;
    for (int i = 0; i <= 8; i++) {
        problem.budget_bytes = ulysses * i / 8;
        struct partition dynamic = { .total.cost = HUGE_VAL };
        bool found = partition_by_dynamic(&problem, &dynamic);
        double by_program = programmed(&problem).total.cost;
        ck_assert(found == (by_program < HUGE_VAL));
        ck_assert(!found || fabs(by_program / dynamic.total.cost - 1) < 1e-7);
    }
}
END_TEST

START_TEST(recompute_adds_the_forward_time_of_its_ops)
{
    load("dgx-h100", 64, "gpt3-1.3b");
    struct plan plain = plan_on(&hardware, &model, "tp8 pp1 mb1 sp overlap=none", &arena);
    struct plan full =
        plan_on(&hardware, &model, "tp8 pp1 mb1 sp overlap=none recompute=full", &arena);
    struct partition_problem problem = problem_of(&plain);
    struct partition_problem again = problem_of(&full);
    double more_s =
        known_score(&again, "megatron-sp").cost - known_score(&problem, "megatron-sp").cost;
    ck_assert_double_eq_tol(more_s, layer_of(&plain).forward.total_s, 1e-12);
    ck_assert_double_lt(known_score(&again, "megatron-sp").bytes,
                        known_score(&problem, "megatron-sp").bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("partition");
    TCase *cases = tcase_create("partition");
    int num_models = LENGTH(models);
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, a_change_of_sharding_costs_its_named_collective);
    tcase_add_test(cases, the_lectures_two_partitions_cost_5_and_4_units_with_all_reduces);
    tcase_add_test(cases, the_lectures_two_partitions_cost_4_units_with_reduce_scatters);
    tcase_add_test(cases, the_cost_of_a_partition_is_the_sum_over_adjacent_products);
    tcase_add_test(cases, with_all_reduces_only_column_row_column_is_best);
    tcase_add_test(cases, two_products_are_best_split_by_columns_then_rows);
    tcase_add_test(cases, with_small_weights_splitting_tokens_is_best);
    tcase_add_test(cases, both_programs_equal_enumeration);
    tcase_add_test(cases, both_programs_find_the_optimum_of_a_chain_in_a_file);
    tcase_add_test(cases, a_chain_file_gives_sizes_relative_to_x);
    tcase_add_loop_test(cases, an_error_in_a_chain_names_line_and_key, 0, LENGTH(faulty));
    tcase_add_loop_test(cases, megatrons_partitions_cost_the_seconds_of_the_cost_model, 0,
                        num_models);
    tcase_add_test(cases, a_layers_state_is_sharded_by_its_zero_stage);
    tcase_add_loop_test(cases,
                        with_slow_memory_megatrons_partitions_cost_the_seconds_of_the_cost_model, 0,
                        LENGTH(models));
    tcase_add_loop_test(cases, megatrons_partitions_hold_the_bytes_of_the_cost_model, 0,
                        num_models);
    tcase_add_test(cases, if_weights_must_be_split_megatrons_sequence_parallelism_is_best);
    tcase_add_test(cases, sequence_parallelism_saves_memory_and_the_time_of_norms);
    tcase_add_loop_test(cases, without_a_memory_limit_no_named_partition_is_faster_than_the_optimum,
                        0, num_models);
    tcase_add_loop_test(cases, both_programs_agree_for_any_memory_limit, 0, num_models);
    tcase_add_test(cases, recompute_adds_the_forward_time_of_its_ops);
    suite_add_tcase(suite, cases);
    return suite;
}

TEST_MAIN(suite)
