#include "tests/testing.h"

#include "base/parallel.h"
#include "search/integer_program.h"
#include "tests/draw.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct integer_program program;

static void tear_down(void)
{
    program_release(&program);
    arena_release(&arena);
}

static int add_binary(double cost)
{
    return program_add_column(&program, (struct program_column){ COLUMN_BINARY, 0, 1, cost });
}

static struct program_result solve_within(struct program_limits limits)
{
    struct program_result result;
    struct err err = { 0 };
    bool ok = program_solve(&program, &limits, &arena, &result, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return result;
}

static struct program_result solve(void)
{
    return solve_within((struct program_limits){ 0 });
}

/* The knapsack has a capacity of 6. Its items have values 10, 13 and 7, and weights 3, 4 and 2. The
 * best choice is the items of weights 4 and 2, with a total value of 20. */
START_TEST(a_knapsack_has_its_optimal_value)
{
    const double worth[] = { 10, 13, 7 };
    const double weight[] = { 3, 4, 2 };
    program_add_row(&program, -HUGE_VAL, 6);
    for (int i = 0; i < 3; i++)
        program_add_term(&program, add_binary(-worth[i]), weight[i]);
    struct program_result result = solve();
    ck_assert_int_eq(result.status, PROGRAM_OPTIMAL);
    ck_assert_double_eq(result.cost, -20);
    ck_assert_double_eq(result.bound, -20);
    ck_assert_double_eq(result.gap, 0);
    ck_assert_double_eq(result.value[0], 0);
    ck_assert_double_eq(result.value[1], 1);
    ck_assert_double_eq(result.value[2], 1);
}
END_TEST

/* With 2 x >= 7 and y >= 0.3 - x / 10, the integer x is at least 4. The least y is then 0, or -0.1
 * if y may be negative. */
START_TEST(integer_columns_are_integers_and_others_need_not_be)
{
    int x = program_add_column(&program, (struct program_column){ COLUMN_INTEGER, 0, 9, 1 });
    int y = program_add_column(
        &program, (struct program_column){ COLUMN_CONTINUOUS, -HUGE_VAL, HUGE_VAL, 1 });
    program_add_row(&program, 7, HUGE_VAL);
    program_add_term(&program, x, 2);
    program_add_row(&program, 0.3, HUGE_VAL);
    program_add_term(&program, x, 0.1);
    program_add_term(&program, y, 1);
    struct program_result result = solve();
    ck_assert_double_eq(result.value[x], 4);
    ck_assert_double_eq_tol(result.value[y], -0.1, 1e-9);
    ck_assert_double_eq_tol(result.cost, 3.9, 1e-9);
}
END_TEST

START_TEST(contradictory_rows_are_infeasible)
{
    int x = add_binary(1), y = add_binary(1);
    program_add_row(&program, 1, 1); /* x + y = 1 and x - y = 0: only x = y = 1/2 satisfies both */
    program_add_term(&program, x, 1);
    program_add_term(&program, y, 1);
    program_add_row(&program, 0, 0);
    program_add_term(&program, x, 1);
    program_add_term(&program, y, -1);
    struct program_result result = solve();
    ck_assert_int_eq(result.status, PROGRAM_INFEASIBLE);
    ck_assert_ptr_null(result.value);
}
END_TEST

START_TEST(an_infeasible_relaxation_is_infeasible)
{
    int x = add_binary(1);
    program_add_row(&program, 2, HUGE_VAL);
    program_add_term(&program, x, 1);
    ck_assert_int_eq(solve().status, PROGRAM_INFEASIBLE);
}
END_TEST

START_TEST(an_unbounded_program_is_an_error)
{
    struct program_result result;
    struct program_limits limits = { 0 };
    struct err err = { 0 };
    int x =
        program_add_column(&program, (struct program_column){ COLUMN_INTEGER, 0, HUGE_VAL, -1 });
    program_add_row(&program, 1, HUGE_VAL);
    program_add_term(&program, x, 1);
    ck_assert(!program_solve(&program, &limits, &arena, &result, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "unbounded"));
}
END_TEST

/* --- comparison with all assignments ---------------------------------------------------------- */

enum { MOST_BINARIES = 8, MOST_ROWS = 4 };

static void make_random(struct random *rng)
{
    int num_columns = within(rng, 2, MOST_BINARIES);
    int num_rows = within(rng, 1, MOST_ROWS);
    for (int i = 0; i < num_columns; i++)
        add_binary(within(rng, -9, 9));
    for (int i = 0; i < num_rows; i++) {
        int lower = within(rng, -6, 6);
        program_add_row(&program, lower, lower + within(rng, 0, 8));
        for (int j = 0; j < num_columns; j++)
            program_add_term(&program, j, within(rng, -5, 5));
    }
}

static bool holds(const struct program_row *row, unsigned bits)
{
    double sum = 0;
    for (int i = 0; i < row->num_terms; i++) {
        const struct program_term *term = &program.terms[row->first_term + i];
        sum += (bits >> term->column & 1) * term->coefficient;
    }
    return sum >= row->lower && sum <= row->upper;
}

/* Returns the least cost of all assignments, or HUGE_VAL if no assignment satisfies every row. */
static double least_cost(void)
{
    double least = HUGE_VAL;
    for (unsigned bits = 0; bits < 1u << program.num_columns; bits++) {
        bool all_hold = true;
        double cost = 0;
        for (int i = 0; i < program.num_rows; i++)
            all_hold = all_hold && holds(&program.rows[i], bits);
        for (int i = 0; i < program.num_columns; i++)
            cost += (bits >> i & 1) * program.columns[i].cost;
        if (all_hold && cost < least)
            least = cost;
    }
    return least;
}

START_TEST(the_optimum_equals_that_of_trying_every_assignment)
{
    const uint64_t seed = 20261120;
    struct random rng = random_new(seed, 0);
    int infeasible = 0;
    printf("integer programs: seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < TURNS(400); i++) {
        make_random(&rng);
        double expected = least_cost();
        struct program_result result = solve();
        infeasible += expected == HUGE_VAL;
        if (expected == HUGE_VAL) {
            ck_assert_msg(result.status == PROGRAM_INFEASIBLE,
                          "instance %d is infeasible, but the solver did not find this", i);
        } else {
            ck_assert_msg(result.status == PROGRAM_OPTIMAL,
                          "instance %d was not solved to optimality", i);
            ck_assert_msg(result.cost == expected, "instance %d: the cost is %g, not %g", i,
                          result.cost, expected);
        }
        tear_down();
    }
    ck_assert_int_gt(infeasible, 0);
}
END_TEST

/* --- limits and failures ---------------------------------------------------------------------- */

/* Makes a program of two equalities over many 0-1 variables (the market split problem of Cornuejols
 * and Dawande). Solutions are rare and the relaxation gives no information; slack columns make a
 * first solution easy. */
static void make_hard(void)
{
    enum { BINARIES = 40, ROWS = 4 };
    struct random rng = random_new(7, 0);
    for (int i = 0; i < BINARIES; i++)
        add_binary(0);
    for (int i = 0; i < ROWS; i++) {
        struct program_column slack = { COLUMN_CONTINUOUS, 0, HUGE_VAL, 1 };
        int over = program_add_column(&program, slack);
        int under = program_add_column(&program, slack);
        double coefficient[BINARIES];
        double half = 0;
        for (int j = 0; j < BINARIES; j++)
            half += coefficient[j] = within(&rng, 0, 99);
        half = floor(half / 2);
        program_add_row(&program, half, half);
        for (int j = 0; j < BINARIES; j++)
            program_add_term(&program, j, coefficient[j]);
        program_add_term(&program, over, 1);
        program_add_term(&program, under, -1);
    }
}

/* Checks that the slack columns of a solution equal the differences between both sides of its rows.
 */
START_TEST(at_a_node_limit_the_best_solution_and_its_gap_are_returned)
{
    make_hard();
    struct program_result result = solve_within((struct program_limits){ .nodes = 300 });
    ck_assert_int_eq(result.status, PROGRAM_FEASIBLE);
    ck_assert(!result.timed_out);
    ck_assert_int_ge(result.nodes, 300);
    ck_assert_double_lt(result.bound, result.cost);
    ck_assert_double_eq_tol(result.gap, (result.cost - result.bound) / result.cost, 1e-12);
    for (int i = 0; i < program.num_rows; i++) {
        double sum = 0;
        for (int j = 0; j < program.rows[i].num_terms; j++) {
            struct program_term term = program.terms[program.rows[i].first_term + j];
            sum += term.coefficient * result.value[term.column];
        }
        ck_assert_double_eq_tol(sum, program.rows[i].lower, 1e-5);
    }
}
END_TEST

START_TEST(a_node_limit_gives_the_same_result_every_time)
{
    make_hard();
    struct program_result first = solve_within((struct program_limits){ .nodes = 100 });
    struct program_result again = solve_within((struct program_limits){ .nodes = 100 });
    ck_assert_double_eq(first.cost, again.cost);
    ck_assert_double_eq(first.bound, again.bound);
    ck_assert_mem_eq(first.value, again.value, (size_t)program.num_columns * sizeof(double));
}
END_TEST

/* Makes a set-cover problem: each of 30 rows needs one of the columns that cover it, and no column
 * covers more than a fifth of the rows. */
static void make_cover(void)
{
    enum { BINARIES = 40, ROWS = 30 };
    struct random rng = random_new(11, 0);
    for (int i = 0; i < BINARIES; i++)
        add_binary(between(&rng, 1, 2));
    for (int i = 0; i < ROWS; i++) {
        program_add_row(&program, 1, HUGE_VAL);
        for (int j = 0; j < BINARIES; j++)
            if (j % ROWS == i || random_below(&rng, 6) == 0)
                program_add_term(&program, j, 1);
    }
}

/* With more nodes of branch and bound, the bound rises from that of the relaxation towards the
 * optimum. */
START_TEST(more_nodes_raise_the_bound)
{
    make_cover();
    struct program_result best = solve();
    double before = 0, first = 0;
    ck_assert_int_eq(best.status, PROGRAM_OPTIMAL);
    ck_assert_double_eq(best.bound, best.cost);
    ck_assert_double_eq(best.gap, 0);
    for (int nodes = 1; nodes < best.nodes; nodes *= 2) {
        struct program_result result = solve_within((struct program_limits){ .nodes = nodes });
        ck_assert(result.status == PROGRAM_FEASIBLE || result.status == PROGRAM_UNKNOWN);
        ck_assert(!result.timed_out);
        ck_assert_int_gt(result.nodes, nodes);
        ck_assert_int_le(result.nodes, nodes + 2);
        ck_assert_double_ge(result.bound, before);
        ck_assert_double_le(result.bound, best.cost + 1e-9);
        if (result.status == PROGRAM_FEASIBLE)
            ck_assert_double_ge(result.cost, best.cost - 1e-9);
        first = nodes == 1 ? result.bound : first;
        before = result.bound;
    }
    ck_assert_double_gt(first, 0);
    ck_assert_double_gt(before, first);
}
END_TEST

START_TEST(at_a_time_limit_it_stops_and_reports_it)
{
    make_hard();
    struct program_result result = solve_within((struct program_limits){ .time_s = 0.05 });
    ck_assert(result.timed_out);
    ck_assert(result.status == PROGRAM_FEASIBLE || result.status == PROGRAM_UNKNOWN);
    ck_assert_double_gt(result.gap, 0);
}
END_TEST

/* GLPK aborts the process when a row has a column twice. */
static void make_fatal(void)
{
    int x = add_binary(1);
    add_binary(1);
    program_add_row(&program, 1, 1);
    program_add_term(&program, x, 1);
    program_add_term(&program, x, 1);
}

/* The relaxation of 500 columns and 400 rows takes far longer than a millisecond. */
START_TEST(at_a_time_limit_the_relaxation_stops_too)
{
    enum { COLUMNS = 500, ROWS = 400 };
    struct random rng = random_new(12, 0);
    for (int j = 0; j < COLUMNS; j++)
        add_binary(between(&rng, 1, 2));
    for (int i = 0; i < ROWS; i++) {
        program_add_row(&program, 1, HUGE_VAL);
        for (int j = 0; j < COLUMNS; j++)
            if (random_below(&rng, 3) == 0)
                program_add_term(&program, j, between(&rng, 0.01, 0.02));
    }
    struct program_result result = solve_within((struct program_limits){ .time_s = 1e-3 });
    ck_assert(result.timed_out);
    ck_assert_int_eq(result.status, PROGRAM_UNKNOWN);
    ck_assert_int_eq(result.nodes, 0);
}
END_TEST

START_TEST(an_abort_of_glpk_becomes_an_error_with_its_message)
{
    struct program_result result;
    struct program_limits limits = { 0 };
    struct err err = { 0 };
    make_fatal();
    ck_assert(!program_solve(&program, &limits, &arena, &result, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "GLPK");
    ck_assert_msg(strstr(err.msg, "duplicate column indices") != NULL, "%s", err.msg);
    ck_assert_int_eq(result.status, PROGRAM_UNKNOWN);
}
END_TEST

START_TEST(after_a_fatal_failure_the_next_program_is_solved)
{
    struct program_result result;
    struct program_limits limits = { 0 };
    struct err err = { 0 };
    make_fatal();
    ck_assert(!program_solve(&program, &limits, &arena, &result, &err));
    tear_down();
    add_binary(-1);
    ck_assert_double_eq(solve().cost, -1);
}
END_TEST

/* Each thread solves its own program in its own environment; some solves fail. */
static void solve_one(void *context, size_t index, int worker)
{
    double *costs = context;
    struct integer_program own = { 0 };
    struct arena room = { 0 };
    struct err err = { 0 };
    struct program_limits limits = { 0 };
    struct program_result result;
    (void)worker;
    program_add_row(&own, -HUGE_VAL, (double)(index % 8) + 0.5);
    for (int i = 0; i < 8; i++)
        program_add_term(
            &own, program_add_column(&own, (struct program_column){ COLUMN_BINARY, 0, 1, -1 }), 1);
    if (index % 5 == 4)
        program_add_term(&own, 0, 1);
    costs[index] = program_solve(&own, &limits, &room, &result, &err) ? result.cost : 1;
    program_release(&own);
    arena_release(&room);
}

START_TEST(several_threads_solve_at_once)
{
    enum { SOLVES = 64 };
    double costs[SOLVES];
    if (!integer_program_has_threads())
        return;
    parallel_for(4, SOLVES, 1, solve_one, costs);
    for (int i = 0; i < SOLVES; i++)
        ck_assert_double_eq(costs[i], i % 5 == 4 ? 1 : -(i % 8));
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("integer_program");
    TCase *cases = tcase_create("integer_program");
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, a_knapsack_has_its_optimal_value);
    tcase_add_test(cases, integer_columns_are_integers_and_others_need_not_be);
    tcase_add_test(cases, contradictory_rows_are_infeasible);
    tcase_add_test(cases, an_infeasible_relaxation_is_infeasible);
    tcase_add_test(cases, an_unbounded_program_is_an_error);
    tcase_add_test(cases, the_optimum_equals_that_of_trying_every_assignment);
    tcase_add_test(cases, at_a_node_limit_the_best_solution_and_its_gap_are_returned);
    tcase_add_test(cases, a_node_limit_gives_the_same_result_every_time);
    tcase_add_test(cases, at_a_time_limit_it_stops_and_reports_it);
    tcase_add_test(cases, at_a_time_limit_the_relaxation_stops_too);
    tcase_add_test(cases, an_abort_of_glpk_becomes_an_error_with_its_message);
    tcase_add_test(cases, more_nodes_raise_the_bound);
    tcase_add_test(cases, after_a_fatal_failure_the_next_program_is_solved);
    suite_add_tcase(suite, cases);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_add_checked_fixture(threads, NULL, tear_down);
    tcase_add_test(threads, several_threads_solve_at_once);
    suite_add_tcase(suite, threads);
    return suite;
}

TEST_MAIN(suite)
