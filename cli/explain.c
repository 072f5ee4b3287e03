/* cli/explain.c - why a plan costs what it costs: the textbook's formulas beside the detailed
 * prediction, or one plan beside another. */
#include "base/text.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/scale.h"
#include "cli/setup.h"
#include "cli/show.h"
#include "cli/terminal.h"
#include "sim/cost/compute.h"
#include "sim/cost/network.h"
#include "sim/textbook/estimate.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A line of the comparison. */
struct term {
    const char *name;     /* in JSON */
    const char *parts[2]; /* of struct time_parts, by their names */
    const char *textbook; /* of struct textbook_estimate; NULL: the textbook leaves it out */
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
enum { NUM_TERMS = sizeof terms / sizeof *terms };

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

/* All of them are doubles. */
static double estimate_value(const struct textbook_estimate *estimate, const struct field *field)
{
    double value;
    memcpy(&value, (const char *)estimate + field->offset, sizeof value);
    return value;
}

static const struct field *estimate_field(const char *name)
{
    return fields_find(textbook_estimate_fields, num_textbook_estimate_fields, name);
}

static double textbook_s(const struct textbook_estimate *estimate, const struct term *term)
{
    return term->textbook ? estimate_value(estimate, estimate_field(term->textbook)) : 0;
}

/* --- the textbook's view of a plan -------------------------------------------------------- */

/* The wire that neighbours in the group talk over: inside a node, or a GPU's share of NICs. */
static struct textbook_link link_of(const struct system *system, const struct comm_group *group)
{
    const struct cluster *cluster = &system->cluster;
    const struct level *level = &cluster->levels[0];
    if (group->num_nodes <= 1 || cluster->num_levels < 2)
        return (struct textbook_link){ level->latency_s, level->bytes_per_s };
    level = &cluster->levels[1];
    return (struct textbook_link){ level->latency_s, level->bytes_per_s * level->nics_per_gpu };
}

static enum textbook_keep keep_of(const struct plan *plan, const struct system *system)
{
    bool fused = plan_attention_kernel(plan, system) != ATTENTION_UNFUSED;
    if (plan->recompute >= RECOMPUTE_FULL)
        return plan->sp ? TEXTBOOK_KEEP_SEQUENCE_INPUT : TEXTBOOK_KEEP_INPUT;
    if (plan->recompute == RECOMPUTE_SELECTIVE || fused)
        return plan->sp ? TEXTBOOK_KEEP_SEQUENCE_SELECTIVE : TEXTBOOK_KEEP_SELECTIVE;
    return plan->sp ? TEXTBOOK_KEEP_SEQUENCE : TEXTBOOK_KEEP_ALL;
}

/* fp8 on two copies of the weights, as recipes with one scale a tensor have them on Hopper. */
static const struct textbook_recipe *recipe_of(enum precision precision)
{
    const struct fp8_recipe *fp8 = precision_fp8(precision);
    if (!fp8)
        return textbook_recipe_find(precision_names[precision]);
    return textbook_recipe_find(fp8->needs_blackwell ? "mxfp8" : "fp8-transposed");
}

/* Its compute rate is what the profile says of long products, so that the rest of the difference is
 * not a matter of one constant. */
static struct textbook_setup textbook_of(const struct setup *setup, const struct plan *plan)
{
    const struct system *system = &setup->system;
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
    struct comm_group tensor = network_axis_group(system, plan, AXIS_TENSOR);
    struct comm_group pair = network_stage_pair(system, plan);
    struct comm_group data = network_axis_group(system, plan, AXIS_DATA);
    return (struct textbook_setup){
        .model = &setup->model,
        .tensor = plan->tp,
        .pipeline = plan->pp,
        .chunks = plan->vpp,
        .data = plan->dp * plan->cp,
        .microbatch = plan->microbatch,
        .batch = (int)setup->model.batch * plan->cp, /* cp ranks share a sequence */
        .seq = setup->model.seq / plan->cp,
        .zero = plan->zero,
        .recipe = recipe_of((enum precision)plan->precision),
        .keep = keep_of(plan, system),
        .peak_flops_per_s = system->gpu.peak_flops_per_s[dtype],
        .utilization = gemm_efficiency(&system->profile, dtype),
        .tensor_link = link_of(system, &tensor),
        .pipeline_link = link_of(system, &pair),
        .data_link = link_of(system, &data),
    };
}

/* --- JSON --------------------------------------------------------------------------------- */

static json_t *link_json(const struct textbook_link *link)
{
    return json_pack("{s:f, s:f}", "latency_s", link->latency_s, "bytes_per_s", link->bytes_per_s);
}

static json_t *textbook_json(const struct textbook_setup *setup,
                             const struct textbook_estimate *estimate)
{
    json_t *object = json_object(), *formulas = json_object();
    for (size_t i = 0; i < num_textbook_estimate_fields; i++) {
        const struct field *field = &textbook_estimate_fields[i];
        json_object_set_new(object, field->name, json_real(estimate_value(estimate, field)));
        json_object_set_new(formulas, field->name, json_string(field->doc));
    }
    json_object_set_new(object, "peak_flops_per_s", json_real(setup->peak_flops_per_s));
    json_object_set_new(object, "utilization", json_real(setup->utilization));
    json_object_set_new(object, "tensor_link", link_json(&setup->tensor_link));
    json_object_set_new(object, "pipeline_link", link_json(&setup->pipeline_link));
    json_object_set_new(object, "data_link", link_json(&setup->data_link));
    json_object_set_new(object, "formulas", formulas);
    return object;
}

/* The terms in order, what they sum to being exactly `total_s`: what rounding leaves is in the last
 * of them. */
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

/* --- text --------------------------------------------------------------------------------- */

static void add_cell(const struct terminal *terminal, struct text *line, double value, int decimals,
                     bool is_signed)
{
    struct text cell = { 0 };
    bool is_zero = fabs(value) < 0.5 * pow(10, -decimals);
    const char *sign = is_zero || !is_signed ? "" : value < 0 ? terminal_minus(terminal) : "+";
    text_add(&cell, "%s%.*f", sign, decimals, fabs(is_zero ? 0 : value));
    text_add_padded(line, text_get(&cell), -11);
    text_release(&cell);
}

struct row {
    const char *name;
    double left, right; /* shown as they are, then right less left */
    const char *remark;
};

static void show_row(const struct terminal *terminal, const struct row *row, int decimals)
{
    struct text line = { 0 };
    text_add(&line, "  %-16s", row->name);
    add_cell(terminal, &line, row->left, decimals, false);
    add_cell(terminal, &line, row->right, decimals, false);
    add_cell(terminal, &line, row->right - row->left, decimals, true);
    if (*row->remark)
        text_add(&line, "   %s%s%s", terminal_dim(terminal), row->remark, terminal_plain(terminal));
    printf("%s\n", text_get(&line));
    text_release(&line);
}

static void add_link(struct text *out, const char *name, const struct textbook_link *link)
{
    char latency[32], bandwidth[32];
    units_show(link->latency_s, QUANTITY_SECONDS, latency, sizeof latency);
    units_show(link->bytes_per_s, QUANTITY_BYTES_PER_S, bandwidth, sizeof bandwidth);
    text_add(out, "%s %s and %s", name, latency, bandwidth);
}

static void show_textbook_assumptions(const struct terminal *terminal,
                                      const struct textbook_setup *setup)
{
    const char *dot = terminal_dot(terminal);
    struct text line = { 0 };
    char peak[32];
    units_show(setup->peak_flops_per_s, QUANTITY_FLOPS_PER_S, peak, sizeof peak);
    text_add(&line, "N %d GPUs%sF %s%sU %.2f, the profile's rate of long products%s", //
             setup->tensor * setup->pipeline * setup->data, dot, peak, dot, setup->utilization,
             dot);
    text_add(&line, "state in %s\n  alpha and B: ", setup->recipe->name);
    add_link(&line, "tensor", &setup->tensor_link);
    text_add(&line, "%s", dot);
    add_link(&line, "pipeline", &setup->pipeline_link);
    text_add(&line, "%s", dot);
    add_link(&line, "data", &setup->data_link);
    printf("\n  the textbook takes  %s\n", text_get(&line));
    printf("  and that nothing overlaps, all GPUs and stages are alike, and a layer has 12 h^2 "
           "parameters\n");
    text_release(&line);
}

static void show_times(const struct terminal *terminal, const struct textbook_estimate *estimate,
                       const struct prediction *prediction)
{
    struct time_scale scale = time_scale_of(prediction->step_s);
    int decimals = scale.decimals + 1;
    printf("\n  %s%-16s%11s%11s%11s%s\n", terminal_bold(terminal),
           scale.per_s > 1e3 ? "time, us"
           : scale.per_s > 1 ? "time, ms"
                             : "time, s",
           "textbook", "detailed", "difference", terminal_plain(terminal));
    for (int i = 0; i < NUM_TERMS; i++) {
        double left_s = textbook_s(estimate, &terms[i]);
        double right_s = detailed_s(&prediction->time, &terms[i]);
        const char *formula = terms[i].textbook ? estimate_field(terms[i].textbook)->doc
                                                : "not in the textbook's model";
        if (left_s == 0 && right_s == 0)
            continue;
        struct row row = { terms[i].name, left_s * scale.per_s, right_s * scale.per_s, formula };
        show_row(terminal, &row, decimals);
    }
    struct row step = { "step", estimate->step_s * scale.per_s, prediction->step_s * scale.per_s,
                        "" };
    show_row(terminal, &step, decimals);
}

/* Of stage 0, which the textbook's memory is that of. */
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
    printf("\n  %s%-16s%11s%11s%11s%s\n", terminal_bold(terminal), "memory, GiB", "textbook",
           "detailed", "difference", terminal_plain(terminal));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct field *field = estimate_field(rows[i].field);
        struct row row = { rows[i].name, estimate_value(estimate, field) / GIB,
                           rows[i].detailed / GIB, field->doc };
        show_row(terminal, &row, 2);
    }
}

/* --- one plan beside the textbook --------------------------------------------------------- */

static void explain_one(const struct options *options, const struct setup *setup)
{
    struct terminal terminal = terminal_of_stdout();
    struct textbook_setup textbook = textbook_of(setup, &setup->plan);
    struct textbook_estimate estimate = textbook_estimate(&textbook);
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
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
        json_object_set(json, "assumptions", setup->assumptions);
        print_json(json);
        json_decref(json);
    } else {
        if (!options->quiet)
            show_header(&terminal, setup);
        show_plan(&terminal, setup, "PLAN", &setup->plan, &prediction, options->verbose);
        show_textbook_assumptions(&terminal, &textbook);
        show_times(&terminal, &estimate, &prediction);
        show_memory(&terminal, &estimate, &prediction);
    }
    evaluator_free(evaluator);
}

/* --- one plan beside another -------------------------------------------------------------- */

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
    printf("\n  %s%-16s%11s%11s%11s%s\n", terminal_bold(&terminal),
           scale.per_s > 1e3 ? "time, us"
           : scale.per_s > 1 ? "time, ms"
                             : "time, s",
           "first", "second", "difference", terminal_plain(&terminal));
    for (int i = 0; i < num_time_parts; i++) {
        double left_s = time_part_s(&a->time, i);
        double right_s = time_part_s(&b->time, i);
        struct row row = { time_part_table[i].label, left_s * scale.per_s, right_s * scale.per_s,
                           "" };
        if (left_s != 0 || right_s != 0)
            show_row(&terminal, &row, decimals);
    }
    struct row step = { "step", a->step_s * scale.per_s, b->step_s * scale.per_s, "" };
    struct row memory = { "memory, GiB", a->peak_memory_bytes / GIB, b->peak_memory_bytes / GIB,
                          "heaviest stage" };
    show_row(&terminal, &step, decimals);
    show_row(&terminal, &memory, 2);
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

/* The second plan: a file of its own, or another layout for what the first was asked about. */
static bool load_second(const struct options *options, struct setup *second, struct err *err)
{
    struct options other = *options;
    if (options->num_files > 1)
        return setup_load(&other, options->files[1], second, err);
    other.layout = options->compare;
    return setup_load(&other, options->num_files > 0 ? options->files[0] : NULL, second, err);
}

static bool check_arguments(const struct options *options, struct err *err)
{
    if (options->num_files == 0 && !options->layout)
        return err_set(err, ERR_USAGE, "--layout",
                       "is missing; expected a layout like \"tp8 pp16 mb1 sp zero1\", or a plan "
                       "file");
    if (options->num_files > 1 && (options->compare || options->layout))
        return err_set(err, ERR_USAGE, options->compare ? "--compare" : "--layout",
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
    bool has_second = options.num_files > 1 || options.compare;
    if (!setup_load(&options, options.num_files > 0 ? options.files[0] : NULL, &first, err) ||
        (has_second && !load_second(&options, &second, err)))
        goto done;
    if (!has_second && first.model.batch * first.plan.cp > INT_MAX)
        err_set(err, ERR_USAGE, "--batch", "%.0f x cp %d is more than the textbook's formulas take",
                first.model.batch, first.plan.cp);
    else if (has_second)
        explain_both(&options, &first, &second);
    else
        explain_one(&options, &first);
done:
    setup_release(&first);
    setup_release(&second);
    return exit_code_of(err);
}
