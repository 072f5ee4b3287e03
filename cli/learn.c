/* cli/learn.c - adapts a stack's constants to the user's own runs. */
#include "calibration/learn/learn.h"
#include "base/file.h"
#include "base/json_layout.h"
#include "base/parallel.h"
#include "base/text.h"
#include "calibration/learn/train_log.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "cli/run_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SHOWN = 10 };

struct learning {
    struct arena arena;
    struct learned earlier;
    struct learn_prior prior;
    struct run_systems *systems;
    struct run_rows rows; /* the rows of CSV files, then one row for each log */
    int num_csv_rows;
    struct setup described; /* model and system of the logged runs; loaded when there are logs */
    bool has_logs;
    struct run_case *cases;
    struct run_prediction *predictions;
    struct lessons lessons;
};

/* --- reading runs ---------------------------------------------------------------------------- */

static bool is_log(const char *path)
{
    return (!text_ends_in(path, ".csv") && !text_ends_in(path, ".json")) || trace_is(path);
}

static bool add_rows(struct learning *l, const char *path, struct err *err)
{
    struct run_rows more;
    if (!runs_load(path, &l->arena, &more, err))
        return false;
    struct run_row *all =
        ARENA_ARRAY(&l->arena, struct run_row, (size_t)l->rows.count + (size_t)more.count);
    if (l->rows.count > 0)
        memcpy(all, l->rows.at, (size_t)l->rows.count * sizeof *all);
    if (more.count > 0)
        memcpy(all + l->rows.count, more.at, (size_t)more.count * sizeof *all);
    l->rows = (struct run_rows){ all, l->rows.count + more.count };
    return true;
}

static bool load_prior(struct learning *l, const struct options *options, struct err *err)
{
    struct source_shifts shifts;
    if (options->learned && !learned_load(options->learned, &l->earlier, err))
        return false;
    bool ok = source_shifts_load(&shifts, err) && learn_prior_find(&shifts, NULL, &l->prior, err);
    source_shifts_release(&shifts);
    return ok;
}

/* --- logs ------------------------------------------------------------------------------------ */

/* Loads the run that the logs describe, from the options and, if there is one, a plan file. */
static bool load_described(struct learning *l, const struct options *options, struct err *err)
{
    const char *plan_path = NULL;
    struct options alone = *options;
    alone.learned = NULL; /* earlier learned constants enter as the prior, not in the prediction */
    for (int i = 0; i < options->num_files; i++)
        plan_path = text_ends_in(options->files[i], ".json") && !is_log(options->files[i])
                        ? options->files[i]
                        : plan_path;
    l->has_logs = true;
    if (!setup_load(&alone, plan_path, &l->described, err))
        return false;
    return l->described.has_plan || err_set(err, ERR_USAGE, "--layout",
                                            "is missing: a log does not state the whole plan; give "
                                            "a plan file, or --model, --gpus and --layout");
}

/* Adds a log as a row. If the log cannot be read, the row is marked unusable. */
static void add_log(struct learning *l, const char *path, struct run_row *row, struct run_case *out)
{
    const struct setup *run = &l->described;
    struct train_log log;
    struct err err = { 0 };
    *row = (struct run_row){ .id = path,
                             .source_key = path,
                             .config_group = "",
                             .measured_tokens_per_s_per_gpu = -1,
                             .derived_iter_s = -1 };
    *out = (struct run_case){ .row = row,
                              .skip = "",
                              .system = &l->described.system,
                              .model = run->model,
                              .plan = run->plan,
                              .pipeline_runs = 1,
                              .is_moe = run->model.experts > 0 };
    if (!train_log_read(path, &log, &err)) {
        out->skip = arena_text(&l->arena, err.msg);
        return;
    }
    out->skip = run_log_why_another(&log, &run->model, &l->arena);
    row->measured_iter_s =
        train_log_step_s(&log, run->model.batch, run->model.seq, run->system.num_gpus);
}

static bool add_logs(struct learning *l, const struct options *options, struct err *err)
{
    int logs = 0;
    for (int i = 0; i < options->num_files; i++)
        logs += is_log(options->files[i]);
    l->num_csv_rows = l->rows.count;
    size_t room = (size_t)l->rows.count + (size_t)logs;
    struct run_row *all = ARENA_ARRAY(&l->arena, struct run_row, room);
    l->cases = ARENA_ARRAY(&l->arena, struct run_case, room);
    if (l->rows.count > 0)
        memcpy(all, l->rows.at, (size_t)l->rows.count * sizeof *all);
    l->rows.at = all;
    if (logs > 0 && !load_described(l, options, err))
        return false;
    for (int i = 0; i < options->num_files; i++) {
        if (!is_log(options->files[i]))
            continue;
        if (!file_exists(options->files[i]))
            return err_set(err, ERR_INPUT, options->files[i], "no such file");
        add_log(l, options->files[i], &l->rows.at[l->rows.count], &l->cases[l->rows.count]);
        l->rows.count++;
    }
    return true;
}

static bool predict(struct learning *l, const struct options *options, struct err *err)
{
    size_t count = (size_t)l->rows.count;
    int jobs = options->jobs > 0 ? options->jobs : parallel_cores();
    l->systems = run_systems_new(options->cluster, options->stack, err);
    if (!l->systems)
        return false;
    l->predictions = ARENA_ARRAY(&l->arena, struct run_prediction, count);
    for (int i = 0; i < l->num_csv_rows; i++)
        if (!run_convert(l->systems, &l->rows.at[i], &l->cases[i], err))
            return false;
    runs_predict(l->cases, l->rows.count, jobs, l->predictions);
    return true;
}

/* --- output ---------------------------------------------------------------------------------- */

static const char *sort_of(const struct learned_stack *entry)
{
    return entry->experts ? "expert_time_ratio" : "time_ratio";
}

static void print_lesson(const struct lesson *lesson)
{
    const struct learned_stack *after = lesson->after;
    const struct learned_gpu *gpu = &after->gpus[lesson->gpu];
    printf("  %s%s on %s: factor on all times %.3f (before: %.3f), its standard deviation %.1f %% "
           "(before: %.1f %%); %d run%s\n    the factor is %s: factors of this stack lower the "
           "error with a probability of %.0f %% (limit %.0f %%)\n",
           after->stack, after->experts ? ", with experts" : "", gpu->profile,
           gpu->factor.time_ratio, lesson->ratio_before, 100 * gpu->factor.ratio_error,
           100 * lesson->error_before, gpu->num_ratios, gpu->num_ratios == 1 ? "" : "s",
           learned_chance(after) >= SURE_FACTOR ? "applied" : "not applied",
           100 * learned_chance(after), 100 * SURE_FACTOR);
}

static void print_other_gpus(const struct learned_stack *entry)
{
    printf("  %s%s on other GPUs: factor on all times %.3f, its standard deviation %.1f %%\n",
           entry->stack, entry->experts ? ", with experts" : "", entry->factor.time_ratio,
           100 * entry->factor.ratio_error);
}

static void print_ignored(const struct learning *l)
{
    int shown = 0;
    int ignored = l->rows.count - l->lessons.used;
    for (int i = 0; i < l->rows.count && shown < MOST_SHOWN; i++) {
        if (*l->lessons.reason[i] == '\0')
            continue;
        if (shown++ == 0)
            printf("not used:\n");
        printf("  %s: %s\n", l->rows.at[i].id, l->lessons.reason[i]);
    }
    if (ignored > shown)
        printf("  ... and %d more; --json lists all\n", ignored - shown);
}

static void print_text(const struct learning *l, const char *output)
{
    const struct lessons *lessons = &l->lessons;
    printf("learned from %d of %d runs\n", lessons->used, l->rows.count);
    for (int i = 0; i < lessons->count; i++)
        print_lesson(&lessons->at[i]);
    for (int i = 0; i < lessons->overlay.count; i++)
        print_other_gpus(&lessons->overlay.at[i]);
    printf("unchanged: stacks that no run used, and all other constants\nnot learned: separate "
           "factors for compute, communication and the host; one factor scales all times of a "
           "stack on a GPU\nprior: the errors of a source share a shift of %.1f %% and scatter by "
           "%.1f "
           "%% around it (standard deviations over %d sources, each left out of the fit in turn)\n",
           100 * l->prior.of[TIER_SEEN].scale, 100 * l->prior.scatter, l->prior.sources);
    print_ignored(l);
    if (lessons->count > 0)
        printf("\nnext  simsearch --gpus N --model MODEL --stack %s --learned %s\n",
               lessons->at[0].after->stack, output ? output : "mine.json");
}

static json_t *lesson_json(const struct lesson *lesson)
{
    const struct learned_stack *after = lesson->after;
    const struct learned_gpu *gpu = &after->gpus[lesson->gpu];
    char constant[96];
    snprintf(constant, sizeof constant, "stacks/%s: %s", after->stack, sort_of(after));
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "constant", constant,
                     "profile", gpu->profile, "before", lesson->ratio_before, "after",
                     gpu->factor.time_ratio, "sd_before", lesson->error_before, "sd_after",
                     gpu->factor.ratio_error, "p_better", learned_chance(after), "applied",
                     learned_ratio(after, gpu->profile), "runs", gpu->num_ratios);
}

static void print_document(const struct learning *l)
{
    json_t *ignored = json_array();
    json_t *learned = json_array();
    for (int i = 0; i < l->rows.count; i++)
        if (*l->lessons.reason[i])
            json_array_append_new(ignored, json_pack("{s:s, s:s}", "id", l->rows.at[i].id, "reason",
                                                     l->lessons.reason[i]));
    for (int i = 0; i < l->lessons.count; i++)
        json_array_append_new(learned, lesson_json(&l->lessons.at[i]));
    json_t *root = json_pack("{s:i, s:i, s:o, s:o, s:{s:f, s:f, s:i}}", "rows", l->rows.count,
                             "used", l->lessons.used, "ignored", ignored, "learned", learned,
                             "prior", "shift", l->prior.of[TIER_SEEN].scale, "scatter",
                             l->prior.scatter, "sources", l->prior.sources);
    print_json(root);
    json_decref(root);
}

static bool write_overlay(const struct learned *overlay, const char *path, struct err *err)
{
    struct text text = { 0 };
    json_t *root = learned_write(overlay);
    text_add_json(&text, root);
    json_decref(root);
    bool ok = file_write(path, text_get(&text), text.length, err);
    text_release(&text);
    return ok;
}

/* --- the command ----------------------------------------------------------------------------- */

static bool learn(struct learning *l, const struct options *options, struct err *err)
{
    if (options->num_files == 0)
        return err_set(err, ERR_USAGE, "learn", "expected measured runs: CSV files or logs");
    if (!load_prior(l, options, err))
        return false;
    for (int i = 0; i < options->num_files; i++)
        if (text_ends_in(options->files[i], ".csv") && !is_log(options->files[i]) &&
            !add_rows(l, options->files[i], err))
            return false;
    if (!add_logs(l, options, err) || !predict(l, options, err))
        return false;
    learn_from(l->cases, l->predictions, l->rows.count, &l->prior, &l->earlier, &l->lessons);
    if (options->output && !write_overlay(&l->lessons.overlay, options->output, err))
        return false;
    if (options->json)
        print_document(l);
    else if (!options_answer_is_hidden(options))
        print_text(l, options->output);
    return true;
}

int cmd_learn(int argc, char **argv, struct err *err)
{
    struct options options;
    struct learning l = { 0 };
    if (!options_parse(COMMAND_LEARN, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    learn(&l, &options, err);
    learned_release(&l.lessons.overlay);
    learned_release(&l.earlier);
    run_systems_free(l.systems);
    if (l.has_logs)
        setup_release(&l.described);
    arena_release(&l.arena);
    return exit_code_of(err);
}
