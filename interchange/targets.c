#include "interchange/target.h"

#include "base/file.h"
#include "base/length.h"
#include "base/text.h"
#include "interchange/bridge.h"
#include "interchange/deepspeed.h"
#include "interchange/launcher.h"
#include "interchange/megatron.h"
#include "interchange/titan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct megatron_args) <= MAX_TARGET_ARGS, "arguments of Megatron");

const struct target targets[] = {
    { .name = "megatron",
      .summary = "Megatron-LM's pretrain_gpt.py: argument lists and shell scripts",
      .source = "NVIDIA/Megatron-LM@d98e8a6 megatron/training/arguments.py, megatron-core 0.16.1",
      .stack = "megatron-core",
      .table = { megatron_rows, &num_megatron_rows, &megatron_defaults,
                 sizeof(struct megatron_args), NULL },
      .rules = megatron_rules,
      .num_rules = &num_megatron_rules,
      .arguments = megatron_arguments,
      .job = megatron_job,
      .parse = megatron_parse,
      .write = megatron_write,
      .forbids = "",
      .repeats_parts = true,
      .ignored = megatron_ignored },
    { .name = "bridge",
      .summary = "Megatron-Bridge and NeMo: YAML files and overrides",
      .source = "NVIDIA-NeMo/Megatron-Bridge@067f987, NeMo's YAML; megatron-core 0.16.1",
      .stack = "megatron-core",
      .table = { bridge_rows, &num_bridge_rows, &bridge_defaults, sizeof(struct megatron_args),
                 NULL },
      .rules = megatron_rules,
      .num_rules = &num_megatron_rules,
      .arguments = bridge_arguments,
      .job = bridge_job,
      .parse = bridge_parse,
      .write = bridge_write,
      .forbids = "",
      .repeats_parts = true,
      .ignored = bridge_ignored },
    { .name = "torchtitan",
      .summary = "torchtitan: a Python function, TOML of older releases, and overrides",
      .source = "pytorch/torchtitan@b5bcd76c6 torchtitan/config, distributed/parallel_dims.py",
      .stack = "torchtitan",
      .table = { titan_rows, &num_titan_rows, &titan_defaults, sizeof(struct titan_args),
                 titan_always },
      .rules = titan_rules,
      .num_rules = &num_titan_rules,
      .arguments = titan_arguments,
      .job = titan_job,
      .parse = torchtitan_parse,
      .write = torchtitan_write,
      .forbids = "zero1",
      .context_comm = CONTEXT_COMM_ALL_GATHER,
      .ignored = torchtitan_ignored },
    { .name = "deepspeed",
      .summary = "DeepSpeed: ZeRO, tensor ranks, batch and pipeline stages as JSON",
      .source = "deepspeedai/DeepSpeed@edaa72212 runtime/config.py, runtime/zero/config.py",
      .stack = "megatron-deepspeed",
      .table = { deepspeed_rows, &num_deepspeed_rows, &deepspeed_defaults,
                 sizeof(struct deepspeed_args), NULL },
      .rules = deepspeed_rules,
      .num_rules = &num_deepspeed_rules,
      .arguments = deepspeed_arguments,
      .job = deepspeed_job,
      .parse = deepspeed_parse,
      .write = deepspeed_write,
      .forbids = "cp ep vpp sp",
      .ignored = deepspeed_ignored },
};
const int num_targets = LENGTH(targets);

const struct target *target_find(const char *name, const char *option, struct err *err)
{
    const char *names[LENGTH(targets)];
    for (int i = 0; i < num_targets; i++) {
        names[i] = targets[i].name;
        if (strcmp(name, names[i]) == 0)
            return &targets[i];
    }
    const char *nearest = text_nearest(name, names, LENGTH(targets));
    struct text known = { 0 };
    for (int i = 0; i < num_targets; i++)
        text_add(&known, "%s%s", i ? ", " : "", names[i]);
    err_set(err, ERR_USAGE, option, "expected one of %s; found \"%.60s\"%s%s%s", text_get(&known),
            name, nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    text_release(&known);
    return NULL;
}

/* --- rules ----------------------------------------------------------------------------------- */

/* Whether the rule applies only to exports: its id contains X, as the target cannot express such
 * plans. */
static bool is_of_exports(const struct target_rule *rule)
{
    return strchr(rule->id, 'X') != NULL;
}

static const struct target_rule *first_broken(const struct target *target,
                                              const struct rule_case *of, bool is_export,
                                              const struct target_rule *first, struct err *err)
{
    const struct target_rule *end = target->rules + *target->num_rules;
    for (const struct target_rule *rule = first ? first : target->rules; rule < end; rule++)
        if ((is_export || !is_of_exports(rule)) && !rule->holds(of, err))
            return rule;
    return NULL;
}

const struct target_rule *target_check_job(const struct target *target, const struct job *job,
                                           const struct target_rule *first, struct arena *arena,
                                           struct err *err)
{
    _Alignas(max_align_t) char args[MAX_TARGET_ARGS];
    target->arguments(job, args, arena);
    return first_broken(target, &(struct rule_case){ job, args, NULL }, true, first, err);
}

const struct target_rule *target_check_file(const struct target *target,
                                            const struct imported *imported,
                                            const struct target_rule *first, struct err *err)
{
    struct rule_case of = { &imported->job, imported->args, &imported->environment };
    return first_broken(target, &of, false, first, err);
}

bool target_nearest(const struct target *target, struct job *job, struct arena *arena)
{
    for (int turn = 0; turn <= *target->num_rules; turn++) {
        struct err ignored = { 0 };
        const struct target_rule *broken = target_check_job(target, job, NULL, arena, &ignored);
        if (!broken) {
            job_tidy(job);
            return !plan_check(&job->plan, &job->model, job->model.batch, job->num_gpus, &ignored);
        }
        if (!broken->mend)
            return false;
        broken->mend(job, arena);
    }
    return false;
}

/* --- reading --------------------------------------------------------------------------------- */

static bool is_ignored(const struct target *target, const char *key)
{
    for (const char *const *prefix = target->ignored; prefix && *prefix; prefix++)
        if (strncmp(key, *prefix, strlen(*prefix)) == 0)
            return true;
    return false;
}

bool target_read(const struct target *target, struct imported *out, struct arena *arena,
                 struct err *err)
{
    struct settings left = { .arena = arena };
    const struct setting_table *table = &target->table;
    memcpy(out->args, table->defaults, table->size);
    if (!settings_read(table, &out->given, out->args, &left, err))
        return false;
    for (int i = 0; i < left.count; i++)
        settings_copy(is_ignored(target, left.at[i].key) ? &out->ignored : &out->unknown,
                      &left.at[i]);
    out->has_args = true;
    if (out->nodes > 0 && out->gpus_per_node > 0)
        out->job.gpus_per_node = out->gpus_per_node;
    return target->job(out->args, &out->job, arena, err);
}

/* Reads the numbers of nodes and GPUs from the script in the folder of an args.txt. */
static bool read_beside(const char *path, struct imported *out, struct arena *arena,
                        struct err *err)
{
    static const char *const names[] = { "train.sbatch", "train.sh" };
    int folder = (int)(file_own_name(path) - path);
    if (strcmp(file_own_name(path), "args.txt") != 0)
        return true;
    for (int i = 0; i < LENGTH(names); i++) {
        struct text beside = { 0 };
        struct shell_script script;
        text_add(&beside, "%.*s%s", folder, path, names[i]);
        char *text = file_exists(text_get(&beside))
                         ? file_read(text_get(&beside), FILE_MAX_BYTES, NULL, err)
                         : NULL;
        bool is_read = text && shell_read(text, arena, &script, err);
        free(text);
        text_release(&beside);
        if (is_read) {
            launcher_read(&script, out);
            return true;
        }
        if (err->code != ERR_NONE)
            return false;
    }
    return true;
}

/* Puts the file's name before the line of an error: "12: --flag" becomes "FILE:12: --flag". */
static bool blame(const char *path, struct err *err)
{
    char where[128];
    bool has_line = err->where[0] >= '0' && err->where[0] <= '9';
    if (err->code == ERR_INPUT) {
        snprintf(where, sizeof where, "%.100s:%s", path, has_line || !*err->where ? "" : " ");
        err_prefix(err, where);
    }
    return false;
}

bool target_import(const struct target *target, const char *path, struct imported *out,
                   struct arena *arena, struct err *err)
{
    char *text = file_read(path, FILE_MAX_BYTES, NULL, err);
    if (!text)
        return false;
    int asked = out->job.num_gpus;
    out->given.arena = arena;
    out->unknown.arena = arena;
    out->ignored.arena = arena;
    out->environment.arena = arena;
    bool ok = read_beside(path, out, arena, err) && target->parse(path, text, out, arena, err);
    if (asked > 0)
        out->job.num_gpus = asked;
    ok = ok && target_read(target, out, arena, err);
    free(text);
    return ok || blame(file_shown(path), err);
}
