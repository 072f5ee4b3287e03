/* cli/partition.c - the best sharding of a chain of operators in a file. */
#include "base/text.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/print/terminal.h"
#include "search/partition/chain_file.h"

#include <math.h>
#include <stdio.h>

enum {
    MOST_TRIED = 100000, /* maximum number of partitions to try one by one */
    MOST_LISTED = 8
};

/* The problem and the results of the methods. */
struct answer {
    struct chain_file file;
    struct partition_problem problem;
    struct partition best, by_program;
    double num_partitions;
    /* the cheapest partitions, if all could be tried */
    struct partition cheapest[MOST_LISTED];
    int num_cheapest;
};

static bool agrees(const struct answer *answer, double cost)
{
    const double tolerance = 1e-6; /* tolerance of GLPK's optimum */
    double best = answer->best.total.cost;
    return fabs(best - cost) <= tolerance * fmax(1, best);
}

/* Tries every partition, if there are at most MOST_TRIED. */
static bool try_all(struct answer *answer, struct err *err)
{
    if (answer->num_partitions > MOST_TRIED)
        return true;
    answer->num_cheapest = partition_cheapest(&answer->problem, MOST_LISTED, answer->cheapest);
    return agrees(answer, answer->cheapest[0].total.cost) ||
           err_set(err, ERR_SYSTEM, "",
                   "dynamic programming found %.9g units, but the best of all partitions has %.9g",
                   answer->best.total.cost, answer->cheapest[0].total.cost);
}

static bool solve(struct answer *answer, struct arena *arena, struct err *err)
{
    struct program_limits limits = { 0 };
    struct program_result result;
    answer->problem = chain_file_problem(&answer->file, arena);
    answer->num_partitions = partition_count(&answer->problem);
    if (!partition_by_dynamic(&answer->problem, &answer->best))
        return err_set(err, ERR_INFEASIBLE, "memory",
                       "every partition keeps more than %.4g bytes on a rank",
                       answer->problem.budget_bytes);
    if (!partition_by_program(&answer->problem, &limits, arena, &answer->by_program, &result, err))
        return false;
    if (!agrees(answer, answer->by_program.total.cost))
        return err_set(err, ERR_SYSTEM, "",
                       "dynamic programming found %.9g units, integer programming %.9g",
                       answer->best.total.cost, answer->by_program.total.cost);
    return try_all(answer, err);
}

/* Communication of operator i and of resharding its input, in forward and backward, in the units of
 * sent_bytes. */
static double units_of(const struct answer *answer, int i)
{
    const unsigned char *of = answer->best.of;
    double units = answer->problem.operators[i].score[of[i]].units;
    if (i > 0)
        units += answer->problem.edges[i - 1].score[of[i - 1]][of[i]].units;
    return units;
}

/* Adds the collectives before operator i, "all-reduce forwards, all-gather backwards"; nothing when
 * no data are sent. */
static void add_reshardings(const struct answer *answer, int i, struct text *out)
{
    if (i == 0)
        return;
    const struct sharding_info *from = &shardings[answer->best.of[i - 1]];
    const struct sharding_info *to = &shardings[answer->best.of[i]];
    const char *forwards = reshard_name(from->output, to->input);
    const char *backwards = reshard_name(to->input_gradient, from->output_gradient);
    if (*forwards)
        text_add(out, "%s forwards", forwards);
    if (*backwards)
        text_add(out, "%s%s backwards", *forwards ? ", " : "", backwards);
}

/* Bytes of `units`. A unit is S (n - 1) / n, the bytes that a rank sends in an all-gather of S
 * bytes over n ranks. */
static double sent_bytes(const struct answer *answer, double units)
{
    double n = answer->file.ranks;
    return units * chain_file_unit_bytes(&answer->file) * (n - 1) / n;
}

static json_t *operators_json(const struct answer *answer)
{
    json_t *rows = json_array();
    for (int i = 0; i < answer->problem.num_operators; i++) {
        struct text words = { 0 };
        add_reshardings(answer, i, &words);
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:f, s:s, s:f}", "name", answer->problem.operators[i].name,
                            "sharding", shardings[answer->best.of[i]].name, "units",
                            units_of(answer, i), "before", text_get(&words), "kept_bytes",
                            answer->problem.operators[i].score[answer->best.of[i]].bytes));
        text_release(&words);
    }
    return rows;
}

/* JSON null when there are too many partitions to try. */
static json_t *cheapest_json(const struct answer *answer)
{
    json_t *rows = answer->num_cheapest > 0 ? json_array() : json_null();
    for (int i = 0; i < answer->num_cheapest; i++) {
        const struct partition *at = &answer->cheapest[i];
        json_t *names = json_array();
        for (int j = 0; j < answer->problem.num_operators; j++)
            json_array_append_new(names, json_string(shardings[at->of[j]].name));
        json_array_append_new(rows, json_pack("{s:o, s:f, s:f}", "shardings", names, "units",
                                              at->total.units, "kept_bytes", at->total.bytes));
    }
    return rows;
}

static void print_answer(const struct answer *answer)
{
    json_t *object = json_pack(
        "{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "version", SIMSEARCH_VERSION,
        "ranks", answer->file.ranks, "unit_bytes", sent_bytes(answer, 1), "partitions",
        answer->num_partitions, "units", answer->best.total.units, "units_by_milp",
        answer->by_program.total.units, "sent_bytes", sent_bytes(answer, answer->best.total.units),
        "kept_bytes", answer->best.total.bytes, "budget_bytes", answer->file.memory_bytes,
        "operators", operators_json(answer), "cheapest", cheapest_json(answer));
    print_json(object);
    json_decref(object);
}

static void show_cheapest(const struct answer *answer)
{
    if (answer->num_cheapest < 2)
        return;
    printf("\n  %9s %12s  %s\n", "units", "kept, MiB",
           answer->num_cheapest < answer->num_partitions ? "the cheapest partitions; all were "
                                                           "evaluated"
                                                         : "all partitions, evaluated one by one");
    for (int i = 0; i < answer->num_cheapest; i++) {
        const struct partition *at = &answer->cheapest[i];
        printf("  %9.4g %12.4g ", at->total.units, at->total.bytes / (1 << 20));
        for (int j = 0; j < answer->problem.num_operators; j++)
            printf(" %s", shardings[at->of[j]].name);
        printf("\n");
    }
}

static void show_answer(const struct answer *answer)
{
    printf("  %-20s  %-12s %9s %12s  %s\n", "operator", "sharding", "units", "kept, MiB",
           "before it");
    for (int i = 0; i < answer->problem.num_operators; i++) {
        struct text words = { 0 };
        const struct partition_operator *op = &answer->problem.operators[i];
        add_reshardings(answer, i, &words);
        printf("  %-20s  %-12s %9.4g %12.4g  %s\n", op->name, shardings[answer->best.of[i]].name,
               units_of(answer, i), op->score[answer->best.of[i]].bytes / (1 << 20),
               text_get(&words));
        text_release(&words);
    }
    printf("\n"
           "  the cheapest of %.0f partitions, by dynamic and by integer programming: %.6g units "
           "of S (n - 1)/n,\n"
           "  %.4g MiB sent by each of %d ranks, forwards and backwards; %.4g MiB kept\n",
           answer->num_partitions, answer->best.total.units,
           sent_bytes(answer, answer->best.total.units) / (1 << 20), answer->file.ranks,
           answer->best.total.bytes / (1 << 20));
    show_cheapest(answer);
}

int cmd_partition(int argc, char **argv, struct err *err)
{
    struct options options;
    struct answer answer = { 0 };
    struct arena arena = { 0 };
    if (!options_parse(COMMAND_PARTITION, 1, argc, argv, &options, err))
        return exit_code_of(err);
    if (options.num_files == 0)
        err_set(err, ERR_USAGE, "partition", "expected a file with a chain of operators");
    else if (chain_file_read(options.files[0], &arena, &answer.file, err) &&
             solve(&answer, &arena, err)) {
        if (options.json)
            print_answer(&answer);
        else
            show_answer(&answer);
    }
    arena_release(&arena);
    return exit_code_of(err);
}
