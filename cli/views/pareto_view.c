/* "search --pareto": shows the plans that no other plan dominates in time, memory and number of
 * GPUs. */
#include "cli/views/pareto_view.h"

#include "base/length.h"
#include "base/units.h"
#include "cli/input/command.h"
#include "cli/print/scale.h"
#include "cli/views/answer.h"
#include "cli/views/goodput_view.h"
#include "cli/views/infeasible.h"
#include "cli/views/progress_bar.h"
#include "cli/views/searched.h"
#include "cli/views/show.h"
#include "search/questions/pareto.h"

#include <stdio.h>
#include <string.h>

/* A slower plan is shown only if it saves this fraction of a GPU's memory. */
#define SHOWN_SAVING 0.1

bool check_pareto_options(const struct options *options, struct err *err)
{
    const struct {
        const char *name;
        bool is_given;
    } others[] = {
        { "--compare", options->search.compare != NULL },
        { "--output", options->output != NULL },
        { "--certificate", options->search.certificate != NULL },
        { "--deadline", options->search.deadline_s > 0 },
        { "--robust", options->search.robust_words != NULL },
        { "--top", options->top > 0 },
        { "--uneven", options->search.uneven },
        { "--recompute-mixes", options->search.recompute_mixes },
        { "--recompute-modules", options->search.recompute_modules == PARTS_ALL },
        { "--objective", options->search.objective != OBJECTIVE_TIME },
        { "--method", options->search.method && strcmp(options->search.method, "exhaustive") != 0 },
    };
    for (size_t i = 0; options->search.pareto && i < LENGTH(others); i++)
        if (others[i].is_given)
            return err_set(err, ERR_USAGE, others[i].name,
                           "cannot be combined with --pareto, which searches only the divisions of "
                           "layers over stages that Megatron has");
    return true;
}

/* The setup on another number of GPUs; borrows all data from `setup`. */
static struct setup setup_on(const struct setup *setup, int num_gpus)
{
    struct setup other = *setup;
    other.system.num_gpus = num_gpus;
    return other;
}

/* --- JSON --------------------------------------------------------------------------------- */

static json_t *plan_on_front_json(const struct setup *setup, const struct pareto_plan *plan)
{
    struct setup other = setup_on(setup, plan->num_gpus);
    const struct prediction *prediction = &plan->scored.prediction;
    json_t *object = prediction_json(&other, &plan->scored.plan, prediction, false);
    json_object_set_new(object, "gpus", json_integer(plan->num_gpus));
    double margin_bytes = setup->memory_bytes - prediction->peak_memory_bytes;
    json_object_set_new(object, "margin_bytes", number_json((double)(json_int_t)margin_bytes));
    return object;
}

static json_t *pareto_json(const struct setup *setup, const struct pareto_result *result)
{
    json_t *object = json_object(), *front = json_array(), *counts = json_array();
    for (int i = 0; i < result->count; i++)
        json_array_append_new(front, plan_on_front_json(setup, &result->at[i]));
    for (int i = 0; i < result->num_counts; i++)
        json_array_append_new(counts, json_integer(result->counts[i]));
    json_object_set_new(object, "version", json_string(SIMSEARCH_VERSION));
    json_object_set_new(object, "model", json_string(setup->model.name));
    json_object_set_new(object, "cluster", json_string(setup->system.cluster.name));
    json_object_set_new(object, "stack", json_string(setup->system.stack.name));
    json_object_set_new(object, "gpus", json_integer(setup->system.num_gpus));
    json_object_set_new(object, "space_name", json_string(result->space_name));
    json_object_set_new(object, "pareto", front);
    json_object_set_new(object, "pareto_size", json_integer(result->num_on_front));
    json_object_set_new(object, "counts", counts);
    json_object_set_new(object, "space",
                        json_pack("{s:o, s:o, s:o}", "candidates", number_json(result->candidates),
                                  "evaluated", number_json(result->evaluated), "bounded",
                                  number_json(result->bounded)));
    json_object_set_new(object, "elapsed_s", json_real(result->elapsed_s));
    json_object_set(object, "assumptions", setup->assumptions);
    return object;
}

/* --- the table ---------------------------------------------------------------------------- */

static void show_swept(const struct setup *setup, const struct pareto_result *result,
                       bool shows_all)
{
    struct text line = { 0 };
    char elapsed[32];
    units_show(result->elapsed_s, QUANTITY_SECONDS, elapsed, sizeof elapsed);
    text_add(&line, "searched ");
    add_count(&line, result->candidates);
    text_add(&line, " plans for %d different numbers of GPUs in %s: ", result->num_counts, elapsed);
    add_count(&line, result->evaluated);
    text_add(&line, " timed, ");
    add_count(&line, result->bounded);
    text_add(&line,
             " ruled out by a bound\n"
             "%d plans for which no other plan is better in GPUs, step time and memory at once",
             result->num_on_front);
    if (!shows_all)
        text_add(
            &line,
            "; %d of them shown: the fastest, and slower plans that need at least %.1f GiB less "
            "memory than a plan above",
            result->count, SHOWN_SAVING * setup->memory_bytes / GIB);
    printf("%s\n", text_get(&line));
    text_release(&line);
}

static void show_row(const struct setup *setup, const struct pareto_plan *plan, bool is_first)
{
    const struct prediction *p = &plan->scored.prediction;
    struct setup other = setup_on(setup, plan->num_gpus);
    struct text row = { 0 };
    if (is_first)
        text_add(&row, "\n  %7d", plan->num_gpus);
    else
        text_add(&row, "  %7s", "");
    text_add(&row, " %9.4g %5.1f %7.1f %7.1f", p->step_s, 100 * p->mfu, p->peak_memory_bytes / GIB,
             (setup->memory_bytes - p->peak_memory_bytes) / GIB);
    if (setup->model.tokens > 0)
        text_add(&row, " %9.4g", days_to_train(&other, p));
    if (setup->model.tokens > 0 && setup->system.cluster.price_per_gpu_h > 0) {
        char dollars[32];
        units_show_count(dollars_to_train(&other, p), dollars, sizeof dollars);
        text_add(&row, " %9s", dollars);
    }
    text_add(&row, "  ");
    plan_write(&plan->scored.plan, &row);
    printf("%s\n", text_get(&row));
    text_release(&row);
}

static void show_front(const struct setup *setup, const struct pareto_result *result)
{
    if (result->count == 0)
        return;
    bool with_days = setup->model.tokens > 0;
    bool with_price = with_days && setup->system.cluster.price_per_gpu_h > 0;
    printf("\n  %7s %9s %5s %7s %7s%s%s  layout\n", "GPUs", "step s", "MFU", "GiB", "margin",
           with_days ? "      days" : "", with_price ? "         $" : "");
    for (int i = 0; i < result->count; i++)
        show_row(setup, &result->at[i],
                 i == 0 || result->at[i].num_gpus != result->at[i - 1].num_gpus);
}

/* Shows the fastest plan of all numbers of GPUs. */
static void show_fastest_run(const struct terminal *terminal, const struct setup *setup,
                             const struct pareto_result *result)
{
    const struct pareto_plan *fastest = NULL;
    for (int i = 0; i < result->count; i++)
        if (!fastest || result->at[i].scored.prediction.step_s < fastest->scored.prediction.step_s)
            fastest = &result->at[i];
    if (!fastest)
        return;
    struct setup other = setup_on(setup, fastest->num_gpus);
    show_goodput(terminal, &other, &fastest->scored.plan, &fastest->scored.prediction);
}

/* --- the answer --------------------------------------------------------------------------- */

static int exit_code_of_front(const struct pareto_result *result, struct err *err)
{
    if (result->was_interrupted)
        return EXIT_INTERRUPTED;
    if (result->timed_out)
        return EXIT_TIME_LIMIT;
    if (result->count > 0)
        return EXIT_DONE;
    err_set(err, ERR_INFEASIBLE, "",
            "no plan fits on any of the %d numbers of GPUs up to %d; the search without --pareto "
            "shows why",
            result->num_counts, result->counts[result->num_counts - 1]);
    return EXIT_NO_PLAN;
}

static void print_front(const struct options *options, const struct setup *setup,
                        const struct pareto_result *result, const struct err *err)
{
    struct terminal terminal = terminal_of_stdout();
    if (options->json) {
        json_t *json = pareto_json(setup, result);
        if (err->code == ERR_INFEASIBLE)
            add_infeasible_json(json, NULL, err);
        print_json(json);
        json_decref(json);
        return;
    }
    if (!options->quiet) {
        show_header(&terminal, setup);
        show_swept(setup, result, options->verbose);
    }
    if (result->timed_out || result->was_interrupted)
        printf("%s: the search was not completed for every number of GPUs\n",
               result->timed_out ? "TIME LIMIT" : "INTERRUPTED");
    show_front(setup, result);
    show_fastest_run(&terminal, setup, result);
}

int answer_pareto(const struct options *options, const struct setup *setup,
                  struct search_request *request, struct err *err)
{
    struct pareto_result result;
    struct progress_bar progress_bar;
    progress_bar_begin(&progress_bar, options, request);
    double saving_bytes = options->verbose ? 0 : SHOWN_SAVING * setup->memory_bytes;
    bool ok = search_pareto(request, saving_bytes, &result, err);
    progress_bar_end(&progress_bar);
    int code = EXIT_FAILED;
    if (ok) {
        code = exit_code_of_front(&result, err);
        print_front(options, setup, &result, err);
    }
    pareto_result_release(&result);
    return err->code != ERR_NONE ? exit_code_of(err) : code;
}
