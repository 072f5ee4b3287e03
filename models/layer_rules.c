/* Reads the keys of a config.json that set each block's kind: its attention and its
 * feed-forward. */
#include "models/family.h"

#include "base/arena.h"
#include "base/length.h"
#include "models/blocks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kind of each block of `model`. Before the first rule all have the kind of `model` itself. */
struct layers {
    const struct model *model;
    struct block_kind *at;
};

/* --- names of kinds ------------------------------------------------------------------------- */

/* A name for a block in a config's list, with its attention and feed-forward; -1: the name leaves
 * it open. */
struct layer_name {
    const char *name;
    int attention, feed_forward;
};

/* Names in layer_types. The family's base defines the meaning of linear_attention. */
static const struct layer_name attention_types[] = {
    { "full_attention", ATTENTION_FULL, -1 },
    { "sliding_attention", ATTENTION_WINDOW, -1 },
    { "chunked_attention", ATTENTION_CHUNK, -1 },
    { "indexed_attention", ATTENTION_SPARSE, -1 },
    { NULL, 0, 0 },
};

/* Names in mlp_layer_types. */
static const struct layer_name feed_forward_types[] = {
    { "dense", -1, FEED_FORWARD_DENSE },
    { "sparse", -1, FEED_FORWARD_EXPERTS },
    { NULL, 0, 0 },
};

/* Names in layers_block_type and hybrid_override_pattern of Nemotron-H, where a block is either
 * attention or feed-forward. */
static const struct layer_name single_parts[] = {
    { "linear_attention", ATTENTION_MAMBA, FEED_FORWARD_NONE },
    { "mamba", ATTENTION_MAMBA, FEED_FORWARD_NONE },
    { "M", ATTENTION_MAMBA, FEED_FORWARD_NONE },
    { "full_attention", ATTENTION_FULL, FEED_FORWARD_NONE },
    { "attention", ATTENTION_FULL, FEED_FORWARD_NONE },
    { "*", ATTENTION_FULL, FEED_FORWARD_NONE },
    { "moe", ATTENTION_NONE, FEED_FORWARD_EXPERTS },
    { "E", ATTENTION_NONE, FEED_FORWARD_EXPERTS },
    { "mlp", ATTENTION_NONE, FEED_FORWARD_DENSE },
    { "-", ATTENTION_NONE, FEED_FORWARD_DENSE },
    { NULL, 0, 0 },
};

static bool set_kind(const struct layer_name *names, const char *name, struct block_kind *kind)
{
    for (; names->name; names++) {
        if (strcmp(names->name, name) != 0)
            continue;
        if (names->attention >= 0)
            kind->attention = names->attention;
        if (names->feed_forward >= 0)
            kind->feed_forward = names->feed_forward;
        return true;
    }
    return false;
}

static bool check_length(const char *key, size_t count, const struct layers *layers,
                         struct err *err)
{
    if (count == (size_t)layers->model->layers)
        return true;
    return err_set(err, ERR_INPUT, key, "expected an entry for each of the %d blocks; found %zu",
                   layers->model->layers, count);
}

static bool read_names(const json_t *value, const char *key, const struct layer_name *names,
                       struct layers *layers, struct err *err)
{
    if (!json_is_array(value))
        return family_refuse(key, "an array of names", value, err);
    if (!check_length(key, json_array_size(value), layers, err))
        return false;
    for (int i = 0; i < layers->model->layers; i++) {
        const json_t *item = json_array_get(value, (size_t)i);
        const char *name = json_string_value(item);
        if (!name || !set_kind(names, name, &layers->at[i]))
            return family_refuse(key, "supported kinds of blocks", item, err);
    }
    return true;
}

/* --- rules ---------------------------------------------------------------------------------- */

static bool of_layer_types(const json_t *value, const struct key *key, struct layers *layers,
                           struct err *err)
{
    struct layer_name names[LENGTH(attention_types) + 1] = {
        { "linear_attention", layers->model->attention, -1 },
    };
    memcpy(names + 1, attention_types, sizeof attention_types);
    bool is_linear = layers->model->attention == ATTENTION_DELTA ||
                     layers->model->attention == ATTENTION_LIGHTNING;
    return read_names(value, key->name, is_linear ? names : attention_types, layers, err);
}

static bool of_mlp_layer_types(const json_t *value, const struct key *key, struct layers *layers,
                               struct err *err)
{
    return read_names(value, key->name, feed_forward_types, layers, err);
}

static bool of_block_types(const json_t *value, const struct key *key, struct layers *layers,
                           struct err *err)
{
    return read_names(value, key->name, single_parts, layers, err);
}

static bool of_pattern(const json_t *value, const struct key *key, struct layers *layers,
                       struct err *err)
{
    const char *letters = json_string_value(value);
    if (!letters)
        return family_refuse(key->name, "letters M, *, E and -", value, err);
    if (!check_length(key->name, strlen(letters), layers, err))
        return false;
    for (int i = 0; i < layers->model->layers; i++) {
        const char letter[] = { letters[i], '\0' };
        if (!set_kind(single_parts, letter, &layers->at[i]))
            return family_refuse(key->name, "letters M, *, E and -", value, err);
    }
    return true;
}

/* Reads the step, or takes the family's default if the key is left out. */
static bool read_step(const json_t *value, const struct key *key, int *step, struct err *err)
{
    *step = value ? (int)json_integer_value(value) : (int)key->fallback;
    if (value && (!json_is_integer(value) || *step < 1 || json_integer_value(value) > 100000))
        return family_refuse(key->name, "an integer from 1 to 100000", value, err);
    return true;
}

/* The last of every `step` blocks has full attention; the others have `attention`. */
static bool every_step_full(const json_t *value, const struct key *key, int attention,
                            struct layers *layers, struct err *err)
{
    int step;
    if (!read_step(value, key, &step, err))
        return false;
    for (int i = 0; i < layers->model->layers && step > 0; i++)
        layers->at[i].attention = (i + 1) % step == 0 ? ATTENTION_FULL : attention;
    return true;
}

static bool of_window_pattern(const json_t *value, const struct key *key, struct layers *layers,
                              struct err *err)
{
    return every_step_full(value, key, ATTENTION_WINDOW, layers, err);
}

static bool of_full_interval(const json_t *value, const struct key *key, struct layers *layers,
                             struct err *err)
{
    return every_step_full(value, key, layers->model->attention, layers, err);
}

static bool of_no_rope_interval(const json_t *value, const struct key *key, struct layers *layers,
                                struct err *err)
{
    return every_step_full(value, key, ATTENTION_CHUNK, layers, err);
}

/* A list with a number for each block: 0 selects the kind `if_0`, 1 selects `if_1`. An empty list
 * changes nothing. */
static bool read_flags(const json_t *value, const struct key *key, int if_0, int if_1,
                       struct layers *layers, struct err *err)
{
    if (value && !json_is_array(value))
        return family_refuse(key->name, "an array of 0 and 1", value, err);
    if (json_array_size(value) == 0)
        return true;
    if (!check_length(key->name, json_array_size(value), layers, err))
        return false;
    for (int i = 0; i < layers->model->layers; i++) {
        const json_t *flag = json_array_get(value, (size_t)i);
        if (!json_is_integer(flag) || json_integer_value(flag) < 0 || json_integer_value(flag) > 1)
            return family_refuse(key->name, "0 or 1 for each block", flag, err);
        layers->at[i].attention = json_integer_value(flag) == 1 ? if_1 : if_0;
    }
    return true;
}

static bool of_no_rope_layers(const json_t *value, const struct key *key, struct layers *layers,
                              struct err *err)
{
    return read_flags(value, key, ATTENTION_FULL, ATTENTION_CHUNK, layers, err);
}

static bool of_attention_list(const json_t *value, const struct key *key, struct layers *layers,
                              struct err *err)
{
    return read_flags(value, key, ATTENTION_LIGHTNING, ATTENTION_FULL, layers, err);
}

static bool of_first_dense(const json_t *value, const struct key *key, struct layers *layers,
                           struct err *err)
{
    json_int_t first = json_integer_value(value);
    if (value && (!json_is_integer(value) || first < 0))
        return family_refuse(key->name, "an integer of 0 or more", value, err);
    for (int i = 0; i < layers->model->layers && i < first; i++)
        layers->at[i].feed_forward = FEED_FORWARD_DENSE;
    return true;
}

/* Qwen: block i has experts where (i + 1) % step is 0. */
static bool of_sparse_step(const json_t *value, const struct key *key, struct layers *layers,
                           struct err *err)
{
    int step;
    if (!read_step(value, key, &step, err))
        return false;
    for (int i = 0; i < layers->model->layers; i++)
        if ((i + 1) % step != 0)
            layers->at[i].feed_forward = FEED_FORWARD_DENSE;
    return true;
}

/* Sets the feed-forward of the blocks whose numbers are listed. */
static bool set_listed(const json_t *value, const struct key *key, int feed_forward,
                       struct layers *layers, struct err *err)
{
    if (value && !json_is_array(value))
        return family_refuse(key->name, "an array of blocks", value, err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= layers->model->layers)
            return family_refuse(key->name, "indices of blocks, counted from 0", item, err);
        layers->at[layer].feed_forward = feed_forward;
    }
    return true;
}

static bool of_dense_list(const json_t *value, const struct key *key, struct layers *layers,
                          struct err *err)
{
    return set_listed(value, key, FEED_FORWARD_DENSE, layers, err);
}

/* A list of the blocks with experts, which Llama 4 has instead of interleave_moe_layer_step. */
static bool of_expert_list(const json_t *value, const struct key *key, struct layers *layers,
                           struct err *err)
{
    for (int i = 0; i < layers->model->layers && json_array_size(value) > 0; i++)
        layers->at[i].feed_forward = FEED_FORWARD_DENSE;
    return set_listed(value, key, FEED_FORWARD_EXPERTS, layers, err);
}

typedef bool layer_rule(const json_t *value, const struct key *key, struct layers *layers,
                        struct err *err);

/* The rules are applied in this order; a later one overrides an earlier one. */
static const struct {
    const char *key;
    layer_rule *apply;
    bool is_optional; /* the rule is skipped when the key is left out */
} rules[] = {
    { "sliding_window_pattern", of_window_pattern, false },
    { "_sliding_window_pattern", of_window_pattern, true },
    { "full_attention_interval", of_full_interval, false },
    { "no_rope_layer_interval", of_no_rope_interval, false },
    { "no_rope_layers", of_no_rope_layers, true },
    { "attn_type_list", of_attention_list, true },
    { "layer_types", of_layer_types, true },
    { "first_k_dense_replace", of_first_dense, true },
    { "decoder_sparse_step", of_sparse_step, false },
    { "interleave_moe_layer_step", of_sparse_step, false },
    { "moe_layers", of_expert_list, true },
    { "mlp_only_layers", of_dense_list, true },
    { "mlp_layer_types", of_mlp_layer_types, true },
    { "layers_block_type", of_block_types, true },
    { "hybrid_override_pattern", of_pattern, true },
};

static const struct key *find_key(const struct family *family, const char *name)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->kind == KEY_LAYERS && strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static bool apply_rules(const json_t *config, const struct family *family, struct layers *layers,
                        struct err *err)
{
    for (int i = 0; i < LENGTH(rules); i++) {
        const struct key *key = find_key(family, rules[i].key);
        const json_t *value = key ? family_value(config, key->name) : NULL;
        if (key && (value || !rules[i].is_optional) && !rules[i].apply(value, key, layers, err))
            return false;
    }
    return true;
}

/* --- the model's blocks --------------------------------------------------------------------- */

static bool any_has(const struct layers *layers, int attention, int feed_forward)
{
    for (int i = 0; i < layers->model->layers; i++)
        if (layers->at[i].attention == attention || layers->at[i].feed_forward == feed_forward)
            return true;
    return false;
}

/* Whether the family has a KEY_WINDOW, a window for all blocks that another function reads. */
static bool reads_window(const struct family *family)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->kind == KEY_WINDOW)
            return true;
    return false;
}

/* Clears the sizes that no block uses: of chunked or windowed attention, and of experts. Attention
 * in chunks of 0 tokens is full attention. */
static void leave_out(const struct family *family, struct layers *layers, struct model *out)
{
    for (int i = 0; i < out->layers; i++)
        if (layers->at[i].attention == ATTENTION_CHUNK && out->attention_chunk == 0)
            layers->at[i].attention = ATTENTION_FULL;
    if (!any_has(layers, ATTENTION_CHUNK, -1))
        out->attention_chunk = 0;
    if (!reads_window(family) && !any_has(layers, ATTENTION_WINDOW, -1))
        out->sliding_window = 0;
    if (any_has(layers, -1, FEED_FORWARD_EXPERTS))
        return;
    out->experts = out->topk = out->expert_ffn = out->shared_ffn = 0;
    out->expert_groups = out->topk_groups = 0;
    out->score_bias = out->router_bias = out->shared_gate = out->expert_bias = false;
    out->feed_forward = FEED_FORWARD_DENSE;
}

static bool are_alike(const struct layers *layers)
{
    for (int i = 1; i < layers->model->layers; i++)
        if (!block_kinds_are_equal(&layers->at[i], &layers->at[0]))
            return false;
    return layers->at[0].feed_forward == layers->model->feed_forward;
}

static bool has_rules(const struct family *family)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->kind == KEY_LAYERS)
            return true;
    return false;
}

bool family_read_layers(const json_t *config, const struct family *family, struct model *out,
                        struct err *err)
{
    if (!has_rules(family))
        return true;
    assert(out->layers > 0);
    struct layers layers = { out, arena_grow(NULL, (size_t)out->layers * sizeof *layers.at) };
    for (int i = 0; i < out->layers; i++)
        layers.at[i] = model_own_kind(out);
    bool ok = apply_rules(config, family, &layers, err);
    if (ok) {
        leave_out(family, &layers, out);
        out->attention = are_alike(&layers) ? layers.at[0].attention : ATTENTION_FULL;
        ok = are_alike(&layers) || blocks_of_layers(layers.at, out, err);
    }
    free(layers.at);
    return ok;
}
