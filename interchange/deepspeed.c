/* DeepSpeed as a target. Source: deepspeedai/DeepSpeed@edaa72212: runtime/config.py,
 * runtime/zero/config.py, runtime/pipe/engine.py. */
#include "interchange/deepspeed.h"

#include "base/file.h"
#include "base/length.h"
#include "base/text.h"
#include "interchange/launcher.h"
#include "interchange/setting_rows.h"
#include "sim/plan/state_share.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(x) (1u << (x))

/* --- the table ------------------------------------------------------------------------------- */

enum { COMMUNICATION_DEFAULT, COMMUNICATION_FP32, COMMUNICATION_FP16, COMMUNICATION_BF16 };
enum { DEVICE_NONE, DEVICE_CPU, DEVICE_NVME };
static const char *const communication_words[] = { "default", "fp32", "fp16", "bf16", NULL };
static const char *const device_words[] = { "none", "cpu", "nvme", NULL };

const struct deepspeed_args deepspeed_defaults = { .tp = 1, .stages = 1 };

#define ARGUMENTS struct deepspeed_args

// clang-format off
const struct setting_row deepspeed_rows[] = {
    INT("train_batch_size", train_batch),
    INT("train_micro_batch_size_per_gpu", micro_batch),
    INT("gradient_accumulation_steps", accumulation),
    BOOL("bf16.enabled", bf16),
    BOOL("fp16.enabled", fp16),
    WORD("communication_data_type", communication, communication_words),
    INT("zero_optimization.stage", stage),
    BOOL("zero_optimization.overlap_comm", overlap),
    INT("zero_optimization.mics_shard_size", shard),
    WORD("zero_optimization.offload_optimizer.device", offload_optimizer, device_words),
    WORD("zero_optimization.offload_param.device", offload_parameters, device_words),
    INT("tensor_parallel.autotp_size", tp),
    INT("pipeline.stages", stages),
    TEXT("optimizer.type", optimizer),
    INT("activation_checkpointing.number_checkpoints", checkpoints),
};
// clang-format on
const int num_deepspeed_rows = LENGTH(deepspeed_rows);

const char *const deepspeed_ignored[] = { "optimizer.params",
                                          "scheduler.",
                                          "gradient_clipping",
                                          "steps_per_print",
                                          "wall_clock_breakdown",
                                          "prescale_gradients",
                                          "fp16.loss_scale",
                                          "fp16.initial_scale",
                                          "fp16.hysteresis",
                                          "fp16.min_loss",
                                          "fp16.auto_cast",
                                          "tensorboard.",
                                          "wandb.",
                                          "csv_monitor.",
                                          "flops_profiler.",
                                          "zero_optimization.contiguous_gradients",
                                          "zero_optimization.reduce_scatter",
                                          "zero_optimization.allgather_partitions",
                                          "zero_optimization.stage3_gather_16bit",
                                          "zero_allow_untested_optimizer",
                                          "checkpoint.",
                                          "comms_logger.",
                                          "dump_state",
                                          "seed",
                                          "--deepspeed",
                                          NULL };

/* --- jobs ------------------------------------------------------------------------------------ */

static bool overlaps_grad(const struct job *job)
{
    return job_overlaps(job) & BIT(PLAN_OVERLAP_GRAD);
}

void deepspeed_arguments(const struct job *job, void *args, struct arena *arena)
{
    struct deepspeed_args *to = args;
    const struct plan *plan = &job->plan;
    (void)arena;
    *to = deepspeed_defaults;
    to->train_batch = (int)job->model.batch;
    to->micro_batch = plan->microbatch;
    to->accumulation = plan_microbatches(plan, job->model.batch);
    to->bf16 = plan->precision == PRECISION_BF16;
    to->fp16 = plan->precision == PRECISION_FP16;
    if (plan->reduce_dtype == DTYPE_FP32 && (to->bf16 || to->fp16))
        to->communication = COMMUNICATION_FP32;
    to->stage = plan->zero;
    to->overlap = overlaps_grad(job);
    to->shard =
        plan_cuts(plan, STATE_PARAMETERS) && plan->shard < plan_replicas(plan) ? plan->shard : 0;
    to->tp = plan->tp;
    to->stages = plan->pp;
    to->optimizer = plan->optimizer == OPTIMIZER_ADAM ? "AdamW" : "SGD";
    if (plan_offloads(plan, OFFLOAD_OPTIMIZER))
        to->offload_optimizer = DEVICE_CPU;
    if (plan->recompute == RECOMPUTE_FULL)
        to->checkpoints = job->model.layers;
}

/* Any two of batch, micro-batch and accumulation determine the third (config.py,
 * _set_batch_related). */
static bool read_batch(const struct deepspeed_args *from, struct job *job, struct err *err)
{
    struct plan *plan = &job->plan;
    int accumulation = from->accumulation > 0 ? from->accumulation : 1;
    int micro = from->micro_batch;
    if (micro <= 0 && from->train_batch <= 0)
        return err_set(err, ERR_INPUT, "train_micro_batch_size_per_gpu",
                       "is missing, and so is train_batch_size; give one of them");
    if (micro <= 0 && plan->dp > 0)
        micro = (int)(from->train_batch / ((long long)accumulation * plan->dp));
    plan->microbatch = micro > 0 ? micro : 1;
    job->model.batch = from->train_batch > 0 ? from->train_batch
                                             : (double)plan->microbatch * accumulation *
                                                   (plan->dp > 0 ? plan->dp : 1);
    return true;
}

bool deepspeed_job(const void *args, struct job *job, struct arena *arena, struct err *err)
{
    const struct deepspeed_args *from = args;
    struct plan *plan = &job->plan;
    (void)arena;
    if (job->model.layers == 0)
        return err_set(err, ERR_USAGE, "--model",
                       "is missing, and DeepSpeed's JSON does not describe the model");
    if (from->tp < 1 || from->stages < 1 || from->stage < 0 || from->stage > 3)
        return err_set(err, ERR_INPUT, "zero_optimization.stage",
                       "expected a stage of 0 to 3, and degrees of 1 or more");
    plan->tp = from->tp;
    plan->etp = job->model.experts > 0 ? from->tp : 1;
    plan->pp = from->stages;
    plan->dp = job_data_ranks(job);
    plan->zero = plan->dp == 1 ? 0 : from->stage;
    if (plan_cuts(plan, STATE_PARAMETERS) && from->shard > 0 && from->shard < plan->dp)
        plan->shard = from->shard;
    plan->precision = from->bf16 ? PRECISION_BF16 : from->fp16 ? PRECISION_FP16 : PRECISION_FP32;
    bool narrow = from->fp16 || from->bf16;
    plan->gradient_dtype = DTYPE_FP32;
    plan->reduce_dtype = !narrow || from->communication == COMMUNICATION_FP32 ? DTYPE_FP32
                         : from->bf16                                         ? DTYPE_BF16
                                                                              : DTYPE_FP16;
    if (from->optimizer && strcmp(from->optimizer, "SGD") == 0)
        plan->optimizer = OPTIMIZER_MOMENTUM;
    if (from->offload_optimizer != DEVICE_NONE)
        plan->offloads |= BIT(OFFLOAD_OPTIMIZER);
    if (from->checkpoints > 0)
        plan->recompute = RECOMPUTE_FULL;
    unsigned grad = BIT(PLAN_OVERLAP_GRAD);
    job_set_overlaps(job, (job->usual_overlaps & ~grad) | (from->overlap ? grad : 0));
    return read_batch(from, job, err);
}

/* --- rules ----------------------------------------------------------------------------------- */

static bool degrees_exist(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    if (plan->cp > 1)
        return BROKEN("cp", "is %d, for which the JSON has no key", plan->cp);
    if (plan->ep > 1)
        return BROKEN("ep",
                      "is %d, which is an argument of the model's layers and not a key of the JSON",
                      plan->ep);
    if (plan->vpp > 1 || strcmp(plan_schedule(plan), "1f1b") != 0)
        return BROKEN("schedule", "DeepSpeed's pipelines run 1f1b with one chunk per stage");
    return !plan->chunk_layers ||
           BROKEN("stages", "the division into stages is set by the model's PipelineModule");
}

static bool plan_is_plain(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    unsigned apart = job_overlaps(of->job) ^ of->job->usual_overlaps;
    if (!job_is_plain(of->job, err))
        return false;
    if (plan->optimizer != OPTIMIZER_ADAM && plan->optimizer != OPTIMIZER_MOMENTUM)
        return BROKEN("optimizer", "the export does not support optimizer=%s",
                      optimizer_names[plan->optimizer]);
    if (plan->sp)
        return BROKEN("sp", "automatic tensor parallelism has no sequence parallelism");
    if (plan_offloads(plan, OFFLOAD_ACTIVATIONS))
        return BROKEN("offload", "only the model's own code can offload activations");
    if (plan->attention != PLAN_ATTENTION_DEFAULT)
        return BROKEN("attn", "the JSON cannot choose the attention kernel; the model's code does");
    return !plan->overlaps_given || (apart & ~BIT(PLAN_OVERLAP_GRAD)) == 0 ||
           BROKEN("overlap", "overlap_comm is the only overlap that can be chosen");
}

static bool precision_exists(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    bool known = plan->precision == PRECISION_BF16 || plan->precision == PRECISION_FP16 ||
                 plan->precision == PRECISION_FP32;
    if (!known)
        return BROKEN("dtype", "%s is not possible in the JSON", precision_names[plan->precision]);
    return plan->gradient_dtype == DTYPE_FP32 ||
           BROKEN("grad", "gradients are kept in fp32, not %s", dtype_names[plan->gradient_dtype]);
}

static bool recompute_exists(const struct rule_case *of, struct err *err)
{
    int recompute = of->job->plan.recompute;
    return recompute == RECOMPUTE_NONE || recompute == RECOMPUTE_FULL ||
           BROKEN("recompute",
                  "DeepSpeed has only recompute=none and full, and the model's code must call it");
}

static bool shards_exist(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    return plan_cuts(plan, STATE_PARAMETERS) || plan->shard == 0 ||
           plan->shard == plan_replicas(plan) ||
           BROKEN("shard", "shard=%d needs zero3 (MiCS)", plan->shard);
}

static bool batch_is_product(const struct rule_case *of, struct err *err)
{
    const struct deepspeed_args *a = of->args;
    int dp = of->job->plan.dp;
    double product =
        (double)of->job->plan.microbatch * dp * (a->accumulation > 0 ? a->accumulation : 1);
    bool is_whole = of->job->model.batch <= INT_MAX;
    if (a->train_batch < 1 || dp < 1)
        return is_whole || BROKEN("train_batch_size", "is over %d", INT_MAX);
    if (a->accumulation > 0)
        return (product >= a->train_batch && product <= a->train_batch) ||
               BROKEN("train_batch_size",
                      "%d is not micro-batch %d x gradient_accumulation_steps %d x dp %d",
                      a->train_batch, of->job->plan.microbatch, a->accumulation, dp);
    return a->train_batch % (of->job->plan.microbatch * dp) == 0 ||
           BROKEN("train_batch_size", "%d is not a multiple of micro-batch %d x dp %d",
                  a->train_batch, of->job->plan.microbatch, dp);
}

static bool pipeline_keeps_gradients(const struct rule_case *of, struct err *err)
{
    const struct deepspeed_args *a = of->args;
    return a->stages == 1 || a->stage < 2 ||
           BROKEN("zero_optimization.stage", "is %d, but a pipeline allows only 0 and 1", a->stage);
}

static bool types_are_one(const struct rule_case *of, struct err *err)
{
    const struct deepspeed_args *a = of->args;
    return !a->bf16 || !a->fp16 || BROKEN("bf16.enabled", "cannot be combined with fp16.enabled");
}

static bool offload_has_zero(const struct rule_case *of, struct err *err)
{
    const struct deepspeed_args *a = of->args;
    if (a->offload_parameters != DEVICE_NONE && a->stage != 3)
        return BROKEN("zero_optimization.offload_param.device", "needs stage 3, not %d", a->stage);
    return a->offload_optimizer == DEVICE_NONE || a->stage > 0 ||
           BROKEN("zero_optimization.offload_optimizer.device", "needs stage 1 or more");
}

static void mend_degrees(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    plan->dp *= plan->cp;
    plan->cp = 1;
    plan->ep = 1;
    plan->etp = job->model.experts > 0 ? plan->tp : 1;
    plan->vpp = 1;
    plan_set_schedule(plan, "");
    plan_set_even(plan);
}

static void mend_plain(struct job *job, struct arena *arena)
{
    (void)arena;
    job_make_plain(job);
    job->plan.sp = false;
    job->plan.offloads &= BIT(OFFLOAD_OPTIMIZER);
}

static void mend_precision(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    if (plan->precision != PRECISION_FP16 && plan->precision != PRECISION_FP32)
        plan->precision = PRECISION_BF16;
    plan->gradient_dtype = plan->reduce_dtype = DTYPE_FP32;
}

static void mend_recompute(struct job *job, struct arena *arena)
{
    (void)arena;
    plan_set_recompute(&job->plan, RECOMPUTE_FULL);
}

static void mend_shards(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.shard = 0;
}

static void mend_offload(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.offloads = 0;
}

// clang-format off
const struct target_rule deepspeed_rules[] = {
    { "DX1", "There are only tensor, data and pipeline ranks, and pipelines run 1f1b with one chunk per stage.",
      "omit cp, ep, vpp, schedule= and stages=", degrees_exist, mend_degrees },
    { "DX2", "The rank order, exchange, optimizer, attention and overlap are those of DeepSpeed.",
      "omit this word of the layout", plan_is_plain, mend_plain },
    { "DX3", "The precision is fp32, fp16 or bf16, with gradients in fp32.", "use dtype=bf16", precision_exists, mend_precision },
    { "DX4", "Recompute is none or full.", "use recompute=full", recompute_exists, mend_recompute },
    { "DX5", "Only ZeRO-3 can shard over fewer than all data ranks.", "omit shard=", shards_exist, mend_shards },
    { "D1", "The batch is micro-batch x accumulation x data ranks.",
      "set train_batch_size to the product", batch_is_product, NULL },
    { "D2", "With a pipeline only ZeRO stages 0 and 1 are possible.", "set zero_optimization.stage to 1", pipeline_keeps_gradients, NULL },
    { "D3", "bf16 and fp16 exclude each other.", "drop one of the two", types_are_one, NULL },
    { "D4", "Offload of optimizer states needs ZeRO stage 1 or more; offload of parameters needs "
            "stage 3.",
      "raise zero_optimization.stage", offload_has_zero, mend_offload },
};
// clang-format on
const int num_deepspeed_rules = LENGTH(deepspeed_rules);

/* --- files ----------------------------------------------------------------------------------- */

static void add_json(const char *path, const json_t *value, struct imported *out)
{
    const char *key;
    json_t *inner;
    if (json_is_object(value)) {
        json_object_foreach ((json_t *)value, key, inner) {
            struct text deeper = { 0 };
            text_add(&deeper, "%s%s%s", path, *path ? "." : "", key);
            add_json(text_get(&deeper), inner, out);
            text_release(&deeper);
        }
        return;
    }
    bool is_auto = json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
    /* a value "auto" is filled in by the trainer */
    struct settings *list = is_auto ? &out->ignored : &out->given;
    struct setting *to = settings_add(list, path, 0);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    setting_add_value(list, to, json_is_string(value) ? json_string_value(value) : text);
    free(text);
}

static bool parse_json(const char *text, struct imported *out, struct err *err)
{
    json_error_t fault;
    char where[16];
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(root)) {
        snprintf(where, sizeof where, "%d", fault.line);
        json_decref(root);
        return err_set(err, ERR_INPUT, where, "expected an object: %s", fault.text);
    }
    add_json("", root, out);
    json_decref(root);
    return true;
}

/* Reads the JSON file that is named in an argument list or script, from the folder of that list or
 * script. */
static bool parse_named(const char *path, const struct shell_command *command, struct imported *out,
                        struct err *err)
{
    const char *name = NULL;
    for (int i = 0; i < command->count && !name; i++) {
        const char *word = command->words[i];
        if (strcmp(word, "--deepspeed_config") == 0 && i + 1 < command->count)
            name = command->words[i + 1];
        else if (strncmp(word, "--deepspeed_config=", 19) == 0)
            name = word + 19;
    }
    if (!name)
        return err_set(err, ERR_INPUT, "", "expected a JSON file, or --deepspeed_config FILE");
    struct text beside = { 0 };
    text_add(&beside, "%.*s%s", name[0] == '/' ? 0 : (int)(file_own_name(path) - path), path, name);
    char *text = file_read(text_get(&beside), FILE_MAX_BYTES, NULL, err);
    text_release(&beside);
    bool ok = text && parse_json(text, out, err);
    free(text);
    return ok;
}

bool deepspeed_parse(const char *path, const char *text, struct imported *out, struct arena *arena,
                     struct err *err)
{
    struct shell_script script = { .variables.arena = arena };
    const char *at = text + strspn(text, " \t\r\n");
    if (*at == '{')
        return parse_json(text, out, err);
    if (strncmp(at, "--", 2) == 0) {
        shell_split(text, arena, &script.command);
    } else {
        if (!shell_read(text, arena, &script, err))
            return false;
        launcher_read(&script, out);
    }
    return parse_named(path, &script.command, out, err);
}

/* Sets the value at a path like "a.b.c", creating missing objects. */
static void set_path(json_t *root, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    if (!dot) {
        json_object_set_new(root, path, value);
        return;
    }
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
    if (!json_object_get(root, key))
        json_object_set_new(root, key, json_object());
    set_path(json_object_get(root, key), dot + 1, value);
}

void deepspeed_write(const struct job *job, struct exported *out, struct arena *arena)
{
    static const char *const words[] = { "--deepspeed", "--deepspeed_config", "ds_config.json" };
    json_t *root = json_object();
    (void)job;
    for (int i = 0; i < out->settings.count; i++) {
        const char *value = out->settings.at[i].values[0];
        /* parses numbers, true and false */
        json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
        set_path(root, out->settings.at[i].key, json ? json : json_string(value));
    }
    char *text = json_dumps(root, JSON_INDENT(2));
    struct text file = { 0 };
    text_add(&file, "%s\n", text);
    exported_add(out, "ds_config.json", &file, false, arena);
    free(text);
    json_decref(root);
    for (int i = 0; i < LENGTH(words); i++)
        settings_add(&out->arguments, words[i], 0);
    out->script = "${SCRIPT:-train.py}";
    out->remark =
        "SCRIPT is the training program. It is started in the folder that contains ds_config.json.";
}
