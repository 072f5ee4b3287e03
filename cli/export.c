/* cli/export.c - writes a plan as another framework's command line, environment and launch
 * script. */
#include "base/file.h"
#include "base/text.h"
#include "cli/imported.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "interchange/target.h"
#include "sim/collective/generation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct job job_of(const struct setup *setup)
{
    struct job job = job_begin(&setup->system.stack, &setup->system.gpu);
    job.model = setup->model;
    job.plan = setup->plan;
    job.num_gpus = setup->system.num_gpus;
    job.gpus_per_node = cluster_host_size(&setup->system.cluster);
    return job;
}

/* --- refused --------------------------------------------------------------------------------- */

/* All broken rules, with the nearest plan that breaks none. */
static json_t *refusals(const struct target *target, const struct job *job, struct arena *arena)
{
    json_t *list = json_array();
    struct job nearest = *job;
    struct text layout = { 0 };
    if (target_nearest(target, &nearest, arena))
        plan_write(&nearest.plan, &layout);
    const struct target_rule *rule = NULL;
    for (;;) {
        struct err found = { 0 };
        rule = target_check_job(target, job, rule, arena, &found);
        if (!rule)
            break;
        json_t *refusal = broken_rule_json(rule++, &found);
        json_object_set_new(refusal, "nearest",
                            layout.length > 0 ? json_string(text_get(&layout)) : json_null());
        json_array_append_new(list, refusal);
    }
    text_release(&layout);
    return list;
}

static bool refuse(const struct target *target, const json_t *refused, struct err *err)
{
    const json_t *first = json_array_get(refused, 0);
    const char *nearest = json_string_value(json_object_get(first, "nearest"));
    return err_set(err, ERR_INFEASIBLE, json_string_value(json_object_get(first, "where")),
                   "%s; %s cannot run this plan (rule %s)%s%s",
                   json_string_value(json_object_get(first, "found")), target->name,
                   json_string_value(json_object_get(first, "rule")),
                   nearest ? "; the nearest plan that it can run: " : "", nearest ? nearest : "");
}

/* --- files ----------------------------------------------------------------------------------- */

static bool make_folder(const char *path, struct err *err)
{
    return mkdir(path, 0777) == 0 || (errno == EEXIST && file_is_folder(path)) ||
           err_set(err, ERR_SYSTEM, path, "cannot make this folder: %s", strerror(errno));
}

static bool write_file(const char *folder, const struct exported_file *file, json_t *paths,
                       struct err *err)
{
    enum { RUNS = S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH };
    struct text path = { 0 };
    text_add(&path, "%s/%s", folder, file->name);
    bool ok = file_write(text_get(&path), file->text, strlen(file->text), err);
    if (ok && file->is_script && chmod(text_get(&path), RUNS) != 0)
        ok = err_set(err, ERR_SYSTEM, text_get(&path), "cannot be made executable: %s",
                     strerror(errno));
    json_array_append_new(paths, json_string(text_get(&path)));
    text_release(&path);
    return ok;
}

static bool write_plan_file(const char *folder, const struct setup *setup, json_t *paths,
                            struct err *err)
{
    struct text path = { 0 };
    json_t *plan = planfile_json(&setup->system, &setup->model, &setup->plan, NULL);
    text_add(&path, "%s/plan.json", folder);
    bool ok = planfile_write(text_get(&path), plan, err);
    json_array_append_new(paths, json_string(text_get(&path)));
    json_decref(plan);
    text_release(&path);
    return ok;
}

static bool write_all(const char *folder, const struct setup *setup,
                      const struct exported *exported, json_t *paths, struct err *err)
{
    bool ok = make_folder(folder, err);
    for (int i = 0; ok && i < exported->num_files; i++)
        ok = write_file(folder, &exported->files[i], paths, err);
    return ok && write_plan_file(folder, setup, paths, err);
}

/* --- the answer ------------------------------------------------------------------------------ */

static json_t *answer_json(const struct target *target, const struct exported *exported,
                           json_t *paths, json_t *refused)
{
    json_t *arguments = json_array(), *environment = json_object();
    for (int i = 0; exported && i < exported->arguments.count; i++)
        json_array_append_new(arguments, json_string(exported->arguments.at[i].key));
    for (int i = 0; exported && i < exported->environment.count; i++)
        json_object_set_new(environment, exported->environment.at[i].key,
                            json_string(exported->environment.at[i].values[0]));
    return json_pack("{s:s, s:o, s:o, s:O, s:O}", "target", target->name, "arguments", arguments,
                     "environment", environment, "files", paths, "refused", refused);
}

static void print_answer(const struct options *options, const struct setup *setup,
                         const struct target *target, const struct exported *exported,
                         json_t *paths, json_t *refused)
{
    if (options->json) {
        json_t *json = answer_json(target, exported, paths, refused);
        print_json(json);
        json_decref(json);
        return;
    }
    size_t i;
    json_t *item;
    json_array_foreach (refused, i, item)
        printf("refused   %s: %s %s; %s\n", json_string_value(json_object_get(item, "rule")),
               json_string_value(json_object_get(item, "where")),
               json_string_value(json_object_get(item, "found")),
               json_string_value(json_object_get(item, "fix")));
    if (!exported)
        return;
    for (int k = 0; !options->output && k < exported->arguments.count; k++)
        printf("%s\n", exported->arguments.at[k].key);
    json_array_foreach (paths, i, item)
        printf("%-10s%s\n", i == 0 ? "files" : "", json_string_value(item));
    if (!options->quiet && options->output) {
        const char *script = exported->files[exported->num_files - 1].name;
        bool is_batch = strcmp(script, "train.sbatch") == 0;
        printf("rules     the plan keeps all %d rules of %s\n", *target->num_rules, target->name);
        if (model_is_from_huggingface(&setup->model))
            printf("missing   %s\n", unexported_keys_note);
        printf("\nnext  %s %s/%s\n", is_batch ? "sbatch" : "bash", options->output, script);
    }
}

static void export_plan(const struct options *options, const struct setup *setup,
                        const struct target *target, struct arena *arena, struct err *err)
{
    struct job job = job_of(setup);
    struct exported exported;
    json_t *paths = json_array(), *refused = refusals(target, &job, arena);
    bool ok = json_array_size(refused) == 0;
    bool many = job.num_gpus > job.gpus_per_node;
    enum job_launcher launch = options->conversion.slurm || (many && !options->conversion.torchrun)
                                   ? LAUNCH_SLURM
                                   : LAUNCH_TORCHRUN;
    if (ok)
        target_export(target, &job, launch, &exported, arena);
    if (!ok || !options->output || write_all(options->output, setup, &exported, paths, err))
        print_answer(options, setup, target, ok ? &exported : NULL, paths, refused);
    if (!ok)
        refuse(target, refused, err);
    json_decref(paths);
    json_decref(refused);
}

int cmd_export(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup setup = { 0 };
    struct arena arena = { 0 };
    if (!options_parse(COMMAND_EXPORT, 1, argc, argv, &options, err))
        return exit_code_of(err);
    const char *path = options.num_files > 0 ? options.files[0] : NULL;
    const struct target *target = NULL;
    if (!path && !options.layout)
        err_set(err, ERR_USAGE, "",
                "expected a plan file, like \"export plan.json --to megatron -o plan\"");
    else if (!options.conversion.to)
        err_set(err, ERR_USAGE, "--to", "is missing; for example: --to megatron");
    else if (options.conversion.slurm && options.conversion.torchrun)
        err_set(err, ERR_USAGE, "--slurm", "cannot be combined with --torchrun");
    else
        target = target_find(options.conversion.to, "--to", err);
    if (target && setup_load(&options, path, &setup, err))
        export_plan(&options, &setup, target, &arena, err);
    setup_release(&setup);
    arena_release(&arena);
    return exit_code_of(err);
}
