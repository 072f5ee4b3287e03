/* cli/validate.c - predictions scored against measured runs. */
#include "base/arena.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "calibration/score.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All rows with what became of them. */
struct validation {
    struct arena arena;
    struct run_systems *systems;
    struct run_rows rows;
    struct run_case *cases;
    struct run_prediction *predictions;
    struct scores scores;
};

/* --- rows in --------------------------------------------------------------------------------- */

static bool shipped_file(char *path, size_t size, struct err *err)
{
    char folder[PATH_MAX];
    if (!file_data_folder("calibration/measured", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/measured",
                       "no such data folder; is SIMSEARCH_DATA right?");
    snprintf(path, size, "%s/runs.csv", folder);
    return true;
}

static bool add_rows(struct validation *v, const char *path, struct err *err)
{
    struct run_rows more;
    if (!runs_load(path, &v->arena, &more, err))
        return false;
    size_t total = (size_t)v->rows.count + (size_t)more.count;
    struct run_row *all = ARENA_ARRAY(&v->arena, struct run_row, total);
    if (v->rows.count > 0)
        memcpy(all, v->rows.at, (size_t)v->rows.count * sizeof *all);
    if (more.count > 0)
        memcpy(all + v->rows.count, more.at, (size_t)more.count * sizeof *all);
    v->rows = (struct run_rows){ all, (int)total };
    return true;
}

static bool keep_source(struct validation *v, const char *source, struct err *err)
{
    const char **names = ARENA_ARRAY(&v->arena, const char *, (size_t)v->rows.count);
    int kept = 0;
    for (int i = 0; i < v->rows.count; i++) {
        names[i] = v->rows.at[i].source_key;
        if (strcmp(names[i], source) == 0)
            v->rows.at[kept++] = v->rows.at[i];
    }
    if (kept == 0) {
        const char *nearest = text_nearest(source, names, (size_t)v->rows.count);
        return err_set(err, ERR_USAGE, "--source", "no row is of \"%s\"%s%s%s", source,
                       nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                       nearest ? "\"?" : "");
    }
    v->rows.count = kept;
    return true;
}

static bool load_rows(struct validation *v, const struct options *options, struct err *err)
{
    char shipped[PATH_MAX + 16];
    if (options->num_files == 0)
        return shipped_file(shipped, sizeof shipped, err) && add_rows(v, shipped, err);
    for (int i = 0; i < options->num_files; i++)
        if (!add_rows(v, options->files[i], err))
            return false;
    return true;
}

static bool predict_rows(struct validation *v, const struct options *options, struct err *err)
{
    size_t count = (size_t)v->rows.count;
    v->systems = run_systems_new(options->cluster, options->stack, err);
    if (!v->systems)
        return false;
    v->cases = ARENA_ARRAY(&v->arena, struct run_case, count);
    v->predictions = ARENA_ARRAY(&v->arena, struct run_prediction, count);
    for (int i = 0; i < v->rows.count; i++)
        if (!run_convert(v->systems, &v->rows.at[i], &v->cases[i], err))
            return false;
    int jobs = options->jobs > 0 ? options->jobs : parallel_cores();
    runs_predict(v->cases, v->rows.count, jobs, v->predictions);
    v->scores = runs_score(v->cases, v->predictions, v->rows.count, &v->arena);
    return true;
}

/* --- predictions out ------------------------------------------------------------------------- */

static void add_field(struct text *out, const char *field)
{
    if (!strpbrk(field, ",\"\r\n")) {
        text_add(out, "%s", field);
        return;
    }
    text_add(out, "\"");
    for (; *field; field++)
        text_add(out, *field == '"' ? "\"\"" : "%c", *field);
    text_add(out, "\"");
}

static void add_measured(struct text *out, double value)
{
    if (value > 0)
        text_add(out, "%.9g", value);
}

static bool write_predictions(const struct validation *v, const char *path, struct err *err)
{
    struct text out = { 0 };
    text_add(&out, "id,predicted_s,measured_s,predicted_bytes,measured_bytes\n");
    for (int i = 0; i < v->rows.count; i++) {
        const struct run_row *row = v->cases[i].row;
        if (*v->cases[i].skip)
            continue;
        add_field(&out, row->id);
        text_add(&out, ",%.9g,", v->predictions[i].step_s);
        add_measured(&out, run_measured_s(row));
        text_add(&out, ",%.0f,", v->predictions[i].memory_bytes);
        if (run_measured_bytes(row) > 0)
            text_add(&out, "%.0f", run_measured_bytes(row));
        text_add(&out, "\n");
    }
    bool ok = file_write(path, text_get(&out), out.length, err);
    text_release(&out);
    return ok;
}

/* --- how often a text occurs ----------------------------------------------------------------- */

struct tally {
    const char *text;
    int count;
};
struct tallies {
    struct tally *at;
    int count, room;
};

static void tally(struct tallies *tallies, const char *text)
{
    for (int i = 0; i < tallies->count; i++)
        if (strcmp(tallies->at[i].text, text) == 0) {
            tallies->at[i].count++;
            return;
        }
    if (tallies->count == tallies->room) {
        tallies->room = tallies->room ? 2 * tallies->room : 16;
        tallies->at = arena_grow(tallies->at, (size_t)tallies->room * sizeof *tallies->at);
    }
    tallies->at[tallies->count++] = (struct tally){ text, 1 };
}

static int compare_tallies(const void *a, const void *b)
{
    const struct tally *x = a;
    const struct tally *y = b;
    return x->count != y->count ? y->count - x->count : strcmp(x->text, y->text);
}

static struct tallies tally_assumptions(const struct validation *v)
{
    struct tallies tallies = { 0 };
    for (int i = 0; i < v->rows.count; i++)
        for (int k = 0; k < v->cases[i].num_assumptions && !*v->cases[i].skip; k++)
            tally(&tallies, v->cases[i].assumptions[k]);
    if (tallies.count > 0)
        qsort(tallies.at, (size_t)tallies.count, sizeof *tallies.at, compare_tallies);
    return tallies;
}

static struct tallies tally_reasons(const struct validation *v)
{
    struct tallies tallies = { 0 };
    for (int i = 0; i < v->rows.count; i++)
        if (*run_skip_reason(&v->cases[i]))
            tally(&tallies, run_skip_reason(&v->cases[i]));
    if (tallies.count > 0)
        qsort(tallies.at, (size_t)tallies.count, sizeof *tallies.at, compare_tallies);
    return tallies;
}

/* --- JSON ------------------------------------------------------------------------------------ */

enum { NUM_WORST = 5 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *score_json(const struct score *score)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "groups", score->groups, "median",
                     number(score->median), "mean", number(score->mean), "p90", number(score->p90),
                     "worst", number(score->worst), "bias", number(score->bias));
}

static json_t *split_json(const struct split_score *split)
{
    json_t *object = score_json(&split->all);
    json_object_set_new(object, "fitted", score_json(&split->fitted));
    json_object_set_new(object, "not_fitted", score_json(&split->not_fitted));
    return object;
}

static json_t *kind_json(const struct scores *scores, enum score_kind kind)
{
    json_t *object = json_object();
    for (int i = 0; i < scores->num_sources; i++)
        if (scores->sources[i].kind[kind].all.groups > 0)
            json_object_set_new(object, scores->sources[i].source,
                                split_json(&scores->sources[i].kind[kind]));
    return object;
}

static json_t *skipped_json(const struct validation *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->rows.count; i++)
        if (*run_skip_reason(&v->cases[i]))
            json_array_append_new(list, json_pack("{s:s, s:s}", "id", v->rows.at[i].id, "reason",
                                                  run_skip_reason(&v->cases[i])));
    return list;
}

static json_t *worst_json(const struct validation *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->scores.num_scored && i < NUM_WORST; i++) {
        int row = v->scores.worst[i];
        const struct run_prediction *predicted = &v->predictions[row];
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f}", "id", v->rows.at[row].id,
                                              "source", v->rows.at[row].source_key, "predicted_s",
                                              predicted->step_s, "measured_s",
                                              run_measured_s(&v->rows.at[row]), "error",
                                              run_error(&v->cases[row], predicted)));
    }
    return list;
}

static json_t *assumptions_json(const struct validation *v)
{
    json_t *list = json_array();
    struct tallies tallies = tally_assumptions(v);
    for (int i = 0; i < tallies.count; i++)
        json_array_append_new(list, json_pack("{s:s, s:i}", "assumption", tallies.at[i].text,
                                              "rows", tallies.at[i].count));
    free(tallies.at);
    return list;
}

static void print_as_json(const struct validation *v)
{
    const struct scores *scores = &v->scores;
    json_t *root = json_object();
    json_object_set_new(root, "rows", json_integer(scores->num_rows));
    json_object_set_new(root, "core_groups", json_integer(scores->num_core_groups));
    json_object_set_new(root, "scored", json_integer(scores->num_scored));
    json_object_set_new(root, "skipped", skipped_json(v));
    for (int kind = 0; kind < NUM_SCORE_KINDS; kind++)
        json_object_set_new(root, score_kind_names[kind], kind_json(scores, (enum score_kind)kind));
    json_object_set_new(root, "mean_of_medians", number(scores->mean_of_medians));
    json_object_set_new(root, "worst_rows", worst_json(v));
    json_object_set_new(root, "assumptions", assumptions_json(v));
    print_json(root);
    json_decref(root);
}

/* --- tables ---------------------------------------------------------------------------------- */

static void add_percent(struct text *line, double value, bool with_sign)
{
    char word[32] = "-";
    if (isfinite(value))
        snprintf(word, sizeof word, with_sign ? "%+.1f %%" : "%.1f %%", 100 * value);
    text_add_padded(line, word, -10);
}

static void add_score(struct text *out, const char *name, int width, const struct score *score)
{
    char groups[16];
    snprintf(groups, sizeof groups, "%d", score->groups);
    text_add(out, "  ");
    text_add_padded(out, name, width);
    text_add_padded(out, groups, -8);
    add_percent(out, score->median, false);
    add_percent(out, score->mean, false);
    add_percent(out, score->p90, false);
    add_percent(out, score->worst, false);
    add_percent(out, score->bias, true);
    text_add(out, "\n");
}

static int widest_source(const struct scores *scores)
{
    int width = 8;
    for (int i = 0; i < scores->num_sources; i++) {
        int columns = text_columns(scores->sources[i].source);
        width = columns > width ? columns : width;
    }
    return width + 1;
}

/* One of a split score's three. */
typedef const struct score *score_part(const struct split_score *split);

static const struct score *fitted_part(const struct split_score *split)
{
    return &split->fitted;
}

static const struct score *not_fitted_part(const struct split_score *split)
{
    return &split->not_fitted;
}

static bool has_groups(const struct scores *scores, enum score_kind kind, score_part *part)
{
    for (int i = 0; i < scores->num_sources; i++)
        if (part(&scores->sources[i].kind[kind])->groups > 0)
            return true;
    return false;
}

static void add_table(struct text *out, const struct scores *scores, const char *title,
                      enum score_kind kind, score_part *part)
{
    static const char *const heads[] = { "groups", "median", "mean", "P90", "worst", "bias" };
    int width = widest_source(scores);
    if (!has_groups(scores, kind, part))
        return;
    text_add(out, "\n%s\n  ", title);
    text_add_padded(out, "source", width);
    for (int i = 0; i < 6; i++)
        text_add_padded(out, heads[i], i == 0 ? -8 : -10);
    text_add(out, "\n");
    for (int i = 0; i < scores->num_sources; i++) {
        const struct score *score = part(&scores->sources[i].kind[kind]);
        if (score->groups > 0)
            add_score(out, scores->sources[i].source, width, score);
    }
}

static void add_tallies(struct text *out, const struct tallies *tallies, int most)
{
    int shown = tallies->count < most ? tallies->count : most;
    for (int i = 0; i < shown; i++)
        text_add(out, "  %6d  %s\n", tallies->at[i].count, tallies->at[i].text);
    if (tallies->count > shown)
        text_add(out, "          and %d more\n", tallies->count - shown);
}

static void add_choice(struct text *out, const char *what, const char *chosen)
{
    if (chosen)
        text_add(out, "%s %s for every row", what, chosen);
    else
        text_add(out, "the %s that a row's words mean", what);
}

static void add_choices(struct text *out, const struct options *options)
{
    add_choice(out, "cluster", options->cluster);
    text_add(out, ", ");
    add_choice(out, "stack", options->stack);
}

static void add_assumptions(struct text *out, const struct validation *v,
                            const struct options *options)
{
    struct tallies tallies = tally_assumptions(v);
    text_add(out, "Assumed: ");
    if (!options->cluster && !options->stack)
        text_add(out, "the cluster and the stack that a row's words mean");
    else
        add_choices(out, options);
    text_add(out, tallies.count > 0 ? "; by rows:\n" : "\n");
    add_tallies(out, &tallies, options->verbose ? INT_MAX : 12);
    text_add(out, "\n");
    free(tallies.at);
}

static void add_skipped(struct text *out, const struct validation *v, bool all)
{
    struct tallies tallies = tally_reasons(v);
    if (tallies.count > 0)
        text_add(out, "\nSkipped rows\n");
    add_tallies(out, &tallies, all ? INT_MAX : 20);
    free(tallies.at);
}

static void add_worst(struct text *out, const struct validation *v)
{
    if (v->scores.num_scored > 0)
        text_add(out, "\nWorst rows\n");
    for (int i = 0; i < v->scores.num_scored && i < NUM_WORST; i++) {
        int row = v->scores.worst[i];
        char predicted[32], measured[32];
        units_show(v->predictions[row].step_s, QUANTITY_SECONDS, predicted, sizeof predicted);
        units_show(run_measured_s(&v->rows.at[row]), QUANTITY_SECONDS, measured, sizeof measured);
        text_add(out, "  ");
        text_add_padded(out, v->rows.at[row].id, 28);
        text_add(out, " predicted ");
        text_add_padded(out, predicted, -8);
        text_add(out, ", measured ");
        text_add_padded(out, measured, -8);
        add_percent(out, run_error(&v->cases[row], &v->predictions[row]), true);
        text_add(out, "\n");
    }
}

static void print_as_text(const struct validation *v, const struct options *options)
{
    const struct scores *scores = &v->scores;
    struct text out = { 0 };
    if (!options->quiet)
        add_assumptions(&out, v, options);
    text_add(&out,
             "%d row%s, %d configuration%s to score, %d scored; errors are "
             "|log(predicted / measured)|\n",
             scores->num_rows, scores->num_rows == 1 ? "" : "s", scores->num_core_groups,
             scores->num_core_groups == 1 ? "" : "s", scores->num_scored);
    add_table(&out, scores, "Step time, dense, rows that nothing was fitted on", SCORE_DENSE,
              not_fitted_part);
    add_table(&out, scores, "Step time, dense, rows that constants were fitted on", SCORE_DENSE,
              fitted_part);
    add_table(&out, scores, "Step time, mixture of experts", SCORE_MOE, not_fitted_part);
    add_table(&out, scores, "Step time, mixture of experts, fitted", SCORE_MOE, fitted_part);
    add_table(&out, scores, "Memory, rows that nothing was fitted on", SCORE_MEMORY,
              not_fitted_part);
    add_table(&out, scores, "Memory, rows that constants were fitted on", SCORE_MEMORY,
              fitted_part);
    if (isfinite(scores->mean_of_medians))
        text_add(&out, "\nMean over dense sources of the median: %.1f %%\n",
                 100 * scores->mean_of_medians);
    if (!options->quiet) {
        add_skipped(&out, v, options->verbose);
        add_worst(&out, v);
    }
    fputs(text_get(&out), stdout);
    text_release(&out);
}

/* --- the command ----------------------------------------------------------------------------- */

/* The dense source that is furthest beyond. */
static int judge(const struct scores *scores, double tolerance, struct err *err)
{
    const struct source_score *worst = NULL;
    for (int i = 0; i < scores->num_sources; i++) {
        const struct score *score = &scores->sources[i].kind[SCORE_DENSE].all;
        if (score->groups > 0 && (!worst || score->median > worst->kind[SCORE_DENSE].all.median))
            worst = &scores->sources[i];
    }
    if (!worst) {
        err_set(err, ERR_INFEASIBLE, "--tolerance", "no dense source was scored");
        return EXIT_TOLERANCE;
    }
    double median = worst->kind[SCORE_DENSE].all.median;
    if (median <= tolerance)
        return EXIT_DONE;
    err_set(err, ERR_INFEASIBLE, worst->source, "the median error, %.3g, is beyond %.3g", median,
            tolerance);
    return EXIT_TOLERANCE;
}

static int validate(struct validation *v, const struct options *options, struct err *err)
{
    if (!load_rows(v, options, err) || (options->source && !keep_source(v, options->source, err)) ||
        !predict_rows(v, options, err) ||
        (options->predictions && !write_predictions(v, options->predictions, err)))
        return exit_code_of(err);
    if (options->json)
        print_as_json(v);
    else
        print_as_text(v, options);
    return options->tolerance < 0 ? EXIT_DONE : judge(&v->scores, options->tolerance, err);
}

int cmd_validate(int argc, char **argv, struct err *err)
{
    struct options options;
    struct validation v = { 0 };
    if (!options_parse(COMMAND_VALIDATE, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    int code = validate(&v, &options, err);
    run_systems_free(v.systems);
    arena_release(&v.arena);
    return code;
}
