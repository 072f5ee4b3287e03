#include "models/model.h"

#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

/* Counts of the released checkpoints; for Megatron and Korthikanti by the paper's own formula. */
static const struct {
    const char *name;
    double parameters;
} published[] = {
    { "gpt2", 124439808 },         { "gpt2-medium", 354823168 },    { "gpt2-large", 774030080 },
    { "gpt2-xl", 1557611200 },     { "llama-7b", 6738415616 },      { "llama2-7b", 6738415616 },
    { "llama2-13b", 13015864320 }, { "llama2-70b", 68976648192 },   { "llama3-8b", 8030261248 },
    { "llama3-70b", 70553706496 }, { "llama3-405b", 405853388800 }, { "mistral-7b", 7241732096 },
    { "qwen2.5-7b", 7615616512 },  { "bloom-176b", 176247271424 },
};

/* Billions as the papers print them. */
static const struct {
    const char *name;
    double billions, tolerance;
} rounded[] = {
    { "gpt3-125m", 0.125, 0.01 },      { "gpt3-350m", 0.356, 0.01 },
    { "gpt3-760m", 0.760, 0.01 },      { "gpt3-1.3b", 1.3, 0.02 },
    { "gpt3-2.7b", 2.7, 0.02 },        { "gpt3-6.7b", 6.7, 0.01 },
    { "gpt3-13b", 13, 0.02 },          { "gpt3-175b", 174.6, 0.001 },
    { "megatron-8.3b", 8.3, 0.01 },    { "turing-nlg-17b", 17.2, 0.01 },
    { "llama-13b", 13.0, 0.01 },       { "llama-33b", 32.5, 0.01 },
    { "llama-65b", 65.2, 0.01 },       { "opt-175b", 175, 0.01 },
    { "mt-nlg-530b", 530, 0.01 },      { "korthikanti-22b", 22, 0.01 },
    { "korthikanti-530b", 530, 0.01 }, { "korthikanti-1t", 1008, 0.001 },
    { "recipe-7b", 6.7, 0.01 },
};

/* Narayanan et al. 2021, Table 1. */
static const struct {
    const char *name;
    double billions;
} sc21[] = {
    { "megatron-1.7b", 1.7 },   { "megatron-3.6b", 3.6 },   { "megatron-7.5b", 7.5 },
    { "megatron-18b", 18.4 },   { "megatron-39b", 39.1 },   { "megatron-76b", 76.1 },
    { "megatron-145b", 145.6 }, { "megatron-310b", 310.1 }, { "megatron-530b", 529.6 },
    { "megatron-1t", 1008.0 },
};

/* Reads a model that differs from `tiny` in what `changes` says. */
static bool read_changed(const char *changes, struct model *out, struct err *err)
{
    json_t *object = json_loads("{\"name\": \"m\", \"layers\": 2, \"hidden\": 64, \"heads\": 4,"
                                " \"vocab\": 256, \"seq\": 64}",
                                0, NULL);
    json_t *change = json_loads(changes, 0, NULL);
    ck_assert_ptr_nonnull(change);
    json_object_update(object, change);
    json_decref(change);
    const char *key = NULL;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value) if (json_is_null(value))
        json_object_del(object, key);
    bool ok = model_read(object, out, err);
    json_decref(object);
    return ok;
}

static struct model changed(const char *changes)
{
    struct model model;
    struct err err = { 0 };
    ck_assert_msg(read_changed(changes, &model, &err), "%s: %s", err.where, err.msg);
    return model;
}

START_TEST(counts_are_those_of_the_released_checkpoints_to_the_unit)
{
    struct model model = model_of(published[_i].name);
    ck_assert_double_eq(model_parameters(&model), published[_i].parameters);
}
END_TEST

START_TEST(counts_round_to_those_that_papers_print)
{
    struct model model = model_of(rounded[_i].name);
    ck_assert_double_eq_tol(model_parameters(&model) / 1e9 / rounded[_i].billions, 1,
                            rounded[_i].tolerance);
}
END_TEST

/* P = 12 l h^2 (1 + 13 / (12 h) + (V + S) / (12 l h)): the paper leaves the final norm out. */
START_TEST(counts_are_those_of_the_megatron_formula_and_a_final_norm)
{
    struct model model = model_of(sc21[_i].name);
    double l = model.layers, h = model.hidden;
    double paper = 12 * l * h * h + 13 * l * h + (51200.0 + 2048) * h;
    ck_assert_double_eq(model_parameters(&model), paper + 2 * h);
    ck_assert_double_eq_tol(paper / 1e9 / sc21[_i].billions, 1, 0.03);
}
END_TEST

/* 12 h^2 a block is 4 h^2 of attention and 8 h^2 of feed-forward, gated or not; the lecture's count
 * ignores that Llama rounds 8/3 h up, and the norms. */
START_TEST(counts_are_near_the_lectures_approximation)
{
    static const struct {
        const char *name;
        double layers, hidden, approximation;
    } rows[] = {
        { "llama-7b", 32, 4096, 6704594944 },
        { "llama-13b", 40, 5120, 12910592000 },
        { "llama-33b", 60, 6656, 32323665920 },
        { "llama-65b", 80, 8192, 64948797440 },
    };
    double l = rows[_i].layers, h = rows[_i].hidden, v = 32000;
    double lecture = 12 * l * h * h + 2 * v * h;
    ck_assert_double_eq(lecture, rows[_i].approximation);
    struct model model = model_of(rows[_i].name);
    ck_assert_double_eq_tol(model_parameters(&model) / lecture, 1, 0.01);
}
END_TEST

/* Embeddings 256 64 + 64 64 = 20480. A block: attention 4 64^2 + 4 64, feed-forward 8 64^2 + 5 64,
 * two norms 4 64: 49984. Final norm 128. */
START_TEST(a_tiny_gpt_counts_as_it_does_by_hand)
{
    struct model tiny = model_of("tiny");
    ck_assert_double_eq(model_embedding_parameters(&tiny), 20480);
    ck_assert_double_eq(model_layer_parameters(&tiny), 49984);
    ck_assert_double_eq(model_head_parameters(&tiny), 128);
    ck_assert_double_eq(model_parameters(&tiny), 220544);
}
END_TEST

/* Llama-3.2-1B; not a preset. */
START_TEST(a_tied_llama_counts_as_released)
{
    struct model model = changed("{\"layers\": 16, \"hidden\": 2048, \"heads\": 32,"
                                 " \"kv_heads\": 8, \"ffn\": 8192, \"vocab\": 128256,"
                                 " \"norm\": \"rmsnorm\", \"activation\": \"swiglu\","
                                 " \"positions\": \"rotary\", \"linear_bias\": false}");
    ck_assert_int_eq(model.head_dim, 64);
    ck_assert_double_eq(model_parameters(&model), 1235814400);
}
END_TEST

/* Each change against the plain GPT of 2 layers, hidden 64, 4 heads of 16, vocabulary 256. */
START_TEST(each_option_adds_its_own_parameters)
{
    static const struct {
        const char *changes;
        double added;
    } rows[] = {
        { "{\"embedding_norm\": true}", 2 * 64 },
        { "{\"tied\": false}", 256 * 64 },
        { "{\"qk_norm\": true}", 2 * 2 * 16 },
        { "{\"qkv_bias\": true}", 0 }, /* linear_bias has them */
        { "{\"linear_bias\": false}", -2 * (4 * 64 + 5 * 64) },
        { "{\"linear_bias\": false, \"qkv_bias\": true}", -2 * (64 + 5 * 64) },
        { "{\"norm\": \"rmsnorm\"}", -(2 * 2 + 1) * 64 },
        { "{\"positions\": \"rotary\"}", -64 * 64 },
        { "{\"positions\": \"alibi\"}", -64 * 64 },
        { "{\"positions\": \"none\"}", -64 * 64 },
        { "{\"max_positions\": 66}", 2 * 64 },
        { "{\"kv_heads\": 1}", -2 * (2 * 3 * 16) * (64 + 1) },
        { "{\"head_dim\": 32}", 2 * (4 * 64 * 64 + 3 * 64) },
        { "{\"activation\": \"relu\"}", 0 },
        { "{\"activation\": \"geglu\"}", 2 * 256 * (64 + 1) },
        { "{\"activation\": \"swiglu\"}", 2 * 256 * (64 + 1) },
    };
    struct model plain = changed("{}");
    for (int i = 0; i < LENGTH(rows); i++) {
        struct model model = changed(rows[i].changes);
        ck_assert_double_eq(model_parameters(&model) - model_parameters(&plain), rows[i].added);
    }
}
END_TEST

START_TEST(what_is_left_out_is_derived)
{
    struct model model = changed("{}");
    ck_assert_int_eq(model.kv_heads, 4);
    ck_assert_int_eq(model.head_dim, 16);
    ck_assert_int_eq(model.ffn, 256);
    ck_assert_int_eq(model.max_positions, 64);
    model = changed("{\"positions\": \"rotary\"}");
    ck_assert_int_eq(model.max_positions, 0);
}
END_TEST

/* 12 l h^2 = 9.6e17; beyond 1e18 is a fault, below. */
START_TEST(sizes_beyond_any_that_were_trained_are_counted)
{
    struct model model =
        changed("{\"layers\": 80000, \"hidden\": 1000000, \"heads\": 10000, \"seq\": 1}");
    ck_assert_double_eq_tol(model_parameters(&model) / 9.6e17, 1, 1e-4);
}
END_TEST

static const struct {
    const char *changes, *where, *msg;
} faults[] = {
    { "{\"heads\": 95, \"hidden\": 12288}", "heads",
      "num heads 95 does not divide hidden 12288; nearest that do: 96, 64" },
    { "{\"heads\": 5}", "heads", "num heads 5 does not divide hidden 64; nearest that do: 4, 8" },
    { "{\"heads\": 65}", "heads", "65 heads are more than the 64 channels of hidden" },
    { "{\"heads\": 0}", "heads", "0" },
    { "{\"kv_heads\": 3}", "kv_heads", "3 key and value heads do not divide the 4 query heads" },
    { "{\"kv_heads\": 8}", "kv_heads", "8" },
    { "{\"kv_heads\": -1}", "kv_heads", "-1" },
    { "{\"max_positions\": 63}", "max_positions", "63 learned positions are fewer than the 64" },
    { "{\"positions\": \"alibi\", \"max_positions\": 64}", "max_positions", "alibi" },
    { "{\"layers\": null}", "layers", "missing" },
    { "{\"layers\": 0}", "layers", "0" },
    { "{\"layers\": 100001}", "layers", "100001" },
    { "{\"layers\": 2.5}", "layers", "2.5" },
    { "{\"layers\": \"2\"}", "layers", "2" },
    { "{\"hidden\": 10000001}", "hidden", "10000001" },
    { "{\"vocab\": -1}", "vocab", "-1" },
    { "{\"seq\": 99999999999}", "seq", "99999999999" },
    { "{\"ffn\": true}", "ffn", "true" },
    { "{\"heads\": 1000000, \"head_dim\": 1000000}", "head_dim", "1000000" },
    { "{\"layers\": 100000, \"hidden\": 10000000, \"heads\": 100}", "layers", "1e18" },
    { "{\"dropout\": 1}", "dropout", "1" },
    { "{\"batch\": -1}", "batch", "-1" },
    { "{\"tokens\": 300000000000}", "tokens", "tok" },
    { "{\"norm\": \"batchnorm\"}", "norm", "batchnorm" },
    { "{\"activation\": \"silu\"}", "activation", "swiglu" },
    { "{\"positions\": 1}", "positions", "rotary" },
    { "{\"rope_theta\": 10000}", "rope_theta", "learned" },
    { "{\"norm_epsilon\": 2}", "norm_epsilon", "0 to 1" },
    { "{\"tied\": \"yes\"}", "tied", "yes" },
    { "{\"name\": \"\"}", "name", "\"\"" },
    { "{\"name\": \"a\\u001b[2J\"}", "name", "plain" },
    { "{\"summary\": \"two\\nlines\"}", "summary", "one line" },
    { "{\"layer\": 2}", "layer", "layers" },
    { "{\"format\": 2}", "format", "1" },
    { "{\"format\": \"1\"}", "format", "1" },
    { "{\"sources\": []}", "sources", "object" },
    { "{\"sources\": {\"bacth\": \"x\"}}", "sources.bacth", "not a key" },
    { "{\"sources\": {\"batch\": 1}}", "sources.batch", "text" },
};

START_TEST(a_fault_is_located_by_its_key)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(!read_changed(faults[_i].changes, &model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    ck_assert_msg(strstr(err.msg, faults[_i].msg), "%s", err.msg);
}
END_TEST

START_TEST(a_struct_that_no_reader_filled_is_checked_as_well)
{
    struct model model = { .name = "m" };
    struct err err = { 0 };
    ck_assert(!model_derive(&model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "layers");
}
END_TEST

static Suite *model_suite(void)
{
    Suite *suite = suite_create("model");
    TCase *counts = tcase_create("parameters");
    tcase_add_loop_test(counts, counts_are_those_of_the_released_checkpoints_to_the_unit, 0,
                        LENGTH(published));
    tcase_add_loop_test(counts, counts_round_to_those_that_papers_print, 0, LENGTH(rounded));
    tcase_add_loop_test(counts, counts_are_those_of_the_megatron_formula_and_a_final_norm, 0,
                        LENGTH(sc21));
    tcase_add_loop_test(counts, counts_are_near_the_lectures_approximation, 0, 4);
    tcase_add_test(counts, a_tiny_gpt_counts_as_it_does_by_hand);
    tcase_add_test(counts, a_tied_llama_counts_as_released);
    tcase_add_test(counts, each_option_adds_its_own_parameters);
    tcase_add_test(counts, sizes_beyond_any_that_were_trained_are_counted);
    suite_add_tcase(suite, counts);

    TCase *reading = tcase_create("reading");
    tcase_add_test(reading, what_is_left_out_is_derived);
    tcase_add_loop_test(reading, a_fault_is_located_by_its_key, 0, LENGTH(faults));
    tcase_add_test(reading, a_struct_that_no_reader_filled_is_checked_as_well);
    suite_add_tcase(suite, reading);

    return suite;
}

TEST_MAIN(model_suite)
