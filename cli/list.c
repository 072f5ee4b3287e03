/* cli/list.c - every registry of the program, as a table or as JSON. */
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/reference.h"
#include "cli/terminal.h"
#include "models/model.h"
#include "search/search.h"
#include "sim/cost/collective.h"
#include "sim/cost/datafile.h"
#include "sim/cost/hardware.h"
#include "sim/plan/axes.h"
#include "sim/plan/token.h"
#include "sim/schedule/schedule.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A registry. `entries` makes an array of objects with name, aliases, summary, source and more;
 * NULL on failure. */
struct list_kind {
    const char *name;
    const char *summary;
    json_t *(*entries)(struct err *err);
    void (*print)(FILE *to); /* a page instead; NULL: the entries as a table */
};

static json_t *add_entry(json_t *list, const char *name, json_t *aliases, const char *summary,
                         const char *source)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "name", json_string(name));
    json_object_set_new(entry, "aliases", aliases ? aliases : json_array());
    json_object_set_new(entry, "summary", json_string(summary));
    json_object_set_new(entry, "source", json_string(source ? source : ""));
    json_array_append_new(list, entry);
    return entry;
}

static void add_model(json_t *list, const struct model_preset *preset)
{
    const struct model *model = &preset->model;
    json_t *aliases = json_array();
    for (int i = 0; i < 4 && preset->aliases[i][0]; i++)
        json_array_append_new(aliases, json_string(preset->aliases[i]));
    json_t *entry = add_entry(list, model->name, aliases, model->summary, model->source);
    json_t *written = model_write(model);
    static const char *const keys[] = { "params", "active_params", "layers", "hidden",
                                        "heads",  "seq",           "batch",  "tokens" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(entry, keys[i], json_object_get(written, keys[i]));
    json_decref(written);
}

static json_t *list_models(struct err *err)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, err);
    if (!presets)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        add_model(list, &presets[i]);
    free(presets);
    return list;
}

/* Adds the file's thing to the list; false when the file is faulty. */
typedef bool add_file(json_t *list, const char *name, json_t *aliases, struct err *err);

static bool add_datafile(const struct datafile_kind *kind, const char *name, add_file *add,
                         json_t *list, struct err *err)
{
    struct json_file file;
    if (!datafile_open(kind, name, &file, err))
        return false;
    json_t *words = json_object_get(file.root, "words");
    json_t *aliases = words ? json_copy(words) : json_array();
    json_file_release(&file);
    return add(list, name, aliases, err);
}

static json_t *list_files(const struct datafile_kind *kind, add_file *add, struct err *err)
{
    char folder[PATH_MAX];
    if (!file_data_folder(kind->folder, folder, sizeof folder)) {
        err_set(err, ERR_SYSTEM, kind->folder, "no such data folder; is SIMSEARCH_DATA right?");
        return NULL;
    }
    size_t count;
    char **names = file_list_json(folder, &count);
    json_t *list = json_array();
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        ok = ok && add_datafile(kind, names[i], add, list, err);
        free(names[i]);
    }
    free(names);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static bool add_gpu(json_t *list, const char *name, json_t *aliases, struct err *err)
{
    struct gpu gpu;
    if (!gpu_load(name, &gpu, err)) {
        json_decref(aliases);
        return false;
    }
    char memory[32], bandwidth[32], peak[32], summary[160];
    int dtype = gpu.peak_flops_per_s[DTYPE_BF16] > 0 ? DTYPE_BF16 : DTYPE_FP16;
    units_show(gpu.memory_bytes, QUANTITY_BYTES, memory, sizeof memory);
    units_show(gpu.memory_bytes_per_s, QUANTITY_BYTES_PER_S, bandwidth, sizeof bandwidth);
    units_show(gpu.peak_flops_per_s[dtype], QUANTITY_FLOPS_PER_S, peak, sizeof peak);
    snprintf(summary, sizeof summary, "%s, %s, %s %s", memory, bandwidth, peak, dtype_names[dtype]);
    json_t *entry = add_entry(list, name, aliases, summary, gpu.source);
    json_object_set_new(entry, "memory_bytes", number_json(gpu.memory_bytes));
    json_object_set_new(entry, "memory_bytes_per_s", number_json(gpu.memory_bytes_per_s));
    json_object_set_new(entry, "peak_flops_per_s", number_json(gpu.peak_flops_per_s[dtype]));
    json_object_set_new(entry, "peak_dtype", json_string(dtype_names[dtype]));
    return true;
}

static json_t *list_gpus(struct err *err)
{
    return list_files(&gpu_files, add_gpu, err);
}

static bool add_cluster(json_t *list, const char *name, json_t *aliases, struct err *err)
{
    struct cluster cluster;
    if (!cluster_load(name, &cluster, err)) {
        json_decref(aliases);
        return false;
    }
    json_t *entry = add_entry(list, name, aliases, cluster.summary, cluster.source);
    json_object_set_new(entry, "gpu", json_string(cluster.gpu_name));
    json_object_set_new(entry, "profile", json_string(cluster.profile_name));
    json_object_set_new(entry, "gpus_per_node", json_integer(cluster_node_size(&cluster)));
    json_object_set_new(entry, "price_per_gpu_h", number_json(cluster.price_per_gpu_h));
    return true;
}

static json_t *list_clusters(struct err *err)
{
    return list_files(&cluster_files, add_cluster, err);
}

static bool add_profile(json_t *list, const char *name, json_t *aliases, struct err *err)
{
    struct profile profile;
    if (!profile_load(name, &profile, err)) {
        json_decref(aliases);
        return false;
    }
    char summary[160];
    snprintf(summary, sizeof summary, "%s, 90 %% interval -%.0f/+%.0f %%",
             profile.measured ? "measured" : "from the literature, not measured",
             100 * (1 - exp(-profile.error_log)), 100 * (exp(profile.error_log) - 1));
    json_t *entry = add_entry(list, name, aliases, summary, profile.source);
    json_object_set_new(entry, "gpu", json_string(profile.gpu_name));
    json_object_set_new(entry, "measured", json_boolean(profile.measured));
    json_object_set_new(entry, "error_log", json_real(profile.error_log));
    profile_release(&profile);
    return true;
}

static json_t *list_profiles(struct err *err)
{
    return list_files(&profile_files, add_profile, err);
}

static bool add_stack(json_t *list, const char *name, json_t *aliases, struct err *err)
{
    struct stack stack;
    if (!stack_load(name, &stack, err)) {
        json_decref(aliases);
        return false;
    }
    json_t *entry = add_entry(list, name, aliases, stack.summary, stack.source);
    json_object_set_new(entry, "attention", json_string(attention_names[stack.attention]));
    stack_release(&stack);
    return true;
}

static json_t *list_stacks(struct err *err)
{
    return list_files(&stack_files, add_stack, err);
}

static json_t *list_axes(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < NUM_AXES; i++)
        add_entry(list, axes[i].name, NULL, axes[i].summary, axes[i].source);
    return list;
}

static json_t *list_schedules(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_generators; i++)
        add_entry(list, generators[i].name, NULL, generators[i].summary, generators[i].source);
    return list;
}

static json_t *list_collectives(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_collective_algos; i++)
        add_entry(list, collective_algos[i].name, NULL, collective_algos[i].summary,
                  collective_algos[i].source);
    return list;
}

static json_t *list_methods(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_search_methods; i++)
        add_entry(list, search_methods[i].name, NULL, search_methods[i].summary,
                  search_methods[i].source);
    return list;
}

static json_t *list_nothing(struct err *err)
{
    (void)err;
    return json_array();
}

static json_t *list_rules(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_plan_rules; i++)
        add_entry(list, plan_rules[i].name, NULL, plan_rules[i].summary, NULL);
    return list;
}

static json_t *list_layout(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_plan_tokens; i++) {
        const struct plan_token *token = &plan_tokens[i];
        json_t *entry = add_entry(list, token->name, NULL, token->doc, NULL);
        json_object_set_new(entry, "form", json_string(token->form));
    }
    return list;
}

static const struct list_kind kinds[] = {
    { "models", "presets for --model", list_models, NULL },
    { "gpus", "GPUs of the cluster presets, for --gpu", list_gpus, NULL },
    { "clusters", "presets for --cluster", list_clusters, NULL },
    { "profiles", "what GPUs and fabrics reach of their datasheets", list_profiles, NULL },
    { "stacks", "software families, for --stack", list_stacks, NULL },
    { "axes", "the ways a step can be split", list_axes, NULL },
    { "schedules", "orders of the pipeline, for schedule=", list_schedules, NULL },
    { "collectives", "algorithms that a collective may run as", list_collectives, NULL },
    { "methods", "ways to search, for --method", list_methods, NULL },
    { "backends", "what a plan can run on (none in this version)", list_nothing, NULL },
    { "rules", "what a plan must keep", list_rules, NULL },
    { "layout", "words of a layout, for --layout and --fix", list_layout, NULL },
    { "fields", "keys of the files", NULL, reference_write_fields },
    { "reference", "all of it, as Markdown", NULL, reference_write },
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

static json_t *list_kinds(void)
{
    json_t *list = json_array();
    for (int i = 0; i < NUM_KINDS; i++)
        add_entry(list, kinds[i].name, NULL, kinds[i].summary, NULL);
    return list;
}

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

/* The word of the layout in its full form: "ppN". */
static const char *shown_name(const json_t *entry)
{
    const char *form = text_of(entry, "form");
    return *form ? form : text_of(entry, "name");
}

enum { WIDEST_NAME = 32 };

static int names_width(const json_t *list)
{
    int width = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        int columns = text_columns(shown_name(json_array_get(list, i)));
        if (columns > width && columns <= WIDEST_NAME)
            width = columns;
    }
    return width;
}

/* "; also 175b, gpt3". */
static void add_aliases(struct text *line, const json_t *entry)
{
    const json_t *aliases = json_object_get(entry, "aliases");
    for (size_t i = 0; i < json_array_size(aliases); i++)
        text_add(line, "%s%s", i > 0 ? ", " : "; also ",
                 json_string_value(json_array_get(aliases, i)));
}

/* "  175 B parameters, 96 layers, hidden 12288": of models. */
static void add_dimensions(struct text *line, const json_t *entry)
{
    char parameters[32];
    if (!json_object_get(entry, "params"))
        return;
    units_show_count(json_number_value(json_object_get(entry, "params")), parameters,
                     sizeof parameters);
    text_add(line, ": %s parameters, %d layers, hidden %d", parameters,
             (int)json_integer_value(json_object_get(entry, "layers")),
             (int)json_integer_value(json_object_get(entry, "hidden")));
}

static void print_table(const json_t *list, bool with_sources)
{
    int width = names_width(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *source = text_of(entry, "source");
        struct text line = { 0 };
        text_add_padded(&line, shown_name(entry), width);
        text_add(&line, "  %s", text_of(entry, "summary"));
        add_dimensions(&line, entry);
        add_aliases(&line, entry);
        printf("%s\n", text_get(&line));
        if (with_sources && *source)
            printf("%*s  source: %s\n", width, "", source);
        text_release(&line);
    }
}

static const struct list_kind *find_kind(const char *name, struct err *err)
{
    const char *names[NUM_KINDS];
    for (int i = 0; i < NUM_KINDS; i++) {
        names[i] = kinds[i].name;
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    const char *nearest = text_nearest(name, names, NUM_KINDS);
    if (nearest)
        err_set(err, ERR_USAGE, name, "nothing is listed under that; did you mean \"%s\"?",
                nearest);
    else
        err_set(err, ERR_USAGE, name, "nothing is listed under that; `simsearch list` tells what");
    return NULL;
}

int cmd_list(int argc, char **argv, struct err *err)
{
    struct options options;
    if (!options_parse(COMMAND_LIST, 1, argc, argv, &options, err))
        return exit_code_of(err);
    const struct list_kind *kind = options.num_files > 0 ? find_kind(options.files[0], err) : NULL;
    if (err->code != ERR_NONE)
        return exit_code_of(err);
    if (kind && kind->print && options.json)
        err_set(err, ERR_USAGE, kind->name, "is a page of Markdown, not JSON");
    else if (kind && kind->print)
        kind->print(stdout);
    if (err->code != ERR_NONE || (kind && kind->print))
        return exit_code_of(err);
    json_t *list = kind ? kind->entries(err) : list_kinds();
    if (!list)
        return exit_code_of(err);
    if (options.json)
        print_json(list);
    else
        print_table(list, options.verbose);
    json_decref(list);
    return EXIT_DONE;
}
