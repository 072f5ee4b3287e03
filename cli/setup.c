#include "cli/setup.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/planfile.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CLUSTER "dgx-h100"
#define DEFAULT_STACK   "megatron-core"
#define DEFAULT_TOKENS  4194304.0 /* of a step: 4 Mi, so that the batch has powers of two in it */

static void assume(struct setup *setup, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void assume(struct setup *setup, const char *format, ...)
{
    char sentence[400];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    json_array_append_new(setup->assumptions, json_string(sentence));
}

/* A part of a plan file: an object, a name, or absent. */
static const json_t *object_part(const json_t *root, const char *key)
{
    const json_t *part = json_object_get(root, key);
    return json_is_object(part) ? part : NULL;
}

static const char *named_part(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

/* What a plan file names or holds wrongly is the file's fault. */
static bool blame_part(const struct json_file *file, const char *key, struct err *err)
{
    if (err->code == ERR_USAGE)
        err->code = ERR_INPUT;
    if (err->code == ERR_INPUT) {
        err_prefix(err, *err->where ? "." : "");
        err_prefix(err, key);
        json_file_blame(file, err);
    }
    return false;
}

static bool load_model(const struct options *options, const struct json_file *file,
                       struct model *out, struct err *err)
{
    const json_t *part = object_part(file->root, "model");
    const char *name = named_part(file->root, "model");
    if (options->model)
        return model_load(options->model, out, err);
    if (part)
        return model_read(part, out, err) || blame_part(file, "model", err);
    if (name)
        return model_load(name, out, err) || blame_part(file, "model", err);
    return err_set(err, ERR_USAGE, "--model",
                   "is missing; for example: simsearch --gpus 1024 --model 175b");
}

/* The first cluster preset, by name, that has the GPU. */
static bool find_cluster(const char *gpu, char *name, size_t size, struct err *err)
{
    struct gpu found;
    char folder[PATH_MAX];
    size_t count = 0;
    if (!gpu_load(gpu, &found, err))
        return false;
    char **names = NULL;
    if (file_data_folder("calibration/clusters", folder, sizeof folder))
        names = file_list_json(folder, &count);
    bool is_found = false;
    for (size_t i = 0; i < count; i++) {
        struct cluster cluster;
        struct err ignored = { 0 };
        if (!is_found && cluster_load(names[i], &cluster, &ignored) &&
            strcmp(cluster.gpu_name, found.name) == 0) {
            snprintf(name, size, "%s", names[i]);
            is_found = true;
        }
        free(names[i]);
    }
    free(names);
    return is_found || err_set(err, ERR_USAGE, gpu,
                               "no cluster preset has this GPU; give one by "
                               "--cluster FILE");
}

/* Cluster, GPU and profile out of a plan file's objects. */
static bool read_system(const struct json_file *file, struct system *out, struct err *err)
{
    const json_t *gpu = object_part(file->root, "gpu");
    const json_t *profile = object_part(file->root, "profile");
    if (!cluster_read(object_part(file->root, "cluster"), &out->cluster, err))
        return blame_part(file, "cluster", err);
    bool ok = gpu ? gpu_read(gpu, &out->gpu, err) : gpu_load(out->cluster.gpu_name, &out->gpu, err);
    if (!ok)
        return blame_part(file, "gpu", err);
    ok = profile ? profile_read(profile, &out->profile, err)
                 : profile_load(out->cluster.profile_name, &out->profile, err);
    return ok || blame_part(file, "profile", err);
}

static bool read_stack(const struct json_file *file, struct system *out, struct err *err)
{
    const json_t *part = object_part(file->root, "stack");
    const char *name = named_part(file->root, "stack");
    bool ok = part ? stack_read(part, &out->stack, err)
                   : stack_load(name ? name : DEFAULT_STACK, &out->stack, err);
    return ok || blame_part(file, "stack", err);
}

/* What system_load checks of a system that comes in one piece. */
static bool check_embedded(const struct system *system, struct err *err)
{
    enum attention_kernel kernel = stack_attention(&system->stack, &system->gpu);
    double most = (double)system->cluster.num_nodes * cluster_node_size(&system->cluster);
    if (most > 0 && system->num_gpus > most)
        return err_set(err, ERR_INFEASIBLE, "gpus", "%s has %.0f; the plan takes %d",
                       system->cluster.name, most, system->num_gpus);
    if (kernel != ATTENTION_UNFUSED && system->profile.attention[kernel].forward_efficiency <= 0)
        return err_set(err, ERR_INPUT, system->profile.name,
                       "attention: expected the rate of %s, which stack %s uses on %s",
                       attention_names[kernel], system->stack.name, system->gpu.name);
    return true;
}

/* The cluster that is meant, when it is one by name or path. NULL: the plan file's own, or an
 * error. */
static const char *choose_cluster(const struct options *options, const struct json_file *file,
                                  char *room, size_t size, struct setup *setup, struct err *err)
{
    if (options->cluster)
        return options->cluster;
    if (options->gpu) {
        if (!find_cluster(options->gpu, room, size, err))
            return NULL;
        assume(setup, "cluster %s, the first preset that has %s", room, options->gpu);
        return room;
    }
    if (object_part(file->root, "cluster"))
        return NULL;
    if (named_part(file->root, "cluster"))
        return named_part(file->root, "cluster");
    assume(setup, "cluster " DEFAULT_CLUSTER ", as none was named");
    return DEFAULT_CLUSTER;
}

static bool load_system(const struct options *options, const struct json_file *file, int num_gpus,
                        struct setup *setup, struct err *err)
{
    char room[NAME_MAX + 1];
    struct system *system = &setup->system;
    const char *cluster = choose_cluster(options, file, room, sizeof room, setup, err);
    if (err->code != ERR_NONE)
        return false;
    bool has_stack = options->stack || json_object_get(file->root, "stack");
    if (!has_stack)
        assume(setup, "stack " DEFAULT_STACK ", as none was named");
    if (cluster) {
        const char *stack = options->stack ? options->stack : DEFAULT_STACK;
        if (!system_load(cluster, stack, num_gpus, system, err))
            return false;
        if (options->stack || !has_stack)
            return true;
        stack_release(&system->stack);
        return read_stack(file, system, err) && check_embedded(system, err);
    }
    system->num_gpus = num_gpus;
    if (!read_system(file, system, err))
        return false;
    bool ok = options->stack ? stack_load(options->stack, &system->stack, err)
                             : read_stack(file, system, err);
    return ok && check_embedded(system, err);
}

static bool check_gpu_option(const struct options *options, const struct system *system,
                             struct err *err)
{
    struct gpu gpu;
    if (!options->gpu || !options->cluster)
        return true;
    if (!gpu_load(options->gpu, &gpu, err))
        return false;
    if (strcmp(gpu.name, system->gpu.name) == 0)
        return true;
    return err_set(err, ERR_USAGE, "--gpu", "cluster %s has %s, not %s", system->cluster.name,
                   system->gpu.name, gpu.name);
}

/* Part of one node, or whole nodes: half-used ones have no rail to the others. */
static bool check_nodes(const struct system *system, struct err *err)
{
    int node = cluster_node_size(&system->cluster);
    int below = system->num_gpus / node * node;
    if (system->num_gpus <= node || system->num_gpus == below)
        return true;
    return err_set(err, ERR_USAGE, "--gpus", "expected whole nodes of %d, like %d or %d; found %d",
                   node, below, below + node, system->num_gpus);
}

/* The whole number within 2 % of `sequences` that halves most often, and of those the nearest: a
 * batch has to be divided over data ranks and microbatches. */
static double rounded_batch(double sequences)
{
    if (sequences < 1)
        return 1;
    if (sequences == floor(sequences))
        return sequences;
    for (int power = 40; power > 0; power--) {
        double step = ldexp(1, power);
        double rounded = step * round(sequences / step);
        if (rounded > 0 && fabs(rounded - sequences) <= 0.02 * sequences)
            return rounded;
    }
    return round(sequences);
}

/* "1536" or "3.2 Mtok". */
static bool read_batch(const char *text, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    const struct field *field = fields_find(model_fields, num_model_fields, "batch");
    struct err not_tokens = { 0 };
    double tokens;
    if (!units_parse(text, QUANTITY_TOKENS, &tokens, &not_tokens)) {
        bool ok = field_parse(field, text, model, err);
        if (ok && model->batch >= 1)
            return true;
        *err = (struct err){ 0 };
        return err_set(err, ERR_USAGE, "--batch",
                       "expected sequences from 1 to %.0f, or tokens like \"3.2Mtok\"; found "
                       "\"%.60s\"",
                       field->max, text);
    }
    if (tokens < model->seq || tokens / model->seq > field->max)
        return err_set(err, ERR_USAGE, "--batch",
                       "expected 1 to %.0f sequences of %d tokens; found \"%.60s\"", field->max,
                       model->seq, text);
    model->batch = rounded_batch(tokens / model->seq);
    if (model->batch * model->seq != tokens)
        assume(setup, "batch %.0f sequences (%.0f tokens): %s is no whole number of sequences",
               model->batch, model->batch * model->seq, text);
    return true;
}

static bool set_seq(int seq, struct model *model, struct err *err)
{
    model->seq = seq;
    model->max_positions = 0; /* a learned table grows or shrinks with it */
    if (model_derive(model, err))
        return true;
    err->code = ERR_USAGE;
    err_prefix(err, "--seq: ");
    return false;
}

/* Sequence, batch and budget of the run. `of_file`: they were chosen when the file was written. */
static bool set_run(const struct options *options, bool of_file, struct setup *setup,
                    struct err *err)
{
    struct model *model = &setup->model;
    double usual_tokens = model->batch * model->seq;
    if (options->seq && !set_seq(options->seq, model, err))
        return false;
    if (options->tokens > 0)
        model->tokens = options->tokens;
    if (options->batch)
        return read_batch(options->batch, setup, err);
    if (model->batch == 0) {
        model->batch = rounded_batch(DEFAULT_TOKENS / model->seq);
        assume(setup, "batch %.0f sequences of %d tokens, about 4 million, as none was given",
               model->batch, model->seq);
        return true;
    }
    if (options->seq && model->batch * model->seq != usual_tokens) {
        model->batch = rounded_batch(usual_tokens / model->seq);
        assume(setup, "batch %.0f sequences of %d tokens, about the model's usual number of tokens",
               model->batch, model->seq);
        return true;
    }
    if (!of_file)
        assume(setup, "batch %.0f sequences of %d tokens, the model's usual one", model->batch,
               model->seq);
    return true;
}

static bool has_word(const char *layout, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(layout, name); at; at = strstr(at + 1, name))
        if ((at == layout || at[-1] == ' ') && at[length] == '=')
            return true;
    return false;
}

/* The precision that is multiplied when nobody says: bf16, or fp16 where there is none. */
static const char *default_precision(struct setup *setup)
{
    const struct gpu *gpu = &setup->system.gpu;
    if (gpu->peak_flops_per_s[DTYPE_BF16] > 0 || gpu->peak_flops_per_s[DTYPE_FP16] <= 0)
        return NULL;
    return precision_names[PRECISION_FP16];
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

static bool check_plan(struct setup *setup, struct err *err)
{
    const struct plan_rule *broken = NULL;
    if (!plan_derive_data(&setup->plan, setup->system.num_gpus, err))
        return false;
    broken =
        plan_check(&setup->plan, &setup->model, setup->model.batch, setup->system.num_gpus, err);
    return !broken && system_check(&setup->system, &setup->plan, err);
}

/* Of the layout alone, before the system is known. */
static bool count_gpus(const struct options *options, const char *layout, int *num_gpus,
                       struct err *err)
{
    struct arena arena = { 0 };
    struct plan plan;
    struct err ignored = { 0 };
    *num_gpus = options->gpus;
    if (*num_gpus == 0 && layout && plan_parse(layout, &arena, &plan, &ignored) && plan.dp > 0)
        *num_gpus = plan_ranks(&plan);
    arena_release(&arena);
    if (*num_gpus > 0)
        return true;
    return err_set(err, ERR_USAGE, "--gpus",
                   "is missing; for example: simsearch --gpus 1024 --model 175b");
}

static bool set_memory(const struct options *options, struct setup *setup, struct err *err)
{
    const struct gpu *gpu = &setup->system.gpu;
    char has[64];
    setup->memory_bytes =
        options->max_memory_bytes > 0 ? options->max_memory_bytes : gpu->memory_bytes;
    if (setup->memory_bytes <= gpu->memory_bytes)
        return true;
    units_write(gpu->memory_bytes, QUANTITY_BYTES, has, sizeof has);
    return err_set(err, ERR_USAGE, "--max-memory", "%s has no more than %s", gpu->name, has);
}

static void say_profile(struct setup *setup)
{
    const struct profile *profile = &setup->system.profile;
    if (profile->measured)
        return;
    assume(setup, "profile %s, from the literature and NOT measured on such a machine",
           profile->name);
}

static bool load_plan(const struct options *options, const struct json_file *file,
                      struct setup *setup, struct err *err)
{
    const char *of_file = named_part(file->root, "layout");
    const char *text = options->layout ? options->layout : of_file;
    setup->has_plan = text != NULL;
    if (default_precision(setup) && options->precision < 0 && !(text && has_word(text, "dtype")))
        assume(setup, "precision %s, as %s has no bf16", default_precision(setup),
               setup->system.gpu.name);
    if (!text) /* what is not searched; a layout can't be empty */
        return setup_parse(setup, options, "", "mb1", &setup->plan, err);
    if (options->layout)
        return setup_parse(setup, options, "--layout", text, &setup->plan, err) &&
               check_plan(setup, err);
    if (!setup_parse(setup, options, "", text, &setup->plan, err))
        return blame_part(file, "layout", err);
    return check_plan(setup, err);
}

static bool load_all(const struct options *options, const struct json_file *file,
                     struct setup *setup, struct err *err)
{
    const char *of_file = named_part(file->root, "layout");
    int num_gpus;
    if (!count_gpus(options, options->layout ? options->layout : of_file, &num_gpus, err) ||
        !load_model(options, file, &setup->model, err) ||
        !load_system(options, file, num_gpus, setup, err) ||
        !check_gpu_option(options, &setup->system, err) || !check_nodes(&setup->system, err))
        return false;
    if (options->price >= 0)
        setup->system.cluster.price_per_gpu_h = options->price;
    say_profile(setup);
    if (!set_memory(options, setup, err))
        return false;
    bool model_of_file = !options->model && object_part(file->root, "model");
    return set_run(options, model_of_file, setup, err) && load_plan(options, file, setup, err);
}

bool setup_load(const struct options *options, const char *plan_path, struct setup *out,
                struct err *err)
{
    struct json_file file = { 0 };
    *out = (struct setup){ .assumptions = json_array() };
    bool ok =
        (!plan_path || planfile_open(&file, plan_path, err)) && load_all(options, &file, out, err);
    json_file_release(&file);
    return ok;
}

void setup_release(struct setup *setup)
{
    system_release(&setup->system);
    json_decref(setup->assumptions);
    arena_release(&setup->arena);
}
