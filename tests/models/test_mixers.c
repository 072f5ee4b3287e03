/* Tests gates of attention, blocks whose mixer (attention or its replacement) keeps a state instead
 * of keys and values, and blocks that have only a mixer or only a feed-forward. */
#include "models/blocks.h"
#include "models/layer.h"
#include "sim/plan/local.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

static struct arena arena;

static void tear_down(void)
{
    arena_release(&arena);
}

static struct ops list_of(const struct model *model, int tokens)
{
    struct layer_dims dims = layer_dims(model, 1, tokens);
    struct layer_options options = layer_flash;
    options.fusions |= 1u << FUSION_NORM;
    return layer_forward(model, &dims, &options, &arena);
}

static double weights_of(struct ops ops)
{
    double parameters = 0;
    for (int i = 0; i < ops.operands->num_weights; i++)
        parameters += ops.operands->weights[i].rows * ops.operands->weights[i].columns;
    return parameters;
}

static const struct op *named_op(struct ops ops, const char *name)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0)
            return &ops.at[i];
    ck_abort_msg("no op is called %s", name);
    return NULL;
}

static const char *const presets[] = { "qwen3-next-80b-a3b", "nemotron-h-8b",
                                       "nemotron-3-nano-30b-a3b", "minimax-m1" };

START_TEST(weights_of_op_lists_equal_the_parameter_count)
{
    struct model model = model_of(presets[_i]);
    double parameters = model_embedding_parameters(&model) + model_head_parameters(&model);
    int counts[MAX_BLOCK_KINDS];
    model_count_kinds(&model, 0, model.layers, counts);
    for (int kind = 0; kind < model_num_kinds(&model); kind++) {
        struct model of = model_of_kind(&model, kind);
        parameters += counts[kind] * weights_of(list_of(&of, 512));
    }
    ck_assert_double_eq(parameters, model_parameters(&model));
}
END_TEST

/* Tensor ranks divide the heads of a mixer. Two ranks together hold all weights once, except that
 * each rank holds a copy of the two norms (2,048 channels each), of the mixer's norm (128), of the
 * router (512 x 2,048) and of the shared expert's gate (2,048). */
START_TEST(tensor_ranks_share_the_heads_of_a_mixer)
{
    struct model model = model_of("qwen3-next-80b-a3b");
    struct model delta = model_of_kind(&model, 0);
    struct plan plan = plan_of("tp2 etp2", &arena);
    double whole = weights_of(list_of(&delta, 512));
    double copies = 2 * 2048 + 128 + 512 * 2048 + 2048;
    ck_assert_double_eq(2 * local_layer_parameters(rank_share_of(&plan), &delta), whole + copies);
}
END_TEST

/* The FLOPs of the scan (update and use of the state) are counted per token. Qwen3-Next has 32
 * heads with a state of 128 x 128 elements, and multiplies each state four times. Nemotron-H has
 * 128 heads with a state of 128 x 64 and 7 FLOPs per element. MiniMax has 64 heads with a state of
 * 128 x 128, and multiplies each state twice; within blocks of 256 tokens it also runs full
 * attention, of which the masked half is executed but not counted for MFU. */
START_TEST(scan_flops_equal_hand_counts)
{
    struct model qwen = model_of("qwen3-next-80b-a3b"), nemotron = model_of("nemotron-h-8b"),
                 minimax = model_of("minimax-m1");
    struct model of_qwen = model_of_kind(&qwen, 0), of_nemotron = model_of_kind(&nemotron, 0);
    double tokens = 1024;
    ck_assert_double_eq(named_op(list_of(&of_qwen, 1024), "delta_scan")->flops,
                        tokens * 32 * 128 * 128 * 8);
    ck_assert_double_eq(named_op(list_of(&of_nemotron, 1024), "mamba_scan")->flops,
                        tokens * 128 * 128 * 64 * 7);
    const struct op *scan = named_op(list_of(&minimax, 1024), "lightning_scan");
    ck_assert_double_eq(scan->model_flops, tokens * 64 * 128 * 128 * 4);
    ck_assert_double_eq(scan->flops, scan->model_flops + tokens * 64 * 128 * 256 * 2);
}
END_TEST

/* Time and kept bytes of a mixer are proportional to the tokens. */
START_TEST(a_mixer_is_linear_in_the_sequence)
{
    struct model model = model_of("minimax-m1");
    struct ops once = list_of(&model, 1024), twice = list_of(&model, 2048);
    for (int i = 0; i < once.count; i++)
        ck_assert_double_eq(twice.at[i].flops, 2 * once.at[i].flops);
    ck_assert_double_eq(named_op(twice, "lightning_scan")->bytes,
                        2 * named_op(once, "lightning_scan")->bytes);
}
END_TEST

/* For each token a Mamba-2 block of Nemotron-H keeps 2 x 2 x 4,096 bytes of the norm's input and
 * output; 4 bytes of the norm's statistic; 2 x 18,560 bytes of the input product's output (gate and
 * values have 8,192 channels each, B and C 1,024 each, step sizes 128); 2 x 8,192 bytes of the
 * scan's output; and 2 x 8,192 bytes of this output after its norm. */
START_TEST(kept_bytes_of_mamba_equal_a_hand_count)
{
    struct model model = model_of("nemotron-h-8b");
    struct model mamba = model_of_kind(&model, 0);
    struct ops list = list_of(&mamba, 1);
    double kept = 0;
    for (int i = 0; i < list.count; i++)
        kept += op_saved_bytes(&list, &list.at[i]);
    ck_assert_double_eq(kept, 2 * 2 * 4096 + 4 + 2 * 18560 + 2 * 8192 + 2 * 8192);
}
END_TEST

/* Qwen3-Next's attention has 16 query heads of 256 channels, as many channels of gates, and 2
 * key-value heads. */
START_TEST(attention_gates_are_columns_of_the_qkv_product)
{
    struct model model = model_of("qwen3-next-80b-a3b");
    struct model full = model_of_kind(&model, 1);
    struct ops list = list_of(&full, 64);
    ck_assert_double_eq(named_op(list, "qkv")->n, 2 * 16 * 256 + 2 * 2 * 256);
    const struct op *gate = named_op(list, "attention_gate");
    ck_assert_int_eq(gate->in.count, 2);
    ck_assert_double_eq(gate->bytes, 3 * 2.0 * 64 * 16 * 256);
}
END_TEST

/* A block of Nemotron-H has only a mixer or only a feed-forward, so it has one norm and one
 * residual. */
START_TEST(a_block_of_one_part_has_one_norm)
{
    struct model model = model_of("nemotron-h-8b");
    for (int kind = 0; kind < model_num_kinds(&model); kind++) {
        struct model of = model_of_kind(&model, kind);
        struct ops list = list_of(&of, 64);
        int norms = 0, residuals = 0;
        for (int i = 0; i < list.count; i++) {
            norms += list.at[i].kind == OP_NORM;
            residuals += list.at[i].kind == OP_RESIDUAL;
        }
        ck_assert_int_eq(norms, 1);
        ck_assert_int_eq(residuals, 1);
    }
}
END_TEST

/* The state in the second half of a sequence depends on the first half, so context ranks cannot
 * divide a sequence. Tensor ranks divide heads, each of which stays whole. */
START_TEST(ranks_that_would_cut_a_state_are_refused)
{
    static const struct {
        const char *model, *layout, *where;
    } cuts[] = { { "minimax-m1", "cp2 mb1", "cp2" }, { "nemotron-h-8b", "tp16 mb1", "tp16" } };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct model model = model_of(cuts[i].model);
        struct plan plan = plan_of(cuts[i].layout, &arena);
        struct err why = { 0 };
        plan.dp = 1;
        ck_assert_ptr_nonnull(plan_check(&plan, &model, 8, plan.tp * plan.cp, &why));
        ck_assert_str_eq(why.where, cuts[i].where);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("models/mixers");
    TCase *tc = tcase_create("mixers");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, weights_of_op_lists_equal_the_parameter_count, 0,
                        sizeof presets / sizeof *presets);
    tcase_add_test(tc, tensor_ranks_share_the_heads_of_a_mixer);
    tcase_add_test(tc, scan_flops_equal_hand_counts);
    tcase_add_test(tc, a_mixer_is_linear_in_the_sequence);
    tcase_add_test(tc, kept_bytes_of_mamba_equal_a_hand_count);
    tcase_add_test(tc, attention_gates_are_columns_of_the_qkv_product);
    tcase_add_test(tc, a_block_of_one_part_has_one_norm);
    tcase_add_test(tc, ranks_that_would_cut_a_state_are_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
