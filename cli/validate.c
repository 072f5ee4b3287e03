/* cli/validate.c - scores predictions against measured runs. */
#include "base/file.h"
#include "base/parallel.h"
#include "cli/input/command.h"
#include "cli/score/validation.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* --- reading rows ---------------------------------------------------------------------------- */

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
        return err_set(err, ERR_USAGE, "--source", "no row has the source \"%s\"%s%s%s", source,
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
    if (options->learned && !learned_load(options->learned, &v->learned, err))
        return false;
    run_systems_learn(v->systems, &v->learned);
    v->cases = ARENA_ARRAY(&v->arena, struct run_case, count);
    v->predictions = ARENA_ARRAY(&v->arena, struct run_prediction, count);
    for (int i = 0; i < v->rows.count; i++)
        if (!run_convert(v->systems, &v->rows.at[i], &v->cases[i], err))
            return false;
    int jobs = options->jobs > 0 ? options->jobs : parallel_cores();
    runs_predict(v->cases, v->rows.count, jobs, v->predictions);
    v->scores = runs_score(v->cases, v->predictions, v->rows.count, &v->arena);
    v->preferences = runs_prefer(v->cases, v->predictions, &v->scores, &v->arena);
    v->choices = runs_choose(v->cases, v->predictions, &v->scores, &v->arena);
    v->intervals = runs_need(v->cases, v->predictions, &v->scores, &v->arena);
    if (options->fit.why || options->fit.report)
        v->why = runs_diagnose(v->cases, v->predictions, &v->scores, jobs, &v->arena);
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

/* --- the command ----------------------------------------------------------------------------- */

/* Fails if a dense source exceeds the tolerance; the error names the worst one. */
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
    err_set(err, ERR_INFEASIBLE, worst->source, "the median error, %.3g, is above %.3g", median,
            tolerance);
    return EXIT_TOLERANCE;
}

static int validate(struct validation *v, const struct options *options, struct err *err)
{
    if (!load_rows(v, options, err) ||
        (options->fit.source && !keep_source(v, options->fit.source, err)) ||
        !predict_rows(v, options, err) ||
        (options->fit.predictions && !write_predictions(v, options->fit.predictions, err)) ||
        (options->fit.report && !validation_write_report(v, options->fit.report, err)))
        return exit_code_of(err);
    if (options->json)
        validation_print_json(v);
    else if (!options_answer_is_hidden(options))
        validation_print_text(v, options);
    return options->fit.tolerance < 0 ? EXIT_DONE : judge(&v->scores, options->fit.tolerance, err);
}

int cmd_validate(int argc, char **argv, struct err *err)
{
    struct options options;
    struct validation v = { 0 };
    if (!options_parse(COMMAND_VALIDATE, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    int code = validate(&v, &options, err);
    run_systems_free(v.systems);
    learned_release(&v.learned);
    arena_release(&v.arena);
    return code;
}
