#include "models/layer.h"

#include "sim/plan/local.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

static const double gib = 1024.0 * 1024 * 1024;

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* --- activations ------------------------------------------------------------------------------ */

/* With these options a layer keeps the values that papers count: each op is one kernel, so no
 * values between the kernels of an op are kept. */
static const struct layer_options papers_flash = { .flash_attention = true,
                                                   .dtype = DTYPE_BF16,
                                                   .gradient_bytes = 4 };
static const struct layer_options papers_unfused = { .dtype = DTYPE_BF16, .gradient_bytes = 4 };

/* In bf16, PyTorch's separate kernels keep additional bytes: 4 per element of the input in each
 * norm and in the final norm, 4 per score in the softmax, and 2 per element of a gate. */
START_TEST(kernels_of_one_op_keep_values_between_them)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 1, 4096);
    double norms = 2 * 4 * dims.tokens * dims.hidden, gate = 2 * dims.tokens * dims.ffn;
    double softmax = 4 * dims.heads * dims.seq * dims.kv_seq;
    struct ops flash = layer_forward(&model, &dims, &layer_flash, &arena);
    struct ops one = layer_forward(&model, &dims, &papers_flash, &arena);
    ck_assert_double_eq(activation_bytes(flash, false),
                        activation_bytes(one, false) + norms + gate);
    struct ops unfused = layer_forward(&model, &dims, &layer_unfused, &arena);
    one = layer_forward(&model, &dims, &papers_unfused, &arena);
    ck_assert_double_eq(activation_bytes(unfused, false),
                        activation_bytes(one, false) + norms + gate + softmax);
    ck_assert_double_eq(activation_bytes(unfused, true),
                        activation_bytes(one, true) + norms + gate);
}
END_TEST

/* Each of the two norms keeps the mean and the deviation of a token in fp32. */
static const double norm_statistics_bytes = 2 * 8;

/* The rows give the bytes of a layer's activations from Korthikanti et al. 2022, table 2, in units
 * of s b h (tokens x hidden size). The paper leaves out the norms' statistics. The last column
 * multiplies a s / h. */
static const struct {
    const char *layout;
    bool selective;
    double tokens_over_tp; /* bytes of the norms' inputs, which are divided by tp if sp is set */
    double rest, scores;
} variants[] = {
    { "tp1 mb4", false, 1, 34, 5 },
    { "tp8 mb4", false, 1, 10 + 24 / 8.0, 5 / 8.0 },
    { "tp8 mb4 sp", false, 8, 34 / 8.0, 5 / 8.0 },
    { "tp8 mb4", true, 1, 10 + 24 / 8.0, 0 },
    { "tp8 mb4 sp", true, 8, 34 / 8.0, 0 },
    { "tp1 mb4", true, 1, 34, 0 },
};
enum { NUM_VARIANTS = LENGTH(variants) };

START_TEST(kept_bytes_of_a_layer_equal_korthikanti_table_2)
{
    struct model model = model_of("korthikanti-22b");
    struct plan plan = plan_of(variants[_i].layout, &arena);
    double s = 2048, b = 4, h = 6144, a = 64;
    double expected = s * b * h * (variants[_i].rest + variants[_i].scores * a * s / h) +
                      s * b * norm_statistics_bytes / variants[_i].tokens_over_tp;
    struct ops forward =
        local_layer(rank_share_of(&plan), &model, s, &papers_unfused, false, &arena).forward;
    ck_assert_double_eq_tol(activation_bytes(forward, variants[_i].selective), expected,
                            1e-12 * expected);
}
END_TEST

/* Flash attention keeps one fp32 number per query row instead of the probabilities. */
START_TEST(flash_attention_keeps_one_number_per_row_more_than_selective_recompute)
{
    struct model model = model_of("korthikanti-22b");
    struct plan plan = plan_of("tp8 sp mb4", &arena);
    struct ops replayed =
        local_layer(rank_share_of(&plan), &model, 2048, &papers_unfused, false, &arena).forward;
    struct ops fused =
        local_layer(rank_share_of(&plan), &model, 2048, &papers_flash, false, &arena).forward;
    double rows_bytes = 4.0 * 2048 * 4 * 64 / 8;
    ck_assert_double_eq(activation_bytes(fused, false),
                        activation_bytes(replayed, true) + rows_bytes);
}
END_TEST

/* The rows give GiB on the first stage from Korthikanti et al. 2022, figure 1. This stage holds the
 * activations of as many layers as the model has, times 1 + (p - 1) / (p v) with p stages of v
 * interleaved chunks. */
static const struct {
    const char *model;
    int microbatch, pp, vpp;
    double none_gib, sp_selective_gib;
} figure_1[] = {
    { "korthikanti-22b", 4, 1, 1, 59.25, 9.5625 },
    { "gpt3-175b", 1, 8, 3, 66.84375, 12.3515625 },
    { "korthikanti-530b", 1, 35, 3, 114.0234375, 23.076171875 },
    { "korthikanti-1t", 1, 64, 1, 131.25, 26.5625 },
};
enum { NUM_FIGURE_1 = LENGTH(figure_1) };

START_TEST(activations_of_first_stages_equal_korthikanti_figure_1)
{
    struct model model = model_of(figure_1[_i].model);
    struct plan plan = plan_of("tp8", &arena);
    plan.microbatch = figure_1[_i].microbatch;
    double p = figure_1[_i].pp, v = figure_1[_i].vpp;
    double layers_gib = model.layers * (v > 1 ? 1 + (p - 1) / (p * v) : 1) / gib;

    struct ops none =
        local_layer(rank_share_of(&plan), &model, 2048, &papers_unfused, false, &arena).forward;
    ck_assert_double_eq_tol(layers_gib * activation_bytes(none, false), figure_1[_i].none_gib,
                            0.001 * figure_1[_i].none_gib);
    plan.sp = true;
    struct ops sharded =
        local_layer(rank_share_of(&plan), &model, 2048, &papers_unfused, false, &arena).forward;
    ck_assert_double_eq_tol(layers_gib * activation_bytes(sharded, true),
                            figure_1[_i].sp_selective_gib, 0.001 * figure_1[_i].sp_selective_gib);
}
END_TEST

/* Megatron-LM's functional test gpt3_7b_tp4_pp1 has grouped keys, flash attention and no sequence
 * parallelism. Per element of the hidden state [s b h] a layer keeps 10 + 21 / 4 bytes. In addition
 * it keeps the row maxima of attention and the statistics of norms in fp32. */
START_TEST(a_layer_of_megatrons_7b_test_keeps_15_25_bytes_per_value)
{
    struct model model = { .layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .ffn = 16384,
                           .vocab = 131073,
                           .seq = 8192,
                           .max_positions = 8192,
                           .linear_bias = true,
                           .dropout = 0.1 };
    struct plan plan = plan_of("tp4 mb2", &arena);
    double tokens = 8192 * 2;
    double expected = 1023410176 + 4 * tokens * 32 / 4 + norm_statistics_bytes * tokens;
    struct ops forward =
        local_layer(rank_share_of(&plan), &model, 8192, &papers_flash, false, &arena).forward;
    ck_assert_double_eq(activation_bytes(forward, false), expected);
}
END_TEST

/* Without dropout a layer keeps these bytes per element of the hidden state: 4 for the norms'
 * inputs, 4 for the norms' outputs (which products read), 3 for queries, keys and values, 2 for
 * attention's output, 14 for gate and up, and 7 for the product of gate and up. */
START_TEST(a_layer_of_llama3_8b_keeps_34_bytes_per_value)
{
    struct model model = model_of("llama3-8b");
    struct plan plan = plan_of("tp1", &arena);
    struct ops forward =
        local_layer(rank_share_of(&plan), &model, 8192, &papers_flash, false, &arena).forward;
    double expected = 8192 * (34.0 * 4096 + 4 * 32 + 2 * 4);
    ck_assert_double_eq(activation_bytes(forward, false), expected);
}
END_TEST

START_TEST(the_embedding_keeps_token_ids_and_a_dropout_mask)
{
    struct model model = model_of("gpt3-175b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops forward = embedding_forward(&model, &dims, &papers_flash, &arena);
    ck_assert_double_eq(activation_bytes(forward, false), 2048 * (8 + 12288.0));
}
END_TEST

/* The output head keeps the inputs of its norm and of the logits, and the norm's statistics. */
START_TEST(the_head_keeps_the_inputs_of_norm_and_logits)
{
    struct model model = model_of("gpt3-175b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops forward = head_forward(&model, &dims, &papers_flash, &arena);
    ck_assert_double_eq(activation_bytes(forward, false), 2048 * (4 * 12288.0 + 8));
}
END_TEST

/* --- FLOPs ------------------------------------------------------------------------------------ */

/* The numbers are those of Megatron-LM's num_floating_point_operations at 8192 tokens, with only
 * the causal half of attention. */
static const struct {
    const char *model;
    double gflops_per_token;
} published[] = {
    { "llama3-8b", 51.470 },
    { "llama3-70b", 449.223 },
    { "llama3-405b", 2523.956 },
};
enum { NUM_PUBLISHED = LENGTH(published) };

START_TEST(flops_per_token_equal_megatrons_count)
{
    struct model model = model_of(published[_i].model);
    double gflops = model_step_flops(&model, 1, 8192) / 8192 / 1e9;
    ck_assert_double_eq_tol(gflops, published[_i].gflops_per_token, 0.001);
}
END_TEST

/* The closed form is eq. 9 of Korthikanti et al. 2022. Only the causal half of attention is
 * counted, so its term is s / 12h instead of s / 6h. */
START_TEST(flops_of_a_gpt_step_equal_the_closed_form)
{
    struct model model = model_of("gpt3-175b");
    double batch = 1536, s = 2048, layers = 96, h = 12288, vocab = model.vocab;
    double expected =
        72 * batch * s * layers * h * h * (1 + s / (12 * h) + vocab / (12 * layers * h));
    ck_assert_double_eq_tol(model_step_flops(&model, batch, s), expected, 1e-12 * expected);
}
END_TEST

/* Relative positions project the sinusoids of s distances once for all b sequences (2 s h^2 FLOPs),
 * and multiply the queries by them (2 b s^2 h FLOPs, of which flash attention's causal mask skips
 * half). The keys of a microbatch are kept: 2 s h bytes. */
START_TEST(relative_positions_add_a_projection_and_a_product)
{
    struct model relative = model_of("gopher-280b"), without = relative;
    without.positions = POSITION_NONE;
    struct layer_dims dims = layer_dims(&relative, 3, 2048);
    double s = 2048, h = 16384, projection = 2 * s * h * h, product = 2 * 3 * s * s * h;
    const struct layer_options *options[] = { &layer_unfused, &layer_flash };
    for (int i = 0; i < 2; i++) {
        struct ops with_keys = layer_forward(&relative, &dims, options[i], &arena);
        struct ops plain = layer_forward(&without, &dims, options[i], &arena);
        double flops = 0;
        for (int j = 0; j < with_keys.count; j++)
            flops += with_keys.at[j].flops;
        for (int j = 0; j < plain.count; j++)
            flops -= plain.at[j].flops;
        ck_assert_double_eq_tol(flops, projection + product / (1 + i), 1e-9 * projection);
        ck_assert_double_eq_tol(activation_bytes(with_keys, false) - activation_bytes(plain, false),
                                2 * s * h, 1e-3);
        double kept = ops_model_flops(with_keys) - ops_model_flops(plain);
        ck_assert_double_eq_tol(kept, projection + product / 2, 1e-9 * projection);
    }
}
END_TEST

START_TEST(twice_the_sequences_cost_twice_the_flops)
{
    struct model model = model_of("llama2-7b");
    ck_assert_double_eq(model_step_flops(&model, 2, 4096), 2 * model_step_flops(&model, 1, 4096));
}
END_TEST

/* A multiply-add counts as 2 FLOPs. The layer has n tokens, grouped-query attention and a gated
 * feed-forward. */
START_TEST(each_product_has_two_flops_per_multiply_add)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 2, 8192);
    struct ops ops = layer_forward(&model, &dims, &layer_unfused, &arena);
    double n = 2 * 8192, h = 4096, heads = 32, kv_heads = 8, d = 128, f = 14336, s = 8192, b = 2;
    ck_assert_double_eq(op_named(ops, "qkv")->flops, 2 * n * h * (heads + 2 * kv_heads) * d);
    ck_assert_double_eq(op_named(ops, "scores")->flops, 2 * b * s * s * heads * d);
    ck_assert_double_eq(op_named(ops, "context")->flops, 2 * b * s * s * heads * d);
    ck_assert_double_eq(op_named(ops, "projection")->flops, 2 * n * heads * d * h);
    ck_assert_double_eq(op_named(ops, "fc1")->flops, 2 * n * h * 2 * f);
    ck_assert_double_eq(op_named(ops, "fc2")->flops, 2 * n * h * f);
    struct ops head = head_forward(&model, &dims, &layer_unfused, &arena);
    ck_assert_double_eq(op_named(head, "logits")->flops, 2 * n * h * 128256);
    ck_assert_double_eq(ops_flops(embedding_forward(&model, &dims, &layer_unfused, &arena)), 0);
}
END_TEST

START_TEST(a_fused_attention_skips_the_masked_half)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 1, 8192);
    struct ops separate = layer_forward(&model, &dims, &layer_unfused, &arena);
    struct ops fused = layer_forward(&model, &dims, &layer_flash, &arena);
    double masked = op_named(separate, "scores")->flops; /* causal half of two products */
    ck_assert_double_eq(ops_flops(separate) - ops_flops(fused), masked);
    ck_assert_double_eq(ops_model_flops(separate), ops_model_flops(fused));
}
END_TEST

/* --- types and names -------------------------------------------------------------------------- */

START_TEST(fp32_doubles_traffic_and_kept_bytes_of_a_product)
{
    struct model model = model_of("gpt3-175b");
    struct layer_options fp32 = { .flash_attention = true,
                                  .dtype = DTYPE_FP32,
                                  .gradient_bytes = 4 };
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops a = layer_forward(&model, &dims, &layer_flash, &arena);
    struct ops b = layer_forward(&model, &dims, &fp32, &arena);
    ck_assert_double_eq(op_named(b, "fc1")->bytes, 2 * op_named(a, "fc1")->bytes);
    ck_assert_double_eq(op_saved_bytes(&b, op_named(b, "fc1")),
                        2 * op_saved_bytes(&a, op_named(a, "fc1")));
    ck_assert_double_eq(op_named(b, "ffn_leave")->comm_bytes,
                        2 * op_named(a, "ffn_leave")->comm_bytes);
    double bias_bytes = 4.0 * 2048 * 4 * 12288;
    ck_assert_double_eq(op_named(ops_backward(b, &fp32, &arena), "fc1")->bytes, bias_bytes);
}
END_TEST

START_TEST(every_fusion_and_kind_of_op_has_a_name)
{
    for (int i = 0; i < NUM_FUSIONS; i++)
        ck_assert_ptr_nonnull(fusion_names[i]);
    ck_assert_ptr_null(fusion_names[NUM_FUSIONS]);
    for (int i = 0; i < NUM_OP_KINDS; i++)
        ck_assert_ptr_nonnull(op_kind_infos[i].text);
    ck_assert_ptr_null(dtype_names[NUM_DTYPES]);
    ck_assert_double_eq(dtype_bytes(DTYPE_FP8), 1);
}
END_TEST

static TCase *activations(void)
{
    TCase *tc = tcase_create("activations");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, kept_bytes_of_a_layer_equal_korthikanti_table_2, 0, NUM_VARIANTS);
    tcase_add_test(tc, flash_attention_keeps_one_number_per_row_more_than_selective_recompute);
    tcase_add_loop_test(tc, activations_of_first_stages_equal_korthikanti_figure_1, 0,
                        NUM_FIGURE_1);
    tcase_add_test(tc, a_layer_of_megatrons_7b_test_keeps_15_25_bytes_per_value);
    tcase_add_test(tc, a_layer_of_llama3_8b_keeps_34_bytes_per_value);
    tcase_add_test(tc, kernels_of_one_op_keep_values_between_them);
    tcase_add_test(tc, the_embedding_keeps_token_ids_and_a_dropout_mask);
    tcase_add_test(tc, the_head_keeps_the_inputs_of_norm_and_logits);
    return tc;
}

static TCase *flops(void)
{
    TCase *tc = tcase_create("flops");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, flops_per_token_equal_megatrons_count, 0, NUM_PUBLISHED);
    tcase_add_test(tc, flops_of_a_gpt_step_equal_the_closed_form);
    tcase_add_test(tc, relative_positions_add_a_projection_and_a_product);
    tcase_add_test(tc, twice_the_sequences_cost_twice_the_flops);
    tcase_add_test(tc, each_product_has_two_flops_per_multiply_add);
    tcase_add_test(tc, a_fused_attention_skips_the_masked_half);
    return tc;
}

static TCase *types_and_names(void)
{
    TCase *tc = tcase_create("types and names");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, fp32_doubles_traffic_and_kept_bytes_of_a_product);
    tcase_add_test(tc, every_fusion_and_kind_of_op_has_a_name);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("models/layer");
    suite_add_tcase(s, activations());
    suite_add_tcase(s, flops());
    suite_add_tcase(s, types_and_names());
    return s;
}

TEST_MAIN(suite)
