/* Reads the model, the system (cluster, GPU, profile and stack) and the plan of a command line.
 * Each comes from its option, else from the plan file, else from a default, which is noted as an
 * assumption. */
#include "cli/input/setup.h"

#include "base/text.h"
#include "base/units.h"
#include "cli/input/planfile.h"
#include "cli/input/setup_part.h"
#include "models/trained_weights.h"
#include "sim/cost/runtime.h"
#include "sim/plan/state_share.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void setup_assume(struct setup *setup, const char *format, ...)
{
    char sentence[400];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    json_array_append_new(setup->assumptions, json_string(sentence));
}

void setup_note_exchange(struct setup *setup, const struct plan *plan)
{
    const char *changes = exchange_method_of(&plan->exchange)->changes;
    if (!changes)
        return;
    struct text words = { 0 };
    text_add(&words, "exchange=");
    exchange_write(&plan->exchange, &words);
    text_add(&words, " changes the mathematics: %s", changes);
    json_array_insert_new(setup->assumptions, 0, json_string(text_get(&words)));
    text_release(&words);
}

void setup_note_segment(struct setup *setup, int asked)
{
    const struct cluster *cluster = &setup->system.cluster;
    int racks = setup->system.num_gpus / cluster->segment;
    setup_assume(
        setup, "only %d of %d GPUs, %d of the %d in each rack, as no plan divides evenly over all",
        setup->system.num_gpus, asked, cluster->segment, asked / racks);
}

void setup_note_fewer(struct setup *setup, int asked)
{
    setup_assume(setup, "only %d of %d GPUs, as no plan divides batch %.0f evenly over all",
                 setup->system.num_gpus, asked, setup->model.batch);
}

void setup_note_storage(struct setup *setup)
{
    const struct cluster *cluster = &setup->system.cluster;
    char rate[32];
    if (setup->model.tokens <= 0 || !cluster_assumes_storage(cluster, 1))
        return;
    units_write(cluster_host_storage_bytes_per_s(cluster), QUANTITY_BYTES_PER_S, rate, sizeof rate);
    setup_assume(setup, "each host writes checkpoints at %s, an assumption, as %s states no rate",
                 rate, cluster->name);
}

const char *setup_convergence_name(const struct setup *setup)
{
    return *setup->convergence.source ? "the runs of --convergence" : "published runs";
}

static bool load_model(const struct options *options, const struct json_file *file,
                       struct model *out, struct err *err)
{
    const json_t *part = planfile_part(file, "model");
    const char *name = planfile_name(file, "model");
    if (options->model)
        return model_load(options->model, out, err);
    if (part)
        return model_read(part, out, err) || planfile_blame(file, "model", err);
    if (name)
        return model_load(name, out, err) || planfile_blame(file, "model", err);
    return err_set(err, ERR_USAGE, "--model",
                   "is missing; for example: simsearch --gpus 1024 --model 175b");
}

static bool has_word(const char *layout, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = layout; *at; at++)
        if ((at == layout || at[-1] == ' ') && strncasecmp(at, name, length) == 0 &&
            at[length] == '=')
            return true;
    return false;
}

/* The default precision: bf16 (NULL), fp16 on a GPU without bf16, fp32 on a GPU with neither. */
static const char *default_precision(struct setup *setup)
{
    const double *peaks = setup->system.gpu.peak_flops_per_s;
    if (peaks[DTYPE_BF16] > 0)
        return NULL;
    return precision_names[peaks[DTYPE_FP16] > 0 ? PRECISION_FP16 : PRECISION_FP32];
}

bool setup_parse(struct setup *setup, const struct options *options, const char *option,
                 const char *text, struct plan *out, struct err *err)
{
    struct text words = { 0 };
    text_add(&words, "%s", text);
    bool says_precision = has_word(text, "dtype");
    if (options->precision >= 0)
        text_add(&words, " dtype=%s", precision_names[options->precision]);
    else if (!says_precision && default_precision(setup))
        text_add(&words, " dtype=%s", default_precision(setup));
    if (options->optimizer >= 0)
        text_add(&words, " optimizer=%s", optimizer_names[options->optimizer]);
    bool ok = plan_parse(text_get(&words), &setup->arena, out, err);
    text_release(&words);
    if (ok)
        return true;
    err->code = ERR_USAGE;
    err_prefix(err, *option && *err->where ? ": " : "");
    err_prefix(err, option);
    return false;
}

/* Adds an assumption about the fraction of rows that a plan's expert capacity drops. */
static void note_capacity(struct setup *setup)
{
    const struct plan *plan = &setup->plan;
    const struct model *model = &setup->model;
    if (plan->capacity == 0)
        return;
    double tokens = (double)plan->microbatch * model->seq / (plan->cp * plan->tp);
    struct routed routed = { tokens, model->experts, model->topk, model->experts };
    double capacity = plan->capacity / 100.0;
    setup_assume(setup,
                 "each expert accepts at most %g times its mean number of tokens; with this "
                 "routing, %.2g %% of the tokens are dropped",
                 capacity, 100 * routing_dropped_share(&model->routing, &routed, capacity));
}

/* On the host every type is computed in fp32, so other types get the rate of fp32. */
static void widen_rate(struct setup *setup)
{
    double *peaks = setup->system.gpu.peak_flops_per_s;
    enum dtype dtype = precision_dtype(setup->plan.precision);
    bool has_16_bits = dtype == DTYPE_BF16 || dtype == DTYPE_FP16;
    if (!stack_runtime(&setup->system.stack)->widens_16_bits || !has_16_bits || peaks[dtype] > 0)
        return;
    peaks[dtype] = peaks[DTYPE_FP32];
    setup_assume(setup,
                 "matrix products in %s take the time of fp32, because %s computes them in fp32; "
                 "the time of rounding is not included",
                 dtype_names[dtype], setup->system.gpu.name);
}

/* If the profile only lacks the rate of the plan's matrix products, adds the plan's memory to the
 * error message: memory does not depend on the rate. */
static void add_memory(const struct setup *setup, struct err *err)
{
    enum { GIB = 1 << 30 };
    struct err ignored = { 0 };
    struct system system = setup->system;
    system.profile.narrow[precision_dtype(setup->plan.precision)].efficiency = 1;
    system.profile.is_missing = false;
    if (system_has_rate(&setup->system, &setup->plan, &ignored) ||
        !system_check(&system, &setup->plan, &ignored))
        return;
    struct evaluator *evaluator = evaluator_new(&system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    const struct stage_memory *peak = &prediction.stages[prediction.peak_stage];
    double state_bytes = peak->weights_bytes + peak->gradients_bytes + peak->optimizer_bytes;
    size_t length = strlen(err->msg);
    snprintf(err->msg + length, sizeof err->msg - length,
             "; its memory is %.1f of %.1f GiB: weights %.1f, gradients %.1f, optimizer %.1f, "
             "activations %.1f, others %.1f",
             peak->total_bytes / GIB, system.gpu.memory_bytes / GIB, peak->weights_bytes / GIB,
             peak->gradients_bytes / GIB, peak->optimizer_bytes / GIB,
             peak->activations_bytes / GIB,
             (peak->total_bytes - state_bytes - peak->activations_bytes) / GIB);
    evaluator_free(evaluator);
}

/* With one data rank ZeRO's flags do nothing in any framework, so zero becomes 0, unless the
 * experts have replicas to shard over. */
static void leave_out_zero(struct setup *setup)
{
    struct plan *plan = &setup->plan;
    if (!plan_cuts(plan, STATE_OPTIMIZER) || plan_replicas(plan) > 1 || plan->shard > 1 ||
        (setup->model.experts > 0 && plan_expert_replicas(plan) > 1))
        return;
    setup_assume(setup, "zero%d has no effect: dp x cp is 1, so nothing can be sharded",
                 plan->zero);
    plan->zero = plan->shard = 0;
}

static bool check_plan(struct setup *setup, struct err *err)
{
    const struct plan_rule *broken = NULL;
    widen_rate(setup);
    if (!plan_derive_data(&setup->plan, setup->system.num_gpus, err))
        return false;
    leave_out_zero(setup);
    broken =
        plan_check(&setup->plan, &setup->model, setup->model.batch, setup->system.num_gpus, err);
    if (broken)
        return false;
    if (system_check(&setup->system, &setup->plan, err))
        return true;
    add_memory(setup, err);
    return false;
}

/* Number of ranks of a layout; 0: its data ranks are not stated. */
static int ranks_of(const char *layout)
{
    struct arena arena = { 0 };
    struct plan plan;
    struct err ignored = { 0 };
    bool says = layout && plan_parse(layout, &arena, &plan, &ignored) && plan.dp > 0;
    int ranks = says ? plan_ranks(&plan) : 0;
    arena_release(&arena);
    return ranks;
}

/* Finds the number of GPUs before the system is known. If a layout is given together with a plan
 * file, the file's number of GPUs is kept. */
static bool count_gpus(const struct options *options, const struct json_file *file, int *num_gpus,
                       struct err *err)
{
    *num_gpus = options->gpus;
    if (options->nodes > 0)
        return setup_count_nodes(options, file, num_gpus, err);
    if (*num_gpus == 0)
        *num_gpus = ranks_of(options->layout);
    if (*num_gpus == 0)
        *num_gpus = ranks_of(planfile_name(file, "layout"));
    if (*num_gpus > 0)
        return true;
    return err_set(err, ERR_USAGE, "--gpus",
                   "is missing; for example: simsearch --gpus 1024 --model 175b");
}

static bool load_plan(const struct options *options, const struct json_file *file,
                      struct setup *setup, struct err *err)
{
    const char *of_file = planfile_name(file, "layout");
    const char *text = options->layout ? options->layout : of_file;
    setup->has_plan = text != NULL;
    if (default_precision(setup) && options->precision < 0 && !(text && has_word(text, "dtype")))
        setup_assume(setup, "precision %s, as %s has no bf16", default_precision(setup),
                     setup->system.gpu.name);
    if (!text) { /* "mb1" is the base plan of a search, as the text of a layout cannot be empty */
        bool ok = setup_parse(setup, options, "", "mb1", &setup->plan, err);
        widen_rate(setup);
        return ok;
    }
    bool is_read =
        setup_parse(setup, options, options->layout ? "--layout" : "", text, &setup->plan, err);
    if (!is_read)
        return !options->layout && planfile_blame(file, "layout", err);
    setup_note_exchange(setup, &setup->plan);
    if (!check_plan(setup, err))
        return false;
    note_capacity(setup);
    return true;
}

static bool set_training(const struct options *options, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    char trained[32];
    if (options->train && !training_parse(options->train, model, err))
        return false;
    model->reference = model->reference || options->reference;
    if (!model_trains_all(model)) {
        units_show_count(model_trained_parameters(model), trained, sizeof trained);
        setup_assume(setup, "only %s parameters of %s are trained", trained, model->name);
    }
    if (model->reference)
        setup_assume(
            setup, "an untrained copy of the model runs forward over each batch before the step%s",
            model->lora > 0 ? ", without adapters" : ", split over ranks like the trained one");
    return true;
}

static bool load_all(const struct options *options, const struct json_file *file,
                     struct setup *setup, struct err *err)
{
    int num_gpus;
    if (!count_gpus(options, file, &num_gpus, err) ||
        !load_model(options, file, &setup->model, err) || !model_has_costs(&setup->model, err) ||
        !setup_set_system(options, file, num_gpus, setup, err))
        return false;
    if (!set_training(options, setup, err))
        return false;
    bool model_of_file = !options->model && planfile_part(file, "model");
    return setup_set_run(options, model_of_file, setup, err) &&
           load_plan(options, file, setup, err);
}

static bool set_convergence(const struct options *options, struct setup *setup, struct err *err)
{
    if (!options->accuracy.convergence)
        return true;
    if (!convergence_load(options->accuracy.convergence, &setup->convergence, err))
        return false;
    setup_assume(setup, "constants of convergence from %s, %s", options->accuracy.convergence,
                 setup->convergence.source);
    return true;
}

bool setup_load(const struct options *options, const char *plan_path, struct setup *out,
                struct err *err)
{
    struct json_file file = { 0 };
    *out = (struct setup){ .assumptions = json_array(),
                           .convergence.convergence = convergence_published };
    bool ok = (!plan_path || planfile_open(&file, plan_path, err)) &&
              load_all(options, &file, out, err) && set_convergence(options, out, err);
    json_file_release(&file);
    return ok;
}

bool setup_of_unchecked(const struct options *options, const struct job *job, struct setup *out,
                        struct err *err)
{
    struct json_file none = { 0 };
    *out = (struct setup){ .assumptions = json_array(),
                           .convergence.convergence = convergence_published,
                           .model = job->model,
                           .plan = job->plan,
                           .has_plan = true };
    return model_has_costs(&out->model, err) &&
           setup_set_system(options, &none, job->num_gpus, out, err) &&
           setup_set_run(options, true, out, err);
}

bool setup_of_job(const struct options *options, const struct job *job, struct setup *out,
                  struct err *err)
{
    return setup_of_unchecked(options, job, out, err) && check_plan(out, err);
}

void setup_release(struct setup *setup)
{
    system_release(&setup->system);
    json_decref(setup->assumptions);
    arena_release(&setup->arena);
}
