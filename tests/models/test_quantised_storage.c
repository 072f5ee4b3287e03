/* Tests the data type and form in which values are kept from the forward to the backward, against
 * counts by hand. */
#include "models/quantised_storage.h"

#include "models/blocks.h"
#include "models/recompute.h"
#include "sim/plan/local.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

enum { TOKENS = 4096 };
static const double rounding = 1e-12;
static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* The types are those that DeepSeek-V3's report states in section 3.3.3. */
static const struct stores deepseek = { .inputs = INPUT_SHARED,
                                        .attention = STORAGE_E5M6,
                                        .activations = STORAGE_QUANTIZED,
                                        .remakes_activations = true };

static struct layer_options options_of(int precision, struct stores stores)
{
    return (struct layer_options){ .flash_attention = true,
                                   .fusions = (1u << FUSION_NORM) | (1u << FUSION_BIAS_GELU) |
                                              (1u << FUSION_WGRAD_ACCUMULATE),
                                   .dtype = DTYPE_BF16,
                                   .recipe = precision_recipe(precision),
                                   .stores = stores,
                                   .copies = stores.transposes_apart ? 1 : 2,
                                   .gradient_bytes = 4 };
}

static struct local_ops lists_of(const char *preset, int kind, const char *layout, int precision,
                                 struct stores stores)
{
    static struct model all;
    if (strcmp(all.name, preset) != 0)
        all = model_of(preset);
    struct model model = model_of_kind(&all, kind);
    struct plan plan = plan_of(layout, &arena);
    struct layer_options options = options_of(precision, stores);
    plan.dp = 1;
    options.sends_tokens = options.sorts_in_flight = plan.ep > 1;
    options.sends_quantized = plan.ep > 1;
    return local_layer(rank_share_of(&plan), &model, TOKENS, &options, false, &arena);
}

static double kept_by(const struct local_ops *lists, const char *name)
{
    return op_saved_bytes(&lists->forward, op_named(lists->forward, name));
}

static double all_kept(const struct local_ops *lists)
{
    return activation_bytes(lists->forward, false);
}

/* --- the types ------------------------------------------------------------------------------ */

/* A scale of 4 bytes serves 128 values. A value of 12 bits takes 1.5 bytes. */
START_TEST(a_type_has_its_bits_and_its_scales)
{
    const struct recipe *block = precision_recipe(PRECISION_FP8_BLOCK);
    ck_assert_double_eq(stored_bytes(STORAGE_OWN, block, 2), 2);
    ck_assert_double_eq(stored_bytes(STORAGE_QUANTIZED, block, 2), 1 + 4.0 / 128);
    ck_assert_double_eq(stored_bytes(STORAGE_E5M6, block, 2), 1.5 + 4.0 / 128);
    ck_assert_double_eq(stored_bytes(STORAGE_QUANTIZED, precision_recipe(PRECISION_FP8_CURRENT), 2),
                        1);
}
END_TEST

/* --- what products keep --------------------------------------------------------------------- */

/* torchao keeps the 16-bit input, so an fp8 block keeps what a bf16 block does. Transformer Engine
 * keeps fp8 copies of the inputs of qkv and both layers of the feed-forward, which saves one byte
 * per value. Attention keeps its output in 16 bits, and the projection's copy of it takes one byte
 * more. A projection that shares that output keeps no copy. */
START_TEST(a_dense_block_keeps_copies_shared_or_original_inputs)
{
    double h = 4096, f = 14336, n = TOKENS; /* Llama 3 8B */
    double bf16_bytes, kept[NUM_INPUT_STORES];
    struct local_ops lists = lists_of("llama3-8b", 0, "mb1", PRECISION_BF16, (struct stores){ 0 });
    bf16_bytes = all_kept(&lists);
    for (int i = 0; i < NUM_INPUT_STORES; i++) {
        lists = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_CURRENT,
                         (struct stores){ .inputs = (enum input_store)i });
        kept[i] = all_kept(&lists);
    }
    ck_assert_double_eq(kept[INPUT_ORIGINAL], bf16_bytes);
    ck_assert_double_eq(bf16_bytes - kept[INPUT_QUANTIZED], n * (h + h + f - h));
    ck_assert_double_eq(bf16_bytes - kept[INPUT_SHARED], n * (h + h + f));
}
END_TEST

/* With delayed scaling a tensor's scale may have changed when the backward runs, so the copy is
 * kept. */
START_TEST(delayed_scales_keep_the_copies)
{
    struct local_ops copies = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_DELAYED,
                                       (struct stores){ .inputs = INPUT_QUANTIZED });
    for (int i = 0; i < NUM_INPUT_STORES; i++) {
        struct stores stores = deepseek;
        stores.inputs = (enum input_store)i;
        stores.attention = stores.activations = STORAGE_OWN;
        struct local_ops lists = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_DELAYED, stores);
        ck_assert_double_eq(all_kept(&lists), all_kept(&copies));
        ck_assert_int_eq(lists.backward.count, copies.backward.count);
    }
}
END_TEST

static double quantize_bytes(const struct ops *list)
{
    double bytes = 0;
    for (int i = 0; i < list->count; i++)
        bytes += list->at[i].kind == OP_QUANTIZE ? list->at[i].bytes : 0;
    return bytes;
}

/* The inputs of the four linear layers of Llama 3 8B have x = 3 h + f values per token, where h is
 * the hidden size and f the width of the feed-forward. The gradients of the outputs have y = (h + 2
 * h/4) + h + 2 f + h values. A quantised value has q bytes. A kernel reads 2 bytes per value and
 * writes two copies. If copies along columns have separate kernels, the first kernel writes one
 * copy. In the backward a second kernel reads this copy of an input, or the gradient, and writes 2
 * bytes per value; a third kernel reads these and writes q bytes. The same bytes are kept. */
START_TEST(copies_along_columns_may_have_kernels_of_their_own)
{
    double n = TOKENS, h = 4096, f = 14336, q = 1 + 4.0 / 128;
    double x = n * (3 * h + f), y = n * (3.5 * h + 2 * f);
    struct stores stores = { .inputs = INPUT_QUANTIZED };
    struct local_ops lists = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_BLOCK, stores);
    double kept_bytes = all_kept(&lists);
    ck_assert_double_eq_tol(quantize_bytes(&lists.forward), x * (2 + 2 * q), 1);
    ck_assert_double_eq_tol(quantize_bytes(&lists.backward), y * (2 + 2 * q), 1);
    stores.transposes_apart = true;
    lists = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_BLOCK, stores);
    ck_assert_double_eq_tol(quantize_bytes(&lists.forward), x * (2 + q), 1);
    ck_assert_double_eq_tol(quantize_bytes(&lists.backward),
                            x * (q + 2 + 2 + q) + y * (2 + q + 2 + 2 + 2 + q), 1);
    ck_assert_double_eq(all_kept(&lists), kept_bytes);
}
END_TEST

/* Values that tensor ranks quantise and then gather are kept quantised, also by torchao. The
 * projection's input is not gathered. */
START_TEST(gathered_inputs_are_kept_quantised)
{
    struct local_ops lists = lists_of("llama3-8b", 0, "tp2 sp mb1", PRECISION_FP8_CURRENT,
                                      (struct stores){ .inputs = INPUT_ORIGINAL });
    double values = TOKENS / 2.0 * 4096;
    ck_assert_double_eq(kept_by(&lists, "qkv"), values);
    ck_assert_double_eq(kept_by(&lists, "fc1"), values);
    ck_assert_double_eq(kept_by(&lists, "fc2"), 2 * TOKENS * 14336 / 2.0);
    check_operands(lists.forward, lists.backward);
}
END_TEST

/* If a kept input is quantised in the backward, each of its n k values is read as 2 bytes, twice
 * with current scales, and written as one byte. The forward then writes one copy fewer. */
START_TEST(a_copy_that_is_not_kept_is_made_in_the_backward)
{
    struct local_ops lists = lists_of("llama3-8b", 0, "mb1", PRECISION_FP8_CURRENT,
                                      (struct stores){ .inputs = INPUT_ORIGINAL });
    double values = TOKENS * 4096.0;
    const struct op *forward = op_named(lists.forward, "projection_input");
    int at = op_index(lists.backward, "projection_input", OP_QUANTIZE, PASS_BACKWARD_WEIGHT);
    const struct op *again = &lists.backward.at[at];
    ck_assert_double_eq(forward->bytes, values * (2 * 2 + 1));
    ck_assert_double_eq(again->bytes, values * (2 * 2 + 1));
    const struct op *product = gradient_product(lists.backward, "projection", PASS_BACKWARD_WEIGHT);
    ck_assert_int_eq(product->in.at[1], again->out.at[0]);
    ck_assert_int_eq(again->in.at[0], op_named(lists.forward, "attention")->out.at[0]);
}
END_TEST

/* --- DeepSeek-V3 ---------------------------------------------------------------------------- */

/* By the report, norms and up-projections are recomputed. For each token a block with experts then
 * keeps only: the residual stream before both norms (bf16), the compressed queries, keys and values
 * of latent attention (bf16), attention's output (E5M6) and statistics, the rows of 8 experts
 * (fp8), the inputs of SwiGLU (fp8), logits, shares and map of the router, and for each expert's
 * row its share and two positions of the row. */
START_TEST(a_block_of_deepseek_v3_keeps_the_bytes_of_its_report)
{
    double h = 7168, heads = 128, k = 8, experts = 256, f = 2048, fp8 = 1 + 4.0 / 128;
    double kept = 2 * (2 * h) + 2 * 1536 + 4 + 2 * (512 + 64) + 4 +
                  (1.5 + 4.0 / 128) * heads * 128 + 4 * heads + (4 + 4 + 1) * experts + 4 * k +
                  fp8 * k * h + fp8 * 2 * f * (k + 1) + k * (4 + 4 + 4);
    struct local_ops lists = lists_of("deepseek-v3", 1, "ep64 mb1", PRECISION_FP8_BLOCK, deepseek);
    struct replay replay =
        ops_replay(&lists.forward, 1u << REPLAY_NORM | 1u << REPLAY_LATENT_UP, false, &arena);
    double got = all_kept(&lists) - replay.freed_bytes;
    ck_assert_double_eq_tol(got / (TOKENS * kept), 1, rounding);
    check_operands(lists.forward, lists.backward);
}
END_TEST

/* In Megatron Core with recompute of layernorm and moe_act, the products after norms and the
 * experts' second products keep no input. In the backward their recomputed inputs are quantised
 * again. */
START_TEST(a_copy_of_a_recomputed_value_is_dropped_too)
{
    static const unsigned replays = 1u << REPLAY_NORM | 1u << REPLAY_EXPERT_ACTIVATION;
    double h = 7168, k = 8, f = 2048, fp8 = 1 + 4.0 / 128, freed[2];
    for (int i = 0; i < 2; i++) {
        struct local_ops lists =
            lists_of("deepseek-v3", 1, "ep64 mb1", PRECISION_FP8_BLOCK,
                     (struct stores){ .inputs = i ? INPUT_SHARED : INPUT_QUANTIZED });
        struct replay replay = ops_replay(&lists.forward, replays, false, &arena);
        freed[i] = replay.freed_bytes / TOKENS;
        for (int op = 0; op < lists.forward.count; op++) {
            const char *name = lists.forward.at[op].name;
            bool drops = strcmp(name, "latent_input") == 0 || strcmp(name, "expert_fc2_input") == 0;
            ck_assert(!drops || replay.is_again[op] == (i == 1));
        }
    }
    /* the input of attention's norm, and the experts' rows between their products */
    ck_assert_double_eq_tol(freed[1] - freed[0], fp8 * (h + f * k), 1e-6);
}
END_TEST

/* --- all lists ------------------------------------------------------------------------------ */

static void check_lists(const char *preset, int kind, const char *layout, int precision)
{
    struct local_ops plain = lists_of(preset, kind, layout, precision, (struct stores){ 0 });
    for (int inputs = 0; inputs < NUM_INPUT_STORES; inputs++)
        for (int i = 0; i < 8; i++) {
            struct stores stores = { .inputs = (enum input_store)inputs,
                                     .attention = i & 1 ? STORAGE_E5M6 : STORAGE_OWN,
                                     .activations = i & 2 ? STORAGE_QUANTIZED : STORAGE_OWN,
                                     .remakes_activations = (i & 4) != 0 };
            struct local_ops lists = lists_of(preset, kind, layout, precision, stores);
            if (precision == PRECISION_FP8_BLOCK)
                check_operands(lists.forward, lists.backward);
            ck_assert_double_eq(ops_flops(lists.backward), ops_flops(plain.backward));
            ck_assert_double_eq(ops_flops(lists.forward), ops_flops(plain.forward));
            if (inputs != INPUT_ORIGINAL)
                ck_assert_double_le(all_kept(&lists), all_kept(&plain));
        }
}

START_TEST(every_store_makes_whole_lists_of_the_same_products)
{
    static const int precisions[] = { PRECISION_FP8_CURRENT, PRECISION_FP8_BLOCK };
    for (size_t i = 0; i < LENGTH(precisions); i++) {
        check_lists("llama3-8b", 0, "mb1", precisions[i]);
        check_lists("llama3-8b", 0, "tp4 sp mb1", precisions[i]);
        check_lists("llama3-8b", 0, "tp2 cp2 mb1", precisions[i]);
        check_lists("deepseek-v3", 0, "mb1", precisions[i]);
        check_lists("deepseek-v3", 1, "ep64 mb1", precisions[i]);
        check_lists("deepseek-v3", 1, "tp2 sp mb1", precisions[i]);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("storage");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, a_type_has_its_bits_and_its_scales);
    tcase_add_test(tc, a_dense_block_keeps_copies_shared_or_original_inputs);
    tcase_add_test(tc, copies_along_columns_may_have_kernels_of_their_own);
    tcase_add_test(tc, delayed_scales_keep_the_copies);
    tcase_add_test(tc, gathered_inputs_are_kept_quantised);
    tcase_add_test(tc, a_copy_that_is_not_kept_is_made_in_the_backward);
    tcase_add_test(tc, a_block_of_deepseek_v3_keeps_the_bytes_of_its_report);
    tcase_add_test(tc, a_copy_of_a_recomputed_value_is_dropped_too);
    tcase_add_test(tc, every_store_makes_whole_lists_of_the_same_products);
    Suite *s = suite_create("storage");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
