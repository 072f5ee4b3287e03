#include "models/model.h"

#include "base/file.h"
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

static void fixture_path(const char *file, char *path, size_t size)
{
    char folder[1024];
    ck_assert(file_data_folder("tests/fixtures/huggingface", folder, sizeof folder));
    snprintf(path, size, "%s/%s.json", folder, file);
}

/* The first fixture of a family; the caller releases it. */
static json_t *config_of(const char *family)
{
    for (int i = 0; i < LENGTH(fixtures); i++) {
        if (strcmp(fixtures[i].family, family) != 0)
            continue;
        char path[1200];
        fixture_path(fixtures[i].file, path, sizeof path);
        json_t *config = json_load_file(path, 0, NULL);
        ck_assert_ptr_nonnull(config);
        return config;
    }
    ck_abort_msg("no fixture of family %s", family);
    return NULL;
}

/* The fixture of a family with the keys of `changes`. */
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

START_TEST(a_config_counts_as_its_checkpoint)
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

/* Whatever a family's table says, its config survives being written and read as a preset. */
START_TEST(a_family_reads_as_itself_with_or_without_model_type)
{
    const struct family *family = &families[_i];
    json_t *config = config_of(family->model_type);
    struct model typed, untyped;
    struct err err = { 0 };
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

/* Each integer key of the table: wrong types, missing and out-of-range values. */
START_TEST(a_wrong_value_of_any_key_is_located)
{
    static const char *const values[] = {
        "\"12\"", "0", "-1", "1.5", "true", "1000000000000", "[]"
    };
    const struct family *family = &families[_i];
    for (const struct key *key = family->keys; key->name; key++)
        for (int i = 0; i < LENGTH(values) && key->kind == KEY_INT; i++) {
            char changes[128];
            snprintf(changes, sizeof changes, "{\"%s\": %s}", key->name, values[i]);
            struct model model;
            struct err err = { 0 };
            ck_assert_msg(!read_changed(family->model_type, changes, &model, &err), "%s", changes);
            ck_assert_int_eq(err.code, ERR_INPUT);
            ck_assert_str_eq(err.where, key->name);
        }
}
END_TEST

/* Deletes all of the family's keys for `field`. */
static void delete_keys(json_t *config, const struct family *family, const char *field)
{
    for (const struct key *key = family->keys; key->name; key++)
        if (key->field && field && strcmp(key->field, field) == 0)
            json_object_del(config, key->name);
}

START_TEST(a_required_key_that_is_missing_is_located)
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
    for (const struct key *key = family->keys; key->name; key++)
        if (strcmp(key->name, name) == 0)
            return true;
    return false;
}

START_TEST(a_key_that_changes_the_model_is_refused_unless_it_says_off)
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
      "num heads 31 does not divide hidden 4096; nearest that do: 32, 16" },
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
    { "llama", "{\"attention_bias\": true}", "attention_bias", "alike" },
    { "llama", "{\"mlp_bias\": true}", "mlp_bias", "alike" },
    { "llama", "{\"quantization_config\": {\"bits\": 4}}", "quantization_config", "llama" },
    { "qwen3", "{\"attention_bias\": true}", "attention_bias", "alike" },
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

START_TEST(what_cannot_be_expressed_is_located_by_its_key)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(!read_changed(faults[_i].family, faults[_i].changes, &model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    ck_assert_msg(strstr(err.msg, faults[_i].msg), "%s", err.msg);
}
END_TEST

START_TEST(an_unknown_architecture_is_located_when_there_is_no_model_type)
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

START_TEST(a_fault_in_a_file_is_located_by_line)
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

/* The usual sequence is at most 8192, the positions that the config allows, and the window. */
static const struct {
    const char *family, *changes;
    int seq, allowed_seq, window;
} sequences[] = {
    { "llama", "{\"max_position_embeddings\": 131072}", 8192, 131072, 0 },
    { "llama", "{\"max_position_embeddings\": 4096}", 4096, 4096, 0 },
    { "gpt2", "{}", 1024, 1024, 0 },
    { "bloom", "{\"seq_length\": 16384}", 16384, 0, 0 }, /* says that of training */
    { "mistral", "{}", 4096, 32768, 4096 },
    { "mistral", "{\"sliding_window\": 1024}", 1024, 32768, 1024 },
    { "mistral", "{\"sliding_window\": null}", 8192, 32768, 0 },
    { "mistral", "{\"sliding_window\": 65536}", 8192, 32768, 65536 },
    { "qwen2", "{\"sliding_window\": 4096}", 8192, 131072, 0 }, /* not used */
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 21}", 4096,
      131072, 4096 },
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 28}", 8192,
      131072, 0 }, /* all blocks are full */
    { "qwen3", "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 0}",
      4096, 32768, 4096 },
    { "qwen2",
      "{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 0, "
      "\"layer_types\": [\"full_attention\"]}",
      8192, 131072, 0 },
};

START_TEST(the_sequence_of_a_config_is_a_usual_one_within_its_window)
{
    struct model model = changed(sequences[_i].family, sequences[_i].changes);
    ck_assert_int_eq(model.seq, sequences[_i].seq);
    ck_assert_int_eq(model.allowed_seq, sequences[_i].allowed_seq);
    ck_assert_int_eq(model.sliding_window, sequences[_i].window);
}
END_TEST

START_TEST(the_largest_dropout_is_the_models)
{
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": 0.2}").dropout, 0.2);
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": 0, \"resid_pdrop\": 0}").dropout, 0.1);
    ck_assert_double_eq(
        changed("gpt2", "{\"attn_pdrop\": 0, \"resid_pdrop\": 0, \"embd_pdrop\": 0.0}").dropout, 0);
    ck_assert_double_eq(changed("gpt2", "{\"attn_pdrop\": null}").dropout, 0.1);
}
END_TEST

START_TEST(options_become_those_of_a_model)
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

/* Left out they are those of the family's configuration class; transformers 5 has an object. */
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

START_TEST(a_name_that_would_not_show_is_replaced_by_the_family)
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
    tcase_add_loop_test(good, a_config_counts_as_its_checkpoint, 0, LENGTH(fixtures));
    tcase_add_loop_test(good, a_family_reads_as_itself_with_or_without_model_type, 0,
                        (int)num_families);
    tcase_add_loop_test(good, the_sequence_of_a_config_is_a_usual_one_within_its_window, 0,
                        LENGTH(sequences));
    tcase_add_test(good, the_largest_dropout_is_the_models);
    tcase_add_test(good, options_become_those_of_a_model);
    tcase_add_test(good, rope_theta_and_epsilon_are_read);
    tcase_add_test(good, a_name_that_would_not_show_is_replaced_by_the_family);
    suite_add_tcase(suite, good);

    TCase *faulty = tcase_create("faults");
    tcase_add_loop_test(faulty, a_wrong_value_of_any_key_is_located, 0, (int)num_families);
    tcase_add_loop_test(faulty, a_required_key_that_is_missing_is_located, 0, (int)num_families);
    tcase_add_loop_test(faulty, a_key_that_changes_the_model_is_refused_unless_it_says_off, 0,
                        (int)num_refused_keys);
    tcase_add_loop_test(faulty, what_cannot_be_expressed_is_located_by_its_key, 0, LENGTH(faults));
    tcase_add_test(faulty, an_unknown_architecture_is_located_when_there_is_no_model_type);
    tcase_add_test(faulty, a_fault_in_a_file_is_located_by_line);
    suite_add_tcase(suite, faulty);
    return suite;
}

TEST_MAIN(huggingface_suite)
