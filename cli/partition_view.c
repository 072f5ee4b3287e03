/* The command that splits a layer of a plan over its tensor ranks. A partition gives every operator
 * of the layer a sharding. */
#include "cli/partition_view.h"

#include "cli/print/terminal.h"
#include "cli/views/show.h"
#include "search/partition/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A layer's partition problem and its results. */
struct view {
    const struct setup *setup;
    struct partition_problem problem;
    struct partition best;
    double num_partitions; /* number of possible partitions */
};

static const double gib = 1024.0 * 1024 * 1024;

/* The cost of passing a tensor to an operator and its gradient back. */
struct passing {
    const char *before, *after;
    struct partition_score score; /* sum over all edges that end at the operator */
};

static struct passing passing_of(const struct view *view, int index)
{
    const unsigned char *of = view->best.of;
    int count = view->problem.num_operators;
    const struct sharding_info *from = &shardings[of[(index + count - 1) % count]];
    const struct sharding_info *to = &shardings[of[index]];
    struct passing passing = {
        .before = reshard_name(from->output, to->input),
        .after = reshard_name(to->input_gradient, from->output_gradient),
    };
    for (int e = 0; e < view->problem.num_edges; e++) {
        const struct partition_edge *edge = &view->problem.edges[e];
        const struct partition_score *score = &edge->score[of[edge->from]][of[edge->to]];
        if (edge->to != index)
            continue;
        passing.score.cost += score->cost;
        passing.score.comm += score->comm;
        passing.score.units += score->units;
        passing.score.bytes += score->bytes;
    }
    return passing;
}

static bool is_best(const struct view *view, const struct partition *partition)
{
    return memcmp(view->best.of, partition->of, sizeof partition->of) == 0;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void set_score(json_t *object, const struct partition_score *score)
{
    json_object_set_new(object, "seconds", json_real(score->cost));
    json_object_set_new(object, "comm_s", json_real(score->comm));
    json_object_set_new(object, "units", json_real(score->units));
    json_object_set_new(object, "bytes", json_real(score->bytes));
}

static json_t *operators_json(const struct view *view)
{
    json_t *list = json_array();
    for (int i = 0; i < view->problem.num_operators; i++) {
        const struct partition_operator *op = &view->problem.operators[i];
        const struct partition_score *own = &op->score[view->best.of[i]];
        struct passing passing = passing_of(view, i);
        struct partition_score both = {
            .cost = own->cost + passing.score.cost,
            .comm = own->comm + passing.score.comm,
            .units = own->units + passing.score.units,
            .bytes = own->bytes + passing.score.bytes,
        };
        json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "name", op->name, "sharding",
                                   shardings[view->best.of[i]].name, "before", passing.before,
                                   "after", passing.after);
        set_score(object, &both);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *alternatives_json(const struct view *view)
{
    json_t *list = json_array();
    for (int i = 0; i < num_known_partitions; i++) {
        struct partition known = known_partition_of(&known_partitions[i], &view->problem);
        json_t *object =
            json_pack("{s:s, s:s, s:s, s:b, s:b, s:f}", "name", known_partitions[i].name, "summary",
                      known_partitions[i].summary, "source", known_partitions[i].source, "fits",
                      partition_fits(&view->problem, &known.total), "is_best",
                      is_best(view, &known), "saves_s", known.total.cost - view->best.total.cost);
        set_score(object, &known.total);
        json_array_append_new(list, object);
    }
    return list;
}

static void print_as_json(const struct view *view)
{
    const struct known_partition *known = known_partition_find(&view->problem, &view->best);
    struct text layout = { 0 };
    plan_write(&view->setup->plan, &layout);
    json_t *best = json_pack("{s:s?}", "name", known ? known->name : NULL);
    set_score(best, &view->best.total);
    json_object_set_new(best, "operators", operators_json(view));
    json_t *json =
        json_pack("{s:s, s:s, s:i, s:f, s:f, s:o, s:o, s:O}", "model", view->setup->model.name,
                  "layout", text_get(&layout), "tensor_ranks", view->setup->plan.tp, "partitions",
                  view->num_partitions, "budget_bytes", view->problem.budget_bytes, "best", best,
                  "alternatives", alternatives_json(view), "assumptions", view->setup->assumptions);
    print_json(json);
    json_decref(json);
    text_release(&layout);
}

/* --- text output ------------------------------------------------------------------------------ */

static void show_operators(const struct terminal *terminal, const struct view *view)
{
    printf("\n  %sBEST PARTITION of a layer over %d tensor ranks%s   one microbatch, forward and "
           "backward\n",
           terminal_bold(terminal), view->setup->plan.tp, terminal_plain(terminal));
    printf("  %s%-20s%-12s%-16s%-16s%9s%9s%s\n", terminal_dim(terminal), "operator", "sharding",
           "before", "after", "own ms", "comm ms", terminal_plain(terminal));
    for (int i = 0; i < view->problem.num_operators; i++) {
        const struct partition_operator *op = &view->problem.operators[i];
        const struct partition_score *own = &op->score[view->best.of[i]];
        struct passing passing = passing_of(view, i);
        printf("  %-20s%-12s%-16s%-16s%9.3f", op->name, shardings[view->best.of[i]].name,
               passing.before, passing.after, 1e3 * (own->cost - own->comm));
        double comm_s = own->comm + passing.score.comm;
        if (comm_s > 0)
            printf("%9.3f", 1e3 * comm_s);
        printf("\n");
    }
}

static void show_row(const char *name, const struct partition *partition, const char *remark)
{
    const struct partition_score *score = &partition->total;
    printf("  %-20s%9.3f%9.3f%8.2f%9.2f   %s\n", name, 1e3 * score->cost, 1e3 * score->comm,
           score->units, score->bytes / gib, remark);
}

static void show_alternative(const struct view *view, const struct known_partition *known)
{
    struct partition partition = known_partition_of(known, &view->problem);
    double saved = 1 - view->best.total.cost / partition.total.cost;
    bool fits = partition_fits(&view->problem, &partition.total);
    char remark[160];
    if (is_best(view, &partition))
        snprintf(remark, sizeof remark, "the best: %s", known->summary);
    else if (!fits)
        snprintf(remark, sizeof remark, "does not fit: %s", known->summary);
    else
        snprintf(remark, sizeof remark, "the best saves %.1f %%: %s", 100 * saved, known->summary);
    show_row(known->name, &partition, remark);
}

static void show_alternatives(const struct terminal *terminal, const struct view *view)
{
    printf("\n  %s%-20s%9s%9s%8s%9s%s\n", terminal_bold(terminal), "partition", "ms", "comm ms",
           "units", "GiB", terminal_plain(terminal));
    if (!known_partition_find(&view->problem, &view->best))
        show_row("(table above)", &view->best, "the best; none of the partitions below");
    for (int i = 0; i < num_known_partitions; i++)
        show_alternative(view, &known_partitions[i]);
    printf(
        "\n  units of S(n-1)/n, S the hidden states of a microbatch: an all-gather or a "
        "reduce-scatter is 1, an all-reduce 2;\n  GiB is what a layer keeps on the first stage, at "
        "most %.2f; dynamic and integer programming both proved the best of %.0f partitions\n",
        view->problem.budget_bytes / gib, view->num_partitions);
}

static void show(const struct options *options, const struct view *view)
{
    struct terminal terminal = terminal_of_stdout();
    if (!options->quiet)
        show_header(&terminal, view->setup);
    show_operators(&terminal, view);
    show_alternatives(&terminal, view);
}

/* --- the command ------------------------------------------------------------------------------ */

static bool refuse_budget(struct view *view, struct err *err)
{
    double budget_bytes = view->problem.budget_bytes;
    view->problem.budget_bytes = HUGE_VAL;
    for (int i = 0; i < view->problem.num_operators; i++)
        for (int j = 0; j < NUM_SHARDINGS; j++)
            view->problem.operators[i].score[j].cost = view->problem.operators[i].score[j].bytes;
    for (int e = 0; e < view->problem.num_edges; e++)
        for (int i = 0; i < NUM_SHARDINGS; i++)
            for (int j = 0; j < NUM_SHARDINGS; j++)
                view->problem.edges[e].score[i][j].cost = view->problem.edges[e].score[i][j].bytes;
    partition_by_dynamic(&view->problem, &view->best);
    return err_set(err, ERR_INFEASIBLE, "--partition",
                   "no partition fits: the first stage has %.2f GiB for a layer, and the smallest "
                   "needs %.2f GiB",
                   budget_bytes / gib, view->best.total.bytes / gib);
}

/* Dynamic and integer programming are both exact, so their costs must agree up to the solver's
 * tolerance. */
static bool confirm(const struct view *view, struct arena *arena, struct err *err)
{
    struct program_limits limits = { 0 };
    struct program_result result;
    struct partition other;
    if (!partition_by_program(&view->problem, &limits, arena, &other, &result, err))
        return false;
    double best_s = view->best.total.cost;
    if (result.status == PROGRAM_OPTIMAL && fabs(other.total.cost - best_s) <= 1e-6 * best_s)
        return true;
    return err_set(err, ERR_SYSTEM, "--partition",
                   "expected one optimum; dynamic programming found %.9g s, integer programming "
                   "%.9g s",
                   best_s, other.total.cost);
}

bool explain_partition(const struct options *options, const struct setup *setup, struct err *err)
{
    struct arena arena = { 0 };
    struct layer_partition of = { &setup->system, &setup->model, &setup->plan };
    struct view view = { .setup = setup };
    if (setup->plan.tp < 2)
        return err_set(err, ERR_USAGE, "--partition",
                       "expected a layout of several tensor ranks (tp2 ...); found tp1");
    if (model_num_kinds(&setup->model) > 1)
        return err_set(err, ERR_USAGE, "--partition",
                       "needs a model with equal blocks; %s has %d kinds", setup->model.name,
                       model_num_kinds(&setup->model));
    if (setup->model.positions == POSITION_TRANSFORMER_XL)
        return err_set(err, ERR_USAGE, "--partition",
                       "cannot divide a layer with relative positions, as %s has",
                       setup->model.name);
    view.problem = layer_partition_problem(&of, &arena);
    view.num_partitions = partition_count(&view.problem);
    bool ok = partition_by_dynamic(&view.problem, &view.best) ? confirm(&view, &arena, err)
                                                              : refuse_budget(&view, err);
    if (ok && options->json)
        print_as_json(&view);
    else if (ok)
        show(options, &view);
    arena_release(&arena);
    return ok;
}
