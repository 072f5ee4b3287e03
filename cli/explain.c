/* cli/explain.c - explains a plan's costs: textbook formulas next to the detailed prediction, or
 * two plans next to each other. */
#include "base/length.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/setup.h"
#include "cli/lecture/from_run.h"
#include "cli/lecture/lecture.h"
#include "cli/lecture/textbook_view.h"
#include "cli/partition_view.h"
#include "cli/print/beside.h"
#include "cli/print/scale.h"
#include "cli/print/terminal.h"
#include "cli/views/answer.h"
#include "cli/views/goodput_view.h"
#include "cli/views/routing_view.h"
#include "cli/views/show.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A term of the step time that is compared. */
struct term {
    const char *name;     /* name in JSON */
    const char *parts[2]; /* names of members of struct time_parts */
    const char *textbook; /* member of struct textbook_estimate; NULL: the textbook omits it */
};

static const struct term terms[] = {
    { "compute", { "compute_s", "recompute_s" }, "compute_s" },
    { "tensor_comm", { "tensor_comm_s" }, "tensor_comm_s" },
    { "context_comm", { "context_comm_s" }, NULL },
    { "expert_comm", { "expert_comm_s" }, NULL },
    { "pipeline_comm", { "pipeline_comm_s" }, "pipeline_comm_low_s" },
    { "bubble", { "bubble_s" }, "bubble_s" },
    { "data_comm", { "data_comm_s" }, "data_comm_s" },
    { "optimizer", { "optimizer_s" }, NULL },
    { "other", { "other_s" }, NULL },
};
enum { NUM_TERMS = LENGTH(terms), MOST_PARTS = 31 };

static double part_by_name(const struct time_parts *time, const char *name)
{
    for (int i = 0; name && i < num_time_parts; i++)
        if (strcmp(time_part_table[i].name, name) == 0)
            return time_part_s(time, i);
    return 0;
}

static double detailed_s(const struct time_parts *time, const struct term *term)
{
    return part_by_name(time, term->parts[0]) + part_by_name(time, term->parts[1]);
}

static double textbook_s(const struct textbook_estimate *estimate, const struct term *term)
{
    return term->textbook ? textbook_value(estimate, textbook_field(term->textbook)) : 0;
}

/* The terms in order. Their sum is exactly `total_s`, because the last term contains the rounding
 * error. */
static json_t *difference_json(const double seconds[NUM_TERMS], double total_s)
{
    json_t *list = json_array();
    double sum_s = 0;
    for (int i = 0; i < NUM_TERMS; i++) {
        double term_s = i < NUM_TERMS - 1 ? seconds[i] : total_s - sum_s;
        sum_s += term_s;
        json_array_append_new(list,
                              json_pack("{s:s, s:f}", "term", terms[i].name, "seconds", term_s));
    }
    return list;
}

static void show_time_heading(const struct terminal *terminal, struct time_scale scale,
                              const char *left, const char *right)
{
    char title[16];
    snprintf(title, sizeof title, "time, %s", scale.unit);
    show_beside_heading(terminal, title, left, right);
}

static void show_times(const struct terminal *terminal, const struct textbook_estimate *estimate,
                       const struct prediction *prediction)
{
    struct time_scale scale = time_scale_of(prediction->step_s);
    int decimals = scale.decimals + 1;
    struct beside rows[NUM_TERMS + 1];
    int count = 0;
    show_time_heading(terminal, scale, "textbook", "detailed");
    for (int i = 0; i < NUM_TERMS; i++) {
        double left_s = textbook_s(estimate, &terms[i]);
        double right_s = detailed_s(&prediction->time, &terms[i]);
        const char *remark = terms[i].textbook ? "" : "not in the textbook's model";
        if (left_s == 0 && right_s == 0)
            continue;
        rows[count++] =
            (struct beside){ terms[i].name, left_s * scale.per_s, right_s * scale.per_s, remark };
    }
    rows[count++] = (struct beside){ "step", estimate->step_s * scale.per_s,
                                     prediction->step_s * scale.per_s, "" };
    show_beside_sum(terminal, rows, count, decimals);
}

/* Shows the memory of stage 0, for which the textbook's formulas hold. */
static void show_memory(const struct terminal *terminal, const struct textbook_estimate *estimate,
                        const struct prediction *prediction)
{
    const struct stage_memory *stage = &prediction->stages[0];
    double parts = stage->weights_bytes + stage->gradients_bytes + stage->optimizer_bytes +
                   stage->activations_bytes;
    const struct {
        const char *name, *field;
        double detailed;
    } rows[] = {
        { "weights", "weights_bytes", stage->weights_bytes },
        { "gradients", "gradients_bytes", stage->gradients_bytes },
        { "optimizer", "optimizer_bytes", stage->optimizer_bytes },
        { "activations", "activations_bytes", stage->activations_bytes },
        { "the rest", "working_set_bytes", stage->total_bytes - parts },
        { "stage 0", "memory_bytes", stage->total_bytes },
    };
    struct beside shown[LENGTH(rows)];
    show_beside_heading(terminal, "memory, GiB", "textbook", "detailed");
    for (size_t i = 0; i < LENGTH(rows); i++) {
        double textbook = textbook_value(estimate, textbook_field(rows[i].field));
        shown[i] = (struct beside){ rows[i].name, textbook / GIB, rows[i].detailed / GIB, "" };
    }
    show_beside_sum(terminal, shown, LENGTH(rows), 2);
}

/* --- one plan and the textbook ------------------------------------------------------------ */

static void explain_one(const struct options *options, const struct setup *setup)
{
    struct terminal terminal = terminal_of_stdout();
    struct textbook_setup textbook = textbook_of(setup, &setup->plan);
    struct textbook_estimate estimate = textbook_estimate(&textbook);
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    struct lecture lecture = lecture_of(setup, &textbook, &estimate, &prediction);
    if (options->json) {
        double seconds[NUM_TERMS];
        for (int i = 0; i < NUM_TERMS; i++)
            seconds[i] = detailed_s(&prediction.time, &terms[i]) - textbook_s(&estimate, &terms[i]);
        json_t *json = json_object();
        json_object_set_new(json, "textbook", textbook_json(&textbook, &estimate));
        json_object_set_new(json, "detailed",
                            prediction_json(setup, &setup->plan, &prediction, false));
        json_object_set_new(json, "difference",
                            difference_json(seconds, prediction.step_s - estimate.step_s));
        json_object_set_new(json, "lecture", lecture_json(&lecture));
        json_object_set(json, "assumptions", setup->assumptions);
        add_routing_json(json, setup);
        print_json(json);
        json_decref(json);
    } else {
        if (!options->quiet)
            show_header(&terminal, setup);
        show_plan(&terminal, setup, "PLAN", &setup->plan, &prediction, options->verbose);
        show_textbook_setup(&terminal, &textbook);
        show_times(&terminal, &estimate, &prediction);
        show_memory(&terminal, &estimate, &prediction);
        show_routing(&terminal, setup);
        show_lecture(&terminal, &lecture);
        show_goodput(&terminal, setup, &setup->plan, &prediction);
    }
    lecture_release(&lecture);
    evaluator_free(evaluator);
}

static void explain_alone(const struct options *options, struct setup *setup)
{
    setup_note_storage(setup);
    explain_one(options, setup);
}

/* --- two plans ---------------------------------------------------------------------------- */

static void show_both(const struct options *options, const struct setup *first,
                      const struct setup *second, const struct prediction *a,
                      const struct prediction *b)
{
    struct terminal terminal = terminal_of_stdout();
    struct time_scale scale = time_scale_of(a->step_s);
    int decimals = scale.decimals + 1;
    if (!options->quiet)
        show_header(&terminal, first);
    show_plan(&terminal, first, "FIRST", &first->plan, a, options->verbose);
    show_plan(&terminal, second, "SECOND", &second->plan, b, options->verbose);
    struct beside rows[MOST_PARTS + 1];
    int count = 0;
    show_time_heading(&terminal, scale, "first", "second");
    for (int i = 0; i < num_time_parts && i < MOST_PARTS; i++) {
        double left_s = time_part_s(&a->time, i);
        double right_s = time_part_s(&b->time, i);
        if (left_s != 0 || right_s != 0)
            rows[count++] = (struct beside){ time_part_table[i].label, left_s * scale.per_s,
                                             right_s * scale.per_s, "" };
    }
    rows[count++] = (struct beside){ "step", a->step_s * scale.per_s, b->step_s * scale.per_s, "" };
    struct beside memory = { "memory, GiB", a->peak_memory_bytes / GIB, b->peak_memory_bytes / GIB,
                             "heaviest stage" };
    show_beside_sum(&terminal, rows, count, decimals);
    show_beside(&terminal, &memory, 2);
}

static void explain_both(const struct options *options, const struct setup *first,
                         const struct setup *second)
{
    struct evaluator *evaluator = evaluator_new(&first->system, &first->model);
    struct evaluator *other = evaluator_new(&second->system, &second->model);
    struct prediction a = evaluate(evaluator, &first->plan);
    struct prediction b = evaluate(other, &second->plan);
    if (options->json) {
        double seconds[NUM_TERMS];
        for (int i = 0; i < NUM_TERMS; i++)
            seconds[i] = detailed_s(&b.time, &terms[i]) - detailed_s(&a.time, &terms[i]);
        json_t *json = json_object();
        json_object_set_new(json, "first", prediction_json(first, &first->plan, &a, false));
        json_object_set_new(json, "second", prediction_json(second, &second->plan, &b, false));
        json_object_set_new(json, "difference", difference_json(seconds, b.step_s - a.step_s));
        json_object_set(json, "assumptions", first->assumptions);
        print_json(json);
        json_decref(json);
    } else {
        show_both(options, first, second, &a, &b);
    }
    evaluator_free(evaluator);
    evaluator_free(other);
}

/* --- the command -------------------------------------------------------------------------- */

/* Loads the second plan: its own file, or another layout for the first plan's model and system. */
static bool load_second(const struct options *options, struct setup *second, struct err *err)
{
    struct options other = *options;
    if (options->num_files > 1)
        return setup_load(&other, options->files[1], second, err);
    other.layout = options->search.compare;
    return setup_load(&other, options->num_files > 0 ? options->files[0] : NULL, second, err);
}

/* Rejects options that cannot be combined with --from-run. */
static bool check_run_alone(const struct options *options, struct err *err)
{
    const char *plan = options->num_files > 0 ? options->files[0] : NULL;
    const struct {
        const char *option;
        bool is_given;
    } others[] = {
        { plan, plan != NULL },
        { "--layout", options->layout != NULL },
        { "--compare", options->search.compare != NULL },
        { "--partition", options->partition },
        { "--gpus", options->gpus > 0 },
        { "--model", options->model != NULL },
        { "--cluster", options->cluster != NULL },
        { "--gpu", options->gpu != NULL },
        { "--stack", options->stack != NULL },
        { "--batch", options->batch != NULL },
        { "--seq", options->seq > 0 },
        { "--tokens", options->tokens > 0 },
        { "--precision", options->precision >= 0 },
        { "--optimizer", options->optimizer >= 0 },
        { "--train", options->train != NULL },
        { "--reference", options->reference },
        { "--reserve", options->reserve_bytes > 0 },
        { "--price", options->price > 0 },
    };
    for (size_t i = 0; i < LENGTH(others); i++)
        if (others[i].is_given)
            return err_set(err, ERR_USAGE, "--from-run",
                           "describes the whole run itself; expected no other option, found %s",
                           others[i].option);
    return true;
}

static bool check_arguments(const struct options *options, struct err *err)
{
    if (options->from_run)
        return check_run_alone(options, err);
    if (options->num_files == 0 && !options->layout)
        return err_set(err, ERR_USAGE, "--layout",
                       "is missing; expected a layout like \"tp8 pp16 mb1 sp zero1\", or a plan "
                       "file");
    if (options->num_files > 1 && (options->search.compare || options->layout))
        return err_set(err, ERR_USAGE, options->search.compare ? "--compare" : "--layout",
                       "expected at most two plans; found more");
    return true;
}

int cmd_explain(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup first = { 0 }, second = { 0 };
    if (!options_parse(COMMAND_EXPLAIN, 2, argc, argv, &options, err) ||
        !check_arguments(&options, err))
        return exit_code_of(err);
    if (options.from_run) {
        explain_from_run(&options, err);
        return exit_code_of(err);
    }
    bool has_second = options.num_files > 1 || options.search.compare;
    if (has_second && options.partition)
        err_set(err, ERR_USAGE, "--partition", "expected one plan; found two");
    if (err->code != ERR_NONE ||
        !setup_load(&options, options.num_files > 0 ? options.files[0] : NULL, &first, err) ||
        (has_second && !load_second(&options, &second, err)))
        goto done;
    if (options.partition)
        explain_partition(&options, &first, err);
    else if (!has_second && first.model.batch * first.plan.cp > INT_MAX)
        err_set(err, ERR_USAGE, "--batch",
                "%.0f x cp %d is more than the textbook's formulas can count", first.model.batch,
                first.plan.cp);
    else if (has_second)
        explain_both(&options, &first, &second);
    else
        explain_alone(&options, &first);
done:
    setup_release(&first);
    setup_release(&second);
    return exit_code_of(err);
}
