#include "sim/campaign/shape.h"

#include "tests/testing.h"

#include <math.h>
#include <string.h>

static struct err err;

static struct model style_of(const char *name)
{
    struct model model;
    ck_assert_msg(model_load(name, &model, &err), "%s: %s", err.where, err.msg);
    return model;
}

static struct model shaped(const struct model *style, enum aspect aspect, double parameters)
{
    struct model model;
    ck_assert_msg(shape_of_size(style, aspect, parameters, &model, &err), "%s", err.msg);
    return model;
}

/* Levine et al. 2020, abstract: a model of 1 T parameters should have a width of 30 K. It has 12 x
 * layers x width^2 parameters. */
START_TEST(a_model_of_1e12_parameters_has_width_30000)
{
    double width = 30e3, layers = aspect_layers(ASPECT_LEVINE, width);
    ck_assert_double_eq_tol(12 * layers * width * width, 1e12, 0.03e12);
}
END_TEST

/* The shapes are those of Brown et al. 2020, table 2.1, and of Touvron et al. 2023, table 2. */
START_TEST(shapes_of_published_models_are_reproduced)
{
    static const struct {
        const char *name;
        int layers, width;
    } rows[] = {
        { "gpt3-175b", 96, 12288 },
        { "gpt3-6.7b", 32, 4096 },
        { "llama-7b", 32, 4096 },
        { "llama2-13b", 40, 5120 },
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct model style = style_of(rows[i].name);
        struct model model = shaped(&style, ASPECT_GPT3, model_parameters(&style));
        ck_assert_int_eq(model.layers, rows[i].layers);
        ck_assert_int_eq(model.hidden, rows[i].width);
        ck_assert_int_eq(model.ffn, style.ffn);
        ck_assert_double_eq(model_parameters(&model), model_parameters(&style));
    }
}
END_TEST

/* From 24 layers on the number of layers is a multiple of four. A step of four changes the size by
 * at most 4 / 24, so the error is at most half of that. */
START_TEST(a_shape_has_the_requested_size)
{
    static const char *const styles[] = { "llama2-7b", "llama3-8b", "gpt3-175b", "tiny" };
    struct model style = style_of(styles[_i]);
    for (int aspect = 0; aspect < NUM_ASPECTS; aspect++)
        for (double size = 1e9; size < 1e13; size *= 1.7) {
            struct model model = shaped(&style, (enum aspect)aspect, size);
            ck_assert_double_eq_tol(log(model_parameters(&model) / size), 0, 0.09);
            ck_assert_int_eq(model.head_dim, style.head_dim);
            ck_assert_int_eq(model.heads % model.kv_heads, 0);
            double layers = aspect_layers((enum aspect)aspect, model.hidden);
            ck_assert_double_eq_tol(model.layers / layers, 1, 0.45);
            if (model.heads >= 32)
                ck_assert_int_eq(model.heads % 8, 0);
        }
}
END_TEST

/* A model has a layer and a head at least, however few parameters are asked for. */
START_TEST(the_smallest_shape_has_a_layer)
{
    static const char *const styles[] = { "llama2-7b", "gpt3-175b", "tiny" };
    for (int i = 0; i < LENGTH(styles); i++)
        for (int aspect = 0; aspect < NUM_ASPECTS; aspect++) {
            struct model style = style_of(styles[i]);
            double least = shape_least(&style);
            for (double size = least; size < 50 * least; size *= 1.3) {
                struct model model = shaped(&style, (enum aspect)aspect, size);
                ck_assert_int_ge(model.layers, 1);
                ck_assert_int_ge(model.ffn, 1);
            }
        }
}
END_TEST

/* A feed-forward width that is a whole multiple of the model's width stays that multiple. Another
 * one is rounded to a multiple of 256 from a width of 2048 on, and of the head width below. */
START_TEST(the_feed_forward_width_follows_the_width)
{
    static const struct {
        int head_dim;
        double share; /* feed-forward width / width */
    } styles[] = { { 128, 2.6875 }, { 128, 3 }, { 64, 3.5 }, { 72, 3 }, { 25, 3 } };
    struct model style = style_of("llama2-7b");
    bool was_at_2048 = false;
    style.head_dim = styles[_i].head_dim;
    style.hidden = style.heads * style.head_dim;
    style.ffn = (int)(styles[_i].share * style.hidden);
    for (double size = shape_least(&style); size < 4e9; size *= 1.04) {
        struct model model = shaped(&style, ASPECT_GPT3, size);
        double wanted = styles[_i].share * model.hidden;
        bool is_whole = styles[_i].share == round(styles[_i].share);
        int unit = model.hidden >= 2048 ? 256 : style.head_dim;
        ck_assert_double_eq(model.ffn,
                            is_whole ? wanted : unit * fmax(1, floor(wanted / unit + 0.5)));
        was_at_2048 |= model.hidden == 2048;
    }
    ck_assert(was_at_2048 || 2048 % style.head_dim != 0);
}
END_TEST

START_TEST(sizes_below_a_layer_and_blocks_of_several_kinds_are_refused)
{
    struct model style = style_of("llama2-7b"), model;
    ck_assert(!shape_of_size(&style, ASPECT_GPT3, 1e6, &model, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "fewer than"));
    err = (struct err){ 0 };
    style.blocks = (struct blocks){ .num_kinds = 2, .num_runs = 2 };
    ck_assert(!shape_of_size(&style, ASPECT_GPT3, 1e10, &model, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "2 kinds"));
    err = (struct err){ 0 };
    style = style_of("mixtral-8x7b");
    ck_assert(!shape_of_size(&style, ASPECT_GPT3, 1e10, &model, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "experts"));
    err = (struct err){ 0 };
}
END_TEST

static Suite *shape_suite(void)
{
    Suite *suite = suite_create("shape");
    TCase *tcase = tcase_create("shape");
    tcase_add_test(tcase, a_model_of_1e12_parameters_has_width_30000);
    tcase_add_test(tcase, shapes_of_published_models_are_reproduced);
    tcase_add_loop_test(tcase, a_shape_has_the_requested_size, 0, 4);
    tcase_add_test(tcase, the_smallest_shape_has_a_layer);
    tcase_add_loop_test(tcase, the_feed_forward_width_follows_the_width, 0, 5);
    tcase_add_test(tcase, sizes_below_a_layer_and_blocks_of_several_kinds_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
TEST_MAIN(shape_suite)
