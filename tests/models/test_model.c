#include "models/model.h"
#include "models/workload.h"

#include "models/blocks.h"
#include "tests/check_ok.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stddef.h>
#include <string.h>

/* The numbers of parameters are those of the released checkpoints; for Megatron's and Korthikanti's
 * models they follow from the paper's formula. */
static const struct {
    const char *name;
    double parameters;
} published[] = {
    { "gpt2", 124439808 },         { "gpt2-medium", 354823168 },    { "gpt2-large", 774030080 },
    { "gpt2-xl", 1557611200 },     { "llama-7b", 6738415616 },      { "llama2-7b", 6738415616 },
    { "llama2-13b", 13015864320 }, { "llama2-70b", 68976648192 },   { "llama3-8b", 8030261248 },
    { "llama3-70b", 70553706496 }, { "llama3-405b", 405853388800 }, { "mistral-7b", 7241732096 },
    { "qwen2.5-7b", 7615616512 },  { "bloom-176b", 176247271424 },  { "bert-large", 335174458 },
};

/* The numbers are exact sums by hand from the released config.json. If a publisher states a number,
 * the sum rounds to it. A layer's attention in DeepSeek-V3 has 187,107,328 parameters: queries 7168
 * x 1536 + 1536 (norm) + 1536 x 128 x 192; keys and values 7168 x 576 + 512 (norm) + 512 x 128 x
 * 256; output 128 x 128 x 7168. */
static const struct {
    const char *name;
    double parameters, active, untrained, mtp;
} with_experts[] = {
    { "mixtral-8x7b", 46702792704, 12879925248, 0, 0 },
    { "mixtral-8x22b", 140630071296, 39161468928, 0, 0 },
    { "qwen3-30b-a3b", 30532122624, 3353032704, 0, 0 },
    { "qwen3-235b-a22b", 235093634560, 22190763520, 0, 0 },
    { "deepseek-v2-lite", 15706484224, 2661150208, 0, 0 },
    { "deepseek-v2", 235741434880, 21375800320, 0, 0 },
    { "deepseek-v3", 671026419200, 37552297472, 58 * 256, 11610068224 },
    { "kimi-k2", 1026408232448, 32861500928, 60 * 384, 0 },
    { "gpt-oss-20b", 20914757184, 4187440704, 0, 0 },
    { "gpt-oss-120b", 116829156672, 5711982912, 0, 0 },
    { "glm-4.5", 352797829024, 33632266144, 89 * 160, 3988069792 },
    { "dbrx", 131596523520, 36469708800, 0, 0 },
    { "grok-1", 315684820992, 83756587008, 0, 0 },
    { "qwen2-57b-a14b", 57408658944, 14249270784, 0, 0 },
    { "qwen3-next-80b-a3b", 79674391296, 3874929408, 0, 0 },
    { "deepseek-v3.2", 671877944064, 38403822336, 58 * 256, 11624027648 },
    { "glm-4.5-air", 106852251264, 13424129664, 45 * 128, 2375059584 },
    { "llama4-scout", 107769861120, 17172894720, 0, 0 },
    { "llama4-maverick", 400711848960, 17184691200, 0, 0 },
    { "minimax-m1", 456089655296, 48403306496, 0, 0 },
    { "minimax-m2", 228689764864, 11030553088, 62 * 256, 11062807296 },
    { "olmoe-1b-7b", 6919161856, 1282017280, 0, 0 },
    { "ling-mini-2.0", 16255643392, 1432973056, 19 * 256, 0 },
    { "ling-flash-2.0", 102889705216, 6152277760, 31 * 256, 0 },
    { "ling-1t", 999705328640, 51054427136, 76 * 256, 0 },
    { "nemotron-3-nano-30b-a3b", 31577940288, 3580076352, 23 * 128, 0 },
    { "nemotron-h-8b", 8100852736, 8100852736, 0, 0 },
    { "t5-11b", 11307321344, 11307321344, 0, 0 },
    { "t5-3b", 2851598336, 2851598336, 0, 0 },
    { "switch-c", 1571261049120, 1680402720, 0, 0 },
};

/* These are billions of parameters, as the papers print them. */
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

/* The models and their numbers are those of table 1 in Narayanan et al. 2021. */
static const struct {
    const char *name;
    double billions;
} sc21[] = {
    { "megatron-1.7b", 1.7 },   { "megatron-3.6b", 3.6 },   { "megatron-7.5b", 7.5 },
    { "megatron-18b", 18.4 },   { "megatron-39b", 39.1 },   { "megatron-76b", 76.1 },
    { "megatron-145b", 145.6 }, { "megatron-310b", 310.1 }, { "megatron-530b", 529.6 },
    { "megatron-1t", 1008.0 },
};

/* Reads the model `tiny` with the fields of `changes`. */
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

START_TEST(parameter_counts_equal_released_checkpoints)
{
    struct model model = model_of(published[_i].name);
    ck_assert_double_eq(model_parameters(&model), published[_i].parameters);
}
END_TEST

/* The benchmark's model has a pooler of h^2 + h parameters. Instead, the preset has a head for
 * masked words, with h^2 + h parameters, a norm of 2 h, and a bias for each word of the
 * vocabulary. */
START_TEST(bert_large_is_the_same_model_with_its_pooler)
{
    struct model model = model_of("bert-large");
    double beyond = 2.0 * model.hidden + model.vocab;
    ck_assert_double_eq(model_parameters(&model) - beyond, workload_find("bert-large")->parameters);
}
END_TEST

START_TEST(models_with_experts_have_total_and_active_counts)
{
    struct model model = model_of(with_experts[_i].name);
    ck_assert_double_eq(model_parameters(&model), with_experts[_i].parameters);
    ck_assert_double_eq(model_active_parameters(&model), with_experts[_i].active);
    ck_assert_double_eq(model_untrained_parameters(&model), with_experts[_i].untrained);
    ck_assert_double_eq(model_mtp_parameters(&model), with_experts[_i].mtp);
}
END_TEST

START_TEST(parameter_counts_round_to_the_published_ones)
{
    struct model model = model_of(rounded[_i].name);
    ck_assert_double_eq_tol(model_parameters(&model) / 1e9 / rounded[_i].billions, 1,
                            rounded[_i].tolerance);
}
END_TEST

/* The formula for l layers, hidden size h, vocabulary V and sequence S is P = 12 l h^2 (1 + 13 /
 * (12 h) + (V + S) / (12 l h)). The paper omits the final norm. */
START_TEST(parameter_counts_equal_megatrons_formula_plus_a_final_norm)
{
    struct model model = model_of(sc21[_i].name);
    double l = model.layers, h = model.hidden;
    double paper = 12 * l * h * h + 13 * l * h + (51200.0 + 2048) * h;
    ck_assert_double_eq(model_parameters(&model), paper + 2 * h);
    ck_assert_double_eq_tol(paper / 1e9 / sc21[_i].billions, 1, 0.03);
}
END_TEST

/* A block has 12 h^2 parameters: 4 h^2 of attention and 8 h^2 of feed-forward, gated or not. The
 * lecture's count ignores the norms, and that Llama rounds 8/3 h up. */
START_TEST(parameter_counts_are_near_the_lectures_approximation)
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

/* The embeddings of 256 tokens and 64 positions have 256 x 64 + 64 x 64 = 20480 parameters. A block
 * has 49984: attention has 4 x 64^2 + 4 x 64, the feed-forward 8 x 64^2 + 5 x 64, and two norms
 * have 4 x 64. The final norm has 128. */
START_TEST(parameters_of_a_tiny_gpt_equal_a_hand_count)
{
    struct model tiny = model_of("tiny");
    ck_assert_double_eq(model_embedding_parameters(&tiny), 20480);
    ck_assert_double_eq(model_layer_parameters(&tiny), 49984);
    ck_assert_double_eq(model_head_parameters(&tiny), 128);
    ck_assert_double_eq(model_parameters(&tiny), 220544);
}
END_TEST

/* This is Llama-3.2-1B, which is not a preset. */
START_TEST(parameters_of_a_tied_llama_equal_the_release)
{
    struct model model = changed("{\"layers\": 16, \"hidden\": 2048, \"heads\": 32,"
                                 " \"kv_heads\": 8, \"ffn\": 8192, \"vocab\": 128256,"
                                 " \"norm\": \"rmsnorm\", \"activation\": \"swiglu\","
                                 " \"positions\": \"rotary\", \"linear_bias\": false}");
    ck_assert_int_eq(model.head_dim, 64);
    ck_assert_double_eq(model_parameters(&model), 1235814400);
}
END_TEST

/* The number of parameters that each option adds to a plain GPT of 2 layers, hidden size 64, 4
 * heads of 16 and vocabulary 256. */
START_TEST(each_option_adds_its_own_parameters)
{
    static const struct {
        const char *changes;
        double added;
    } rows[] = {
        { "{\"embedding_norm\": true}", 2 * 64 },
        { "{\"tied\": false}", 256 * 64 },
        { "{\"qk_norm\": true}", 2 * 2 * 16 },
        { "{\"qkv_bias\": true}", 0 }, /* linear_bias already includes these biases */
        { "{\"linear_bias\": false}", -2 * (4 * 64 + 5 * 64) },
        { "{\"linear_bias\": false, \"qkv_bias\": true}", -2 * (64 + 5 * 64) },
        { "{\"norm\": \"rmsnorm\"}", -(2 * 2 + 1) * 64 },
        { "{\"positions\": \"rotary\"}", -64 * 64 },
        { "{\"positions\": \"alibi\"}", -64 * 64 },
        { "{\"positions\": \"none\"}", -64 * 64 },
        { "{\"positions\": \"transformer_xl\"}", 2 * 64 * 64 - 64 * 64 },
        { "{\"max_positions\": 66}", 2 * 64 },
        { "{\"kv_heads\": 1}", -2 * (2 * 3 * 16) * (64 + 1) },
        { "{\"head_dim\": 32}", 2 * (4 * 64 * 64 + 3 * 64) },
        { "{\"activation\": \"relu\"}", 0 },
        { "{\"sinks\": true}", 2 * 4 },
        { "{\"attention_gate\": true}", 2 * 64 * 64 },
        { "{\"linear_bias\": false, \"out_bias\": true}", -2 * (3 * 64 + 5 * 64) },
        { "{\"qk_norm\": true, \"qk_norm_kind\": \"all\", \"kv_heads\": 2}",
          2 * 6 * 16 - 2 * (2 * 2 * 16) * (64 + 1) },
        { "{\"qk_norm\": true, \"qk_norm_kind\": \"each\"}", 2 * 8 * 16 },
        { "{\"attention\": \"window\", \"sliding_window\": 8}", 0 },
        { "{\"norm\": \"layernorm_gain\"}", -(2 * 2 + 1) * 64 },
        { "{\"norm_place\": \"around\"}", 2 * 2 * 2 * 64 },
        { "{\"norm_place\": \"after\"}", 0 },
        { "{\"parallel\": \"own_norms\"}", 0 },
        { "{\"parallel\": \"one_norm\"}", -2 * 2 * 64 },
        { "{\"head_bias\": true}", 256 },
        { "{\"head_transform\": true}", 64 * 64 + 64 },
        { "{\"token_types\": 2}", 2 * 64 },
        { "{\"linear_bias\": false, \"ffn_bias\": true}", -2 * 4 * 64 },
        { "{\"positions\": \"relative\", \"relative_buckets\": 32}", 32 * 4 - 64 * 64 },
        { "{\"attention\": \"lightning\"}", 2 * (5 * 64 * 64 + 64 - 4 * 64 * 64 - 4 * 64) },
        { "{\"attention\": \"encoder\"}", 0 },
        { "{\"attention\": \"cross\"}", 2 * (4 * 64 * 64 + 4 * 64 + 2 * 64) + 2 * 64 },
        { "{\"attention\": \"delta\", \"linear_key_heads\": 2, \"linear_value_heads\": 4,"
          " \"linear_key_dim\": 8, \"linear_value_dim\": 16, \"linear_conv\": 4}",
          2 * (64 * (2 * 16 + 2 * 64 + 8) + (2 * 16 + 64) * 4 + 8 + 16 + 64 * 64 - 4 * 64 * 64 -
               4 * 64) },
        { "{\"attention\": \"mamba\", \"linear_key_heads\": 2, \"linear_value_heads\": 4,"
          " \"linear_key_dim\": 8, \"linear_value_dim\": 16, \"linear_conv\": 4}",
          2 * (64 * (64 + 64 + 2 * 16 + 4) + (64 + 2 * 16) * 5 + 3 * 4 + 64 + 64 * 64 -
               4 * 64 * 64 - 4 * 64) },
        { "{\"attention\": \"none\"}", -2 * (4 * 64 * 64 + 4 * 64 + 2 * 64) },
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

/* The number of parameters that each option adds to a model with 4 experts of width 32 in both
 * blocks, without biases, whose experts and routers have 2 x (4 x 2 x 64 x 32 + 64 x 4) parameters.
 */
START_TEST(each_option_of_experts_adds_its_own_parameters)
{
    static const char plain[] = "\"linear_bias\": false, \"experts\": 4, \"topk\": 2, "
                                "\"expert_ffn\": 32";
    static const struct {
        const char *changes;
        double added, added_active;
    } rows[] = {
        { "", 0, 0 },
        { ", \"topk\": 3", 0, 2 * 2 * 64 * 32 },
        { ", \"router_bias\": true", 2 * 4, 2 * 4 },
        { ", \"score_bias\": true", 2 * 4, 2 * 4 },
        { ", \"expert_bias\": true", 2 * 4 * (32 + 64), 2 * 2 * (32 + 64) },
        { ", \"shared_ffn\": 48", 2 * 2 * 64 * 48, 2 * 2 * 64 * 48 },
        { ", \"shared_ffn\": 48, \"shared_gate\": true", 2 * (2 * 64 * 48 + 64),
          2 * (2 * 64 * 48 + 64) },
        { ", \"activation\": \"swiglu\"", 2 * 4 * 64 * 32, 2 * 2 * 64 * 32 },
        { ", \"expert_ffn\": null", 2 * 4 * 2 * 64 * (256 - 32), 2 * 2 * 2 * 64 * (256 - 32) },
        { ", \"first_dense\": 1", 2 * 64 * 32 - 4 * 2 * 64 * 32 - 64 * 4,
          2 * 64 * 32 - 2 * 2 * 64 * 32 - 64 * 4 },
        { ", \"moe_step\": 2, \"ffn\": 256", 2 * 64 * 256 - 4 * 2 * 64 * 32 - 64 * 4,
          2 * 64 * 256 - 2 * 2 * 64 * 32 - 64 * 4 },
        { ", \"mtp\": 3", 0, 0 },
    };
    double all = 0, active = 0;
    for (int i = 0; i < LENGTH(rows); i++) {
        char changes[256];
        snprintf(changes, sizeof changes, "{%s%s}", plain, rows[i].changes);
        struct model model = changed(changes);
        if (i == 0) {
            all = model_parameters(&model);
            active = model_active_parameters(&model);
            ck_assert_double_eq(all - active, 2 * 2 * 2 * 64 * 32);
        }
        ck_assert_double_eq(model_parameters(&model) - all, rows[i].added);
        ck_assert_double_eq(model_active_parameters(&model) - active, rows[i].added_active);
    }
}
END_TEST

/* The first two blocks have no experts; of the other blocks, every block whose number is a multiple
 * of 3 has experts. */
START_TEST(experts_are_in_blocks_given_by_first_dense_and_moe_step)
{
    struct model model = changed("{\"layers\": 9, \"experts\": 4, \"topk\": 1,"
                                 " \"first_dense\": 3, \"moe_step\": 3}");
    for (int layer = 0; layer < 9; layer++) {
        struct model of = model_of_kind(&model, model_kind_of(&model, layer));
        ck_assert_int_eq(of.experts > 0, layer == 5 || layer == 8);
        ck_assert_int_eq(of.feed_forward == FEED_FORWARD_EXPERTS, layer == 5 || layer == 8);
    }
}
END_TEST

/* The models are the Gopher family (Rae et al. 2021, table 1) and Chinchilla (Hoffmann et al. 2022,
 * table 4). Transformer-XL's relative positions have projections with 80 x 16384^2 = 21.5 B of
 * Gopher's 280 B parameters. Without these projections the model named 280 B would have 258 B, and
 * the model named 7.1 B would have 6.6 B. */
START_TEST(relative_positions_give_gophers_sizes)
{
    static const struct {
        int layers, heads, head_dim, hidden;
        double printed, digit;
    } rows[] = {
        { 8, 16, 32, 512, 44e6, 1e6 },       { 12, 12, 64, 768, 117e6, 1e6 },
        { 12, 12, 128, 1536, 417e6, 1e6 },   { 24, 16, 128, 2048, 1.4e9, 0.1e9 },
        { 32, 32, 128, 4096, 7.1e9, 0.1e9 }, { 80, 128, 128, 16384, 280e9, 1e9 },
        { 80, 64, 128, 8192, 70e9, 1e9 },
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct model model;
        struct err err = { 0 };
        ck_assert(model_load(rows[i].hidden == 8192 ? "chinchilla" : "gopher", &model, &err));
        model.layers = rows[i].layers;
        model.heads = model.kv_heads = rows[i].heads;
        model.head_dim = rows[i].head_dim;
        model.hidden = rows[i].hidden;
        model.ffn = 4 * rows[i].hidden;
        ck_assert_double_eq_tol(model_parameters(&model), rows[i].printed, 0.5 * rows[i].digit);
    }
    struct model shipped;
    struct err err = { 0 };
    ck_assert(model_load("gopher-280b", &shipped, &err));
    double block = 13.0 * 16384 * 16384 + (3 + 1 + 4 + 1 + 2) * 16384;
    ck_assert_double_eq(model_parameters(&shipped), 80 * block + 32000.0 * 16384 + 16384);
}
END_TEST

START_TEST(omitted_fields_are_derived)
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

/* The model has 12 l h^2 = 9.6e17 parameters. More than 1e18 is an error, which is tested below. */
START_TEST(very_large_models_are_counted)
{
    struct model model =
        changed("{\"layers\": 80000, \"hidden\": 1000000, \"heads\": 10000, \"seq\": 1}");
    ck_assert_double_eq_tol(model_parameters(&model) / 9.6e17, 1, 1e-4);
}
END_TEST

/* For models with biases before a norm only parameters are counted; for Llama and Mixtral plans are
 * predicted too. */
START_TEST(a_model_that_cannot_be_predicted_is_reported)
{
    struct model model = model_of("mixtral-8x7b");
    struct err err = { 0 };
    ck_assert(model_has_costs(&model, &err));
    model.norm_place = NORMS_AFTER;
    ck_assert(model_has_costs(&model, &err));
    model.out_bias = true;
    ck_assert(!model_has_costs(&model, &err));
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
    ck_assert_str_eq(err.where, "mixtral-8x7b");
    ck_assert_ptr_nonnull(strstr(err.msg, " B active"));
    ck_assert_ptr_nonnull(strstr(err.msg, "biases before a norm"));
    model = model_of("llama3-8b");
    err = (struct err){ 0 };
    ck_assert(model_has_costs(&model, &err));
    ck_assert_double_eq(model_active_parameters(&model), model_parameters(&model));
}
END_TEST

static const struct {
    const char *changes, *where, *msg;
} faults[] = {
    { "{\"topk\": 2}", "topk", "without experts" },
    { "{\"experts\": 4}", "topk", "missing" },
    { "{\"experts\": 4, \"topk\": 5}", "topk", "at most the 4 experts; found 5" },
    { "{\"experts\": 4, \"topk\": 1, \"shared_gate\": true}", "shared_gate", "without shared_ffn" },
    { "{\"experts\": 4, \"topk\": 1, \"expert_groups\": 3, \"topk_groups\": 1}", "expert_groups",
      "3 groups do not divide 4" },
    { "{\"first_dense\": 1}", "first_dense", "without experts" },
    { "{\"experts\": 4, \"topk\": 1, \"first_dense\": 1, \"blocks\": [{\"layers\": 2}]}",
      "first_dense", "which states" },
    { "{\"kv_lora\": 8}", "qk_nope_dim", "missing" },
    { "{\"kv_lora\": 8, \"qk_nope_dim\": 8, \"qk_rope_dim\": 8}", "v_head_dim", "missing" },
    { "{\"kv_lora\": 8, \"qk_nope_dim\": 8, \"qk_rope_dim\": 8, \"v_head_dim\": 8, "
      "\"head_dim\": 8}",
      "head_dim", "16; found 8" },
    { "{\"attention\": \"window\"}", "sliding_window", "missing" },
    { "{\"attention\": \"windows\"}", "attention", "window" },
    { "{\"blocks\": [{\"layers\": 2, \"feed_forward\": \"experts\"}]}", "experts", "missing" },
    { "{\"blocks\": [{\"layers\": 2, \"feed_forward\": \"none\", \"attention\": \"none\"}]}",
      "blocks", "found none" },
    { "{\"heads\": 95, \"hidden\": 12288}", "heads",
      "heads 95 does not divide hidden 12288; the nearest divisors are 96 and 64" },
    { "{\"heads\": 5}", "heads",
      "heads 5 does not divide hidden 64; the nearest divisors are 4 and 8" },
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

START_TEST(an_error_in_a_model_names_its_key)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(!read_changed(faults[_i].changes, &model, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    ck_assert_msg(strstr(err.msg, faults[_i].msg), "%s", err.msg);
}
END_TEST

/* Changes the value of a field of any kind. */
static void change(const struct field *field, struct model *model)
{
    char *slot = (char *)model + field->offset;
    switch (field->kind) {
    case FIELD_INT:
    case FIELD_NAME:
        ++*(int *)(void *)slot;
        break;
    case FIELD_BOOL:
        *(bool *)slot = !*(bool *)slot;
        break;
    case FIELD_TEXT:
        slot[0] = slot[0] == 'x' ? 'y' : 'x';
        break;
    case FIELD_COUNT:
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        ++*(double *)(void *)slot;
        break;
    case FIELD_SET:
    case FIELD_OTHER:
        ck_abort_msg("a model has no field of this kind");
    }
}

START_TEST(models_are_equal_if_all_fields_except_texts_are)
{
    struct model model;
    struct err err = { 0 };
    check_ok(read_changed("{\"experts\": 4, \"topk\": 2, \"first_dense\": 1}", &model, &err), &err);
    for (size_t i = 0; i < num_model_fields; i++) {
        const struct field *field = &model_fields[i];
        if (field->kind == FIELD_OTHER)
            continue;
        struct model other = model;
        ck_assert(models_are_equal(&model, &other));
        change(field, &other);
        bool only_tells = field->offset < offsetof(struct model, layers);
        ck_assert_msg(models_are_equal(&model, &other) == only_tells,
                      "field %s: the comparison of models is wrong", field->name);
    }
    struct model other = model;
    other.blocks.kinds[1].feed_forward = FEED_FORWARD_DENSE;
    ck_assert(!models_are_equal(&model, &other));
}
END_TEST

/* If the first 3 of 61 layers are dense, 58 layers have experts. If every second layer of an odd
 * number has experts, the last one is dense. */
START_TEST(changing_the_depth_recomputes_the_blocks_with_experts)
{
    static const struct {
        int first_dense, moe_step, layers, with_experts;
    } cases[] = { { 3, 0, 61, 58 }, { 3, 0, 2, 0 },     { 3, 0, 400, 397 }, { 0, 2, 48, 24 },
                  { 0, 2, 49, 24 }, { 0, 2, 999, 499 }, { 0, 1, 7, 7 },     { 1, 3, 9, 3 } };
    for (int i = 0; i < LENGTH(cases); i++) {
        struct model model;
        struct err err = { 0 };
        check_ok(read_changed("{\"layers\": 8, \"experts\": 4, \"topk\": 2}", &model, &err), &err);
        model.first_dense = cases[i].first_dense;
        model.moe_step = cases[i].moe_step;
        check_ok(model_derive(&model, &err), &err);
        check_ok(model_set_layers(&model, cases[i].layers, &err), &err);
        check_ok(model_check(&model, &err), &err);
        int found = 0;
        for (int layer = 0; layer < model.layers; layer++)
            found += model_kind(&model, model_kind_of(&model, layer)).feed_forward ==
                     FEED_FORWARD_EXPERTS;
        ck_assert_int_eq(found, cases[i].with_experts);
    }
}
END_TEST

START_TEST(a_struct_filled_by_code_is_checked_too)
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
    tcase_add_loop_test(counts, parameter_counts_equal_released_checkpoints, 0, LENGTH(published));
    tcase_add_test(counts, bert_large_is_the_same_model_with_its_pooler);
    tcase_add_loop_test(counts, models_with_experts_have_total_and_active_counts, 0,
                        LENGTH(with_experts));
    tcase_add_loop_test(counts, parameter_counts_round_to_the_published_ones, 0, LENGTH(rounded));
    tcase_add_loop_test(counts, parameter_counts_equal_megatrons_formula_plus_a_final_norm, 0,
                        LENGTH(sc21));
    tcase_add_loop_test(counts, parameter_counts_are_near_the_lectures_approximation, 0, 4);
    tcase_add_test(counts, parameters_of_a_tiny_gpt_equal_a_hand_count);
    tcase_add_test(counts, parameters_of_a_tied_llama_equal_the_release);
    tcase_add_test(counts, each_option_adds_its_own_parameters);
    tcase_add_test(counts, each_option_of_experts_adds_its_own_parameters);
    tcase_add_test(counts, experts_are_in_blocks_given_by_first_dense_and_moe_step);
    tcase_add_test(counts, a_model_that_cannot_be_predicted_is_reported);
    tcase_add_test(counts, very_large_models_are_counted);
    suite_add_tcase(suite, counts);

    TCase *reading = tcase_create("reading");
    tcase_add_test(reading, relative_positions_give_gophers_sizes);
    tcase_add_test(reading, omitted_fields_are_derived);
    tcase_add_loop_test(reading, an_error_in_a_model_names_its_key, 0, LENGTH(faults));
    tcase_add_test(reading, models_are_equal_if_all_fields_except_texts_are);
    tcase_add_test(reading, changing_the_depth_recomputes_the_blocks_with_experts);
    tcase_add_test(reading, a_struct_filled_by_code_is_checked_too);
    suite_add_tcase(suite, reading);

    return suite;
}

TEST_MAIN(model_suite)
