/* cli/import.c - converts another framework's command line or configuration to a plan. */
#include "base/text.h"
#include "cli/imported.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/print/terminal.h"
#include "cli/views/answer.h"

#include <stdio.h>

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

static void print_answer_json(const struct options *options, const struct imported_job *answer)
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
    json_object_set_new(json, "broken", imported_broken_json(answer));
    json_object_set_new(json, "unknown", imported_settings_json(&imported->unknown));
    json_object_set_new(json, "ignored", imported_settings_json(&imported->ignored));
    json_object_set(json, "assumptions", setup->assumptions);
    json_object_set_new(json, "plan", plan_of(setup));
    print_json(json);
    json_decref(json);
    text_release(&layout);
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_answer(const struct options *options, const struct imported_job *answer)
{
    const struct imported *imported = answer->imported;
    const struct setup *setup = &answer->setup;
    struct text layout = { 0 };
    plan_write(&setup->plan, &layout);
    printf("layout    %s\n", text_get(&layout));
    printf("run       %d GPUs of %s, batch %.0f sequences of %d tokens\n", setup->system.num_gpus,
           setup->system.cluster.name, setup->model.batch, setup->model.seq);
    json_t *broken = imported_broken_json(answer);
    imported_print_broken(broken);
    json_decref(broken);
    imported_print_settings("unknown", &imported->unknown);
    if (options->verbose)
        imported_print_settings("ignored", &imported->ignored);
    else if (imported->ignored.count > 0)
        printf("ignored   %d settings that change neither time nor memory (-v lists them)\n",
               imported->ignored.count);
    if (options->output && !options->quiet)
        printf("\nnext  simsearch simulate %s\n      simsearch explain %s\n", options->output,
               options->output);
    text_release(&layout);
}

int cmd_import(int argc, char **argv, struct err *err)
{
    struct options options;
    struct imported_job answer = { 0 };
    if (!options_parse(COMMAND_IMPORT, 1, argc, argv, &options, err))
        return exit_code_of(err);
    if (options.num_files == 0)
        err_set(err, ERR_USAGE, "", "expected a file, like \"import args.txt --from megatron\"");
    else if (!options.conversion.from)
        err_set(err, ERR_USAGE, "--from", "is missing; for example: --from megatron");
    else if (imported_load(&options, options.conversion.from, true, &answer, err) &&
             (!options.output || write_output(options.output, &answer.setup, err)) &&
             !options_answer_is_hidden(&options)) {
        if (options.json)
            print_answer_json(&options, &answer);
        else
            print_answer(&options, &answer);
    }
    imported_release(&answer);
    return exit_code_of(err);
}
