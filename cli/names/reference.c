/* Writes the reference page from the tables of the program. */
#include "cli/names/reference.h"

#include "base/length.h"
#include "calibration/fit/fit_table.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/views/goodput_view.h"
#include "exec/supported.h"
#include "models/blocks.h"
#include "models/corpus.h"
#include "models/model.h"
#include "search/robust.h"
#include "sim/campaign/convergence_file.h"
#include "sim/campaign/failures.h"
#include "sim/campaign/scaling.h"
#include "sim/collective/collective.h"
#include "sim/cost/hardware.h"
#include "sim/cost/unfused.h"
#include "sim/plan/axes.h"
#include "sim/plan/context_axis.h"
#include "sim/plan/tokens.h"
#include "sim/schedule/schedule.h"
#include "sim/textbook/estimate.h"

/* A section of the page: one type of file, or a part of it. */
struct section {
    const char *title;
    const struct field *fields;
    const size_t *num_fields;
};

static const struct section sections[] = {
    { "Model: models/presets/", model_fields, &num_model_fields },
    { "Model: one entry of `blocks`", block_fields, &num_block_fields },
    { "Text to train on: models/texts/", corpus_fields, &num_corpus_fields },
    { "GPU: calibration/hardware/", gpu_fields, &num_gpu_fields },
    { "Cluster: calibration/clusters/", cluster_fields, &num_cluster_fields },
    { "Cluster: one entry of `groups`", group_fields, &num_group_fields },
    { "Cluster: one level of a group", level_fields, &num_level_fields },
    { "Profile: calibration/profiles/", profile_fields, &num_profile_fields },
    { "Profile: provenance, by group of constants", provenance_fields, &num_provenance_fields },
    { "Profile: disturbed", disturbance_fields, &num_disturbance_fields },
    { "Profile: one attention kernel", attention_fields, &num_attention_fields },
    { "Profile: one entry of `collectives`", curve_fields, &num_curve_fields },
    { "Profile: one entry of `kernels`", kernel_fields, &num_kernel_fields },
    { "Stack: calibration/stacks/", stack_fields, &num_stack_fields },
    { "Stack: unfused, by op", unfused_fields, &num_unfused_fields },
    { "Stack: one op of `unfused`", unfused_op_fields, &num_unfused_op_fields },
    { "Stack: errors, half widths of 90 % intervals in log time", error_width_fields,
      &num_error_width_fields },
    { "Constants of convergence: --convergence", convergence_fields, &num_convergence_fields },
    { "Fits: calibration/fit.json", fit_table_fields, &num_fit_table_fields },
    { "Fits: one entry of `jobs`", fit_job_fields, &num_fit_job_fields },
    { "Fits: one constant of a job, by file and key", fit_constant_fields,
      &num_fit_constant_fields },
    { "Fits: one entry of `curves`", fit_curve_fields, &num_fit_curve_fields },
    { "Fits: intervals", width_rules_fields, &num_width_rules_fields },
    { "Fits: one entry of `ran`", fit_ran_fields, &num_fit_ran_fields },
    { "Fits: one set of rows of a job", fit_rows_fields, &num_fit_rows_fields },
};

void reference_write_fields(FILE *to)
{
    for (size_t i = 0; i < LENGTH(sections); i++) {
        fprintf(to, "%s### %s\n\n", i > 0 ? "\n" : "", sections[i].title);
        fprintf(to, "| key | type | values | default | meaning |\n|---|---|---|---|---|\n");
        fields_document(sections[i].fields, *sections[i].num_fields, to);
    }
}

/* Writes text in a table cell; escapes '|', which would end the cell. */
static void write_cell(const char *text, FILE *to)
{
    for (; *text; text++)
        fprintf(to, "%s%c", *text == '|' ? "\\" : "", *text);
}

static void write_row(const char *name, const char *meaning, const char *source, FILE *to)
{
    fprintf(to, "| `");
    write_cell(name, to);
    fprintf(to, "` | ");
    write_cell(meaning, to);
    fprintf(to, " |");
    if (source) {
        fprintf(to, " ");
        write_cell(source, to);
        fprintf(to, " |");
    }
    fprintf(to, "\n");
}

static void write_commands(FILE *to)
{
    fprintf(to, "## Commands\n\n| command | does |\n|---|---|\n");
    for (int i = 0; i < num_commands; i++)
        write_row(commands[i].name, commands[i].summary, NULL, to);
    fprintf(to, "\n## Options\n\n");
    options_document(to);
    fprintf(to, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (int i = 0; i < num_exit_meanings; i++)
        fprintf(to, "| %d | %s |\n", exit_meanings[i].code, exit_meanings[i].meaning);
}

static void write_layout(FILE *to)
{
    fprintf(to,
            "\n## Layout words\n\nWords may be in any order; an absent word takes its default.\n\n"
            "| word | meaning |\n|---|---|\n");
    for (int i = 0; i < plan_num_tokens(); i++)
        write_row(plan_token_at(i)->form, plan_token_at(i)->doc, NULL, to);
    fprintf(to, "\n## Rules\n\nA plan must keep these rules. They are checked in this order.\n\n"
                "| rule | meaning |\n|---|---|\n");
    for (int i = 0; i < plan_num_rules(); i++)
        write_row(plan_rule_at(i)->name, plan_rule_at(i)->summary, NULL, to);
    fprintf(to, "\n## What `run` refuses\n\nEach row is a layout word that cannot be run; "
                "everything else can.\n\n| word | why |\n|---|---|\n");
    for (int i = 0; i < num_run_refusals; i++)
        write_row(run_refusals[i].where, run_refusals[i].sentence, NULL, to);
}

static void write_exchanges(FILE *to)
{
    fprintf(to, "\n## Exchanges\n\nThe values of `exchange=`. Parameters follow the name after "
                "colons: those without a name first, then those written NAME=VALUE in any "
                "order.\n\n| exchange | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < num_exchange_methods; i++)
        write_row(exchange_methods[i].form, exchange_methods[i].summary, exchange_methods[i].source,
                  to);
    fprintf(to, "\n| parameter | exchange | meaning |\n|---|---|---|\n");
    for (int i = 0; i < num_exchange_methods; i++)
        for (int j = 0; j < MAX_EXCHANGE_PARAMETERS && exchange_methods[i].parameters[j].name; j++)
            fprintf(to, "| `%s` | `%s` | %s |\n", exchange_methods[i].parameters[j].name,
                    exchange_methods[i].name, exchange_methods[i].parameters[j].doc);
}

static void write_run(FILE *to)
{
    fprintf(
        to,
        "\n## The whole run\n\nKeys of `run`. Every plan whose model states its number of tokens "
        "has them; they are null if the run would never end.\n\n| key | meaning |\n|---|---|\n");
    for (size_t i = 0; i < num_run_fields; i++)
        write_row(run_fields[i].name, run_fields[i].doc, NULL, to);
    write_row("checkpoints", "How checkpoints are taken: blocking, async or memory.", NULL, to);
    write_row("goodput_by",
              "The goodput for each way of taking checkpoints; null if a way is not possible.",
              NULL, to);
    fprintf(to, "\nPublished rates of interruptions, whose spread is in the interval:\n\n"
                "| run | interruptions per 1000 host-days | source |\n|---|---|---|\n");
    for (int i = 0; i < num_published_failure_rates; i++) {
        char rate[16];
        snprintf(rate, sizeof rate, "%.3g", published_failure_rates[i].per_1000_host_days);
        write_row(published_failure_rates[i].run, rate, published_failure_rates[i].source, to);
    }
}

static void write_methods(FILE *to)
{
    fprintf(to, "\n## Axes\n\n| axis | meaning | source |\n|---|---|---|\n");
    struct plan usual = plan_default();
    for (int i = 0; i < num_axes; i++) {
        const struct axis *axis = axes[usual.order[i]];
        write_row(axis->name, axis->summary, axis->source, to);
    }
    fprintf(to, "\n## Context methods\n\nThe values of `cp-comm=`.\n\n"
                "| method | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < NUM_CONTEXT_COMMS; i++)
        write_row(context_methods[i].name, context_methods[i].summary, context_methods[i].source,
                  to);
    fprintf(to, "\n## Schedules\n\n| schedule | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < num_generators; i++)
        write_row(generators[i].name, generators[i].summary, generators[i].source, to);
    fprintf(to, "\n## Collectives\n\n| algorithm | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < num_collective_algos; i++)
        write_row(collective_algos[i].name, collective_algos[i].summary, collective_algos[i].source,
                  to);
    fprintf(to,
            "\n## Dispatchers\n\nLibraries that send rows to the ranks of their experts and back: "
            "the `dispatcher` of a stack.\n\n| dispatcher | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < NUM_DISPATCHERS; i++)
        write_row(dispatchers[i].name, dispatchers[i].summary, dispatchers[i].source, to);
    write_exchanges(to);
    fprintf(to, "\n## Sizes for a budget\n\nThe laws that `design` compares.\n\n"
                "| law | meaning | source |\n|---|---|---|\n");
    for (int i = 0; i < num_size_laws; i++)
        write_row(size_laws[i].name, size_laws[i].summary, size_laws[i].source, to);
    fprintf(to, "\n## Costs\n\nThe classes of cost that `--robust` varies.\n\n| cost | what is "
                "scaled |\n|---|---|\n");
    for (int i = 0; i < num_cost_classes; i++)
        write_row(cost_classes[i].name, cost_classes[i].summary, NULL, to);
    fprintf(to, "\n## Textbook estimate\n\n| value | formula |\n|---|---|\n");
    for (size_t i = 0; i < num_textbook_estimate_fields; i++)
        write_row(textbook_estimate_fields[i].name, textbook_estimate_fields[i].doc, NULL, to);
    write_run(to);
}

static void write_units(FILE *to)
{
    static const char *const names[] = { "bytes",     "time",  "bandwidth", "arithmetic",
                                         "frequency", "power", "price",     "tokens" };
    fprintf(to, "\n## Units\n\nA quantity in a file is text with its unit; a bare number is an "
                "error.\n\n| quantity | units | example |\n|---|---|---|\n");
    for (int i = 0; i < LENGTH(names); i++)
        fprintf(to, "| %s | %s | `%s` |\n", names[i], units_names((enum quantity)i),
                units_example((enum quantity)i));
}

void reference_write(FILE *to)
{
    fprintf(to, "# Reference\n\n`simsearch list reference` prints this page from the program's own "
                "tables; `make docs` writes it here.\n\n");
    write_commands(to);
    write_layout(to);
    write_methods(to);
    fprintf(to, "\n## Files\n\nJSON with `\"format\": 1`. Unknown, missing and duplicate keys are "
                "errors. `words` and `sources` may be given anywhere.\n\n");
    reference_write_fields(to);
    write_units(to);
}
