/* Reads another framework's file as a job on a system. */
#include "cli/imported.h"

#include "base/length.h"
#include "sim/collective/generation.h"

#include <stdio.h>

/* Loads the framework's own stack, unless the options name another. Its defaults decide which words
 * an imported layout needs. */
static bool begin(struct options *options, const char *from, struct imported_job *out,
                  struct err *err)
{
    struct stack stack;
    struct gpu unknown = { 0 };
    out->target = target_find(from, "--from", err);
    if (!out->target)
        return false;
    if (!options->stack)
        options->stack = out->target->stack;
    if (!stack_load(options->stack, &stack, err))
        return false;
    out->start = job_begin(&stack, &unknown);
    stack_release(&stack);
    out->start.num_gpus = options->gpus;
    return !options->model || model_load(options->model, &out->start.model, err);
}

bool imported_check_degrees(const struct imported *imported, const char *path, struct err *err)
{
    const struct plan *plan = &imported->job.plan;
    const struct {
        const char *name;
        int value;
    } degrees[] = { { "tp", plan->tp },        { "cp", plan->cp }, { "ep", plan->ep },
                    { "etp", plan->etp },      { "pp", plan->pp }, { "vpp", plan->vpp },
                    { "mb", plan->microbatch } };
    for (int i = 0; i < LENGTH(degrees); i++)
        if (degrees[i].value < 1 || degrees[i].value > MOST_GPUS)
            return err_set(err, ERR_INPUT, path, "expected %s from 1 to %d, found %d",
                           degrees[i].name, MOST_GPUS, degrees[i].value);
    return true;
}

bool imported_load(struct options *options, const char *from, bool is_checked,
                   struct imported_job *out, struct err *err)
{
    const char *path = options->files[0];
    out->imported = ARENA_NEW(&out->arena, struct imported);
    if (!begin(options, from, out, err))
        return false;
    struct imported *imported = out->imported;
    imported->job = out->start;
    if (!target_import(out->target, path, imported, &out->arena, err) ||
        !imported_check_degrees(imported, path, err))
        return false;
    if (imported->job.num_gpus == 0)
        return err_set(err, ERR_USAGE, "--gpus",
                       "is missing, and %s does not say how many GPUs it is for", path);
    bool ok = is_checked ? setup_of_job(options, &imported->job, &out->setup, err)
                         : setup_of_unchecked(options, &imported->job, &out->setup, err);
    if (!ok)
        return false;
    imported->job.one_connection = generations[out->setup.system.gpu.arch].shares_queue;
    return true;
}

void imported_release(struct imported_job *job)
{
    setup_release(&job->setup);
    arena_release(&job->arena);
}

/* --- views ----------------------------------------------------------------------------------- */

json_t *imported_settings_json(const struct settings *settings)
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

json_t *broken_json(const struct broken *broken)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "rule", broken->rule, "sentence",
                     broken->sentence, "where", broken->where, "found", broken->found, "fix",
                     broken->fix);
}

json_t *broken_rule_json(const struct target_rule *rule, const struct err *found)
{
    struct broken broken = { rule->id, rule->sentence, found->where, found->msg, rule->fix };
    return broken_json(&broken);
}

json_t *imported_broken_json(const struct imported_job *answer)
{
    json_t *list = json_array();
    const struct target_rule *rule = NULL;
    for (;;) {
        struct err found = { 0 };
        rule = target_check_file(answer->target, answer->imported, rule, &found);
        if (!rule)
            return list;
        json_array_append_new(list, broken_rule_json(rule++, &found));
    }
}

void imported_print_settings(const char *title, const struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->at[i];
        struct text words = { 0 };
        setting_write(setting, &words);
        printf("%-10s%s", i == 0 ? title : "", text_get(&words));
        text_release(&words);
        if (setting->line > 0)
            printf("  (line %d)", setting->line);
        printf("\n");
    }
}

void imported_print_broken(const json_t *list)
{
    const json_t *rule;
    size_t i;
    json_array_foreach (list, i, rule)
        printf("%-10s%s: %s %s; %s\n", i == 0 ? "broken" : "",
               json_string_value(json_object_get(rule, "rule")),
               json_string_value(json_object_get(rule, "where")),
               json_string_value(json_object_get(rule, "found")),
               json_string_value(json_object_get(rule, "fix")));
}
