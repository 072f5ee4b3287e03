/* Reads a model from a config.json of Hugging Face's transformers. A family is the class of models
 * that its model_type names; models/family.c lists which keys each family has. */
#include "models/family.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `source` of models that were read from a config. */
static const char config_source[] = "Hugging Face config.json";

bool family_refuse(const char *key, const char *expected, const json_t *found, struct err *err)
{
    if (!found || json_is_array(found) || json_is_object(found))
        return err_set(err, ERR_INPUT, key, "expected %s; %s", expected,
                       !found                 ? "the key is missing"
                       : json_is_array(found) ? "found an array"
                                              : "found an object");
    char *text = json_text(found, 0);
    err_set(err, ERR_INPUT, key, "expected %s; found %.80s", expected, text ? text : "nothing");
    free(text);
    return false;
}

const json_t *family_value(const json_t *config, const char *name)
{
    const char *dot = strchr(name, '.');
    char outer[64];
    if (!dot) {
        const json_t *value = json_object_get(config, name);
        return json_is_null(value) ? NULL : value;
    }
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    return family_value(json_object_get(config, outer), dot + 1);
}

static const json_t *value_of(const json_t *config, const struct key *key)
{
    return family_value(config, key->name);
}

static const struct key *key_of_kind(const struct family *family, enum key_kind kind)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->kind == kind)
            return key;
    return NULL;
}

static void *slot_of_kind(const struct key *key, enum field_kind kind, struct model *out)
{
    const struct field *field = fields_find(model_fields, num_model_fields, key->field);
    assert(field && field->kind == kind);
    (void)kind;
    return (char *)out + field->offset;
}

static int *slot_of(const struct key *key, struct model *out)
{
    return slot_of_kind(key, FIELD_INT, out);
}

static bool *bool_slot_of(const struct key *key, struct model *out)
{
    return slot_of_kind(key, FIELD_BOOL, out);
}

static double *number_slot_of(const struct key *key, struct model *out)
{
    return slot_of_kind(key, FIELD_NUMBER, out);
}

/* Reads an integer within the bounds of the model field `name`. Refuses 0, as in that field it
 * means "left out". */
static bool read_int(const json_t *value, const char *key, const char *name, int *out,
                     struct err *err)
{
    const struct field *field = fields_find(model_fields, num_model_fields, name);
    json_int_t number = json_integer_value(value);
    char expected[64];
    snprintf(expected, sizeof expected, "an integer from 1 to %.0f", field->max);
    if (!json_is_integer(value) || number < 1 || (double)number > field->max)
        return family_refuse(key, expected, value, err);
    *out = (int)number;
    return true;
}

static bool read_int_key(const json_t *value, const struct key *key, struct model *out,
                         struct err *err)
{
    int number = 0;
    int *slot = slot_of(key, out);
    if (!read_int(value, key->name, key->field, &number, err))
        return false;
    if (*slot != 0 && *slot != number)
        return err_set(err, ERR_INPUT, key->name,
                       "expected %d, the value of another key of %s; found %d", *slot, key->field,
                       number);
    *slot = number;
    return true;
}

/* JSON null is read as 0. */
static bool read_count(const json_t *value, const struct key *key, struct model *out,
                       struct err *err)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > 1000000000)
        return family_refuse(key->name, "an integer of 0 or more", value, err);
    *slot_of(key, out) = (int)number;
    return true;
}

static bool check_fixed(const json_t *value, const struct key *key, struct err *err)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%g, the only supported value", key->fallback);
    return (json_is_number(value) && json_number_value(value) == key->fallback) ||
           family_refuse(key->name, expected, value, err);
}

static bool check_same(const json_t *value, const struct key *key, struct model *out,
                       struct err *err)
{
    char expected[64];
    int other = *slot_of(key, out);
    snprintf(expected, sizeof expected, "%d, the same as %s", other, key->field);
    bool is_same = json_is_integer(value) && json_integer_value(value) == other;
    if (!is_same && other != 0) /* a missing key (0) is reported by fill_in */
        return family_refuse(key->name, expected, value, err);
    return true;
}

/* Reads a number above 0; messages call it `name`. */
static bool read_positive(const json_t *value, const char *name, const struct key *key,
                          struct model *out, struct err *err)
{
    const struct field *field = fields_find(model_fields, num_model_fields, key->field);
    double number = json_number_value(value);
    char expected[64];
    snprintf(expected, sizeof expected, "a number above 0 and at most %g", field->max);
    if (!json_is_number(value) || !(number > 0 && number <= field->max))
        return family_refuse(name, expected, value, err);
    double *slot = number_slot_of(key, out);
    if (*slot != 0 && *slot != number)
        return err_set(err, ERR_INPUT, name,
                       "expected %g, the value of another key of %s; found %g", *slot, key->field,
                       number);
    *slot = number;
    return true;
}

static bool read_rope(const json_t *value, const struct key *key, struct model *out,
                      struct err *err)
{
    const json_t *theta = json_object_get(value, "rope_theta");
    if (!json_is_object(value))
        return family_refuse(key->name, "an object", value, err);
    return !theta || json_is_null(theta) ||
           read_positive(theta, "rope_parameters.rope_theta", key, out, err);
}

/* The model has one dropout. When a config has several, the largest is used, so that memory for
 * masks is not underestimated. */
static bool read_dropout(const json_t *value, const struct key *key, struct model *out,
                         struct err *err)
{
    double rate = json_number_value(value);
    if (!json_is_number(value) || !(rate >= 0 && rate <= 0.99))
        return family_refuse(key->name, "a number from 0 to 0.99", value, err);
    out->dropout = fmax(out->dropout, rate);
    return true;
}

static bool read_activation(const json_t *value, const struct key *key, struct model *out,
                            struct err *err)
{
    bool is_gated = model_is_gated(out);
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < num_activations; i++) {
        int kind = is_gated ? activations[i].gated : activations[i].plain;
        if (strcmp(activations[i].name, name) != 0 || kind < 0)
            continue;
        out->activation = kind;
        return true;
    }
    return family_refuse(key->name, is_gated ? "silu or gelu, gated" : "gelu or relu", value, err);
}

static bool read_layer_types(const json_t *value, const struct key *key, struct err *err)
{
    if (!json_is_array(value))
        return family_refuse(key->name, "an array of names", value, err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));
        if (!name || strcmp(name, "full_attention") != 0)
            return family_refuse(key->name, "full_attention in every block",
                                 json_array_get(value, i), err);
    }
    return true;
}

static bool read_bool(const json_t *value, const struct key *key, struct err *err)
{
    if (!json_is_boolean(value))
        return family_refuse(key->name, "true or false", value, err);
    if (key->kind == KEY_TRUE && !json_is_true(value))
        return family_refuse(key->name, "true, the only supported value", value, err);
    if (key->kind == KEY_FALSE && !json_is_false(value))
        return family_refuse(key->name, "false, the only supported value", value, err);
    return true;
}

static bool read_key(const json_t *value, const struct key *key, struct model *out, struct err *err)
{
    switch (key->kind) {
    case KEY_INT:
        return read_int_key(value, key, out, err);
    case KEY_SAME:
        return check_same(value, key, out, err);
    case KEY_POSITIVE:
        return read_positive(value, key->name, key, out, err);
    case KEY_ROPE:
        return read_rope(value, key, out, err);
    case KEY_DROPOUT:
        return read_dropout(value, key, out, err);
    case KEY_ACTIVATION:
        return read_activation(value, key, out, err);
    case KEY_LAYER_TYPES:
        return read_layer_types(value, key, err);
    case KEY_TIED:
        out->tied = json_is_true(value);
        return read_bool(value, key, err);
    case KEY_BOOL:
        *bool_slot_of(key, out) = json_is_true(value);
        return read_bool(value, key, err);
    case KEY_PARALLEL:
        if (json_is_false(value))
            out->parallel = PARALLEL_NO;
        return read_bool(value, key, err);
    case KEY_COUNT:
        return read_count(value, key, out, err);
    case KEY_FIXED:
        return check_fixed(value, key, err);
    case KEY_SHARED: /* read later, when an expert's width is known */
    case KEY_LAYERS: /* read later, when the number of layers is known */
    case KEY_IGNORED:
        return true;
    case KEY_TRUE:
    case KEY_FALSE:
    case KEY_BIAS:
    case KEY_USE_WINDOW:
        return read_bool(value, key, err);
    case KEY_WINDOW:
        return true; /* read by read_window, when the sequence is known */
    case KEY_FULL_BLOCKS:
        return json_is_integer(value) || family_refuse(key->name, "an integer", value, err);
    }
    return false;
}

/* Fills in a family's default for a key that is left out. */
static bool fill_in(const struct key *key, struct model *out, struct err *err)
{
    if (key->kind == KEY_DROPOUT)
        out->dropout = fmax(out->dropout, key->fallback);
    if (key->kind == KEY_POSITIVE && *number_slot_of(key, out) == 0)
        *number_slot_of(key, out) = key->fallback;
    if (key->kind == KEY_BOOL && key->fallback != 0)
        *bool_slot_of(key, out) = true;
    if (key->kind == KEY_PARALLEL && key->fallback == 0)
        out->parallel = PARALLEL_NO;
    if (key->kind != KEY_INT || *slot_of(key, out) != 0)
        return true;
    *slot_of(key, out) = (int)key->fallback;
    return !key->is_required || family_refuse(key->name, "an integer", NULL, err);
}

static bool read_keys(const json_t *config, const struct family *family, struct model *out,
                      struct err *err)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (value_of(config, key) && !read_key(value_of(config, key), key, out, err))
            return false;
    for (const struct key *key = family->keys; key->name; key++)
        if (!value_of(config, key) && !fill_in(key, out, err))
            return false;
    return true;
}

/* The key mlp_bias puts biases on the feed-forward; every other KEY_BIAS key puts them on q, k, v
 * and the output projection. */
static bool read_biases(const json_t *config, const struct family *family, struct model *out)
{
    bool on_attention = false, on_ffn = out->ffn_bias;
    for (const struct key *key = family->keys; key->name; key++) {
        const json_t *value = value_of(config, key);
        if (key->kind == KEY_BIAS && (value ? json_is_true(value) : key->fallback != 0))
            *(strcmp(key->name, "mlp_bias") == 0 ? &on_ffn : &on_attention) = true;
    }
    if (on_attention && on_ffn)
        out->linear_bias = true;
    out->qkv_bias = out->qkv_bias || (on_attention && !on_ffn);
    out->out_bias = out->out_bias || (on_attention && !on_ffn);
    out->ffn_bias = on_ffn && !on_attention;
    return true;
}

/* Shared experts are as wide as routed ones. One group of experts is the same as no groups. */
static bool read_routing(const json_t *config, const struct family *family, struct model *out,
                         struct err *err)
{
    const struct key *shared = key_of_kind(family, KEY_SHARED);
    const json_t *value = shared ? value_of(config, shared) : NULL;
    double experts = !shared ? 0 : value ? json_number_value(value) : shared->fallback;
    if (value && (!json_is_integer(value) || experts < 0 || experts > 1000))
        return family_refuse(shared->name, "an integer from 0 to 1000", value, err);
    if (shared)
        out->shared_ffn = (int)experts * (out->expert_ffn > 0 ? out->expert_ffn : out->ffn);
    if (out->expert_groups <= 1)
        out->expert_groups = out->topk_groups = 0;
    return true;
}

/* Whether the window is in use. It is not in use when the config has layer_types (a KEY_LAYER_TYPES
 * alone then decides), when use_sliding_window is false, or when all blocks are among those without
 * a window. */
static bool window_acts(const json_t *config, const struct family *family, const struct model *out)
{
    const struct key *use = key_of_kind(family, KEY_USE_WINDOW);
    const struct key *full = key_of_kind(family, KEY_FULL_BLOCKS);
    const struct key *types = key_of_kind(family, KEY_LAYER_TYPES);
    const json_t *blocks = full ? value_of(config, full) : NULL;
    if ((types && value_of(config, types)) || (use && !json_is_true(value_of(config, use))))
        return false;
    double num_full = blocks ? json_number_value(blocks) : full ? full->fallback : 0;
    return num_full < out->layers;
}

/* Each token attends to at most `window` tokens before it. On a sequence no longer than the window,
 * this is plain causal attention, the only kind that is modelled here. So the default sequence is
 * limited to the window, and a longer one gets a warning. */
static bool read_window(const json_t *config, const struct family *family, struct model *out,
                        struct err *err)
{
    const struct key *key = key_of_kind(family, KEY_WINDOW);
    if (!key || !window_acts(config, family, out))
        return true;
    const json_t *value = json_object_get(config, key->name);
    int window = (int)key->fallback;
    if (json_is_null(value))
        return true;
    if (value && !read_int(value, key->name, "seq", &window, err))
        return false;
    if (window == 0)
        return true;
    out->sliding_window = window;
    if (window < out->seq)
        out->seq = window;
    return true;
}

static bool has_key(const struct family *family, const char *name)
{
    size_t length = strlen(name);
    for (const struct key *key = family->keys; key->name; key++)
        if (strncmp(key->name, name, length) == 0 &&
            (key->name[length] == '\0' || key->name[length] == '.'))
            return true;
    return false;
}

/* A config states the longest allowed sequence, not the training sequence. Most training uses at
 * most 8192 tokens per sequence, with longer ones in a short final stage: Llama 3 had 8192 before
 * 128K (Llama 3 model card; Grattafiori et al. 2024, section 3.4), Qwen2.5 and DeepSeek-V3 4096
 * before 32K and more (their reports, sections 3.3 and 4.3). */
enum { USUAL_SEQ = 8192 };

static void assume_seq(const struct family *family, struct model *out)
{
    if (has_key(family, "seq_length"))
        return; /* BLOOM's config states the training sequence */
    out->allowed_seq = out->seq;
    if (out->seq > USUAL_SEQ)
        out->seq = USUAL_SEQ;
}

static bool is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value))
        return json_number_value(value) == neutral;
    if (json_is_array(value))
        return json_array_size(value) == 0;
    if (json_is_object(value))
        return json_object_size(value) == 0;
    return !value || json_is_null(value) || json_is_false(value);
}

static bool refuse_others(const json_t *config, const struct family *family, struct err *err)
{
    for (size_t i = 0; i < num_refused_keys; i++) {
        const char *name = refused_keys[i].name;
        if (!has_key(family, name) &&
            !is_neutral(json_object_get(config, name), refused_keys[i].neutral))
            return err_set(err, ERR_INPUT, name,
                           "changes the model; expected it to be absent from a %s config",
                           family->model_type);
    }
    return true;
}

/* Names the model after the last part of the path in the config, if that is a valid name. */
static void read_name(const json_t *config, const struct family *family, struct model *out)
{
    const char *path = json_string_value(json_object_get(config, "_name_or_path"));
    const char *name = path ? file_own_name(path) : NULL;
    bool is_plain = name && *name && strlen(name) < sizeof out->name;
    for (size_t i = 0; is_plain && name[i]; i++)
        is_plain = name[i] > ' ' && name[i] <= '~';
    snprintf(out->name, sizeof out->name, "%s", is_plain ? name : family->model_type);
    snprintf(out->summary, sizeof out->summary, "%s of a Hugging Face config", family->model_type);
    snprintf(out->source, sizeof out->source, "%s", config_source);
}

bool model_is_from_huggingface(const struct model *model)
{
    return strcmp(model->source, config_source) == 0;
}

/* Always returns false. */
static bool refuse_family(const char *key, const json_t *found, struct err *err)
{
    struct text expected = { 0 };
    text_add(&expected, "one of");
    for (size_t i = 0; i < num_families; i++)
        text_add(&expected, "%s %s", i > 0 ? "," : "", families[i].model_type);
    family_refuse(key, text_get(&expected), found, err);
    text_release(&expected);
    return false;
}

static const struct family *find_family(const json_t *config, struct err *err)
{
    const json_t *type = json_object_get(config, "model_type");
    const json_t *architecture = json_array_get(json_object_get(config, "architectures"), 0);
    const char *name = json_string_value(type ? type : architecture);
    for (size_t i = 0; name && i < num_families; i++)
        if (strcmp(type ? families[i].model_type : families[i].architecture, name) == 0)
            return &families[i];
    bool is_blamed = !type && architecture;
    refuse_family(is_blamed ? "architectures" : "model_type", is_blamed ? architecture : type, err);
    return NULL;
}

/* If an error of model_derive names a model field, replaces the name by the config's key for that
 * field. */
static bool blame_key(const json_t *config, const struct family *family, struct err *err)
{
    for (const struct key *key = family->keys; key->name; key++) {
        if (!key->field || strcmp(key->field, err->where) != 0 || !value_of(config, key))
            continue;
        snprintf(err->where, sizeof err->where, "%s", key->name);
        break;
    }
    return false;
}

/* Returns the text part of a config for text and images, which names its own family; else `config`.
 * The caller releases it. */
static json_t *text_part(const json_t *config)
{
    const json_t *text = json_object_get(config, "text_config");
    const char *type = json_string_value(json_object_get(config, "model_type"));
    char name[64];
    snprintf(name, sizeof name, "%s_text", type ? type : "");
    for (size_t i = 0; json_is_object(text) && i < num_families; i++)
        if (strcmp(families[i].model_type, name) == 0) {
            json_t *part = json_copy((json_t *)text);
            json_object_set_new(part, "model_type", json_string(name));
            return part;
        }
    return json_incref((json_t *)config);
}

static bool read_all(const json_t *config, const struct family *family, struct model *out,
                     struct err *err)
{
    *out = family->base;
    read_name(config, family, out);
    if (!refuse_others(config, family, err) || !read_keys(config, family, out, err) ||
        !read_biases(config, family, out) || !read_routing(config, family, out, err) ||
        !family_finish(config, family, out, err))
        return false;
    if (out->positions == POSITION_LEARNED)
        out->max_positions = out->seq + family->extra_positions;
    assume_seq(family, out);
    if (!read_window(config, family, out, err))
        return false;
    bool ok = model_derive_widths(out, err) && family_read_layers(config, family, out, err) &&
              model_derive(out, err);
    return ok || blame_key(config, family, err);
}

bool model_from_huggingface(const json_t *whole, struct model *out, struct err *err)
{
    json_t *config = text_part(whole);
    const struct family *family = find_family(config, err);
    bool ok = family && read_all(config, family, out, err);
    json_decref(config);
    return ok;
}
