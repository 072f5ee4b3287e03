#include "models/model.h"

#include "models/blocks.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a preset, reads it and writes it again, and checks that both texts are the same. The text
 * also has counts of parameters, which reading ignores. */
static void check_round_trip(const struct model *model)
{
    struct model again;
    struct err err = { 0 };
    json_t *written = model_write(model);
    ck_assert(json_is_integer(json_object_get(written, "params")));
    ck_assert_double_eq(json_number_value(json_object_get(written, "active_params")),
                        model_active_parameters(model));
    ck_assert_double_eq(json_number_value(json_object_get(written, "params")),
                        model_parameters(model));
    ck_assert_msg(model_read(written, &again, &err), "%s: %s", err.where, err.msg);
    json_t *rewritten = model_write(&again);
    ck_assert(json_equal(written, rewritten));
    json_decref(written);
    json_decref(rewritten);
}

static double sum_layers(const struct model *model)
{
    double sum = model_embedding_parameters(model) + model_head_parameters(model);
    for (int layer = 0; layer < model->layers; layer++) {
        struct model of = model_of_kind(model, model_kind_of(model, layer));
        sum += model_layer_parameters(&of);
    }
    return sum;
}

START_TEST(presets_are_sorted_have_sources_and_round_trip)
{
    size_t count;
    struct err err = { 0 };
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s: %s", err.where, err.msg);
    for (size_t i = 0; i < count; i++) {
        const struct model *model = &presets[i].model;
        ck_assert_msg(model_check(model, &err), "%s: %s", model->name, err.msg);
        ck_assert_msg(model->summary[0] && model->source[0], "%s has no summary or no source",
                      model->name);
        ck_assert(i == 0 || strcmp(presets[i - 1].model.name, model->name) < 0);
        ck_assert_double_eq(model_parameters(model), sum_layers(model));
        check_round_trip(model);
    }
    free(presets);
}
END_TEST

START_TEST(presets_load_by_name_and_by_alias)
{
    size_t count;
    struct err err = { 0 };
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_ptr_nonnull(presets);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_eq(model_of(presets[i].model.name).name, presets[i].model.name);
        for (int j = 0; j < 4 && presets[i].aliases[j][0]; j++)
            ck_assert_str_eq(model_of(presets[i].aliases[j]).name, presets[i].model.name);
    }
    free(presets);
    ck_assert_str_eq(model_of("175b").name, "gpt3-175b");
}
END_TEST

/* GPT-3's paper states batches of 3.2 M tokens: 1536 sequences of 2048. */
START_TEST(gpt3_has_its_published_batch_and_budget)
{
    struct model gpt3 = model_of("gpt3-175b");
    ck_assert_int_eq(gpt3.seq, 2048);
    ck_assert_int_eq(gpt3.vocab, 50257);
    ck_assert_double_eq(gpt3.batch * gpt3.seq, 3145728);
    ck_assert_double_eq(gpt3.tokens, 300e9);
    ck_assert_double_eq(model_of("llama3-405b").tokens, 15.6e12);
}
END_TEST

START_TEST(the_error_of_an_unknown_name_suggests_the_nearest)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(!model_load("gpt3-175v", &model, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, "gpt3-175v");
    ck_assert_msg(strstr(err.msg, "did you mean \"gpt3-175b\"?"), "%s", err.msg);
    err = (struct err){ 0 };
    ck_assert(!model_load("zzzzzzzzzzzz", &model, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(!strstr(err.msg, "did you mean"), "%s", err.msg);
}
END_TEST

/* Makes a data folder for the test, with FOLDER/models/presets. Each test is a process, so setenv
 * affects only one test. */
static void make_data(char *folder)
{
    char path[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/models", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/models/presets", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    setenv("SIMSEARCH_DATA", folder, 1);
}

static void remove_data(const char *folder)
{
    static const char *const inside[] = { "models/presets/a.json", "models/presets/b.json",
                                          "models/presets", "models", "" };
    for (int i = 0; i < LENGTH(inside); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, inside[i]);
        remove(path);
    }
}

static void write_preset(const char *folder, const char *file, const char *name, const char *more)
{
    char path[256];
    snprintf(path, sizeof path, "%s/models/presets/%s", folder, file);
    FILE *to = fopen(path, "w");
    ck_assert_ptr_nonnull(to);
    fprintf(to,
            "{ \"name\": \"%s\",\n  \"layers\": 2, \"hidden\": 64, \"heads\": 4,\n"
            "  \"vocab\": 256, \"seq\": 64,\n%s }\n",
            name, more);
    fclose(to);
}

#define FORMAT "\"format\": 1"
static const struct {
    const char *first, *second_name, *second, *where;
} faulty_presets[] = {
    { FORMAT, "a", FORMAT, "b.json:1: name" },
    { FORMAT, "c", FORMAT, "b.json:1: name" },
    { FORMAT ", \"aliases\": [\"b\"]", "b", FORMAT, "b.json:1: name" },
    { FORMAT ", \"aliases\": [\"x\"]", "b", FORMAT ",\n\"aliases\": [\"x\"]", "b.json:5: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": [\"a\"]", "b.json:4: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": [\"x\", \"x\"]", "b.json:4: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": [\"\"]", "b.json:4: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": [1]", "b.json:4: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": \"x\"", "b.json:4: aliases" },
    { FORMAT, "b", FORMAT ", \"aliases\": [\"1\", \"2\", \"3\", \"4\", \"5\"]",
      "b.json:4: aliases" },
    { FORMAT, "b", "\"tied\": true", "b.json:1: format" },
    { FORMAT, "b", FORMAT ",\n\"kv_heads\": 3", "b.json:5: kv_heads" },
    { FORMAT, "b", FORMAT ",", "b.json:4" },
};

START_TEST(an_error_in_a_preset_names_file_line_and_key)
{
    char folder[] = "/tmp/simsearch-model-XXXXXX";
    make_data(folder);
    write_preset(folder, "a.json", "a", faulty_presets[_i].first);
    write_preset(folder, "b.json", faulty_presets[_i].second_name, faulty_presets[_i].second);
    size_t count;
    struct err err = { 0 };
    struct model_preset *presets = model_presets(&count, &err);
    remove_data(folder);
    ck_assert_ptr_null(presets);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(err.code, ERR_INPUT);
    const char *name = strrchr(err.where, '/');
    ck_assert_ptr_nonnull(name);
    ck_assert_str_eq(name + 1, faulty_presets[_i].where);
}
END_TEST

START_TEST(a_missing_folder_of_presets_is_an_error)
{
    char folder[] = "/tmp/simsearch-model-XXXXXX";
    make_data(folder);
    size_t count;
    struct err err = { 0 };
    ck_assert_ptr_null(model_presets(&count, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.where, "/models/presets"));
    remove_data(folder);
    err = (struct err){ 0 };
    struct model model;
    ck_assert(!model_load("tiny", &model, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "models/presets");
}
END_TEST

START_TEST(a_file_loads_by_its_path)
{
    char folder[] = "/tmp/simsearch-model-XXXXXX", path[256];
    make_data(folder);
    write_preset(folder, "a.json", "mine", FORMAT);
    snprintf(path, sizeof path, "%s/models/presets/a.json", folder);
    struct model model = model_of(path);
    remove_data(folder);
    ck_assert_str_eq(model.name, "mine");
    ck_assert_int_eq(model.head_dim, 16);
}
END_TEST

START_TEST(a_file_in_the_working_folder_loads_unless_a_preset_has_its_name)
{
    char folder[] = "/tmp/simsearch-model-XXXXXX", path[256];
    make_data(folder);
    write_preset(folder, "a.json", "a", FORMAT);
    write_preset(folder, "b", "mine", FORMAT);
    snprintf(path, sizeof path, "%s/models/presets", folder);
    ck_assert_int_eq(chdir(path), 0);
    struct model model = model_of("b");
    ck_assert_int_eq(rename("b", "a"), 0);
    struct model preset = model_of("a");
    remove("a");
    remove_data(folder);
    ck_assert_str_eq(model.name, "mine");
    ck_assert_str_eq(preset.name, "a");
}
END_TEST

START_TEST(a_file_that_is_absent_is_named)
{
    static const char *const paths[] = { "./absent.json", "absent.json", "no/such" };
    for (int i = 0; i < LENGTH(paths); i++) {
        struct model model;
        struct err err = { 0 };
        ck_assert(!model_load(paths[i], &model, &err));
        ck_assert_int_eq(err.code, ERR_INPUT);
        ck_assert_str_eq(err.where, paths[i]);
    }
}
END_TEST

static Suite *model_suite(void)
{
    Suite *suite = suite_create("presets");

    TCase *presets = tcase_create("presets");
    tcase_add_test(presets, presets_are_sorted_have_sources_and_round_trip);
    tcase_add_test(presets, presets_load_by_name_and_by_alias);
    tcase_add_test(presets, gpt3_has_its_published_batch_and_budget);
    tcase_add_test(presets, the_error_of_an_unknown_name_suggests_the_nearest);
    tcase_add_loop_test(presets, an_error_in_a_preset_names_file_line_and_key, 0,
                        LENGTH(faulty_presets));
    tcase_add_test(presets, a_missing_folder_of_presets_is_an_error);
    tcase_add_test(presets, a_file_loads_by_its_path);
    tcase_add_test(presets, a_file_in_the_working_folder_loads_unless_a_preset_has_its_name);
    tcase_add_test(presets, a_file_that_is_absent_is_named);
    suite_add_tcase(suite, presets);
    return suite;
}

TEST_MAIN(model_suite)
