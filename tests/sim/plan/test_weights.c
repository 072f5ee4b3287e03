#include "sim/plan/weights.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

static const char *const layouts[] = { "tp1", "tp2", "tp4 sp", "tp2 sp" };
enum { NUM_MODELS = 4, NUM_CASES = 16 };

/* A small GPT, or a small model with the features of Llama, Qwen or BLOOM. */
static struct model small_model(int which)
{
    struct err err = { 0 };
    struct model model;
    ck_assert_msg(model_load("tiny", &model, &err), "%s: %s", err.where, err.msg);
    model.vocab = 300;
    if (which == 1 || which == 2) {
        model.norm = NORM_RMS;
        model.activation = ACTIVATION_SWIGLU;
        model.positions = POSITION_ROTARY;
        model.linear_bias = model.tied = false;
        model.qk_norm = model.qkv_bias = which == 2;
    }
    model.embedding_norm = which == 3;
    return model;
}

struct part {
    struct ops forward;
    double parameters;
};

/* A layer, the embedding and the head of one tensor rank. */
static void load_parts(const struct plan *plan, const struct model *model, struct arena *arena,
                       struct part parts[3])
{
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_FP32 };
    double seq = model->seq;
    parts[0].forward = local_layer(rank_share_of(plan), model, seq, &options, false, arena).forward;
    parts[1].forward =
        local_embedding(rank_share_of(plan), model, seq, &options, false, arena).forward;
    parts[2].forward = local_head(rank_share_of(plan), model, seq, &options, false, arena).forward;
    parts[0].parameters = local_layer_parameters(rank_share_of(plan), model);
    parts[1].parameters = local_embedding_parameters(rank_share_of(plan), model);
    parts[2].parameters = local_head_parameters(rank_share_of(plan), model);
}

/* Counts how many ranks hold each element of the whole weight. */
static void count_held(const struct weight *weight, unsigned char *held)
{
    for (size_t i = 0; i < weight->rows * weight->columns; i++)
        held[weight_whole_index(weight, i)]++;
}

static void check_whole(const struct part *part, const struct plan *plan, struct arena *arena)
{
    struct weights first = weights_of(&part->forward, rank_share_of(plan), 0, arena);
    for (int i = 0; i < first.count; i++) {
        const struct weight *weight = &first.at[i];
        size_t elements = weight->whole_rows * weight->whole_columns;
        unsigned char *held = calloc(elements, 1);
        for (int rank = 0; rank < plan->tp; rank++) {
            struct weights weights = weights_of(&part->forward, rank_share_of(plan), rank, arena);
            const struct weight *same = &weights.at[i];
            ck_assert_uint_eq(same->offset, weight->offset);
            count_held(same, held);
        }
        size_t wrong = 0; /* one ck_assert per element would be too slow */
        for (size_t e = 0; e < elements; e++)
            wrong += held[e] != (weight->is_split ? 1 : plan->tp);
        ck_assert_uint_eq(wrong, 0);
        free(held);
    }
}

START_TEST(ranks_hold_the_counted_weights_and_together_the_whole_model)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct model model = small_model(_i % NUM_MODELS);
    struct plan plan;
    ck_assert(plan_parse(layouts[_i / NUM_MODELS], &arena, &plan, &err));
    struct part parts[3];
    load_parts(&plan, &model, &arena, parts);
    for (int p = 0; p < 3; p++) {
        struct weights weights = weights_of(&parts[p].forward, rank_share_of(&plan), 0, &arena);
        bool is_tied_head = p == 2 && model.tied;
        size_t own = is_tied_head ? 0 : weights.vocabulary_elements;
        ck_assert_double_eq((double)(weights.elements + own), parts[p].parameters);
        check_whole(&parts[p], &plan, &arena);
    }
    arena_release(&arena);
}
END_TEST

START_TEST(gradients_of_norms_are_partial_where_tokens_or_heads_are_split)
{
    struct op_weight of[] = { { .summed = SUMMED_OVER_TOKENS },
                              { .summed = SUMMED_OVER_HEADS },
                              { .summed = SUMMED_NEVER } };
    struct weight scale = { .of = &of[0] }, heads = { .of = &of[1] }, bias = { .of = &of[2] };
    struct plan plan = plan_default();
    plan.tp = 2;
    ck_assert(!weight_is_partial(&scale, &plan) && weight_is_partial(&heads, &plan));
    plan.sp = true;
    ck_assert(weight_is_partial(&scale, &plan) && !weight_is_partial(&bias, &plan));
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("weights");
    tcase_add_loop_test(cases, ranks_hold_the_counted_weights_and_together_the_whole_model, 0,
                        NUM_CASES);
    tcase_add_test(cases, gradients_of_norms_are_partial_where_tokens_or_heads_are_split);
    Suite *s = suite_create("sim/plan/weights");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
