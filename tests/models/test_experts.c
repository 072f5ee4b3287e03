/* Tests op lists (sequences of operations) of blocks with experts and of blocks with latent
 * attention. */
#include "models/blocks.h"
#include "models/layer.h"
#include "models/recompute.h"

#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct err err;

static void tear_down(void)
{
    arena_release(&arena);
}

static struct ops block(const struct model *model, double seq)
{
    struct layer_dims dims = layer_dims(model, 1, seq);
    struct layer_options options = layer_flash;
    options.fusions = (1u << NUM_FUSIONS) - 1;
    return layer_forward(model, &dims, &options, &arena);
}

static double weights(struct ops ops, bool of_experts)
{
    double elements = 0;
    for (int i = 0; i < ops.operands->num_weights; i++) {
        const struct op_weight *weight = &ops.operands->weights[i];
        if (weight->is_of_experts || !of_experts)
            elements += weight->rows * weight->columns;
    }
    return elements;
}

/* Compares the sum of the weights in an op list with the formula for parameters, which is exact for
 * whole models. */
START_TEST(weights_of_an_op_list_equal_the_parameter_formula)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++)
        for (int kind = 0; kind < model_num_kinds(&presets[i].model); kind++) {
            struct model of = model_of_kind(&presets[i].model, kind);
            if (has_costs(&presets[i].model))
                ck_assert_msg(
                    weights(block(&of, 128), false) == model_layer_parameters(&of),
                    "%s: blocks of kind %d have another number of parameters than their op list",
                    of.name, kind);
            arena_release(&arena);
        }
    free(presets);
}
END_TEST

/* For each of 4,096 tokens of DeepSeek-V3, the 8 chosen experts multiply 8 x 3 x 2048 x 7168
 * weights, the shared expert 3 x 2048 x 7168 weights, and the router 256 x 7168 weights. Each
 * multiplication is 2 FLOPs, with the addition. */
START_TEST(expert_products_count_only_the_chosen_experts)
{
    struct model model = model_of("deepseek-v3");
    struct ops ops = block(&model, 4096);
    double one = 3.0 * 2048 * 7168 * 2 * 4096;
    double routed = op_named(ops, "expert_fc1")->flops + op_named(ops, "expert_fc2")->flops;
    double shared = op_named(ops, "shared_fc1")->flops + op_named(ops, "shared_fc2")->flops;
    ck_assert_double_eq(routed, 8 * one);
    ck_assert_double_eq(shared, one);
    ck_assert_double_eq(op_named(ops, "router")->flops, 2.0 * 4096 * 256 * 7168);
    ck_assert_double_eq(weights(ops, true), 256 * 3.0 * 2048 * 7168);
}
END_TEST

/* The FLOPs are those of the products with a layer's 187,107,328 weights of latent attention, and
 * those of attention's core: 128 heads with 192 (keys) + 128 (values) channels, for the causal half
 * of the scores. */
START_TEST(latent_attention_has_the_flops_of_its_weights_and_heads)
{
    struct model model = model_of("deepseek-v3");
    struct ops ops = block(&model, 4096);
    static const char *const names[] = { "q_down",  "q_norm", "q_up",      "kv_down",
                                         "kv_norm", "kv_up",  "projection" };
    double elements = 0;
    for (size_t i = 0; i < LENGTH(names); i++) {
        const struct op *op = op_named(ops, names[i]);
        for (int j = 0; j < op->weights.count; j++) {
            const struct op_weight *weight = &ops.operands->weights[op->weights.at[j]];
            elements += weight->rows * weight->columns;
        }
    }
    ck_assert_double_eq(elements, 187107328);
    const struct op *core = op_named(ops, "attention");
    ck_assert_double_eq(core->flops, 2.0 * 128 * (192 + 128) * 4096 * 4096 / 2);
}
END_TEST

/* With tp 1, DeepSeek-V3's attention keeps these bytes per token: 2 h for the norm (h: hidden
 * size); the narrow queries (q_r) and the narrow keys and values (kv_r) before and after their
 * norms; the rotated part of a key (d_r) together with kv_r; q, k and v; the output; and 4 bytes of
 * statistics per head. Recompute of mla_up_proj frees q, k and v. */
START_TEST(latent_attention_keeps_the_bytes_that_its_backward_reads)
{
    struct model model = model_of("deepseek-v3");
    struct ops ops = block(&model, 1);
    double core = 2 * 128 * (2 * 192 + 128), latent = 2 * (2 * 1536 + 576 + 512);
    double kept = 0;
    for (int i = 0; i < ops.count && strcmp(ops.at[i].name, "attention_residual") != 0; i++)
        kept += op_saved_bytes(&ops, &ops.at[i]);
    double stream = 2 * 2 * 7168 + 4; /* input, output and statistics of the norm */
    ck_assert_double_eq(kept, stream + latent + 2 * 4 + core + 2 * 128 * 128 + 4 * 128);
    ck_assert_double_eq(ops_replay(&ops, 1u << REPLAY_LATENT_UP, false, &arena).freed_bytes, core);
}
END_TEST

/* Bytes kept per token in Mixtral, which sends a token to 2 of 8 experts of width f = 14336. fc1
 * keeps its input. The activation keeps the two halves of fc1's output and the token's share
 * (weight) of the expert. fc2 keeps the activation's output, which recompute of moe_act frees. The
 * router keeps logits, shares and the map from tokens to experts. The positions of rows in the
 * order sorted by expert are kept three times. */
START_TEST(experts_keep_the_bytes_that_their_backward_reads)
{
    struct model model = model_of("mixtral-8x7b");
    struct ops ops = block(&model, 1);
    double rows = 2, f = 14336, h = 4096, experts = 8;
    double kept = 0;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].region == REGION_EXPERTS || ops.at[i].region == REGION_EXPERT_ACTIVATION)
            kept += op_saved_bytes(&ops, &ops.at[i]);
    double of_rows = 2 * h + 2 * 2 * f + 4 + 2 * f + 3 * 4;
    ck_assert_double_eq(kept, 2 * h + rows * of_rows + 9 * experts);
    ck_assert_double_eq(ops_replay(&ops, 1u << REPLAY_EXPERT_ACTIVATION, false, &arena).freed_bytes,
                        rows * (2 * f + 4));
}
END_TEST

/* If tokens of gpt-oss are assigned to experts in turn, no router runs. If biases have their own
 * kernels, the bias after expert_fc1 reads and writes four values for each value of the product.
 * The bias after expert_fc2 reads and writes two values, and 24 bytes of a wider type, for each
 * value of the product. */
START_TEST(experts_in_turn_have_no_router_and_biases_may_be_kernels_of_their_own)
{
    static const struct unfused_ops apart = {
        { [UNFUSED_EXPERT_BIAS] = { .values = 4, .kernels = 5 },
          [UNFUSED_EXPERT_SHARE_BIAS] = { .values = 2, .bytes = 24, .kernels = 10 } }
    };
    struct model model = model_of("gpt-oss-20b");
    model = model_of_kind(&model, 1);
    model.routing.kind = ROUTING_IN_TURN;
    struct layer_dims dims = layer_dims(&model, 1, 4096);
    struct layer_options options = layer_flash;
    options.fusions = (1u << NUM_FUSIONS) - 1;
    struct ops fused = layer_forward(&model, &dims, &options, &arena);
    options.unfused = &apart;
    struct ops list = layer_forward(&model, &dims, &options, &arena);
    double rows = 4096 * 4, width = 2880;
    for (int i = 0; i < list.count; i++)
        ck_assert_str_ne(list.at[i].name, "router");
    ck_assert_int_eq(list.count, fused.count + 2);
    ck_assert_double_eq(op_named(list, "expert_fc1_bias")->bytes, 4 * 2 * rows * 2 * width);
    ck_assert_double_eq(op_named(list, "expert_fc2_bias")->bytes, (2 * 2 + 24) * rows * width);
    ck_assert_double_eq(op_named(list, "expert_fc2_bias")->kernels, 10);
}
END_TEST

/* Compares a window with full attention on a long sequence. */
START_TEST(window_attention_has_the_flops_of_its_window)
{
    struct model model = model_of("gpt-oss-20b");
    struct model windowed = model_of_kind(&model, 0), full = model_of_kind(&model, 1);
    ck_assert_int_eq(windowed.attention, ATTENTION_WINDOW);
    double seq = 4096, window = 128;
    double seen = op_named(block(&windowed, seq), "attention")->flops;
    double all = op_named(block(&full, seq), "attention")->flops;
    ck_assert_double_eq_tol(seen / all, (seq * window - window * window / 2) / (seq * seq / 2),
                            1e-12);
    ck_assert_double_eq(op_named(block(&windowed, 64), "attention")->flops,
                        op_named(block(&full, 64), "attention")->flops);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("lists");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, weights_of_an_op_list_equal_the_parameter_formula);
    tcase_add_test(tc, expert_products_count_only_the_chosen_experts);
    tcase_add_test(tc, experts_in_turn_have_no_router_and_biases_may_be_kernels_of_their_own);
    tcase_add_test(tc, latent_attention_has_the_flops_of_its_weights_and_heads);
    tcase_add_test(tc, latent_attention_keeps_the_bytes_that_its_backward_reads);
    tcase_add_test(tc, experts_keep_the_bytes_that_their_backward_reads);
    tcase_add_test(tc, window_attention_has_the_flops_of_its_window);
    Suite *s = suite_create("models/experts");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
