/* torchtitan as a target. It is configured by a Python function that returns a configuration
 * (August 2026), by older TOML files, and by overrides on the command line. Sources:
 * pytorch/torchtitan@b5bcd76c6; older keys: torchtitan/config/job_config.py. */
#include "base/file.h"
#include "base/length.h"
#include "base/text.h"
#include "interchange/launcher.h"
#include "interchange/setting_rows.h"
#include "interchange/titan.h"
#include "interchange/toml.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the table ------------------------------------------------------------------------------- */

static const char *const reshard_words[] = { "default", "always", "never", NULL };
static const char *const recompute_words[] = { "default", "None", "FullAC.Config()",
                                               "SelectiveAC.Config()", NULL };
static const char *const mode_words[] = { "unset", "none", "full", "selective", NULL };
static const char *const dtype_words[] = { "float32", "bfloat16", NULL };
static const char *const rotate_words[] = { "allgather", "alltoall", NULL };

const struct titan_args titan_defaults = {
    .replicate = 1,
    .shard = -1,
    .tp = 1,
    .sp = true,
    .pp = 1,
    .schedule = "1F1B",
    .first_less = 1,
    .last_less = 1,
    .pp_microbatches = 1,
    .pp_microbatch_size = 1,
    .cp = 1,
    .ep = 1,
    .local_batch = 8,
    .global_batch = -1,
    .seq = 2048,
    .param_dtype = 1,
};

#define ARGUMENTS struct titan_args

// clang-format off
const struct setting_row titan_rows[] = {
    TEXT("base", base),
    INT("parallelism.data_parallel_replicate_degree", replicate),
    INT("parallelism.data_parallel_shard_degree", shard),
    WORD("parallelism.fsdp_reshard_after_forward", reshard, reshard_words),
    INT("parallelism.tensor_parallel_degree", tp),
    BOOL("parallelism.enable_sequence_parallel", sp),
    BOOL("parallelism.enable_async_tensor_parallel", async_tp),
    INT("parallelism.pipeline_parallel_degree", pp),
    TEXT("parallelism.pipeline_parallel_schedule", schedule),
    INT("parallelism.pipeline_parallel_layers_per_stage", layers_per_stage),
    INT("parallelism.pipeline_parallel_first_stage_less_layers", first_less),
    INT("parallelism.pipeline_parallel_last_stage_less_layers", last_less),
    TEXT("parallelism.module_fqns_per_model_part", parts),
    INT("parallelism.num_pp_microbatches", pp_microbatches),
    INT("parallelism.pipeline_parallel_microbatch_size", pp_microbatch_size),
    INT("parallelism.context_parallel_degree", cp),
    WORD("parallelism.context_parallel_rotate_method", rotate, rotate_words),
    INT("parallelism.expert_parallel_degree", ep),
    INT("training.num_tokens_per_microbatch_per_dp_rank", microbatch_tokens),
    INT("training.num_tokens_per_train_step", step_tokens),
    INT("training.max_context_length", context),
    BOOL("training.disable_cuda_graphs", no_graphs),
    ROW("training.local_batch_size", SETTING_INT, local_batch, NULL, "training.batch_size"),
    INT("training.global_batch_size", global_batch),
    INT("training.seq_len", seq),
    WORD("training.dtype", dtype, dtype_words),
    WORD("training.mixed_precision_param", param_dtype, dtype_words),
    BOOL("training.enable_cpu_offload", offload),
    WORD("activation_checkpoint", recompute, recompute_words),
    WORD("activation_checkpoint.mode", mode, mode_words),
    TEXT("activation_checkpoint.selective_ac_option", selective),
    ROW("compile.enable", SETTING_BOOL, compile, NULL, "training.compile"),
    TEXT("model.name", model),
    TEXT("model.flavor", flavor),
    TEXT("model.converters", converters),
};
// clang-format on
const int num_titan_rows = LENGTH(titan_rows);

const char *const titan_always[] = { "parallelism.data_parallel_replicate_degree",
                                     "parallelism.data_parallel_shard_degree",
                                     "parallelism.fsdp_reshard_after_forward",
                                     "parallelism.tensor_parallel_degree",
                                     "parallelism.enable_sequence_parallel",
                                     "parallelism.pipeline_parallel_degree",
                                     "parallelism.num_pp_microbatches",
                                     "parallelism.context_parallel_degree",
                                     "parallelism.expert_parallel_degree",
                                     "training.disable_cuda_graphs",
                                     "training.mixed_precision_param",
                                     "activation_checkpoint",
                                     NULL };

const char *const torchtitan_ignored[] = { "checkpoint.",
                                           "comm.",
                                           "compile.",
                                           "debug.",
                                           "dump_folder",
                                           "experimental.",
                                           "fault_",
                                           "float8.",
                                           "hf_",
                                           "job.",
                                           "lr_",
                                           "memory_",
                                           "metrics.",
                                           "model.hf_",
                                           "model.print_",
                                           "model.token",
                                           "optimizer.",
                                           "profiling.",
                                           "dataloader.",
                                           "validation.",
                                           "validator.",
                                           "training.dataset",
                                           "training.max_norm",
                                           "training.steps",
                                           "training.gc_",
                                           "training.seed",
                                           "training.deterministic",
                                           "training.data_",
                                           "training.mixed_precision_reduce",
                                           "module",
                                           "config",
                                           NULL };

/* --- the launcher's and Python's files ------------------------------------------------------- */

/* Reads overrides like "--parallelism.tensor_parallel_degree=8". */
static void parse_overrides(const struct shell_command *command, struct imported *out)
{
    struct imported flags = { .given.arena = out->given.arena, .unknown = out->unknown };
    launcher_arguments(command, &flags);
    out->unknown = flags.unknown;
    for (int i = 0; i < flags.given.count; i++) {
        const struct setting *from = &flags.given.at[i];
        struct setting *to = settings_add(&out->given, from->key + 2, from->line);
        for (int k = 0; k < from->num_values; k++)
            setting_add_value(&out->given, to, from->values[k]);
        if (from->num_values == 0)
            setting_add_value(&out->given, to, "true");
        if (strcmp(to->key, "config") ==
            0) /* the function whose configuration the other settings override */
            setting_add_value(&out->given, settings_add(&out->given, "base", from->line),
                              from->num_values ? from->values[0] : "");
    }
}

/* Reads the lines "config.KEY = VALUE" and "config = NAME()" of a function. */
static void parse_python(const char *text, struct imported *out)
{
    int line = 0;
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        char key[128] = "", value[4096] = "";
        line++;
        at += strspn(at, " \t");
        if (sscanf(at, "config.%127[A-Za-z0-9_.] = %4095[^\n]", key, value) == 2) {
            size_t length = strlen(value);
            bool is_quoted = length > 1 && value[0] == '"' && value[length - 1] == '"';
            if (is_quoted)
                value[length - 1] = '\0';
            setting_add_value(&out->given, settings_add(&out->given, key, line), value + is_quoted);
        } else if (sscanf(at, "config = %127[A-Za-z0-9_]()", key) == 1) {
            setting_add_value(&out->given, settings_add(&out->given, "base", line), key);
        }
    }
}

/* Reads the function's file, if it is in the folder of the argument list that names the
 * function. */
static bool parse_beside(const char *path, const struct shell_command *command,
                         struct imported *out, struct err *err)
{
    for (int i = 0; i + 1 < command->count; i++) {
        if (strcmp(command->words[i], "--module") != 0 ||
            strcmp(command->words[i + 1], "simsearch_config") != 0)
            continue;
        struct text beside = { 0 };
        text_add(&beside, "%.*ssimsearch_config.py", (int)(file_own_name(path) - path), path);
        char *text = file_read(text_get(&beside), FILE_MAX_BYTES, NULL, err);
        text_release(&beside);
        if (!text)
            return false;
        parse_python(text, out);
        free(text);
        return true;
    }
    parse_overrides(command, out);
    return true;
}

bool torchtitan_parse(const char *path, const char *text, struct imported *out, struct arena *arena,
                      struct err *err)
{
    struct shell_script script = { .variables.arena = arena };
    if (text_ends_in(path, ".toml"))
        return toml_read(text, &out->given, err);
    if (strncmp(text + strspn(text, " \t\r\n"), "--", 2) == 0) {
        shell_split(text, arena, &script.command);
        return parse_beside(path, &script.command, out, err);
    }
    if (text_ends_in(path, ".py") || strstr(text, "    config.")) {
        parse_python(text, out);
        return true;
    }
    if (text[strspn(text, " \t\r\n#")] == '[')
        return toml_read(text, &out->given, err);
    if (!shell_read(text, arena, &script, err))
        return false;
    if (script.command.count == 0)
        return err_set(err, ERR_INPUT, "",
                       "expected TOML, --section.key overrides, a Python function, or a script");
    launcher_read(&script, out);
    return parse_beside(path, &script.command, out, err);
}

/* --- writing --------------------------------------------------------------------------------- */

static void add_value(const struct setting *setting, struct text *out)
{
    const char *value = setting->values[0];
    bool is_number = value[strspn(value, "-0123456789.")] == '\0';
    bool is_code = value[0] == '[' || strchr(value, '(') || strcmp(value, "None") == 0;
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        text_add(out, "%c%s", toupper((unsigned char)value[0]), value + 1);
    else
        text_add(out, is_number || is_code ? "%s" : "\"%s\"", value);
}

static bool counts_tokens(const char *key)
{
    return strcmp(key, "parallelism.num_pp_microbatches") == 0 ||
           strncmp(key, "training.num_tokens_", strlen("training.num_tokens_")) == 0 ||
           strcmp(key, "training.max_context_length") == 0;
}

static void add_setting(const struct setting *setting, const char *indent, struct text *out)
{
    text_add(out, "%sconfig.%s = ", indent, setting->key);
    add_value(setting, out);
    text_add(out, "\n");
}

/* Writes the batch for two kinds of releases: torchtitan's main branch counts tokens, and release
 * 0.3.0 on PyPI counts sequences (config/configs.py of each). In the latter, local_batch_size
 * includes all microbatches of a pass through the pipeline. An import reads only the lines for
 * tokens, which begin with "config.". */
static void add_batch(const struct job *job, const struct settings *settings, struct text *out)
{
    const struct plan *plan = &job->plan;
    double passes = plan->pp > 1 ? plan_microbatches(plan, job->model.batch) : 1;
    text_add(out, "    if hasattr(config.training, \"num_tokens_per_train_step\"):\n");
    for (int i = 0; i < settings->count; i++)
        if (counts_tokens(settings->at[i].key))
            add_setting(&settings->at[i], "        ", out);
    text_add(out,
             "    else:  # releases that count sequences\n"
             "        training, parallelism = config.training, config.parallelism\n"
             "        training.seq_len = %d\n"
             "        training.local_batch_size = %.0f\n"
             "        training.global_batch_size = %.0f\n"
             "        parallelism.pipeline_parallel_microbatch_size = %d\n",
             job->model.seq, plan->microbatch * passes, job->model.batch, plan->microbatch);
}

void torchtitan_write(const struct job *job, struct exported *out, struct arena *arena)
{
    static const char *const words[] = { "--module", "simsearch_config", "--config",
                                         "simsearch_plan" };
    const struct titan_model *model = titan_model_of(&job->model);
    struct text text = { 0 };
    text_add(&text,
             "\"\"\"torchtitan: --module simsearch_config --config simsearch_plan\"\"\"\n\n"
             "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n"
             "from torchtitan.models.%s.config_registry import %s\n\n"
             "RECOMPUTE = (FullAC, SelectiveAC)\n\n\ndef simsearch_plan():\n",
             model ? model->module : "", model ? model->function : "");
    for (int i = 0; i < out->settings.count; i++) {
        const struct setting *setting = &out->settings.at[i];
        if (strcmp(setting->key, "base") == 0) {
            text_add(&text, "    config = %s()\n", setting->values[0]);
            continue;
        }
        if (!counts_tokens(setting->key))
            add_setting(setting, "    ", &text);
    }
    add_batch(job, &out->settings, &text);
    text_add(&text, "    return config\n");
    exported_add(out, "simsearch_config.py", &text, false, arena);
    for (int i = 0; i < LENGTH(words); i++)
        settings_add(&out->arguments, words[i], 0);
    out->script = "${TORCHTITAN:-.}/torchtitan/train.py";
    out->remark = "TORCHTITAN is the folder of torchtitan, and PYTHONPATH that of "
                  "simsearch_config.py.";
}
