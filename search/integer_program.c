/* Solves linear programs with integer columns by GLPK, and turns GLPK's aborts into errors. */
#include "search/integer_program.h"

#include "base/arena.h"
#include "base/clock.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* --- building --------------------------------------------------------------------------------- */

int program_add_column(struct integer_program *program, struct program_column column)
{
    program->columns =
        arena_extend(program->columns, (size_t)program->num_columns, sizeof *program->columns);
    program->columns[program->num_columns] = column;
    return program->num_columns++;
}

int program_add_row(struct integer_program *program, double lower, double upper)
{
    program->rows = arena_extend(program->rows, (size_t)program->num_rows, sizeof *program->rows);
    program->rows[program->num_rows] = (struct program_row){ lower, upper, program->num_terms, 0 };
    return program->num_rows++;
}

void program_add_term(struct integer_program *program, int column, double coefficient)
{
    program->terms =
        arena_extend(program->terms, (size_t)program->num_terms, sizeof *program->terms);
    program->terms[program->num_terms++] = (struct program_term){ column, coefficient };
    program->rows[program->num_rows - 1].num_terms++;
}

void program_release(struct integer_program *program)
{
    free(program->columns);
    free(program->rows);
    free(program->terms);
    *program = (struct integer_program){ 0 };
}

/* --- GLPK's problem --------------------------------------------------------------------------- */

/* One solve: what GLPK's callbacks see. */
struct solve {
    const struct integer_program *program;
    const struct program_limits *limits;
    double start_s;
    double *value; /* filled when there is a solution */
    struct program_result result;
    struct err *err;
    bool ok;
    char said[160]; /* the first line that GLPK printed */
    jmp_buf fatal;
};

static int bound_kind(double lower, double upper)
{
    if (lower == -HUGE_VAL)
        return upper == HUGE_VAL ? GLP_FR : GLP_UP;
    if (upper == HUGE_VAL)
        return GLP_LO;
    return lower == upper ? GLP_FX : GLP_DB;
}

static void add_column(glp_prob *problem, int index, const struct program_column *column)
{
    glp_set_obj_coef(problem, index, column->cost);
    if (column->kind == COLUMN_BINARY) {
        glp_set_col_kind(problem, index, GLP_BV);
        return;
    }
    glp_set_col_bnds(problem, index, bound_kind(column->lower, column->upper), column->lower,
                     column->upper);
    glp_set_col_kind(problem, index, column->kind == COLUMN_INTEGER ? GLP_IV : GLP_CV);
}

/* GLPK counts from 1, in arrays too. */
static void add_row(glp_prob *problem, int index, const struct program_row *row,
                    const struct program_term *terms, int *columns, double *coefficients)
{
    for (int i = 0; i < row->num_terms; i++) {
        columns[i + 1] = terms[i].column + 1;
        coefficients[i + 1] = terms[i].coefficient;
    }
    glp_set_row_bnds(problem, index, bound_kind(row->lower, row->upper), row->lower, row->upper);
    glp_set_mat_row(problem, index, row->num_terms, columns, coefficients);
}

/* Uses only GLPK's own memory, so that nothing leaks when it aborts by longjmp. */
static glp_prob *build(const struct integer_program *program)
{
    glp_prob *problem = glp_create_prob();
    glp_set_obj_dir(problem, GLP_MIN);
    if (program->num_columns > 0)
        glp_add_cols(problem, program->num_columns);
    if (program->num_rows > 0)
        glp_add_rows(problem, program->num_rows);
    for (int i = 0; i < program->num_columns; i++)
        add_column(problem, i + 1, &program->columns[i]);
    int *columns = glp_alloc(program->num_terms + 1, sizeof *columns);
    double *coefficients = glp_alloc(program->num_terms + 1, sizeof *coefficients);
    for (int i = 0; i < program->num_rows; i++)
        add_row(problem, i + 1, &program->rows[i], program->terms + program->rows[i].first_term,
                columns, coefficients);
    glp_free(columns);
    glp_free(coefficients);
    return problem;
}

/* --- solving ---------------------------------------------------------------------------------- */

static bool gives_up(struct solve *solve, const char *what, int code)
{
    return err_set(solve->err, ERR_SYSTEM, "GLPK", "the %s ended with code %d", what, code);
}

/* Remaining time in milliseconds; at least 1, as GLPK reads 0 as "no limit". */
static int left_ms(const struct solve *solve)
{
    if (solve->limits->time_s <= 0)
        return INT_MAX;
    double left = 1e3 * (solve->limits->time_s - (clock_now_s() - solve->start_s));
    return left < 1 ? 1 : left >= INT_MAX ? INT_MAX : (int)ceil(left);
}

/* Solves the linear relaxation, from which branch and bound starts. Returns whether branch and
 * bound is still needed. */
static bool solve_relaxation(struct solve *solve, glp_prob *problem)
{
    glp_smcp settings;
    glp_init_smcp(&settings);
    settings.msg_lev = GLP_MSG_OFF;
    settings.presolve = GLP_ON;
    settings.tm_lim = left_ms(solve);
    int code = glp_simplex(problem, &settings);
    struct program_result *result = &solve->result;
    result->timed_out = code == GLP_ETMLIM;
    if (code == GLP_ENOPFS || (code == 0 && glp_get_status(problem) == GLP_NOFEAS))
        result->status = PROGRAM_INFEASIBLE;
    else if (code == GLP_ENODFS || (code == 0 && glp_get_status(problem) == GLP_UNBND))
        solve->ok = err_set(solve->err, ERR_INPUT, "program", "is unbounded, so it has no minimum");
    else if (code == GLP_EBOUND)
        solve->ok =
            err_set(solve->err, ERR_INPUT, "program", "has a lower bound above its upper bound");
    else if (code != 0 && code != GLP_ETMLIM)
        solve->ok = gives_up(solve, "simplex method", code);
    else if (code == 0)
        result->bound = glp_get_obj_val(problem);
    return code == 0 && glp_get_status(problem) == GLP_OPT;
}

/* Keeps the least bound of the open nodes; ends the search at the node limit. */
static void on_node(glp_tree *tree, void *info)
{
    struct solve *solve = info;
    struct program_result *result = &solve->result;
    int best = glp_ios_best_node(tree);
    if (best != 0)
        result->bound = fmax(result->bound, glp_ios_node_bound(tree, best));
    glp_ios_tree_size(tree, NULL, NULL, &result->nodes);
    if (solve->limits->nodes > 0 && result->nodes > solve->limits->nodes)
        glp_ios_terminate(tree);
}

/* Branches by Driebeck and Tomlin's heuristic and backtracks to the node with the least bound,
 * which was the fastest choice measured. No optimality gap is tolerated. */
static int branch(struct solve *solve, glp_prob *problem)
{
    glp_iocp settings;
    glp_init_iocp(&settings);
    settings.msg_lev = GLP_MSG_OFF;
    settings.br_tech = GLP_BR_DTH;
    settings.bt_tech = GLP_BT_BLB;
    settings.tol_int = 1e-6;
    settings.mip_gap = 0;
    settings.tm_lim = left_ms(solve);
    settings.cb_func = on_node;
    settings.cb_info = solve;
    return glp_intopt(problem, &settings);
}

static void take_values(struct solve *solve, glp_prob *problem)
{
    const struct integer_program *program = solve->program;
    struct program_result *result = &solve->result;
    result->value = solve->value;
    result->cost = 0;
    for (int i = 0; i < program->num_columns; i++) {
        double value = glp_mip_col_val(problem, i + 1);
        bool is_whole = program->columns[i].kind != COLUMN_CONTINUOUS;
        solve->value[i] = is_whole ? round(value) : value;
        result->cost += program->columns[i].cost * solve->value[i];
    }
}

/* Sets the bound: the best bound of the open nodes or, when no node is open, the cost found. */
static void take_status(struct solve *solve, glp_prob *problem, int code)
{
    struct program_result *result = &solve->result;
    int found = glp_mip_status(problem);
    bool has_solution = found == GLP_OPT || found == GLP_FEAS;
    bool is_complete = code == 0;
    result->timed_out = code == GLP_ETMLIM;
    if (has_solution)
        take_values(solve, problem);
    if (has_solution)
        result->status = is_complete ? PROGRAM_OPTIMAL : PROGRAM_FEASIBLE;
    else
        result->status = is_complete ? PROGRAM_INFEASIBLE : PROGRAM_UNKNOWN;
    if (has_solution && (is_complete || result->bound > result->cost))
        result->bound = result->cost;
    if (has_solution)
        result->gap =
            result->cost == result->bound ? 0 : (result->cost - result->bound) / fabs(result->cost);
}

static void solve_all(struct solve *solve)
{
    glp_prob *problem = build(solve->program);
    if (solve_relaxation(solve, problem)) {
        int code = branch(solve, problem);
        bool is_expected = code == 0 || code == GLP_ETMLIM || code == GLP_ESTOP;
        if (is_expected)
            take_status(solve, problem, code);
        else
            solve->ok = gives_up(solve, "branch and bound", code);
    }
    glp_delete_prob(problem);
}

/* --- output and aborts of GLPK ---------------------------------------------------------------- */

static int on_print(void *info, const char *text)
{
    struct solve *solve = info;
    size_t length = strcspn(text, "\n");
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (solve->said[0] == '\0' && length < sizeof solve->said)
        memcpy(solve->said, text, length);
    return 1; /* nonzero: GLPK must not print the text itself */
}

static void on_fatal(void *info)
{
    struct solve *solve = info;
    longjmp(solve->fatal, 1);
}

/* GLPK's environment belongs to this thread and lives for one solve: everything in it is freed even
 * after a longjmp. */
bool program_solve(const struct integer_program *program, const struct program_limits *limits,
                   struct arena *arena, struct program_result *out, struct err *err)
{
    struct solve solve = {
        .program = program,
        .limits = limits,
        .start_s = clock_now_s(),
        .value = ARENA_ARRAY(arena, double, (size_t)program->num_columns + 1),
        .result = { .status = PROGRAM_UNKNOWN, .bound = -HUGE_VAL, .gap = HUGE_VAL },
        .err = err,
        .ok = true,
    };
    glp_term_hook(on_print, &solve);
    glp_error_hook(on_fatal, &solve);
    if (setjmp(solve.fatal) == 0)
        solve_all(&solve);
    else
        solve.ok = err_set(err, ERR_SYSTEM, "GLPK", "%s", solve.said);
    glp_free_env();
    *out = solve.result;
    return solve.ok;
}

bool integer_program_has_threads(void)
{
    return glp_config("TLS") != NULL;
}
