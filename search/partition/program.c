/* The partition as an integer program. x[i][c] is 1 when operator i has sharding c. For an edge
 * from operator a to operator b, y[c][d] is the flow from sharding c of a to sharding d of b. Its
 * sum over d is x[a][c], and its sum over c is x[b][d]. So y is integral whenever x is, and needs
 * no integer constraint. */
#include "search/partition/partition.h"

#include <math.h>

struct columns {
    int of[MAX_OPERATORS][NUM_SHARDINGS]; /* -1: not allowed */
};

/* GLPK's tolerances are absolute, so the largest score and the budget are scaled to 1. */
struct scale {
    double per_cost, per_byte;
};

static double largest_cost(const struct partition_problem *problem)
{
    double largest = 0;
    for (int i = 0; i < problem->num_operators; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++)
            if (partition_allows(problem, i, (enum sharding)j))
                largest = fmax(largest, problem->operators[i].score[j].cost);
    for (int e = 0; e < problem->num_edges; e++)
        for (int i = 0; i < NUM_SHARDINGS; i++)
            for (int j = 0; j < NUM_SHARDINGS; j++)
                largest = fmax(largest, problem->edges[e].score[i][j].cost);
    return largest;
}

static struct scale scale_of(const struct partition_problem *problem)
{
    double largest = largest_cost(problem);
    bool has_budget = problem->budget_bytes < HUGE_VAL && problem->budget_bytes > 0;
    return (struct scale){ largest > 0 ? 1 / largest : 1,
                           has_budget ? 1 / problem->budget_bytes : 1 };
}

static int add_choice(struct integer_program *program, enum column_kind kind, struct scale scale,
                      const struct partition_score *score)
{
    return program_add_column(
        program, (struct program_column){
                     .kind = kind, .lower = 0, .upper = 1, .cost = scale.per_cost * score->cost });
}

static void add_operators(const struct partition_problem *problem, struct scale scale,
                          struct integer_program *program, struct columns *columns)
{
    for (int i = 0; i < problem->num_operators; i++) {
        program_add_row(program, 1, 1);
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            columns->of[i][j] = -1;
            if (!partition_allows(problem, i, (enum sharding)j))
                continue;
            columns->of[i][j] =
                add_choice(program, COLUMN_BINARY, scale, &problem->operators[i].score[j]);
            program_add_term(program, columns->of[i][j], 1);
        }
    }
}

/* Adds the row by which the flow out of (or into) one sharding equals the sharding's x. */
static void add_side(struct integer_program *program, int choice, const int flow[NUM_SHARDINGS])
{
    if (choice < 0)
        return;
    program_add_row(program, 0, 0);
    program_add_term(program, choice, -1);
    for (int i = 0; i < NUM_SHARDINGS; i++)
        if (flow[i] >= 0)
            program_add_term(program, flow[i], 1);
}

struct flows {
    int of[NUM_SHARDINGS][NUM_SHARDINGS]; /* -1: not allowed */
};

static struct flows add_flows(struct integer_program *program, struct scale scale,
                              const struct columns *columns, const struct partition_edge *edge)
{
    struct flows flows;
    for (int i = 0; i < NUM_SHARDINGS; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++) {
            bool is_allowed = columns->of[edge->from][i] >= 0 && columns->of[edge->to][j] >= 0;
            flows.of[i][j] =
                is_allowed ? add_choice(program, COLUMN_CONTINUOUS, scale, &edge->score[i][j]) : -1;
        }
    return flows;
}

static struct flows add_edge(struct integer_program *program, struct scale scale,
                             const struct columns *columns, const struct partition_edge *edge)
{
    struct flows flows = add_flows(program, scale, columns, edge);
    for (int i = 0; i < NUM_SHARDINGS; i++) {
        int entering[NUM_SHARDINGS];
        for (int j = 0; j < NUM_SHARDINGS; j++)
            entering[j] = flows.of[j][i];
        add_side(program, columns->of[edge->from][i], flows.of[i]);
        add_side(program, columns->of[edge->to][i], entering);
    }
    return flows;
}

static void add_bytes(struct integer_program *program, int column, double bytes)
{
    if (column >= 0 && bytes != 0)
        program_add_term(program, column, bytes);
}

/* Call last: terms are added to the newest row. */
static void add_budget(const struct partition_problem *problem, struct scale scale,
                       struct integer_program *program, const struct columns *columns,
                       const struct flows *flows)
{
    if (problem->budget_bytes == HUGE_VAL)
        return;
    program_add_row(program, -HUGE_VAL, scale.per_byte * problem->budget_bytes);
    for (int i = 0; i < problem->num_operators; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++)
            add_bytes(program, columns->of[i][j],
                      scale.per_byte * problem->operators[i].score[j].bytes);
    for (int e = 0; e < problem->num_edges; e++)
        for (int i = 0; i < NUM_SHARDINGS; i++)
            for (int j = 0; j < NUM_SHARDINGS; j++)
                add_bytes(program, flows[e].of[i][j],
                          scale.per_byte * problem->edges[e].score[i][j].bytes);
}

static void read_choices(const struct partition_problem *problem, const struct columns *columns,
                         const double *value, struct partition *out)
{
    for (int i = 0; i < problem->num_operators; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++)
            if (columns->of[i][j] >= 0 && value[columns->of[i][j]] > 0)
                out->of[i] = (unsigned char)j;
    out->total = partition_score(problem, out->of);
}

bool partition_by_program(const struct partition_problem *problem,
                          const struct program_limits *limits, struct arena *arena,
                          struct partition *out, struct program_result *result, struct err *err)
{
    struct integer_program program = { 0 };
    struct columns columns;
    struct scale scale = scale_of(problem);
    struct flows *flows = ARENA_ARRAY(arena, struct flows, (size_t)problem->num_edges + 1);
    *out = (struct partition){ 0 };
    add_operators(problem, scale, &program, &columns);
    for (int e = 0; e < problem->num_edges; e++)
        flows[e] = add_edge(&program, scale, &columns, &problem->edges[e]);
    add_budget(problem, scale, &program, &columns, flows);
    bool ok = program_solve(&program, limits, arena, result, err);
    program_release(&program);
    if (ok && result->value)
        read_choices(problem, &columns, result->value, out);
    return ok;
}
