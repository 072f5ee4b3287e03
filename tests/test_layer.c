#include "models/layer.h"
#include "sim/plan/local.h"
#include "tests/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double gib = 1024.0 * 1024 * 1024;
static const unsigned all_fusions = (1u << NUM_FUSIONS) - 1;

static struct arena arena;
static struct err err;
static const struct layer_options flash = { .flash_attention = true,
                                            .dtype = DTYPE_BF16,
                                            .gradient_bytes = 4 };
static const struct layer_options unfused = { .dtype = DTYPE_BF16, .gradient_bytes = 4 };

static void release(void)
{
    arena_release(&arena);
}

/* --- activations ------------------------------------------------------------------------------ */

/* Kept from forward to backward. Selective recompute drops what only the attention core keeps. */
static double activation_bytes(struct ops forward, bool selective)
{
    double bytes = 0;
    for (int i = 0; i < forward.count; i++) {
        const struct op *op = &forward.at[i];
        bool is_dropped = selective && op->region == REGION_ATTENTION_CORE;
        bytes += op->saved_input_bytes + (is_dropped ? 0 : op->saved_bytes);
    }
    return bytes;
}

/* Mean and deviation of a token in fp32, in each of two norms. */
static const double norm_statistics_bytes = 2 * 8;

/* Korthikanti et al. 2022, table 2: bytes of a layer in units of s b h, without the statistics that
 * they leave out. The last column multiplies a s / h. */
static const struct {
    const char *layout;
    bool selective;
    double tokens_over_tp; /* of the norms' rows */
    double rest, scores;
} variants[] = {
    { "tp1 mb4", false, 1, 34, 5 },
    { "tp8 mb4", false, 1, 10 + 24 / 8.0, 5 / 8.0 },
    { "tp8 mb4 sp", false, 8, 34 / 8.0, 5 / 8.0 },
    { "tp8 mb4", true, 1, 10 + 24 / 8.0, 0 },
    { "tp8 mb4 sp", true, 8, 34 / 8.0, 0 },
    { "tp1 mb4", true, 1, 34, 0 },
};
enum { NUM_VARIANTS = sizeof variants / sizeof *variants };

START_TEST(a_layer_keeps_what_korthikanti_counts)
{
    struct model model = model_of("korthikanti-22b");
    struct plan plan = plan_of(variants[_i].layout, &arena);
    double s = 2048, b = 4, h = 6144, a = 64;
    double expected = s * b * h * (variants[_i].rest + variants[_i].scores * a * s / h) +
                      s * b * norm_statistics_bytes / variants[_i].tokens_over_tp;
    struct ops forward = local_layer(&plan, &model, s, &unfused, false, &arena).forward;
    ck_assert_double_eq_tol(activation_bytes(forward, variants[_i].selective), expected,
                            1e-12 * expected);
}
END_TEST

/* Flash attention keeps an fp32 number of each query row in place of its probabilities. */
START_TEST(flash_attention_keeps_as_much_as_selective_recompute_and_a_number_a_row)
{
    struct model model = model_of("korthikanti-22b");
    struct plan plan = plan_of("tp8 sp mb4", &arena);
    struct ops replayed = local_layer(&plan, &model, 2048, &unfused, false, &arena).forward;
    struct ops fused = local_layer(&plan, &model, 2048, &flash, false, &arena).forward;
    double rows_bytes = 4.0 * 2048 * 4 * 64 / 8;
    ck_assert_double_eq(activation_bytes(fused, false),
                        activation_bytes(replayed, true) + rows_bytes);
}
END_TEST

/* Korthikanti et al. 2022, figure 1: GiB on the first stage, which holds the activations
 * of as many layers as the model has, times 1 + (p - 1) / (p v) when interleaved. */
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
enum { NUM_FIGURE_1 = sizeof figure_1 / sizeof *figure_1 };

START_TEST(first_stages_hold_the_activations_of_korthikantis_figure_1)
{
    struct model model = model_of(figure_1[_i].model);
    struct plan plan = plan_of("tp8", &arena);
    plan.microbatch = figure_1[_i].microbatch;
    double p = figure_1[_i].pp, v = figure_1[_i].vpp;
    double layers_gib = model.layers * (v > 1 ? 1 + (p - 1) / (p * v) : 1) / gib;

    struct ops none = local_layer(&plan, &model, 2048, &unfused, false, &arena).forward;
    ck_assert_double_eq_tol(layers_gib * activation_bytes(none, false), figure_1[_i].none_gib,
                            0.001 * figure_1[_i].none_gib);
    plan.sp = true;
    struct ops sharded = local_layer(&plan, &model, 2048, &unfused, false, &arena).forward;
    ck_assert_double_eq_tol(layers_gib * activation_bytes(sharded, true),
                            figure_1[_i].sp_selective_gib, 0.001 * figure_1[_i].sp_selective_gib);
}
END_TEST

/* Megatron-LM's functional test gpt3_7b_tp4_pp1: grouped keys, flash attention, no sequence
 * parallelism. 10 + 21 / 4 of s b h, then row maxima and norm statistics in fp32. */
START_TEST(a_layer_of_megatrons_7b_test_keeps_fifteen_and_a_quarter_bytes_a_value)
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
    struct ops forward = local_layer(&plan, &model, 8192, &flash, false, &arena).forward;
    ck_assert_double_eq(activation_bytes(forward, false), expected);
}
END_TEST

/* Norms 4, inputs 4, qkv 3, attention 2, gate and up 14, product 7 bytes a value; no dropout. */
START_TEST(a_layer_of_llama3_8b_keeps_34_bytes_a_value)
{
    struct model model = model_of("llama3-8b");
    struct plan plan = plan_of("tp1", &arena);
    struct ops forward = local_layer(&plan, &model, 8192, &flash, false, &arena).forward;
    double expected = 8192 * (34.0 * 4096 + 4 * 32 + 2 * 4);
    ck_assert_double_eq(activation_bytes(forward, false), expected);
}
END_TEST

START_TEST(the_embedding_keeps_token_ids_and_a_dropout_mask)
{
    struct model model = model_of("gpt3-175b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops forward = embedding_forward(&model, &dims, &flash, &arena);
    ck_assert_double_eq(activation_bytes(forward, false), 2048 * (8 + 12288.0));
}
END_TEST

/* Input of the norm, and of the logits, and the norm's statistics. */
START_TEST(the_head_keeps_the_inputs_of_norm_and_logits)
{
    struct model model = model_of("gpt3-175b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops forward = head_forward(&model, &dims, &flash, &arena);
    ck_assert_double_eq(activation_bytes(forward, false), 2048 * (4 * 12288.0 + 8));
}
END_TEST

/* --- FLOPs ------------------------------------------------------------------------------------ */

/* Megatron-LM's num_floating_point_operations at 8192 tokens, causal half. */
static const struct {
    const char *model;
    double gflops_per_token;
} published[] = {
    { "llama3-8b", 51.470 },
    { "llama3-70b", 449.223 },
    { "llama3-405b", 2523.956 },
};
enum { NUM_PUBLISHED = sizeof published / sizeof *published };

START_TEST(a_token_costs_the_flops_that_megatron_counts)
{
    struct model model = model_of(published[_i].model);
    double gflops = model_step_flops(&model, 1, 8192) / 8192 / 1e9;
    ck_assert_double_eq_tol(gflops, published[_i].gflops_per_token, 0.001);
}
END_TEST

/* Korthikanti et al. 2022, eq. 9, with the causal mask's half of attention: s / 12h for s / 6h. */
START_TEST(a_step_of_gpt_costs_the_closed_form)
{
    struct model model = model_of("gpt3-175b");
    double batch = 1536, s = 2048, layers = 96, h = 12288, vocab = model.vocab;
    double expected =
        72 * batch * s * layers * h * h * (1 + s / (12 * h) + vocab / (12 * layers * h));
    ck_assert_double_eq_tol(model_step_flops(&model, batch, s), expected, 1e-12 * expected);
}
END_TEST

START_TEST(twice_the_sequences_cost_twice_the_flops)
{
    struct model model = model_of("llama2-7b");
    ck_assert_double_eq(model_step_flops(&model, 2, 4096), 2 * model_step_flops(&model, 1, 4096));
}
END_TEST

static const struct op *find(struct ops ops, const char *name)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0)
            return &ops.at[i];
    ck_abort_msg("no %s", name);
    return NULL;
}

/* 2 FLOPs a multiply-add: n tokens, grouped keys, gated feed-forward. */
START_TEST(each_product_of_a_layer_costs_two_flops_a_multiply_add)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 2, 8192);
    struct ops ops = layer_forward(&model, &dims, &unfused, &arena);
    double n = 2 * 8192, h = 4096, heads = 32, kv_heads = 8, d = 128, f = 14336, s = 8192, b = 2;
    ck_assert_double_eq(find(ops, "qkv")->flops, 2 * n * h * (heads + 2 * kv_heads) * d);
    ck_assert_double_eq(find(ops, "scores")->flops, 2 * b * s * s * heads * d);
    ck_assert_double_eq(find(ops, "context")->flops, 2 * b * s * s * heads * d);
    ck_assert_double_eq(find(ops, "projection")->flops, 2 * n * heads * d * h);
    ck_assert_double_eq(find(ops, "fc1")->flops, 2 * n * h * 2 * f);
    ck_assert_double_eq(find(ops, "fc2")->flops, 2 * n * h * f);
    struct ops head = head_forward(&model, &dims, &unfused, &arena);
    ck_assert_double_eq(find(head, "logits")->flops, 2 * n * h * 128256);
    ck_assert_double_eq(ops_flops(embedding_forward(&model, &dims, &unfused, &arena)), 0);
}
END_TEST

START_TEST(a_fused_attention_skips_the_masked_half)
{
    struct model model = model_of("llama3-8b");
    struct layer_dims dims = layer_dims(&model, 1, 8192);
    struct ops separate = layer_forward(&model, &dims, &unfused, &arena);
    struct ops fused = layer_forward(&model, &dims, &flash, &arena);
    double masked = find(separate, "scores")->flops; /* half of two equal products */
    ck_assert_double_eq(ops_flops(separate) - ops_flops(fused), masked);
    ck_assert_double_eq(ops_model_flops(separate), ops_model_flops(fused));
}
END_TEST

/* --- laws over presets ------------------------------------------------------------------------ */

typedef void check_fn(const struct model *model, const struct layer_options *options);

/* Every preset with and without flash attention, with no fusion and with all. */
static void for_each_preset(check_fn *check)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++)
        for (int choice = 0; choice < 4 + NUM_FP8_RECIPES; choice++) {
            struct layer_options options = choice & 1 ? flash : unfused;
            options.fusions = choice & 2 ? all_fusions : 0;
            options.fp8 = choice < 4 ? NULL : &fp8_recipes[choice - 4];
            options.fp8_copies = choice < 4 ? 0 : 1 + choice % 2;
            check(&presets[i].model, &options);
            arena_release(&arena);
        }
    free(presets);
}

typedef struct ops build_fn(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options, struct arena *arena);
static build_fn *const builders[] = { layer_forward, embedding_forward, head_forward };
enum { NUM_BUILDERS = sizeof builders / sizeof *builders };

static double sum_of_kind(struct ops ops, enum op_kind kind)
{
    double flops = 0;
    for (int i = 0; i < ops.count; i++)
        flops += ops.at[i].kind == kind ? ops.at[i].flops : 0;
    return flops;
}

static void check_backward_flops(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 2, model->seq);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops forward = builders[i](model, &dims, options, &arena);
        struct ops backward = ops_backward(forward, options, &arena);
        ck_assert_double_eq(sum_of_kind(backward, OP_GEMM), 2 * sum_of_kind(forward, OP_GEMM));
        ck_assert_double_eq(sum_of_kind(backward, OP_SCORES), 2 * sum_of_kind(forward, OP_SCORES));
        ck_assert_double_eq(sum_of_kind(backward, OP_FLASH_ATTENTION),
                            2.5 * sum_of_kind(forward, OP_FLASH_ATTENTION));
        double model_flops = 2 * ops_model_flops(forward);
        ck_assert_double_ge(ops_model_flops(backward), model_flops * (1 - 1e-12));
        ck_assert_double_le(ops_model_flops(backward), model_flops * (1 + 1e-12));
    }
}

START_TEST(a_backward_multiplies_twice_as_much_as_its_forward)
{
    for_each_preset(check_backward_flops);
}
END_TEST

static bool is_product(enum op_kind kind)
{
    return kind == OP_GEMM || kind == OP_SCORES || kind == OP_CONTEXT || kind == OP_FLASH_ATTENTION;
}

/* Only products have FLOPs, and m n k of a matrix product are all there is to them. */
static void check_op(const struct op *op)
{
    ck_assert_msg(op->flops == 0 || is_product(op->kind), "%s", op->name);
    if (op->kind == OP_GEMM)
        ck_assert_double_eq(op->flops, 2 * op->m * op->n * op->k);
    bool is_mark = op->kind == OP_TENSOR_ENTER || op->kind == OP_TENSOR_LEAVE ||
                   op->kind == OP_CONTEXT_ENTER || op->kind == OP_CONTEXT_LEAVE ||
                   op_is_collective(op->kind);
    ck_assert_msg(is_mark || (op->bytes > 0 && op->kernels > 0), "%s", op->name);
    ck_assert_msg(!is_mark || op->comm_bytes > 0, "%s", op->name);
    ck_assert_msg(isfinite(op->bytes) && isfinite(op->flops), "%s", op->name);
}

static void check_lists(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops forward = builders[i](model, &dims, options, &arena);
        struct ops backward = ops_backward(forward, options, &arena);
        for (int j = 0; j < forward.count; j++) {
            check_op(&forward.at[j]);
            ck_assert_int_eq(forward.at[j].pass, PASS_FORWARD);
            ck_assert_int_eq(forward.at[j].after, j - 1);
        }
        for (int j = 0; j < backward.count; j++) {
            check_op(&backward.at[j]);
            ck_assert_int_ne(backward.at[j].pass, PASS_FORWARD);
            ck_assert_int_eq(backward.at[j].after, j - 1);
            ck_assert_double_eq(backward.at[j].saved_bytes, 0);
        }
    }
}

START_TEST(every_op_has_work_and_waits_for_the_one_before_it)
{
    for_each_preset(check_lists);
}
END_TEST

/* Each weight has one gradient: a weight product for each linear layer, a bias sum for each bias.
 */
static void check_gradients(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    struct ops backward =
        ops_backward(layer_forward(model, &dims, options, &arena), options, &arena);
    double weights = 0, biases = 0;
    for (int i = 0; i < backward.count; i++) {
        const struct op *op = &backward.at[i];
        if (op->kind == OP_GEMM && op->pass == PASS_BACKWARD_WEIGHT)
            weights += op->m * op->n + (op->has_bias ? op->m : 0);
        if (op->kind == OP_BIAS_GRAD)
            biases += op->n;
    }
    double norms = 2.0 * model->hidden * (model->norm == NORM_LAYER ? 2 : 1);
    double head_norms = model->qk_norm ? 2.0 * model->head_dim : 0;
    ck_assert_double_eq(weights + biases + norms + head_norms, model_layer_parameters(model));
}

START_TEST(gradients_of_a_layer_are_as_many_as_its_parameters)
{
    for_each_preset(check_gradients);
}
END_TEST

static int count_kind(struct ops ops, enum op_kind kind)
{
    int count = 0;
    for (int i = 0; i < ops.count; i++)
        count += ops.at[i].kind == kind;
    return count;
}

static const struct op *find_weight_gradient(struct ops backward, const char *name)
{
    for (int i = 0; i < backward.count; i++)
        if (backward.at[i].pass == PASS_BACKWARD_WEIGHT && strcmp(backward.at[i].name, name) == 0 &&
            backward.at[i].kind == OP_GEMM)
            return &backward.at[i];
    ck_abort_msg("no weight gradient of %s", name);
    return NULL;
}

static const struct op *find_input_gradient(struct ops backward, const char *name)
{
    for (int i = 0; i < backward.count; i++)
        if (backward.at[i].pass == PASS_BACKWARD_INPUT && backward.at[i].kind == OP_GEMM &&
            strcmp(backward.at[i].name, name) == 0)
            return &backward.at[i];
    ck_abort_msg("no input gradient of %s", name);
    return NULL;
}

/* fc1 of GPT-3 6.7B: 16384 sums in fp32, written and read, and their accumulator likewise; the
 * gradient is not read again. In fp8 the products don't see it as it was. */
START_TEST(a_weight_gradient_that_sums_its_bias_moves_four_more_numbers_an_output)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = flash;
    struct ops separate =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    options.fusions = 1u << FUSION_WGRAD_BIAS;
    struct ops fused =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    ck_assert_int_eq(count_kind(separate, OP_BIAS_GRAD), 4);
    ck_assert_int_eq(count_kind(fused, OP_BIAS_GRAD), 0);
    const struct op *alone = find_weight_gradient(separate, "fc1");
    const struct op *both = find_weight_gradient(fused, "fc1");
    ck_assert(both->has_bias && !alone->has_bias);
    ck_assert_double_eq(both->bytes - alone->bytes, 4 * 4 * 16384.0);
    ck_assert_double_eq(both->kernels - alone->kernels, 1);
    ck_assert_str_eq(both->variant, "bias_grad");
    options.fp8 = &fp8_recipes[0];
    options.fp8_copies = 1;
    struct ops in_fp8 =
        ops_backward(layer_forward(&model, &dims, &options, &arena), &options, &arena);
    ck_assert_int_eq(count_kind(in_fp8, OP_BIAS_GRAD), 4);
}
END_TEST

/* fc1 of GPT-3 6.7B on 2048 tokens: its epilogue writes 2048 x 16384 values more, the input
 * gradient of fc2 reads as many; kept is what was. */
START_TEST(a_folded_gelu_writes_beside_one_product_and_is_read_by_the_other)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = flash;
    struct ops separate = layer_forward(&model, &dims, &options, &arena);
    struct ops separate_back = ops_backward(separate, &options, &arena);
    options.fusions = 1u << FUSION_GEMM_GELU;
    struct ops folded = layer_forward(&model, &dims, &options, &arena);
    struct ops folded_back = ops_backward(folded, &options, &arena);
    double bytes = 2 * 2048.0 * 16384;
    const struct op *fc1 = find(folded, "fc1");
    ck_assert_int_eq(folded.count, separate.count - 1);
    ck_assert_int_eq(folded_back.count, separate_back.count - 1);
    ck_assert_str_eq(fc1->folded->name, "activation");
    ck_assert_double_eq(fc1->bytes - find(separate, "fc1")->bytes, bytes);
    ck_assert_double_eq(fc1->saved_bytes - op_own_saved_bytes(fc1), bytes);
    ck_assert_double_eq(op_own_saved_bytes(fc1), find(separate, "fc1")->saved_bytes);
    ck_assert_double_eq(find_input_gradient(folded_back, "fc2")->bytes -
                            find_input_gradient(separate_back, "fc2")->bytes,
                        bytes);
    ck_assert_str_eq(find_input_gradient(folded_back, "fc2")->variant, "gelu");
    ck_assert_str_eq(find_input_gradient(folded_back, "fc1")->variant, "");
}
END_TEST

/* Gated ones have two inputs, ReLU's is a mask of bits, and fp8 is quantised between. */
START_TEST(only_plain_gelu_between_products_of_16_bits_is_folded)
{
    struct layer_options options = flash;
    options.fusions = 1u << FUSION_GEMM_GELU;
    struct model gated = model_of("llama3-8b"), relu = model_of("gpt3-6.7b"), gelu = relu;
    relu.activation = ACTIVATION_RELU;
    struct layer_dims dims = layer_dims(&relu, 1, 2048), of_gated = layer_dims(&gated, 1, 2048);
    ck_assert_int_eq(count_kind(layer_forward(&gated, &of_gated, &options, &arena), OP_ACTIVATION),
                     1);
    ck_assert_int_eq(count_kind(layer_forward(&relu, &dims, &options, &arena), OP_ACTIVATION), 1);
    ck_assert_int_eq(count_kind(layer_forward(&gelu, &dims, &options, &arena), OP_ACTIVATION), 0);
    options.fp8 = &fp8_recipes[0];
    options.fp8_copies = 1;
    ck_assert_int_eq(count_kind(layer_forward(&gelu, &dims, &options, &arena), OP_ACTIVATION), 1);
}
END_TEST

static double kind_bytes(struct ops ops, enum op_kind kind)
{
    double bytes = 0;
    for (int i = 0; i < ops.count; i++)
        bytes += ops.at[i].kind == kind ? ops.at[i].bytes : 0;
    return bytes;
}

/* In values of 2048 x 4096 and 2 bytes: forward 2 x 3 + 2 x 2, of which one is not read; backward
 * 2 x 3 + 2 x 4, of which each sum's result and one of its summands go, and the branch's gradient
 * is a copy: 2 x 2 + 2 x 5. */
START_TEST(a_residual_with_its_norm_reads_the_stream_once)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = flash;
    model.dropout = 0;
    options.fusions = 1u << FUSION_RESIDUAL | 1u << FUSION_NORM;
    struct ops separate = layer_forward(&model, &dims, &options, &arena);
    options.fusions |= 1u << FUSION_RESIDUAL_NORM;
    struct ops folded = layer_forward(&model, &dims, &options, &arena);
    struct ops back = ops_backward(folded, &options, &arena);
    double values = 2048.0 * 4096 * 2;
    ck_assert_double_eq(kind_bytes(separate, OP_RESIDUAL) + kind_bytes(separate, OP_NORM),
                        10 * values);
    ck_assert_double_eq(kind_bytes(folded, OP_RESIDUAL) + kind_bytes(folded, OP_NORM), 9 * values);
    ck_assert_int_eq(count_kind(folded, OP_NORM), 1);
    ck_assert_int_eq(count_kind(back, OP_NORM), 2);
    ck_assert_double_eq(kind_bytes(back, OP_NORM), 10 * values);
    ck_assert_double_eq(kind_bytes(back, OP_RESIDUAL), 4 * values);
    ck_assert_str_eq(find(folded, "attention_residual")->folded->name, "ffn_norm");
}
END_TEST

/* --- logits a run of rows at a time --------------------------------------------------------- */

/* 2048 rows in runs of 300 and less: 7 of 292 or 293. The weights are read 7 times, and so is their
 * gradient written; one product more is run, which no model counts. */
START_TEST(logits_made_again_are_one_product_more_for_every_row)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = flash;
    options.fusions = 1u << FUSION_WGRAD_ACCUMULATE;
    struct ops once = head_forward(&model, &dims, &options, &arena);
    struct ops once_back = ops_backward(once, &options, &arena);
    options.logits_rows = 300;
    struct ops runs = head_forward(&model, &dims, &options, &arena);
    struct ops back = ops_backward(runs, &options, &arena);
    double product_flops = 2 * 2048.0 * 4096 * dims.vocab, weight_bytes = 4096 * dims.vocab;
    ck_assert_double_eq(head_chunks(&dims, &options), 7);
    ck_assert_double_eq(ops_flops(runs), ops_flops(once));
    ck_assert_double_eq(ops_flops(back), ops_flops(once_back) + product_flops);
    ck_assert_double_eq(ops_model_flops(back), ops_model_flops(once_back));
    ck_assert_double_eq(find(runs, "logits")->bytes - find(once, "logits")->bytes,
                        6 * 2 * weight_bytes);
    ck_assert_double_eq(find_weight_gradient(back, "logits")->bytes -
                            find_weight_gradient(once_back, "logits")->bytes,
                        6 * 2 * 4 * weight_bytes);
    ck_assert_double_eq(find(runs, "logits")->kernels, 7);
    ck_assert_double_eq(activation_bytes(runs, false), activation_bytes(once, false));
}
END_TEST

START_TEST(as_many_rows_as_there_are_tokens_are_all_at_once)
{
    struct model model = model_of("gpt3-6.7b");
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct layer_options options = flash;
    options.logits_rows = 2048;
    ck_assert_double_eq(head_chunks(&dims, &options), 0);
    options.logits_rows = 2047;
    ck_assert_double_eq(head_chunks(&dims, &options), 2);
    options.logits_rows = 1;
    ck_assert_double_eq(head_chunks(&dims, &options), 2048);
}
END_TEST

START_TEST(a_run_is_its_share_of_an_op)
{
    struct op op = {
        .kind = OP_GEMM, .m = 12, .n = 5, .k = 9, .flops = 6, .bytes = 30, .kernels = 3
    };
    struct op same = op_run(&op);
    ck_assert_double_eq(same.m, 12);
    op.chunks = 3;
    struct op run = op_run(&op);
    ck_assert(run.m == 4 && run.n == 5 && run.k == 9 && run.flops == 2 && run.bytes == 10);
    ck_assert(run.kernels == 1 && run.chunks == 0);
    op.pass = PASS_BACKWARD_WEIGHT;
    run = op_run(&op);
    ck_assert(run.m == 12 && run.k == 3);
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

START_TEST(a_fusion_never_adds_traffic_or_launches)
{
    struct model model = model_of(_i < NUM_FUSIONS ? "gpt3-175b" : "llama3-8b");
    struct layer_options fused = unfused;
    fused.fusions = 1u << _i % NUM_FUSIONS;
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops a = builders[i](&model, &dims, &unfused, &arena);
        struct ops b = builders[i](&model, &dims, &fused, &arena);
        struct ops a_back = ops_backward(a, &unfused, &arena);
        struct ops b_back = ops_backward(b, &fused, &arena);
        ck_assert(traffic(b) <= traffic(a) && launches(b) <= launches(a));
        ck_assert(traffic(b_back) <= traffic(a_back) && launches(b_back) <= launches(a_back));
        ck_assert_double_eq(activation_bytes(b, false), activation_bytes(a, false));
    }
}
END_TEST

START_TEST(fp32_doubles_traffic_and_what_is_kept_of_a_product)
{
    struct model model = model_of("gpt3-175b");
    struct layer_options fp32 = { .flash_attention = true,
                                  .dtype = DTYPE_FP32,
                                  .gradient_bytes = 4 };
    struct layer_dims dims = layer_dims(&model, 1, 2048);
    struct ops a = layer_forward(&model, &dims, &flash, &arena);
    struct ops b = layer_forward(&model, &dims, &fp32, &arena);
    ck_assert_double_eq(find(b, "fc1")->bytes, 2 * find(a, "fc1")->bytes);
    ck_assert_double_eq(find(b, "fc1")->saved_bytes, 2 * find(a, "fc1")->saved_bytes);
    ck_assert_double_eq(find(b, "ffn_leave")->comm_bytes, 2 * find(a, "ffn_leave")->comm_bytes);
    double bias_bytes = 4.0 * 2048 * 4 * 12288;
    ck_assert_double_eq(find(ops_backward(b, &fp32, &arena), "fc1")->bytes, bias_bytes);
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
    tcase_add_loop_test(tc, a_layer_keeps_what_korthikanti_counts, 0, NUM_VARIANTS);
    tcase_add_test(tc, flash_attention_keeps_as_much_as_selective_recompute_and_a_number_a_row);
    tcase_add_loop_test(tc, first_stages_hold_the_activations_of_korthikantis_figure_1, 0,
                        NUM_FIGURE_1);
    tcase_add_test(tc, a_layer_of_megatrons_7b_test_keeps_fifteen_and_a_quarter_bytes_a_value);
    tcase_add_test(tc, a_layer_of_llama3_8b_keeps_34_bytes_a_value);
    tcase_add_test(tc, the_embedding_keeps_token_ids_and_a_dropout_mask);
    tcase_add_test(tc, the_head_keeps_the_inputs_of_norm_and_logits);
    return tc;
}

static TCase *flops(void)
{
    TCase *tc = tcase_create("flops");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, a_token_costs_the_flops_that_megatron_counts, 0, NUM_PUBLISHED);
    tcase_add_test(tc, a_step_of_gpt_costs_the_closed_form);
    tcase_add_test(tc, twice_the_sequences_cost_twice_the_flops);
    tcase_add_test(tc, each_product_of_a_layer_costs_two_flops_a_multiply_add);
    tcase_add_test(tc, a_fused_attention_skips_the_masked_half);
    return tc;
}

static TCase *laws(void)
{
    TCase *tc = tcase_create("laws");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, a_backward_multiplies_twice_as_much_as_its_forward);
    tcase_add_test(tc, every_op_has_work_and_waits_for_the_one_before_it);
    tcase_add_test(tc, gradients_of_a_layer_are_as_many_as_its_parameters);
    tcase_add_test(tc, a_folded_gelu_writes_beside_one_product_and_is_read_by_the_other);
    tcase_add_test(tc, only_plain_gelu_between_products_of_16_bits_is_folded);
    tcase_add_test(tc, a_residual_with_its_norm_reads_the_stream_once);
    tcase_add_test(tc, logits_made_again_are_one_product_more_for_every_row);
    tcase_add_test(tc, as_many_rows_as_there_are_tokens_are_all_at_once);
    tcase_add_test(tc, a_run_is_its_share_of_an_op);
    tcase_add_test(tc, a_weight_gradient_that_sums_its_bias_moves_four_more_numbers_an_output);
    tcase_add_loop_test(tc, a_fusion_never_adds_traffic_or_launches, 0, 2 * NUM_FUSIONS);
    tcase_add_test(tc, fp32_doubles_traffic_and_what_is_kept_of_a_product);
    tcase_add_test(tc, every_fusion_and_kind_of_op_has_a_name);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("models/layer");
    suite_add_tcase(s, activations());
    suite_add_tcase(s, flops());
    suite_add_tcase(s, laws());
    return s;
}

TEST_MAIN(suite)
