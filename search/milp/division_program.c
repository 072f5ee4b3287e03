/* Builds the rows and columns of the integer program; division.h explains them. */
#include "search/milp/division.h"

#include <math.h>
#include <string.h>

/* A program that is being built. Times are divided by least_longest_s, the least longest pass of
 * any division, so that T, the column for the longest pass, is around 1. Bytes in host memory are
 * divided by a node's limit. */
struct builder {
    const struct division_problem *problem;
    struct integer_program program;
    double least_longest_s;
    double most_pass_s; /* a choice gets a column only if its pass is at most this long */
    int **column;       /* [stage][choice]; -1: no column, as its pass is too long */
    int longest;        /* column of T */
};

static bool is_column(const struct builder *b, int stage, int i)
{
    return b->column[stage][i] >= 0;
}

static const struct stage_choice *choice_of(const struct builder *b, int stage, int i)
{
    return &b->problem->stages[stage].at[i];
}

static void add_columns(struct builder *b, struct arena *arena)
{
    const struct division_problem *problem = b->problem;
    b->column = ARENA_ARRAY(arena, int *, (size_t)problem->num_stages);
    for (int stage = 0; stage < problem->num_stages; stage++) {
        int count = problem->stages[stage].count;
        b->column[stage] = ARENA_ARRAY(arena, int, (size_t)count + 1);
        for (int i = 0; i < count; i++) {
            double pass_s = choice_of(b, stage, i)->pass_s;
            double cost = problem->in_any_order ? 0 : pass_s / b->least_longest_s;
            struct program_column column = { COLUMN_BINARY, 0, 1, cost };
            b->column[stage][i] =
                pass_s <= b->most_pass_s ? program_add_column(&b->program, column) : -1;
        }
    }
    double most = b->most_pass_s / b->least_longest_s;
    double times = problem->num_microbatches - !problem->in_any_order;
    b->longest = program_add_column(&b->program,
                                    (struct program_column){ COLUMN_CONTINUOUS, 1, most, times });
}

static void add_term_s(struct builder *b, int stage, int i, double term_s)
{
    if (is_column(b, stage, i) && term_s != 0)
        program_add_term(&b->program, b->column[stage][i], -term_s / b->least_longest_s);
}

/* Row: the number of microbatches times T (here not the longest pass, but the step time per
 * microbatch) is at least the time until the first microbatch arrives at the stage plus the stage's
 * passes of all microbatches. With `back` the passes are those without weight gradients, and the
 * time until the last gradient has gone back to the first stage is added. */
static void add_way(struct builder *b, int stage, bool back)
{
    double microbatches = b->problem->num_microbatches;
    program_add_row(&b->program, 0, HUGE_VAL);
    program_add_term(&b->program, b->longest, microbatches);
    for (int before = 0; before < stage; before++)
        for (int i = 0; i < b->problem->stages[before].count; i++) {
            const struct stage_choice *choice = choice_of(b, before, i);
            add_term_s(b, before, i, back ? choice->way_s : choice->ahead_s);
        }
    for (int i = 0; i < b->problem->stages[stage].count; i++) {
        const struct stage_choice *choice = choice_of(b, stage, i);
        double pass_s = choice->pass_s - (back ? choice->weights_s : 0);
        add_term_s(b, stage, i, microbatches * pass_s);
    }
}

/* Rows: each stage has exactly one choice, and T is at least its pass. */
static void add_stages(struct builder *b)
{
    for (int stage = 0; stage < b->problem->num_stages; stage++) {
        int count = b->problem->stages[stage].count;
        program_add_row(&b->program, 1, 1);
        for (int i = 0; i < count; i++)
            if (is_column(b, stage, i))
                program_add_term(&b->program, b->column[stage][i], 1);
        if (b->problem->in_any_order) {
            add_way(b, stage, true);
            add_way(b, stage, false);
            continue;
        }
        program_add_row(&b->program, 0, HUGE_VAL);
        program_add_term(&b->program, b->longest, 1);
        for (int i = 0; i < count; i++)
            add_term_s(b, stage, i, choice_of(b, stage, i)->pass_s);
    }
}

static void add_layers(struct builder *b)
{
    program_add_row(&b->program, b->problem->num_layers, b->problem->num_layers);
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++)
            if (is_column(b, stage, i))
                program_add_term(&b->program, b->column[stage][i], choice_of(b, stage, i)->layers);
}

/* Rows: each stage begins where the previous one ends. */
static void add_places(struct builder *b)
{
    for (int stage = 0; stage + 1 < b->problem->num_stages; stage++) {
        if (b->problem->stages[stage].count == 0 || choice_of(b, stage, 0)->first == ANY_FIRST)
            return;
        program_add_row(&b->program, 0, 0);
        for (int i = 0; i < b->problem->stages[stage].count; i++) {
            const struct stage_choice *choice = choice_of(b, stage, i);
            if (is_column(b, stage, i))
                program_add_term(&b->program, b->column[stage][i], choice->first + choice->layers);
        }
        for (int i = 0; i < b->problem->stages[stage + 1].count; i++)
            if (is_column(b, stage + 1, i) && choice_of(b, stage + 1, i)->first > 0)
                program_add_term(&b->program, b->column[stage + 1][i],
                                 -choice_of(b, stage + 1, i)->first);
    }
}

/* --- rows that join stages -------------------------------------------------------------------- */

/* Stages of one type have equally many layers of each kind, and recompute equally many layers. */
static bool is_type(const struct stage_choice *choice, const struct stage_choice *type)
{
    return choice->layers == type->layers && choice->recomputed == type->recomputed &&
           memcmp(choice->of_kind, type->of_kind, sizeof type->of_kind) == 0;
}

/* A stage may be of a type only if the type is used. */
static void allow_type(struct builder *b, int used, const struct stage_choice *type)
{
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++) {
            if (!is_column(b, stage, i) || !is_type(choice_of(b, stage, i), type))
                continue;
            program_add_row(&b->program, 0, HUGE_VAL);
            program_add_term(&b->program, used, 1);
            program_add_term(&b->program, b->column[stage][i], -1);
        }
}

/* Whether the choice has a column and no earlier choice of its type has one. */
static bool is_new_type(const struct builder *b, int stage, int i)
{
    for (int s = 0; s <= stage; s++)
        for (int j = 0; j < (s < stage ? b->problem->stages[s].count : i); j++)
            if (is_column(b, s, j) && is_type(choice_of(b, s, j), choice_of(b, stage, i)))
                return false;
    return is_column(b, stage, i);
}

/* Allows all types with this number of layers and recomputed layers. */
static void allow_types(struct builder *b, int layers, int recomputed)
{
    struct program_column binary = { .kind = COLUMN_BINARY };
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++) {
            const struct stage_choice *choice = choice_of(b, stage, i);
            if (choice->layers == layers && choice->recomputed == recomputed &&
                is_new_type(b, stage, i))
                allow_type(b, program_add_column(&b->program, binary), choice);
        }
}

static void add_types(struct builder *b)
{
    int first = b->program.num_columns;
    if (b->problem->most_types == 0)
        return;
    for (int layers = 0; layers <= b->problem->num_layers; layers++)
        for (int recomputed = 0; recomputed <= layers; recomputed++)
            allow_types(b, layers, recomputed);
    program_add_row(&b->program, -HUGE_VAL, b->problem->most_types);
    for (int used = first; used < b->program.num_columns; used++)
        program_add_term(&b->program, used, 1);
}

static int most_recomputed(const struct builder *b)
{
    int most = 0;
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++)
            if (choice_of(b, stage, i)->recomputed > most)
                most = choice_of(b, stage, i)->recomputed;
    return most;
}

/* One 0-1 variable for each number of recomputed layers, and one for recomputing all layers;
 * exactly one of them is 1. Each stage's choice recomputes that number of its layers, or all of
 * them. */
static void add_recompute(struct builder *b)
{
    struct program_column binary = { .kind = COLUMN_BINARY };
    if (!b->problem->same_recompute)
        return;
    int most = most_recomputed(b);
    int first = b->program.num_columns;
    for (int i = 0; i <= most + 1; i++)
        program_add_column(&b->program, binary);
    program_add_row(&b->program, 1, 1);
    for (int i = 0; i <= most + 1; i++)
        program_add_term(&b->program, first + i, 1);
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++) {
            const struct stage_choice *choice = choice_of(b, stage, i);
            if (!is_column(b, stage, i))
                continue;
            program_add_row(&b->program, 0, HUGE_VAL);
            program_add_term(&b->program, first + choice->recomputed, 1);
            if (choice->recomputed == choice->layers)
                program_add_term(&b->program, first + most + 1, 1);
            program_add_term(&b->program, b->column[stage][i], -1);
        }
}

static void add_hosts(struct builder *b)
{
    const struct division_problem *problem = b->problem;
    if (problem->host_bytes == HUGE_VAL)
        return;
    for (int node = 0; node < problem->num_nodes; node++) {
        program_add_row(&b->program, -HUGE_VAL, 1);
        for (int stage = 0; stage < problem->num_stages; stage++)
            for (int i = 0; i < problem->stages[stage].count; i++) {
                double bytes =
                    problem->nodes[node].ranks[stage] * choice_of(b, stage, i)->host_bytes;
                if (is_column(b, stage, i))
                    program_add_term(&b->program, b->column[stage][i], bytes / problem->host_bytes);
            }
    }
}

/* Row: at least one stage must differ from the excluded division. */
static void exclude(struct builder *b, const struct division *division)
{
    program_add_row(&b->program, -HUGE_VAL, b->problem->num_stages - 1);
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        if (is_column(b, stage, division->choice[stage]))
            program_add_term(&b->program, b->column[stage][division->choice[stage]], 1);
}

/* --- one solve -------------------------------------------------------------------------------- */

/* An upper bound of the longest pass of any division whose surrogate is at most guess_s, with a
 * tolerance for rounding. It assumes that all passes together take the least possible time. */
static double most_pass_s(const struct division_problem *problem, double guess_s)
{
    if (guess_s == HUGE_VAL)
        return HUGE_VAL;
    if (problem->in_any_order)
        return guess_s / problem->num_microbatches * (1 + 1e-9);
    if (problem->num_microbatches == 1)
        return HUGE_VAL;
    double left_s = guess_s - division_least_sum_s(problem);
    return left_s / (problem->num_microbatches - 1) * (1 + 1e-9);
}

static void read_choices(const struct builder *b, const double *value, int *choice)
{
    for (int stage = 0; stage < b->problem->num_stages; stage++)
        for (int i = 0; i < b->problem->stages[stage].count; i++)
            if (is_column(b, stage, i) && value[b->column[stage][i]] > 0)
                choice[stage] = i;
}

bool division_within(const struct division_problem *problem, const struct excluded *excluded,
                     double guess_s, const struct program_limits *limits, struct arena *arena,
                     int *choice, struct program_result *result, struct err *err)
{
    struct builder b = { .problem = problem,
                         .least_longest_s = division_least_longest_s(problem),
                         .most_pass_s = most_pass_s(problem, guess_s) };
    *result =
        (struct program_result){ .status = PROGRAM_INFEASIBLE, .bound = HUGE_VAL, .gap = HUGE_VAL };
    if (b.least_longest_s == HUGE_VAL || b.most_pass_s < b.least_longest_s)
        return true;
    add_columns(&b, arena);
    add_stages(&b);
    add_layers(&b);
    add_places(&b);
    add_types(&b);
    add_recompute(&b);
    add_hosts(&b);
    for (int i = 0; i < excluded->count; i++)
        exclude(&b, &excluded->at[i]);
    bool ok = program_solve(&b.program, limits, arena, result, err);
    program_release(&b.program);
    if (ok && result->value)
        read_choices(&b, result->value, choice);
    result->bound *= b.least_longest_s;
    return ok;
}
