#include "models/model.h"

#include "base/file.h"
#include "models/blocks.h"
#include "models/family.h"

#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters are those of the released checkpoints, embeddings included. */
static const struct {
    const char *file, *family, *name;
    double parameters;
    int seq;
    double rope_theta, norm_epsilon;
} fixtures[] = {
    { "gpt2", "gpt2", "gpt2", 124439808, 1024, 0, 1e-5 },
    { "opt-125m", "opt", "opt-125m", 125239296, 2048, 0, 1e-5 },
    { "bloom", "bloom", "bloom", 176247271424, 2048, 0, 1e-5 },
    { "llama-2-7b", "llama", "Llama-2-7b-hf", 6738415616, 4096, 10000, 1e-5 },
    { "llama-3.1-8b", "llama", "llama", 8030261248, 8192, 500000, 1e-5 },
    { "mistral-7b-v0.1", "mistral", "mistral", 7241732096, 4096, 10000, 1e-5 },
    { "qwen2.5-7b", "qwen2", "qwen2", 7615616512, 8192, 1e6, 1e-6 },
    { "qwen3-0.6b", "qwen3", "qwen3", 596049920, 8192, 1e6, 1e-6 },
};

/* For each of these models, most of which have experts, the config must give the same model as the
 * preset of that name. Grok-1 has no config.json. */
static const char *const experts[] = {
    "mixtral-8x7b",
    "mixtral-8x22b",
    "dbrx",
    "qwen2-57b-a14b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "qwen3-next-80b-a3b",
    "deepseek-v2-lite",
    "deepseek-v2",
    "deepseek-v3",
    "deepseek-v3.2",
    "kimi-k2",
    "glm-4.5",
    "glm-4.5-air",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "llama4-scout",
    "llama4-maverick",
    "minimax-m1",
    "minimax-m2",
    "olmoe-1b-7b",
    "ling-mini-2.0",
    "ling-flash-2.0",
    "ling-1t",
    "nemotron-3-nano-30b-a3b",
    "nemotron-h-8b",
    "t5-11b",
    "t5-3b",
    "switch-c",
};

/* The table has one config for each family that is missing in the table `fixtures`. */
static const struct {
    const char *family, *file;
} samples[] = {
    { "mixtral", "experts/mixtral-8x7b" },
    { "dbrx", "experts/dbrx" },
    { "qwen2_moe", "experts/qwen2-57b-a14b" },
    { "qwen3_moe", "experts/qwen3-30b-a3b" },
    { "qwen3_next", "experts/qwen3-next-80b-a3b" },
    { "deepseek_v2", "experts/deepseek-v2" },
    { "deepseek_v3", "experts/deepseek-v3" },
    { "deepseek_v32", "experts/deepseek-v3.2" },
    { "kimi_k2", "experts/kimi-k2" },
    { "glm4_moe", "experts/glm-4.5" },
    { "gpt_oss", "experts/gpt-oss-20b" },
    { "llama4_text", "experts/llama4-scout" },
    { "minimax", "experts/minimax-m1" },
    { "minimax_m1", "experts/minimax-m1" },
    { "minimax_text_01", "experts/minimax-m1" },
    { "minimax_m2", "experts/minimax-m2" },
    { "olmoe", "experts/olmoe-1b-7b" },
    { "bailing_moe", "experts/ling-mini-2.0" },
    { "bailing_moe_v2", "experts/ling-mini-2.0" },
    { "nemotron_h", "experts/nemotron-3-nano-30b-a3b" },
    { "t5", "random/t5-1" },
    { "switch_transformers", "random/switch_transformers-1" },
    { "bert", "random/bert-1" },
    { "roberta", "random/roberta-1" },
    { "gemma", "random/gemma-1" },
    { "gemma2", "random/gemma2-1" },
    { "gemma3_text", "random/gemma3-1" },
    { "phi3", "random/phi3-1" },
    { "falcon", "random/falcon-1" },
    { "gpt_neox", "random/gpt_neox-1" },
    { "gptj", "random/gptj-1" },
    { "starcoder2", "random/starcoder2-1" },
    { "olmo2", "random/olmo2-1" },
    { "cohere", "random/cohere-1" },
    { "stablelm", "random/stablelm-1" },
    { "nemotron", "random/nemotron-1" },
    { "granite", "random/granite-1" },
    { "mpt", "random/mpt-1" },
};

static void fixture_path(const char *file, char *path, size_t size)
{
    char folder[1024];
    ck_assert(file_data_folder("tests/fixtures/huggingface", folder, sizeof folder));
    snprintf(path, size, "%s/%s.json", folder, file);
}

static json_t *load_fixture(const char *file)
{
    char path[1200];
    fixture_path(file, path, sizeof path);
    json_t *config = json_load_file(path, 0, NULL);
    ck_assert_msg(config, "%s cannot be read", path);
    return config;
}

/* Returns the first config of a family in the fixtures. If the config is multimodal, returns only
 * the object of its text model. The caller releases it. */
static json_t *config_of(const char *family)
{
    for (int i = 0; i < LENGTH(fixtures); i++)
        if (strcmp(fixtures[i].family, family) == 0)
            return load_fixture(fixtures[i].file);
    for (int i = 0; i < LENGTH(samples); i++) {
        if (strcmp(samples[i].family, family) != 0)
            continue;
        json_t *whole = load_fixture(samples[i].file);
        json_t *text = json_object_get(whole, "text_config");
        json_t *config = json_incref(text ? text : whole);
        json_decref(whole);
        json_object_set_new(config, "model_type", json_string(family));
        return config;
    }
    ck_abort_msg("no fixture of family %s", family);
    return NULL;
}

static bool is_inner(const char *name)
{
    return strchr(name, '.') != NULL;
}

/* Reads the fixture of a family after replacing the keys in `changes`. */
static bool read_changed(const char *family, const char *changes, struct model *out,
                         struct err *err)
{
    json_t *config = config_of(family);
    json_t *change = json_loads(changes, 0, NULL);
    ck_assert_ptr_nonnull(change);
    json_object_update(config, change);
    bool ok = model_from_huggingface(config, out, err);
    json_decref(change);
    json_decref(config);
    return ok;
}

static struct model changed(const char *family, const char *changes)
{
    struct model model;
    struct err err = { 0 };
    ck_assert_msg(read_changed(family, changes, &model, &err), "%s: %s", err.where, err.msg);
    return model;
}

START_TEST(parameters_of_a_config_equal_its_checkpoint)
{
    char path[1200];
    struct model model;
    struct err err = { 0 };
    fixture_path(fixtures[_i].file, path, sizeof path);
    ck_assert_msg(model_load(path, &model, &err), "%s: %s", err.where, err.msg);
    ck_assert_double_eq(model_parameters(&model), fixtures[_i].parameters);
    ck_assert_str_eq(model.name, fixtures[_i].name);
    ck_assert_int_eq(model.seq, fixtures[_i].seq);
    ck_assert_double_eq(model.rope_theta, fixtures[_i].rope_theta);
    ck_assert_double_eq(model.norm_epsilon, fixtures[_i].norm_epsilon);
}
END_TEST

START_TEST(a_config_with_experts_equals_its_preset)
{
    char file[64], path[1200];
    struct model model, preset;
    struct err err = { 0 };
    snprintf(file, sizeof file, "experts/%s", experts[_i]);
    fixture_path(file, path, sizeof path);
    ck_assert_msg(model_load(path, &model, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(model_load(experts[_i], &preset, &err), "%s: %s", err.where, err.msg);
    ck_assert_double_eq(model_parameters(&model), model_parameters(&preset));
    ck_assert_double_eq(model_active_parameters(&model), model_active_parameters(&preset));
    ck_assert_double_eq(model_untrained_parameters(&model), model_untrained_parameters(&preset));
    ck_assert_double_eq(model_mtp_parameters(&model), model_mtp_parameters(&preset));
    ck_assert_int_eq(model.sliding_window, preset.sliding_window);
    ck_assert_int_eq(model.attention_chunk, preset.attention_chunk);
    ck_assert_int_eq(model.index_topk, preset.index_topk);
    for (int layer = 0; layer < model.layers; layer++) {
        struct block_kind kind = model_kind(&model, model_kind_of(&model, layer));
        struct block_kind other = model_kind(&preset, model_kind_of(&preset, layer));
        ck_assert_int_eq(kind.attention, other.attention);
        ck_assert_int_eq(kind.feed_forward, other.feed_forward);
    }
}
END_TEST

/* The script fixtures/huggingface/make.py drew the sizes and options, and the library transformers
 * counted the parameters. */
START_TEST(parameters_of_dense_configs_equal_transformers)
{
    json_t *counts = load_fixture("random/counts"), *count;
    const char *name;
    ck_assert_uint_gt(json_object_size(counts), 40);
    json_object_foreach (counts, name, count) {
        char file[64], path[1200];
        struct model model;
        struct err err = { 0 };
        snprintf(file, sizeof file, "random/%s", name);
        fixture_path(file, path, sizeof path);
        ck_assert_msg(model_load(path, &model, &err), "%s: %s", err.where, err.msg);
        ck_assert_msg(model_parameters(&model) == json_number_value(count),
                      "%s has %.0f parameters, not %.0f", name, model_parameters(&model),
                      json_number_value(count));
    }
    json_decref(counts);
}
END_TEST

static bool is_first_of_its_architecture(const struct family *family)
{
    const struct family *first = families;
    while (strcmp(first->architecture, family->architecture) != 0)
        first++;
    return first == family;
}

/* A config is read as the same model with and without model_type, and the preset file that is
 * written for this model can be read. */
START_TEST(a_family_is_recognised_with_or_without_model_type)
{
    const struct family *family = &families[_i];
    if (!is_first_of_its_architecture(family))
        return;
    json_t *config = config_of(family->model_type);
    struct model typed, untyped;
    struct err err = { 0 };
    json_object_set_new(config, "architectures", json_pack("[s]", family->architecture));
    ck_assert_msg(model_from_huggingface(config, &typed, &err), "%s: %s", err.where, err.msg);
    json_object_del(config, "model_type");
    ck_assert_msg(model_from_huggingface(config, &untyped, &err), "%s: %s", err.where, err.msg);
    json_t *one = model_write(&typed), *other = model_write(&untyped);
    ck_assert(json_equal(one, other));
    ck_assert(model_read(one, &untyped, &err));
    json_decref(one);
    json_decref(other);
    json_decref(config);
}
END_TEST

/* Tests values of wrong types and out of range for each integer key of the family, except keys
 * inside an inner object. */
START_TEST(the_error_of_a_wrong_value_names_its_key)
{
    static const char *const values[] = {
        "\"12\"", "0", "-1", "1.5", "true", "1000000000000", "[]"
    };
    const struct family *family = &families[_i];
    for (const struct key *key = family->keys; key->name; key++)
        for (int i = 0; i < LENGTH(values) && key->kind == KEY_INT && !is_inner(key->name); i++) {
            char changes[128];
            snprintf(changes, sizeof changes, "{\"%s\": %s}", key->name, values[i]);
            struct model model;
            struct err err = { 0 };
            ck_assert_msg(!read_changed(family->model_type, changes, &model, &err),
                          "%s was accepted", changes);
            ck_assert_int_eq(err.code, ERR_INPUT);
            ck_assert_str_eq(err.where, key->name);
        }
}
END_TEST

/* Deletes a key; "a.b" is the key b in the object a. */
static void delete_key(json_t *config, const char *name)
{
    char outer[64];
    const char *dot = strchr(name, '.');
    if (!dot) {
        json_object_del(config, name);
        return;
    }
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    json_object_del(json_object_get(config, outer), dot + 1);
}

/* Deletes all keys that the family has for `field`. */
static void delete_keys(json_t *config, const struct family *family, const char *field)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->field && field && strcmp(key->field, field) == 0)
            delete_key(config, key->name);
}

START_TEST(the_error_of_a_missing_required_key_names_it)
{
    const struct family *family = &families[_i];
    for (const struct key *key = family->keys; key->name; key++) {
        if (!key->is_required)
            continue;
        json_t *config = config_of(family->model_type);
        delete_keys(config, family, key->field);
        struct model model;
        struct err err = { 0 };
        ck_assert(!model_from_huggingface(config, &model, &err));
        ck_assert_int_eq(err.code, ERR_INPUT);
        ck_assert_str_eq(err.where, key->name);
        ck_assert_msg(strstr(err.msg, "missing"), "%s", err.msg);
        json_decref(config);
    }
}
END_TEST

static bool reads(const struct family *family, const char *name)
{
    size_t length = strlen(name);
    for (const struct key *key = family->keys; key->name; key++)
        if (strncmp(key->name, name, length) == 0 &&
            (key->name[length] == '\0' || key->name[length] == '.'))
            return true;
    return false;
}

START_TEST(an_unsupported_key_is_refused_unless_its_value_is_off)
{
    for (size_t i = 0; i < num_families; i++) {
        const char *name = refused_keys[_i].name;
        if (reads(&families[i], name))
            continue;
        char changes[128];
        struct model model;
        struct err err = { 0 };
        snprintf(changes, sizeof changes, "{\"%s\": 3}", name);
        ck_assert(!read_changed(families[i].model_type, changes, &model, &err));
        ck_assert_int_eq(err.code, ERR_INPUT);
        ck_assert_str_eq(err.where, name);
        static const char *const off[] = { "null", "false", "[]", "{}" };
        for (int j = 0; j < LENGTH(off); j++) {
            snprintf(changes, sizeof changes, "{\"%s\": %s}", name, off[j]);
            changed(families[i].model_type, changes);
        }
        snprintf(changes, sizeof changes, "{\"%s\": %.0f}", name, refused_keys[_i].neutral);
        changed(families[i].model_type, changes);
    }
}
END_TEST

static const struct {
    const char *family, *changes, *where, *msg;
} faults[] = {
    { "llama", "{\"model_type\": \"mamba\"}", "model_type", "one of gpt2, opt, bloom" },
    { "llama", "{\"model_type\": null}", "model_type", "null" },
    { "llama", "{\"model_type\": 1}", "model_type", "1" },
    { "llama", "{\"num_attention_heads\": 31, \"num_key_value_heads\": 31}", "num_attention_heads",
      "heads 31 does not divide hidden 4096; the nearest divisors are 32 and 16" },
    { "llama", "{\"num_key_value_heads\": 3}", "num_key_value_heads", "do not divide" },
    { "bloom", "{\"num_attention_heads\": 95}", "num_attention_heads", "nearest" },
    { "bloom", "{\"n_head\": 96}", "num_attention_heads", "expected 96" },
    { "opt", "{\"word_embed_proj_dim\": 512}", "word_embed_proj_dim", "768" },
    { "opt", "{\"do_layer_norm_before\": false}", "do_layer_norm_before", "true" },
    { "opt", "{\"do_layer_norm_before\": 1}", "do_layer_norm_before", "true or false" },
    { "opt", "{\"_remove_final_layer_norm\": true}", "_remove_final_layer_norm", "false" },
    { "opt", "{\"dropout\": 1.5}", "dropout", "1.5" },
    { "opt", "{\"activation_function\": \"silu\"}", "activation_function", "gelu or relu" },
    { "gpt2", "{\"activation_function\": \"tanh\"}", "activation_function", "tanh" },
    { "gpt2", "{\"attn_pdrop\": \"0.1\"}", "attn_pdrop", "a number" },
    { "gpt2", "{\"tie_word_embeddings\": \"yes\"}", "tie_word_embeddings", "true or false" },
    { "llama", "{\"hidden_act\": \"relu\"}", "hidden_act", "relu" },
    { "llama", "{\"hidden_act\": {}}", "hidden_act", "object" },
    { "llama", "{\"quantization_config\": {\"bits\": 4}}", "quantization_config", "llama" },
    { "deepseek_v3", "{\"moe_layer_freq\": 2}", "moe_layer_freq", "expected 1" },
    { "deepseek_v3", "{\"attention_bias\": true}", "attention_bias", "false" },
    { "deepseek_v3", "{\"n_shared_experts\": -1}", "n_shared_experts", "0 to 1000" },
    { "deepseek_v3", "{\"num_experts_per_tok\": 300}", "num_experts_per_tok", "256 experts" },
    { "deepseek_v3", "{\"q_lora_rank\": \"1536\"}", "q_lora_rank", "an integer" },
    { "deepseek_v3", "{\"first_k_dense_replace\": -1}", "first_k_dense_replace", "of 0 or more" },
    { "gpt_oss", "{\"layer_types\": [\"full_attention\"]}", "layer_types", "24 blocks; found 1" },
    { "minimax_m1", "{\"attn_type_list\": [2]}", "attn_type_list", "80 blocks; found 1" },
    { "nemotron_h", "{\"hybrid_override_pattern\": \"M?\"}", "hybrid_override_pattern",
      "52 blocks; found 2" },
    { "qwen3_moe", "{\"mlp_only_layers\": [48]}", "mlp_only_layers", "indices of blocks" },
    { "qwen3_moe", "{\"decoder_sparse_step\": 0}", "decoder_sparse_step", "from 1" },
    { "qwen2_moe", "{\"qkv_bias\": 1}", "qkv_bias", "true or false" },
    { "mpt", "{\"expansion_ratio\": 2}", "expansion_ratio", "expected 4" },
    { "t5", "{\"num_decoder_layers\": 0}", "num_decoder_layers", "a count of blocks" },
    { "gemma2", "{\"layer_types\": [\"mamba\"]}", "layer_types", "found 1" },
    { "mistral", "{\"sliding_window\": 0}", "sliding_window", "0" },
    { "mistral", "{\"sliding_window\": \"4096\"}", "sliding_window", "4096" },
    { "qwen2", "{\"max_window_layers\": \"all\"}", "max_window_layers", "an integer" },
    { "qwen2", "{\"use_sliding_window\": 1}", "use_sliding_window", "true or false" },
    { "qwen2", "{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "layer_types",
      "sliding_attention" },
    { "qwen2", "{\"layer_types\": \"full_attention\"}", "layer_types", "an array" },
    { "qwen2", "{\"num_experts\": 60}", "num_experts", "qwen2" },
    { "llama", "{\"rope_theta\": 0}", "rope_theta", "above 0" },
    { "llama", "{\"rope_theta\": \"1e4\"}", "rope_theta", "a number" },
    { "llama", "{\"rope_parameters\": 7}", "rope_parameters", "an object" },
    { "llama", "{\"rope_parameters\": {\"rope_theta\": -1}}", "rope_parameters.rope_theta", "-1" },
    { "llama", "{\"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 5}}", "rope_theta",
      "expected 5" },
    { "qwen2", "{\"rms_norm_eps\": 2}", "rms_norm_eps", "at most 1" },
    { "gpt2", "{\"layer_norm_epsilon\": -1e-5}", "layer_norm_epsilon", "above 0" },
};

START_TEST(the_error_of_an_unsupported_value_names_its_key)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(!read_changed(faults[_i].family, faults[_i].changes, &model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    ck_assert_msg(strstr(err.msg, faults[_i].msg), "%s", err.msg);
}
END_TEST

START_TEST(without_model_type_an_unknown_architecture_is_named)
{
    json_t *config = json_pack("{s:[s]}", "architectures", "MambaForCausalLM");
    struct model model;
    struct err err = { 0 };
    ck_assert(!model_from_huggingface(config, &model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "architectures");
    json_decref(config);
}
END_TEST

START_TEST(an_error_in_a_config_names_its_line)
{
    char path[] = "/tmp/simsearch-config-XXXXXX";
    static const char text[] =
        "{\n\"model_type\": \"gpt2\",\n\"n_embd\": 768,\n\"n_layer\": 0\n}\n";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    struct model model;
    struct err err = { 0 };
    bool ok = model_load(path, &model, &err);
    unlink(path);
    char where[128];
    snprintf(where, sizeof where, "%s:4: n_layer", path);
    ck_assert(!ok);
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, where);
}
END_TEST

/* The default sequence is the minimum of 8192 tokens, the positions that the config allows, and the
 * window. The exception is Bloom, whose config states the sequence length of the training. */
static const struct {
    const char *family, *changes;
    int seq, allowed_seq, window;
} sequences[] = {
    { "llama", "{\"max_position_embeddings\": 131072}", 8192, 131072, 0 },
    { "llama", "{\"max_position_embeddings\": 4096}", 4096, 4096, 0 },
    { "gpt2", "{}", 1024, 1024, 0 },
    { "bloom", "{\"seq_length\": 16384}", 16384, 0, 0 }, /* the length of the training */
    { "mistral", "{}", 4096, 32768, 4096 },
    { "mistral", "{\"sliding_window\": 1024}", 1024, 32768, 1024 },
    { "mistral", "{\"sliding_window\": null}", 8192, 32768, 0 },
    { "mistral", "{\"sliding_window\": 65536}", 8192, 32768, 65536 },
    { "qwen2", "{\"sliding_window\": 4096}", 8192, 131072, 0 }, /* the window is not used */
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 21}", 4096,
      131072, 4096 },
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 28}", 8192,
      131072, 0 }, /* the window does not count, because all blocks have full attention */
    { "qwen3", "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 0}",
      4096, 32768, 4096 },
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 0, "
      "\"layer_types\": [\"full_attention\"]}",
      8192, 131072, 0 },
};

START_TEST(the_default_sequence_is_at_most_8192_the_positions_and_the_window)
{
    struct model model = changed(sequences[_i].family, sequences[_i].changes);
    ck_assert_int_eq(model.seq, sequences[_i].seq);
    ck_assert_int_eq(model.allowed_seq, sequences[_i].allowed_seq);
    ck_assert_int_eq(model.sliding_window, sequences[_i].window);
}
END_TEST

START_TEST(a_model_gets_the_largest_dropout_of_its_config)
{
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": 0.2}").dropout, 0.2);
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": 0, \"resid_pdrop\": 0}").dropout, 0.1);
    ck_assert_double_eq(
        changed("gpt2", "{\"attn_pdrop\": 0, \"resid_pdrop\": 0, \"embd_pdrop\": 0.0}").dropout, 0);
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": null}").dropout, 0.1);
}
END_TEST

START_TEST(options_of_a_config_become_fields_of_the_model)
{
    struct model opt = changed("opt", "{}");
    ck_assert_int_eq(opt.activation, ACTIVATION_RELU);
    ck_assert_int_eq(opt.max_positions, 2050);
    struct model bloom = changed("bloom", "{\"seq_length\": 1024}");
    ck_assert_int_eq(bloom.positions, POSITION_ALIBI);
    ck_assert(bloom.embedding_norm);
    ck_assert_int_eq(bloom.seq, 1024);
    ck_assert(changed("qwen2", "{}").qkv_bias);
    ck_assert(changed("qwen3", "{}").qk_norm);
    ck_assert_int_eq(changed("llama", "{\"hidden_act\": \"gelu\"}").activation, ACTIVATION_GEGLU);
    ck_assert_int_eq(changed("llama", "{\"num_key_value_heads\": null}").kv_heads, 32);
    ck_assert_int_eq(changed("mistral", "{\"head_dim\": 64}").head_dim, 64);
    ck_assert_int_eq(changed("gpt2", "{\"n_inner\": 1024}").ffn, 1024);
    ck_assert(!changed("gpt2", "{\"tie_word_embeddings\": false}").tied);
    ck_assert(changed("llama", "{\"attention_bias\": true, \"mlp_bias\": true}").linear_bias);
}
END_TEST

/* If rope_theta and epsilon are omitted, they are the defaults of the family's configuration class.
 * In transformers 5 rope_theta is inside an object. */
START_TEST(rope_theta_and_epsilon_are_read)
{
    ck_assert_double_eq(changed("llama", "{\"rope_theta\": 5e5}").rope_theta, 5e5);
    ck_assert_double_eq(
        changed("llama", "{\"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"default\"}}")
            .rope_theta,
        5e5);
    ck_assert_double_eq(changed("llama", "{\"rope_parameters\": {}}").rope_theta, 1e4);
    ck_assert_double_eq(changed("llama", "{\"rms_norm_eps\": null}").norm_epsilon, 1e-6);
    ck_assert_double_eq(changed("bloom", "{\"layer_norm_epsilon\": 1e-6}").norm_epsilon, 1e-6);
    ck_assert_double_eq(changed("gpt2", "{\"layer_norm_epsilon\": null}").norm_epsilon, 1e-5);
}
END_TEST

START_TEST(an_unprintable_name_is_replaced_by_the_family)
{
    ck_assert_str_eq(changed("llama", "{\"_name_or_path\": \"a/b/c\"}").name, "c");
    ck_assert_str_eq(changed("llama", "{\"_name_or_path\": \"c\"}").name, "c");
    ck_assert_str_eq(changed("llama", "{\"_name_or_path\": \"a/\"}").name, "llama");
    ck_assert_str_eq(changed("llama", "{\"_name_or_path\": \"a/\\u001b[2J\"}").name, "llama");
    ck_assert_str_eq(changed("llama", "{\"_name_or_path\": 7}").name, "llama");
    char changes[128];
    snprintf(changes, sizeof changes, "{\"_name_or_path\": \"%0100d\"}", 7);
    ck_assert_str_eq(changed("llama", changes).name, "llama");
}
END_TEST

static Suite *huggingface_suite(void)
{
    Suite *suite = suite_create("huggingface");
    TCase *good = tcase_create("configs");
    tcase_add_loop_test(good, parameters_of_a_config_equal_its_checkpoint, 0, LENGTH(fixtures));
    tcase_add_loop_test(good, a_config_with_experts_equals_its_preset, 0, LENGTH(experts));
    tcase_add_test(good, parameters_of_dense_configs_equal_transformers);
    tcase_add_loop_test(good, a_family_is_recognised_with_or_without_model_type, 0,
                        (int)num_families);
    tcase_add_loop_test(good, the_default_sequence_is_at_most_8192_the_positions_and_the_window, 0,
                        LENGTH(sequences));
    tcase_add_test(good, a_model_gets_the_largest_dropout_of_its_config);
    tcase_add_test(good, options_of_a_config_become_fields_of_the_model);
    tcase_add_test(good, rope_theta_and_epsilon_are_read);
    tcase_add_test(good, an_unprintable_name_is_replaced_by_the_family);
    suite_add_tcase(suite, good);

    TCase *faulty = tcase_create("faults");
    tcase_add_loop_test(faulty, the_error_of_a_wrong_value_names_its_key, 0, (int)num_families);
    tcase_add_loop_test(faulty, the_error_of_a_missing_required_key_names_it, 0, (int)num_families);
    tcase_add_loop_test(faulty, an_unsupported_key_is_refused_unless_its_value_is_off, 0,
                        (int)num_refused_keys);
    tcase_add_loop_test(faulty, the_error_of_an_unsupported_value_names_its_key, 0, LENGTH(faults));
    tcase_add_test(faulty, without_model_type_an_unknown_architecture_is_named);
    tcase_add_test(faulty, an_error_in_a_config_names_its_line);
    suite_add_tcase(suite, faulty);
    return suite;
}

TEST_MAIN(huggingface_suite)
