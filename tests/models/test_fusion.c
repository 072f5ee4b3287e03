#include "models/layer.h"

#include "sim/cost/unfused.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* fc1 of GPT-3 6.7B has 16384 outputs. If its weight-gradient product also sums the bias gradient,
 * 16384 fp32 sums and their accumulator are written and read, but the gradient of the output is not
 * read a second time. In fp8 this fusion is impossible, because the product reads the quantised
 * gradient. */
START_TEST(fusing_the_bias_sum_adds_four_values_of_traffic_per_output)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = layer_flash;
    struct ops separate =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    options.fusions = 1u << FUSION_WGRAD_BIAS;
    struct ops fused =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    ck_assert_int_eq(count_kind(separate, OP_BIAS_GRAD), 4);
    ck_assert_int_eq(count_kind(fused, OP_BIAS_GRAD), 0);
    const struct op *alone = gradient_product(separate, "fc1", PASS_BACKWARD_WEIGHT);
    const struct op *both = gradient_product(fused, "fc1", PASS_BACKWARD_WEIGHT);
    ck_assert(both->weights.count == 2 && alone->weights.count == 1);
    ck_assert_double_eq(both->bytes - alone->bytes, 4 * 4 * 16384.0);
    ck_assert_double_eq(both->kernels - alone->kernels, 1);
    ck_assert_str_eq(both->variant, "bias_grad");
    options.recipe = precision_recipe(PRECISION_FP8_DELAYED);
    options.copies = 1;
    struct ops in_fp8 =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    ck_assert_int_eq(count_kind(in_fp8, OP_BIAS_GRAD), 4);
}
END_TEST

/* Gelu is fused with the products before and after it, for fc1 of GPT-3 6.7B on 2048 tokens. The
 * epilogue of fc1 writes 2048 x 16384 further values, and the input-gradient product of fc2 reads
 * as many; the values kept for the backward are unchanged. */
START_TEST(a_fused_gelu_is_written_by_one_product_and_read_by_the_other)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = layer_flash;
    struct ops separate = layer_forward(&model, &dims, &options, &arena);
    struct ops separate_back = ops_backward(separate, &options, &arena);
    options.fusions = 1u << FUSION_GEMM_GELU;
    struct ops folded = layer_forward(&model, &dims, &options, &arena);
    struct ops folded_back = ops_fuse(ops_backward(folded, &options, &arena), &options);
    folded = ops_fuse(folded, &options);
    double bytes = 2 * 2048.0 * 16384;
    const struct op *fc1 = op_named(folded, "fc1");
    ck_assert_int_eq(folded.count, separate.count - 1);
    ck_assert_int_eq(folded_back.count, separate_back.count - 1);
    const struct op *fc2 = op_named(folded, "fc2");
    ck_assert_int_eq(fc1->out.count, 2);
    ck_assert_int_eq(fc1->out.at[1], fc2->in.at[0]);
    ck_assert_double_eq(fc1->bytes - op_named(separate, "fc1")->bytes, bytes);
    ck_assert_double_eq(
        op_saved_bytes(&folded, fc1) - op_saved_bytes(&separate, op_named(separate, "fc1")), bytes);
    ck_assert_double_eq(gradient_product(folded_back, "fc2", PASS_BACKWARD_INPUT)->bytes -
                            gradient_product(separate_back, "fc2", PASS_BACKWARD_INPUT)->bytes,
                        bytes);
    ck_assert_str_eq(gradient_product(folded_back, "fc2", PASS_BACKWARD_INPUT)->variant, "gelu");
    ck_assert_str_eq(gradient_product(folded_back, "fc1", PASS_BACKWARD_INPUT)->variant, "");
}
END_TEST

/* Number of activation ops that are not fused. A gated activation is not fused, because it has two
 * inputs; ReLU is not, because it keeps a bit mask; and in fp8 none is, because values are
 * quantised between activation and product. */
static int activations_left(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options)
{
    return count_kind(ops_fuse(layer_forward(model, dims, options, &arena), options),
                      OP_ACTIVATION);
}

START_TEST(only_plain_gelu_between_16_bit_products_is_fused)
{
    struct layer_options options = layer_flash;
    options.fusions = 1u << FUSION_GEMM_GELU;
    struct model gated = model_of("llama3-8b"), relu = model_of("gpt3-6.7b"), gelu = relu;
    relu.activation = ACTIVATION_RELU;
    struct layer_dims dims = layer_dims(&relu, 1, 2048), of_gated = layer_dims(&gated, 1, 2048);
    ck_assert_int_eq(activations_left(&gated, &of_gated, &options), 1);
    ck_assert_int_eq(activations_left(&relu, &dims, &options), 1);
    ck_assert_int_eq(activations_left(&gelu, &dims, &options), 0);
    options.recipe = precision_recipe(PRECISION_FP8_DELAYED);
    options.copies = 1;
    ck_assert_int_eq(activations_left(&gelu, &dims, &options), 1);
}
END_TEST

static double kind_bytes(struct ops ops, enum op_kind kind)
{
    double bytes = 0;
    for (int i = 0; i < ops.count; i++)
        bytes += ops.at[i].kind == kind ? ops.at[i].bytes : 0;
    return bytes;
}

/* The unit of memory traffic is one tensor of 2048 x 4096 values of 2 bytes. Without fusion the
 * forward of two residuals and two norms moves 2 x 3 + 2 x 2 units; the fusion saves one read. The
 * backward of the residuals and norms moves 2 x 3 + 2 x 3 units without fusion, and 2 x 2 + 2 x 4
 * with it. */
START_TEST(a_residual_with_its_norm_reads_the_stream_once)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = layer_flash;
    model.dropout = 0;
    options.fusions = 1u << FUSION_RESIDUAL | 1u << FUSION_NORM;
    struct ops separate = layer_forward(&model, &dims, &options, &arena);
    options.fusions |= 1u << FUSION_RESIDUAL_NORM;
    struct ops folded = layer_forward(&model, &dims, &options, &arena);
    struct ops back = ops_fuse(ops_backward(folded, &options, &arena), &options);
    folded = ops_fuse(folded, &options);
    double values = 2048.0 * 4096 * 2;
    ck_assert_double_eq(kind_bytes(separate, OP_RESIDUAL) + kind_bytes(separate, OP_NORM),
                        10 * values);
    ck_assert_double_eq(kind_bytes(folded, OP_RESIDUAL) + kind_bytes(folded, OP_NORM), 9 * values);
    ck_assert_int_eq(count_kind(folded, OP_NORM), 1);
    ck_assert_int_eq(count_kind(back, OP_NORM), 2);
    ck_assert_double_eq(kind_bytes(back, OP_NORM), 8 * values);
    ck_assert_double_eq(kind_bytes(back, OP_RESIDUAL), 4 * values);
    const struct op *sum = op_named(folded, "attention_residual");
    ck_assert(ids_have(&sum->out, op_named(folded, "ffn_enter")->in.at[0]));
    ck_assert_ptr_nonnull(op_weight_of(&folded, sum, WEIGHT_SCALE));
}
END_TEST

static double traffic(struct ops ops)
{
    double bytes = 0;
    for (int i = 0; i < ops.count; i++)
        bytes += ops.at[i].bytes;
    return bytes;
}

static double launches(struct ops ops)
{
    double kernels = 0;
    for (int i = 0; i < ops.count; i++)
        kernels += ops.at[i].kernels;
    return kernels;
}

/* Unfused norms of Llama 3 8B on 512 tokens have 36 bytes of traffic per value and 8 kernels, as
 * the stack's file lists. A fused norm moves 2 values in the forward and 3 in the backward, or 5 if
 * a second kernel reads input and gradient again. */
START_TEST(unfused_ops_have_the_costs_of_the_stacks_table)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 1, 512);
    struct unfused_ops unfused = unfused_usual;
    unfused.of[UNFUSED_NORM] = (struct unfused){ .values = 3,
                                                 .bytes = 30,
                                                 .kernels = 8,
                                                 .backward_values = 1,
                                                 .backward_bytes = 58,
                                                 .backward_kernels = 12 };
    struct layer_options options = layer_flash;
    options.unfused = &unfused;
    for (int is_one = 0; is_one < 2; is_one++) {
        options.fusions = is_one ? 1u << FUSION_NORM : 0;
        struct ops ops = layer_forward(&model, &dims, &options, &arena);
        const struct op *norm = &ops.at[0];
        ck_assert_int_eq(norm->kind, OP_NORM);
        ck_assert_double_eq(norm->bytes, (is_one ? 4 : 36) * 512.0 * 4096);
        ck_assert_double_eq(norm->backward_bytes, (is_one ? 6 : 60) * 512.0 * 4096);
        ck_assert_double_eq(norm->kernels, is_one ? 1 : 8);
        ck_assert_double_eq(norm->backward_kernels, is_one ? 2 : 12);
    }
    options.norm_reads_twice = true;
    struct ops ops = layer_forward(&model, &dims, &options, &arena);
    ck_assert_double_eq(ops.at[0].backward_bytes, 10 * 512.0 * 4096);
}
END_TEST

START_TEST(a_fusion_never_adds_traffic_launches_or_kept_bytes)
{
    struct model model = model_of(_i < NUM_FUSIONS ? "gpt3-175b" : "llama3-8b");
    struct layer_options fused = layer_unfused;
    fused.fusions = 1u << _i % NUM_FUSIONS;
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops a = builders[i](&model, &dims, &layer_unfused, &arena);
        struct ops b = builders[i](&model, &dims, &fused, &arena);
        struct ops a_back = ops_backward(a, &layer_unfused, &arena);
        struct ops b_back = ops_fuse(ops_backward(b, &fused, &arena), &fused);
        b = ops_fuse(b, &fused);
        ck_assert(traffic(b) <= traffic(a) && launches(b) <= launches(a));
        ck_assert(traffic(b_back) <= traffic(a_back) && launches(b_back) <= launches(a_back));
        ck_assert_double_le(activation_bytes(b, false), activation_bytes(a, false));
    }
}
END_TEST

/* --- logits in row blocks --------------------------------------------------------- */

/* 2048 rows of logits (one per token) are divided into blocks of at most 300 rows, i.e. into 7
 * blocks of 292 or 293. The weights are read 7 times and their gradient is written 7 times. One
 * more product is run, which does not count as model FLOPs. */
START_TEST(recomputed_logits_add_one_product_per_row)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = layer_flash;
    options.fusions = 1u << FUSION_WGRAD_ACCUMULATE;
    struct ops once = head_forward(&model, &dims, &options, &arena);
    struct ops once_back = ops_backward(once, &options, &arena);
    options.logits_rows = 300;
    struct ops runs = head_forward(&model, &dims, &options, &arena);
    struct ops back = ops_backward(runs, &options, &arena);
    double product_flops = 2 * 2048.0 * 4096 * dims.vocab, weight_bytes = 4096 * dims.vocab;
    ck_assert_double_eq(head_row_blocks(&dims, &options), 7);
    ck_assert_double_eq(ops_flops(runs), ops_flops(once));
    ck_assert_double_eq(ops_flops(back), ops_flops(once_back) + product_flops);
    ck_assert_double_eq(ops_model_flops(back), ops_model_flops(once_back));
    ck_assert_double_eq(op_named(runs, "logits")->bytes - op_named(once, "logits")->bytes,
                        6 * 2 * weight_bytes);
    ck_assert_double_eq(gradient_product(back, "logits", PASS_BACKWARD_WEIGHT)->bytes -
                            gradient_product(once_back, "logits", PASS_BACKWARD_WEIGHT)->bytes,
                        6 * 2 * 4 * weight_bytes);
    ck_assert_double_eq(op_named(runs, "logits")->kernels, 7);
    ck_assert_double_eq(activation_bytes(runs, false), activation_bytes(once, false));
}
END_TEST

START_TEST(a_row_block_of_all_tokens_equals_no_blocks)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = layer_flash;
    options.logits_rows = 2048;
    ck_assert_double_eq(head_row_blocks(&dims, &options), 0);
    options.logits_rows = 2047;
    ck_assert_double_eq(head_row_blocks(&dims, &options), 2);
    options.logits_rows = 1;
    ck_assert_double_eq(head_row_blocks(&dims, &options), 2048);
}
END_TEST

START_TEST(a_row_block_has_its_share_of_an_ops_work)
{
    struct op op = {
        .kind = OP_GEMM, .m = 12, .n = 5, .k = 9, .flops = 6, .bytes = 30, .kernels = 3
    };
    struct op same = op_row_block(&op);
    ck_assert_double_eq(same.m, 12);
    op.row_blocks = 3;
    struct op run = op_row_block(&op);
    ck_assert(run.m == 4 && run.n == 5 && run.k == 9 && run.flops == 2 && run.bytes == 10);
    ck_assert(run.kernels == 1 && run.row_blocks == 0);
    op.pass = PASS_BACKWARD_WEIGHT;
    run = op_row_block(&op);
    ck_assert(run.m == 12 && run.k == 3);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("fusions");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, a_fused_gelu_is_written_by_one_product_and_read_by_the_other);
    tcase_add_test(tc, only_plain_gelu_between_16_bit_products_is_fused);
    tcase_add_test(tc, a_residual_with_its_norm_reads_the_stream_once);
    tcase_add_test(tc, recomputed_logits_add_one_product_per_row);
    tcase_add_test(tc, a_row_block_of_all_tokens_equals_no_blocks);
    tcase_add_test(tc, a_row_block_has_its_share_of_an_ops_work);
    tcase_add_test(tc, fusing_the_bias_sum_adds_four_values_of_traffic_per_output);
    tcase_add_test(tc, unfused_ops_have_the_costs_of_the_stacks_table);
    tcase_add_loop_test(tc, a_fusion_never_adds_traffic_launches_or_kept_bytes, 0, 2 * NUM_FUSIONS);
    Suite *s = suite_create("models/layer: fusions");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
