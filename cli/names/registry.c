/* Lists everything that has a name in the program, such as models, clusters and options. */
#include "cli/names/registry.h"

#include "base/file.h"
#include "base/json.h"
#include "base/length.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/names/completion.h"
#include "cli/names/reference.h"
#include "cli/views/answer.h"
#include "cli/views/decentralised.h"
#include "exec/plugin/backend.h"
#include "exec/supported.h"
#include "interchange/target.h"
#include "models/corpus.h"
#include "models/model.h"
#include "models/workload.h"
#include "search/robust.h"
#include "sim/campaign/scaling.h"
#include "sim/collective/collective.h"
#include "sim/cost/datafile.h"
#include "sim/cost/hardware.h"
#include "sim/plan/axes.h"
#include "sim/plan/tokens.h"
#include "sim/schedule/schedule.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const keys[] = { "params", "active_params", "mtp_params", "layers", "hidden",
                                        "heads",  "seq",           "batch",      "tokens" };
    for (size_t i = 0; i < LENGTH(keys); i++)
        json_object_set(entry, keys[i], json_object_get(written, keys[i]));
    json_decref(written);
    /* published counts of active parameters omit the input embedding or both tables */
    double active = model_active_parameters(model);
    double table = (double)model->vocab * model->hidden;
    json_object_set_new(entry, "active_params_without_embedding", number_json(active - table));
    json_object_set_new(entry, "active_params_without_tables",
                        number_json(active - (model->tied ? 1 : 2) * table));
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

static json_t *list_texts(struct err *err)
{
    size_t count;
    struct corpus *all = corpora(&count, err);
    if (!all)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *entry = add_entry(list, all[i].name, NULL, all[i].summary, all[i].source);
        json_object_set_new(entry, "licence", json_string(all[i].licence));
    }
    free(all);
    return list;
}

/* Adds the file's entry to the list; false when the file is faulty. */
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
    struct text summary = { 0 };
    provenance_words(&profile.provenance, &summary);
    text_add(&summary, "%s; 90 %% interval -%.0f/+%.0f %%",
             profile.is_disturbed ? ", disturbed" : "", 100 * (1 - exp(-profile.error_log)),
             100 * (exp(profile.error_log) - 1));
    json_t *entry = add_entry(list, name, aliases, text_get(&summary), profile.source);
    text_release(&summary);
    json_object_set_new(entry, "gpu", json_string(profile.gpu_name));
    json_object_set_new(entry, "measured", json_boolean(profile.measured));
    json_object_set_new(
        entry, "provenance",
        fields_write(provenance_fields, num_provenance_fields, &profile.provenance));
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
    struct plan usual = plan_default();
    for (int i = 0; i < num_axes; i++) {
        const struct axis *axis = axes[usual.order[i]];
        add_entry(list, axis->name, NULL, axis->summary, axis->source);
    }
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

static json_t *list_targets(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_targets; i++) {
        const struct target *target = &targets[i];
        json_t *entry = add_entry(list, target->name, NULL, target->summary, target->source);
        json_t *rules = json_array();
        for (int k = 0; k < *target->num_rules; k++)
            json_array_append_new(rules, json_pack("{s:s, s:s, s:s}", "rule", target->rules[k].id,
                                                   "sentence", target->rules[k].sentence, "fix",
                                                   target->rules[k].fix));
        json_object_set_new(entry, "stack", json_string(target->stack));
        json_object_set_new(entry, "rules", rules);
    }
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

static json_t *list_dispatchers(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < NUM_DISPATCHERS; i++)
        add_entry(list, dispatchers[i].name, NULL, dispatchers[i].summary, dispatchers[i].source);
    return list;
}

static json_t *list_exchanges(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_exchange_methods; i++) {
        const struct exchange_method *method = &exchange_methods[i];
        json_t *entry = add_entry(list, method->name, NULL, method->summary, method->source);
        json_object_set_new(entry, "form", json_string(method->form));
        json_object_set_new(entry, "changes",
                            method->changes ? json_string(method->changes) : json_null());
    }
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

static json_t *list_laws(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_size_laws; i++)
        add_entry(list, size_laws[i].name, NULL, size_laws[i].summary, size_laws[i].source);
    return list;
}

static json_t *list_workloads(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_workloads; i++) {
        const struct workload *workload = &workloads[i];
        json_t *entry = add_entry(list, workload->name, NULL, workload->summary, workload->source);
        json_object_set_new(entry, "parameters", json_real(workload->parameters));
        json_object_set_new(entry, "forward_flops", json_real(workload->forward_flops));
        json_object_set_new(entry, "sample", json_string(workload->sample));
    }
    return list;
}

static json_t *list_costs(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_cost_classes; i++)
        add_entry(list, cost_classes[i].name, NULL, cost_classes[i].summary, "");
    return list;
}

/* Lists backends with their availability, or why they are missing. */
static json_t *list_backends(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; backend_names[i]; i++) {
        struct err missing = { 0 };
        const struct backend *backend = backend_find(backend_names[i], &missing);
        bool is_here = backend && backend->device->is_there(0, &missing);
        add_entry(list, backend_names[i], NULL, is_here ? "can be used here" : missing.msg, NULL);
    }
    return list;
}

static json_t *list_rules(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < plan_num_rules(); i++)
        add_entry(list, plan_rule_at(i)->name, NULL, plan_rule_at(i)->summary, NULL);
    return list;
}

static json_t *list_refusals(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < num_run_refusals; i++)
        add_entry(list, run_refusals[i].where, NULL, run_refusals[i].sentence, NULL);
    return list;
}

static json_t *list_layout(struct err *err)
{
    (void)err;
    json_t *list = json_array();
    for (int i = 0; i < plan_num_tokens(); i++) {
        const struct plan_token *token = plan_token_at(i);
        json_t *entry = add_entry(list, token->name, NULL, token->doc, NULL);
        json_object_set_new(entry, "form", json_string(token->form));
    }
    return list;
}

static void print_completion(completion_write *write, FILE *to)
{
    json_t *kinds = registry_list();
    write(to, kinds);
    json_decref(kinds);
}

static void print_bash(FILE *to)
{
    print_completion(completion_write_bash, to);
}

static void print_zsh(FILE *to)
{
    print_completion(completion_write_zsh, to);
}

static void print_fish(FILE *to)
{
    print_completion(completion_write_fish, to);
}

static const struct registry registries[] = {
    { "models", "presets for --model", list_models, NULL },
    { "texts", "texts to train on, for --data", list_texts, NULL },
    { "gpus", "GPUs of the cluster presets, for --gpu", list_gpus, NULL },
    { "clusters", "presets for --cluster", list_clusters, NULL },
    { "profiles", "measured efficiencies of GPUs and networks", list_profiles, NULL },
    { "stacks", "software families, for --stack", list_stacks, NULL },
    { "axes", "axes over which a step can be split", list_axes, NULL },
    { "schedules", "orders of the pipeline, for schedule=", list_schedules, NULL },
    { "collectives", "algorithms of collectives", list_collectives, NULL },
    { "dispatchers", "libraries that send rows to the ranks of their experts", list_dispatchers,
      NULL },
    { "exchanges", "how data ranks combine gradients or weights, for exchange=", list_exchanges,
      NULL },
    { "methods", "ways to search, for --method", list_methods, NULL },
    { "laws", "published laws for the model size of a budget, which `design` compares", list_laws,
      NULL },
    { "workloads", "models that occur only in the tables of decentralised training", list_workloads,
      NULL },
    { "costs", "classes of cost that --robust varies", list_costs, NULL },
    { "backends", "devices that a plan can run on, for --backend", list_backends, NULL },
    { "rules", "rules that a plan must keep", list_rules, NULL },
    { "refusals", "plans that `run` cannot run yet, by layout word", list_refusals, NULL },
    { "layout", "words of a layout, for --layout and --fix", list_layout, NULL },
    { "decentralised", "published and predicted times of decentralised training",
      decentralised_entries, decentralised_print },
    { "targets", "frameworks that plans are exported to and imported from, and their rules",
      list_targets, NULL },
    { "fields", "keys of the files", NULL, reference_write_fields },
    { "reference", "the reference page, as Markdown", NULL, reference_write },
    { "completion-bash", "completion script for bash", NULL, print_bash },
    { "completion-zsh", "completion script for zsh", NULL, print_zsh },
    { "completion-fish", "completion script for fish", NULL, print_fish },
};
enum { NUM_REGISTRIES = LENGTH(registries) };

json_t *registry_list(void)
{
    json_t *list = json_array();
    for (int i = 0; i < NUM_REGISTRIES; i++)
        add_entry(list, registries[i].name, NULL, registries[i].summary, NULL);
    return list;
}

const struct registry *registry_find(const char *name, struct err *err)
{
    const char *names[NUM_REGISTRIES];
    for (int i = 0; i < NUM_REGISTRIES; i++) {
        names[i] = registries[i].name;
        if (strcmp(registries[i].name, name) == 0)
            return &registries[i];
    }
    const char *nearest = text_nearest(name, names, NUM_REGISTRIES);
    if (nearest)
        err_set(err, ERR_USAGE, name, "there is no list of this name; did you mean \"%s\"?",
                nearest);
    else
        err_set(err, ERR_USAGE, name,
                "there is no list of this name; `simsearch list` shows the names");
    return NULL;
}
