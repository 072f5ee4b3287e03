/* cli/import.c - another framework's command line or configuration as a plan. */
#include "base/text.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "cli/views/answer.h"
#include "interchange/target.h"
#include "sim/cost/generation.h"

#include <stdio.h>

/* What was read, and its plan on a system. */
struct answer {
    const struct target *target;
    struct imported *imported;
    struct setup setup;
    struct arena arena;
};

static json_t *plan_of(const struct setup *setup)
{
    return planfile_json(&setup->system, &setup->model, &setup->plan, NULL);
}

static bool write_output(const char *path, const struct setup *setup, struct err *err)
{
    json_t *plan = plan_of(setup);
    bool ok = planfile_write(path, plan, err);
    json_decref(plan);
    return ok;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *settings_json(const struct settings *settings)
{
    json_t *list = json_array();
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->at[i];
        json_t *values = json_array();
        for (int k = 0; k < setting->num_values; k++)
            json_array_append_new(values, json_string(setting->values[k]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:i}", "setting", setting->key, "values",
                                              values, "line", setting->line));
    }
    return list;
}

static json_t *broken_json(const struct answer *answer)
{
    json_t *list = json_array();
    const struct target_rule *rule = NULL;
    for (;;) {
        struct err found = { 0 };
        rule = target_check_from(answer->target, answer->imported, rule, &found);
        if (!rule)
            return list;
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "rule", rule->id,
                                              "sentence", rule->sentence, "where", found.where,
                                              "found", found.msg, "fix", rule->fix));
        if (++rule == answer->target->rules + *answer->target->num_rules)
            return list;
    }
}

static void print_answer_json(const struct options *options, const struct answer *answer)
{
    const struct imported *imported = answer->imported;
    const struct setup *setup = &answer->setup;
    struct text layout = { 0 };
    plan_write(&setup->plan, &layout);
    json_t *json = json_object();
    json_object_set_new(json, "target", json_string(answer->target->name));
    json_object_set_new(json, "file", json_string(options->files[0]));
    json_object_set_new(json, "layout", json_string(text_get(&layout)));
    json_object_set_new(json, "gpus", json_integer(setup->system.num_gpus));
    json_object_set_new(json, "batch", number_json(setup->model.batch));
    json_object_set_new(json, "broken", broken_json(answer));
    json_object_set_new(json, "unknown", settings_json(&imported->unknown));
    json_object_set_new(json, "ignored", settings_json(&imported->ignored));
    json_object_set(json, "assumptions", setup->assumptions);
    json_object_set_new(json, "plan", plan_of(setup));
    print_json(json);
    json_decref(json);
    text_release(&layout);
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_settings(const char *title, const struct settings *settings, bool with_lines)
{
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->at[i];
        printf("%-10s%s", i == 0 ? title : "", setting->key);
        for (int k = 0; k < setting->num_values; k++)
            printf(" %s", setting->values[k]);
        if (with_lines && setting->line > 0)
            printf("  (line %d)", setting->line);
        printf("\n");
    }
}

static void print_broken(const struct answer *answer)
{
    json_t *list = broken_json(answer), *rule;
    size_t i;
    json_array_foreach (list, i, rule)
        printf("%-10s%s: %s %s; %s\n", i == 0 ? "broken" : "",
               json_string_value(json_object_get(rule, "rule")),
               json_string_value(json_object_get(rule, "where")),
               json_string_value(json_object_get(rule, "found")),
               json_string_value(json_object_get(rule, "fix")));
    json_decref(list);
}

static void print_answer(const struct options *options, const struct answer *answer)
{
    const struct imported *imported = answer->imported;
    const struct setup *setup = &answer->setup;
    struct text layout = { 0 };
    plan_write(&setup->plan, &layout);
    printf("layout    %s\n", text_get(&layout));
    printf("run       %d GPUs of %s, batch %.0f sequences of %d tokens\n", setup->system.num_gpus,
           setup->system.cluster.name, setup->model.batch, setup->model.seq);
    print_broken(answer);
    print_settings("unknown", &imported->unknown, true);
    if (options->verbose)
        print_settings("ignored", &imported->ignored, true);
    else if (imported->ignored.count > 0)
        printf("ignored   %d settings that change neither time nor memory (-v lists them)\n",
               imported->ignored.count);
    if (options->output && !options->quiet)
        printf("\nnext  simsearch simulate %s\n      simsearch explain %s\n", options->output,
               options->output);
    text_release(&layout);
}

/* --- reading --------------------------------------------------------------------------------- */

/* The framework's own stack, unless another is asked for; what it does by itself decides which
 * words a layout needs. */
static bool begin(struct options *options, struct answer *answer, struct err *err)
{
    struct stack stack;
    struct gpu unknown = { 0 };
    answer->target = target_find(options->from, "--from", err);
    if (!answer->target)
        return false;
    if (!options->stack)
        options->stack = answer->target->stack;
    if (!stack_load(options->stack, &stack, err))
        return false;
    answer->imported->job = job_begin(&stack, &unknown);
    stack_release(&stack);
    answer->imported->job.num_gpus = options->gpus;
    return !options->model || model_load(options->model, &answer->imported->job.model, err);
}

static bool read_job(struct options *options, struct answer *answer, struct err *err)
{
    struct imported *imported = answer->imported;
    if (!begin(options, answer, err) ||
        !target_import(answer->target, options->files[0], imported, &answer->arena, err))
        return false;
    if (imported->job.num_gpus == 0)
        return err_set(err, ERR_USAGE, "--gpus",
                       "is missing, and %s does not say how many GPUs it is for",
                       options->files[0]);
    if (!setup_of_job(options, &imported->job, &answer->setup, err))
        return false;
    imported->job.one_connection = answer->setup.system.gpu.arch < ARCH_BLACKWELL;
    return true;
}

int cmd_import(int argc, char **argv, struct err *err)
{
    struct options options;
    struct answer answer = { 0 };
    if (!options_parse(COMMAND_IMPORT, 1, argc, argv, &options, err))
        return exit_code_of(err);
    answer.imported = ARENA_NEW(&answer.arena, struct imported);
    if (options.num_files == 0)
        err_set(err, ERR_USAGE, "", "expected a file, like \"import args.txt --from megatron\"");
    else if (!options.from)
        err_set(err, ERR_USAGE, "--from", "is missing; for example: --from megatron");
    else if (read_job(&options, &answer, err) &&
             (!options.output || write_output(options.output, &answer.setup, err)) &&
             !options_answer_is_hidden(&options)) {
        if (options.json)
            print_answer_json(&options, &answer);
        else
            print_answer(&options, &answer);
    }
    setup_release(&answer.setup);
    arena_release(&answer.arena);
    return exit_code_of(err);
}
