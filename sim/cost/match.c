#include "sim/cost/match.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/length.h"
#include "models/layer.h"
#include "models/model.h"
#include "sim/collective/generation.h"
#include "sim/cost/datafile.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(type, member) .offset = offsetof(struct type, member)
#define TEXT(member) \
    .kind = FIELD_TEXT, AT(match_rule, member), .size = sizeof((struct match_rule *)0)->member

/* By enum attention_kernel; ATTENTION_UNFUSED stands for the stack's own kernel. */
static const char *const kernel_choices[NUM_ATTENTION_KERNELS + 1] = { "own", "flash1", "flash2",
                                                                       "flash3", NULL };

// clang-format off
const struct field match_fields[] = {
    { .name = "gpu", TEXT(gpu), .fallback = "*", .doc = "Pattern of the GPU's name." },
    { .name = "network", TEXT(network), .fallback = "*", .doc = "Pattern of the network's description." },
    { .name = "software", TEXT(software), .fallback = "*",
      .doc = "Pattern of the software's description." },
    { .name = "source", TEXT(source), .fallback = "*", .doc = "Pattern of the source's key." },
    { .name = "model", TEXT(model), .fallback = "*", .doc = "Pattern of the model's name." },
    { .name = "gpus_per_node", .kind = FIELD_INT, AT(match_rule, gpus_per_node), .min = 0,
      .max = 1024, .fallback = "0", .doc = "GPUs of a node; 0: any number." },
    { .name = "compiled", .kind = FIELD_INT, AT(match_rule, compiled), .min = -1, .max = 1,
      .fallback = "-1", .doc = "Whether kernels were compiled, 0 or 1; -1: either." },
    { .name = "use", TEXT(use), .fallback = "", .doc = "Cluster or stack with which matching rows are predicted." },
    { .name = "memory", TEXT(memory), .fallback = "",
      .doc = "Rules for stacks: the stack that predicts the memory of such rows." },
    { .name = "power", .kind = FIELD_QUANTITY, .quantity = QUANTITY_WATTS, AT(match_rule, power_w),
      .min = 0, .max = 1e6, .fallback = "0 W",
      .doc = "Rules for clusters: power limit of each GPU; 0 W: that of its file." },
    { .name = "unknown_network", .kind = FIELD_BOOL, AT(match_rule, unknown_network),
      .fallback = "false",
      .doc = "Rules for clusters: the network is not stated; half of the cluster's bandwidth between nodes is assumed." },
    { .name = "recompute", TEXT(recompute), .fallback = "",
      .doc = "Rules for stacks: the recompute of such rows, if the stated one is known to be wrong." },
    { .name = "spreads_experts", .kind = FIELD_BOOL, AT(match_rule, spreads_experts), .fallback = "false",
      .doc = "Rules for stacks: ep is the number of data ranks in rows that do not state it." },
    { .name = "local_batch", .kind = FIELD_INT, AT(match_rule, local_batch), .min = 0, .max = 1e6,
      .fallback = "0",
      .doc = "Rules for stacks: number of a data rank's sequences after which the pipeline drains; 0: it drains only at the end of a step." },
    { .name = "capacity", .kind = FIELD_NUMBER, AT(match_rule, capacity), .min = 0, .max = 100,
      .fallback = "0",
      .doc = "Rules for stacks: the capacity factor of experts in such rows; 0: no capacity." },
    { .name = "overlap", .kind = FIELD_SET, AT(match_rule, overlap), .names = overlap_names,
      .fallback = "", .doc = "Rules for stacks: communication that overlaps compute in such rows, in addition to that of the stack." },
    { .name = "routing", .kind = FIELD_NAME, AT(match_rule, routing), .names = routing_names,
      .fallback = "balanced", .doc = "Rules for stacks: the routing of rows whose models have experts." },
    { .name = "optimizer", .kind = FIELD_NAME, AT(match_rule, optimizer), .names = optimizer_names,
      .fallback = "adam", .doc = "Rules for stacks: the optimizer of such rows." },
    { .name = "attention", .kind = FIELD_NAME, AT(match_rule, attention), .names = kernel_choices,
      .fallback = "own",
      .doc = "Rules for stacks: the kernel of attn=flash in such rows; own: the stack's." },
    { .name = "unfused", .kind = FIELD_SET, AT(match_rule, unfused), .names = fusion_names,
      .fallback = "", .doc = "Rules for stacks: ops that such rows do not fuse, unlike the stack." },
    { .name = "fp32_gradients", .kind = FIELD_BOOL, AT(match_rule, fp32_gradients), .fallback = "false",
      .doc = "Rules for stacks: such rows keep and sum gradients in fp32, whatever the stack's are." },
    { .name = "graphs", .kind = FIELD_BOOL, AT(match_rule, graphs), .fallback = "false",
      .doc = "Rules for stacks: such rows launch kernels as CUDA graphs, however the stack launches them." },
    { .name = "assumption", TEXT(assumption), .fallback = "",
      .doc = "Text that the answer lists as an assumption about rows that match." },
    { .name = "skip", TEXT(skip), .fallback = "", .doc = "Why such rows cannot be predicted." },
};
const size_t num_match_fields = LENGTH(match_fields);

#define TEXT_OF_MODEL(member) \
    .kind = FIELD_TEXT, AT(match_model, member), .size = sizeof((struct match_model *)0)->member
#define FLAG(member) .kind = FIELD_BOOL, AT(match_model, member), .fallback = "false"
const struct field match_model_fields[] = {
    { .name = "model", TEXT_OF_MODEL(model), .fallback = "*", .doc = "Pattern of the model's name." },
    { .name = "software", TEXT_OF_MODEL(software), .fallback = "*",
      .doc = "Pattern of the software's description." },
    { .name = "preset", TEXT_OF_MODEL(preset), .fallback = "",
      .doc = "Preset for all properties except the sizes that a row states." },
    { .name = "gated", .kind = FIELD_INT, AT(match_model, gated), .min = -1, .max = 1,
      .fallback = "-1", .doc = "Whether the row's feed-forward is gated, 0 or 1; -1: either." },
    { .name = "source", .kind = FIELD_OTHER, .fallback = "", .doc = "Source of the file's contents." },
    { .name = "norm", .kind = FIELD_NAME, AT(match_model, norm), .names = norm_names,
      .fallback = "rmsnorm", .doc = "Kind of the model's norms." },
    { .name = "activation", .kind = FIELD_NAME, AT(match_model, activation),
      .names = activation_names, .fallback = "swiglu", .doc = "Kind of the model's activation." },
    { .name = "positions", .kind = FIELD_NAME, AT(match_model, positions), .names = position_names,
      .fallback = "rotary", .doc = "Kind of the model's positions." },
    { .name = "linear_bias", FLAG(linear_bias), .doc = "Linear layers have biases." },
    { .name = "tied", FLAG(tied), .doc = "Embedding and head are one matrix." },
    { .name = "embedding_norm", FLAG(embedding_norm), .doc = "A norm follows the embedding." },
    { .name = "dropout", .kind = FIELD_NUMBER, AT(match_model, dropout), .min = 0, .max = 0.99,
      .fallback = "0", .doc = "Dropout in training." },
};
const size_t num_match_model_fields = LENGTH(match_model_fields);

static const struct field table_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "source", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of the rules." },
    { .name = "clusters", .kind = FIELD_OTHER, .doc = "Rules that find the cluster." },
    { .name = "stacks", .kind = FIELD_OTHER, .doc = "Rules that find the stack." },
    { .name = "models", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Rules for properties of models that the rows have no column for." },
};
// clang-format on
enum { NUM_TABLE_FIELDS = LENGTH(table_fields), MAX_RULES = 1024 };

static bool read_rule(const json_t *object, struct match_rule *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (!fields_read(match_fields, num_match_fields, object, out, err))
        return false;
    if (!*out->use == !*out->skip)
        return err_set(err, ERR_INPUT, "use", "expected either \"use\" or \"skip\"; found %s",
                       *out->use ? "both" : "neither");
    return true;
}

static bool read_rules(const json_t *list, const char *key, struct match_rules *out,
                       struct err *err)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > MAX_RULES)
        return err_set(err, ERR_INPUT, key, "expected a list of 1 to %d rules; found %zu",
                       MAX_RULES, count);
    out->at = arena_grow(NULL, count * sizeof *out->at);
    out->count = (int)count;
    for (size_t i = 0; i < count; i++)
        if (!read_rule(json_array_get(list, i), &out->at[i], err))
            return err_within_item(err, key, i);
    return true;
}

static bool read_models(const json_t *list, struct match_models *out, struct err *err)
{
    size_t count = json_array_size(list);
    if (!list)
        return true;
    if (!json_is_array(list) || count > MAX_RULES)
        return err_set(err, ERR_INPUT, "models", "expected a list of up to %d rules", MAX_RULES);
    out->at = arena_grow(NULL, (count + 1) * sizeof *out->at);
    out->count = (int)count;
    for (size_t i = 0; i < count; i++) {
        memset(&out->at[i], 0, sizeof out->at[i]);
        if (!fields_read(match_model_fields, num_match_model_fields, json_array_get(list, i),
                         &out->at[i], err))
            return err_within_item(err, "models", i);
    }
    return true;
}

static bool read_table(const json_t *root, struct match_table *out, struct err *err)
{
    return fields_read(table_fields, NUM_TABLE_FIELDS, root, out, err) &&
           datafile_check(table_fields, NUM_TABLE_FIELDS, root, err) &&
           read_rules(json_object_get(root, "clusters"), "clusters", &out->clusters, err) &&
           read_rules(json_object_get(root, "stacks"), "stacks", &out->stacks, err) &&
           read_models(json_object_get(root, "models"), &out->models, err);
}

bool match_load(const char *path, struct match_table *out, struct err *err)
{
    char shipped[PATH_MAX + 16];
    struct json_file file;
    *out = (struct match_table){ 0 };
    if (!path) {
        char folder[PATH_MAX];
        if (!file_data_folder("calibration", folder, sizeof folder))
            return err_set(err, ERR_SYSTEM, "calibration",
                           "no such data folder; is SIMSEARCH_DATA right?");
        snprintf(shipped, sizeof shipped, "%s/match.json", folder);
        path = shipped;
    }
    if (!json_file_load(&file, path, err))
        return false;
    bool ok = read_table(file.root, out, err);
    if (!ok) {
        json_file_blame(&file, err);
        match_release(out);
    }
    json_file_release(&file);
    return ok;
}

void match_release(struct match_table *table)
{
    free(table->clusters.at);
    free(table->stacks.at);
    free(table->models.at);
    *table = (struct match_table){ 0 };
}

/* The end of the first occurrence of `piece` in `text`; NULL: none. */
static const char *find_piece(const char *text, const char *piece, size_t length)
{
    for (; strlen(text) >= length; text++)
        if (strncasecmp(text, piece, length) == 0)
            return text + length;
    return NULL;
}

/* Matches the pieces between stars, in order. */
static bool match_alternative(const char *pattern, size_t length, const char *text)
{
    const char *end = pattern + length;
    if (length == 0)
        return *text == '\0';
    while (text && pattern < end) {
        size_t piece = strcspn(pattern, "*|");
        text = find_piece(text, pattern, piece);
        pattern += piece + (pattern[piece] == '*');
    }
    return text != NULL;
}

bool match_text(const char *pattern, const char *text)
{
    for (;;) {
        size_t length = strcspn(pattern, "|");
        if (match_alternative(pattern, length, text))
            return true;
        if (pattern[length] == '\0')
            return false;
        pattern += length + 1;
    }
}

static bool rule_applies(const struct match_rule *rule, const struct match_row *row)
{
    return (rule->gpus_per_node == 0 || rule->gpus_per_node == row->gpus_per_node) &&
           (rule->compiled < 0 || rule->compiled == row->compiled) &&
           match_text(rule->gpu, row->gpu) && match_text(rule->network, row->network) &&
           match_text(rule->software, row->software) &&
           match_text(rule->source, row->source ? row->source : "") &&
           match_text(rule->model, row->model ? row->model : "");
}

static const struct match_rule *first_rule(const struct match_rules *rules,
                                           const struct match_row *row)
{
    for (int i = 0; i < rules->count; i++)
        if (rule_applies(&rules->at[i], row))
            return &rules->at[i];
    return NULL;
}

bool match_find(const struct match_table *table, const struct match_row *row, struct match *out)
{
    static const struct match_rule none = { .skip = "no rule of match.json matches these words" };
    const struct match_rule *cluster = first_rule(&table->clusters, row);
    const struct match_rule *stack = first_rule(&table->stacks, row);
    cluster = cluster ? cluster : &none;
    stack = stack ? stack : &none;
    *out = (struct match){ .cluster = cluster->use,
                           .stack = stack->use,
                           .cluster_assumption = cluster->assumption,
                           .stack_assumption = stack->assumption,
                           .recompute = stack->recompute,
                           .spreads_experts = stack->spreads_experts,
                           .local_batch = stack->local_batch,
                           .capacity = stack->capacity,
                           .overlap = stack->overlap,
                           .routing = stack->routing,
                           .optimizer = stack->optimizer,
                           .attention = stack->attention,
                           .unfused = stack->unfused,
                           .fp32_gradients = stack->fp32_gradients,
                           .graphs = stack->graphs,
                           .memory = stack->memory,
                           .power_w = cluster->power_w,
                           .unknown_network = cluster->unknown_network,
                           .skip = *cluster->skip ? cluster->skip : stack->skip };
    return *out->skip == '\0';
}

const struct match_model *match_find_model(const struct match_table *table, const char *model,
                                           const char *software, bool is_gated)
{
    for (int i = 0; i < table->models.count; i++) {
        const struct match_model *rule = &table->models.at[i];
        if ((rule->gated < 0 || rule->gated == is_gated) && match_text(rule->model, model) &&
            match_text(rule->software, software))
            return rule;
    }
    return NULL;
}
