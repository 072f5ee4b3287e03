/* Tests weights, FLOPs, kept bytes and gradients of: encoders, decoders that read an encoder,
 * indexers (which choose the keys that each token's attention reads), sparse and low-rank
 * attention, attention and feed-forward in parallel, and BERT's head. */
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

static struct layer_options options_of(bool is_flash)
{
    struct layer_options options = layer_flash;
    options.flash_attention = is_flash;
    options.fusions |= 1u << FUSION_NORM;
    return options;
}

static struct ops list_with(const struct model *model, int tokens, bool is_flash)
{
    struct layer_dims dims = layer_dims(model, 1, tokens);
    struct layer_options options = options_of(is_flash);
    return layer_forward(model, &dims, &options, &arena);
}

static struct ops list_of(const struct model *model, int tokens)
{
    return list_with(model, tokens, true);
}

static struct ops backward_of(struct ops forward)
{
    struct layer_options options = options_of(true);
    return ops_backward(forward, &options, &arena);
}

static double weights_of(struct ops ops)
{
    double parameters = 0;
    for (int i = 0; i < ops.operands->num_weights; i++)
        parameters += ops.operands->weights[i].rows * ops.operands->weights[i].columns;
    return parameters;
}

static const struct op *named_op(struct ops ops, const char *name, enum op_pass pass)
{
    for (int i = 0; i < ops.count; i++)
        if (strcmp(ops.at[i].name, name) == 0 && ops.at[i].pass == pass)
            return &ops.at[i];
    return NULL;
}

static const struct op *forward_op(struct ops ops, const char *name)
{
    const struct op *op = named_op(ops, name, PASS_FORWARD);
    ck_assert_msg(op, "no op is called %s", name);
    return op;
}

static double kept_by(struct ops list)
{
    double kept = 0;
    for (int i = 0; i < list.count; i++)
        kept += op_saved_bytes(&list, &list.at[i]);
    return kept;
}

static double weights_of_lists(const struct model *model)
{
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    struct layer_options options = options_of(true);
    double parameters = weights_of(embedding_forward(model, &dims, &options, &arena)) +
                        weights_of(head_forward(model, &dims, &options, &arena));
    int counts[MAX_BLOCK_KINDS];
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        parameters += counts[kind] * weights_of(list_of(&of, model->seq));
    }
    return parameters;
}

/* A tied head shares the embedding's matrix, so the op lists of both contain this weight. */
START_TEST(lists_of_blocks_embedding_and_head_have_the_counted_weights)
{
    size_t count;
    struct err err = { 0 };
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++) {
        const struct model *model = &presets[i].model;
        double shared = model->tied ? (double)model->vocab * model->hidden : 0;
        ck_assert_msg(weights_of_lists(model) - shared == model_parameters(model),
                      "%s: the op lists have %.0f weights too many", model->name,
                      weights_of_lists(model) - shared - model_parameters(model));
        arena_release(&arena);
    }
    free(presets);
}
END_TEST

/* In DeepSeek-V3.2 the indexer's 64 heads of 128 channels score all earlier keys, and attention
 * reads the 2,048 keys with the highest scores. In a sequence of 8,192 tokens the indexer scores
 * 4,096 keys per token on average, and attention reads 2,048 - 2,048^2 / (2 x 8,192) = 1,792. */
START_TEST(an_indexer_scores_all_keys_and_attention_reads_the_chosen)
{
    struct model model = model_of("deepseek-v3.2");
    double tokens = 8192, chosen = 1792;
    struct ops list = list_of(&model, 8192);
    ck_assert_double_eq(forward_op(list, "index_scores")->flops, 2 * tokens * 4096 * 64 * 128);
    ck_assert_double_eq(forward_op(list, "attention")->flops,
                        2 * tokens * chosen * 128 * (192 + 128));
    ck_assert_double_eq(forward_op(list, "index_teacher")->flops, 2 * tokens * chosen * 128 * 192);
    ck_assert_double_eq(forward_op(list, "index_loss")->flops, 2 * tokens * chosen * 64 * 128);
    ck_assert_double_eq(forward_op(list, "index_query")->flops, 2 * tokens * 1536 * 64 * 128);
    struct ops backward = backward_of(list);
    const struct op *loss = named_op(backward, "index_loss", PASS_BACKWARD_INPUT);
    ck_assert_ptr_nonnull(loss);
    ck_assert_double_eq(loss->flops, 3 * 2 * tokens * chosen * 64 * 128);
}
END_TEST

/* An indexer's weights have gradients. The indexer passes no gradient on to the rows that it reads,
 * nor to attention's queries and keys. */
START_TEST(an_indexer_passes_no_gradient_on)
{
    static const char *const products[] = { "index_key", "index_query", "index_weights" };
    struct model model = model_of("deepseek-v3.2");
    struct ops backward = backward_of(list_of(&model, 4096));
    for (int i = 0; i < LENGTH(products); i++) {
        ck_assert_ptr_nonnull(named_op(backward, products[i], PASS_BACKWARD_WEIGHT));
        ck_assert_ptr_null(named_op(backward, products[i], PASS_BACKWARD_INPUT));
    }
    ck_assert_ptr_null(named_op(backward, "index_scores", PASS_BACKWARD_INPUT));
    ck_assert_ptr_null(named_op(backward, "index_teacher", PASS_BACKWARD_INPUT));
    ck_assert_ptr_nonnull(named_op(backward, "index_norm", PASS_BACKWARD_INPUT));
    ck_assert_int_eq(named_op(backward, "attention", PASS_BACKWARD_INPUT)->out.count, 1);
}
END_TEST

/* Per token an indexer keeps queries, key and head weights, 2 (64 x 128 + 128 + 64) bytes; the key
 * before its norm, 2 x 128 bytes, and the norm's two fp32 statistics; the 2,048 chosen positions of
 * 4 bytes and as many probabilities. */
START_TEST(an_indexer_keeps_its_heads_and_chosen_keys)
{
    struct model model = model_of("deepseek-v3.2"), dense = model_of("deepseek-v3.2");
    dense.attention = ATTENTION_FULL;
    double indexer = kept_by(list_of(&model, 1)) - kept_by(list_of(&dense, 1));
    ck_assert_double_eq(indexer, 2 * (64 * 128 + 128 + 64) + 2 * 128 + 8 + 2 * 4 * 2048);
}
END_TEST

/* Training of adapters (LoRA) of rank 8 leaves the indexer unchanged, so the indexer has no loss.
 */
START_TEST(a_frozen_indexer_has_no_backward)
{
    struct model model = model_of("deepseek-v3.2");
    model.lora = 8;
    snprintf(model.trained, sizeof model.trained, "projection");
    struct ops backward = backward_of(list_of(&model, 1024));
    ck_assert_ptr_null(named_op(backward, "index_loss", PASS_BACKWARD_INPUT));
    ck_assert_ptr_nonnull(named_op(backward, "attention", PASS_BACKWARD_INPUT));
}
END_TEST

/* A token of an encoder sees all 512 tokens, and a token of a decoder sees 256 on average, so the
 * encoder has twice the FLOPs. The encoder's unfused softmax reads all scores, not only the causal
 * half. */
START_TEST(encoders_see_the_whole_sequence)
{
    struct model encoder = model_of("bert-large"), decoder = encoder;
    decoder.attention = ATTENTION_FULL;
    double whole = forward_op(list_of(&encoder, 512), "attention")->flops;
    ck_assert_double_eq(whole, 2.0 * 16 * 512 * 512 * (64 + 64));
    ck_assert_double_eq(whole, 2 * forward_op(list_of(&decoder, 512), "attention")->flops);
    struct layer_dims dims = layer_dims(&encoder, 1, 512);
    struct layer_options options = options_of(false);
    options.fusions |= 1u << FUSION_SOFTMAX;
    struct ops unfused = layer_forward(&encoder, &dims, &options, &arena);
    const struct op *scores = forward_op(unfused, "scores");
    ck_assert_double_eq(scores->model_flops, scores->flops);
    double values = 16.0 * 512 * 512, dropout = 2 * 2 + 1;
    ck_assert_double_eq(forward_op(unfused, "softmax")->bytes, values * (2 * 2 + dropout));
}
END_TEST

/* BERT normalises each residual sum. So a block has two norms, and its output is the output of the
 * second norm. */
START_TEST(bert_normalises_each_residual_sum)
{
    struct model model = model_of("bert-large");
    struct ops list = list_of(&model, 64);
    const struct op *last = &list.at[list.count - 1], *sum = &list.at[list.count - 2];
    ck_assert_int_eq(last->kind, OP_NORM);
    ck_assert_int_eq(sum->kind, OP_RESIDUAL);
    ck_assert_int_eq(last->in.at[0], sum->out.at[0]);
    ck_assert_int_eq(list.output, last->out.at[0]);
    ck_assert_int_eq(list.at[0].kind, OP_TENSOR_ENTER);
    const struct op *residual = forward_op(list, "attention_residual");
    ck_assert_int_eq(residual->weights.count, 1); /* bias of the attention's output projection */
}
END_TEST

/* In BERT's head a product and an activation come before the last norm, and the logits have a bias.
 */
START_TEST(berts_head_has_an_additional_product)
{
    struct model model = model_of("bert-large");
    struct layer_dims dims = layer_dims(&model, 1, 512);
    struct layer_options options = options_of(true);
    struct ops head = head_forward(&model, &dims, &options, &arena);
    ck_assert_double_eq(forward_op(head, "head_transform")->flops, 2.0 * 512 * 1024 * 1024);
    ck_assert_int_eq(forward_op(head, "head_activation")->in.at[0],
                     forward_op(head, "head_transform")->out.at[0]);
    ck_assert_int_eq(forward_op(head, "logits")->weights.count, 2);
}
END_TEST

/* T5-3B's decoder has 32 heads of 128 channels. A token sees on average half of the 512 tokens of
 * its own sequence, and all tokens of the encoder's sequence. One product computes the keys and
 * values of the encoder's rows, with 2 x 32 x 128 outputs. */
START_TEST(a_decoder_reads_the_encoder)
{
    struct model model = model_of("t5-3b");
    struct model decoder = model_of_kind(&model, 1);
    struct ops list = list_of(&decoder, 512);
    double own = 2.0 * 32 * 512 * 256 * (128 + 128), attention = 0;
    int cores = 0;
    for (int i = 0; i < list.count; i++)
        if (list.at[i].kind == OP_FLASH_ATTENTION) {
            attention += list.at[i].flops;
            cores++;
        }
    ck_assert_int_eq(cores, 2);
    ck_assert_double_eq(attention, own + 2 * own);
    ck_assert_double_eq(forward_op(list, "cross_keys")->flops, 2.0 * 512 * 1024 * 2 * 32 * 128);
    ck_assert_int_eq(list.aside.count, 1);
    struct ops backward = backward_of(list);
    ck_assert_int_eq(backward.aside.count, 1);
    ck_assert_int_ne(backward.aside.at[0], NO_ID);
}
END_TEST

/* Every block reads the biases of 32 heads x 512 x 512 pairs of tokens. They are computed once for
 * the encoder and once for the decoder. */
START_TEST(blocks_read_the_biases_of_their_stack)
{
    struct model model = model_of("t5-3b");
    struct model encoder = model_of_kind(&model, 0), plain = encoder;
    plain.positions = POSITION_NONE;
    double bias_bytes = 2.0 * 32 * 512 * 512;
    ck_assert_double_eq(forward_op(list_of(&encoder, 512), "attention")->bytes -
                            forward_op(list_of(&plain, 512), "attention")->bytes,
                        bias_bytes);
    struct layer_dims dims = layer_dims(&model, 1, 512);
    struct layer_options options = options_of(true);
    struct ops embedding = embedding_forward(&model, &dims, &options, &arena);
    ck_assert_double_eq(forward_op(embedding, "encoder_bias")->bytes, 2 * bias_bytes);
    ck_assert_double_eq(forward_op(embedding, "decoder_bias")->bytes, 2 * bias_bytes);
}
END_TEST

static struct model approximate(enum attention_kind kind)
{
    /* the model has 16 heads of 128 channels and 2,048 tokens */
    struct model model = model_of("gpt3-1.3b");
    model.attention = (int)kind;
    model.attention_block = 64;
    model.attention_blocks = 8;
    model.attention_rank = 256;
    return model;
}

/* The sequence has 32 blocks of 64 tokens. The queries of the first 8 blocks see 1, 2 ... 8 blocks
 * of keys; those of the other 24 blocks see 8. These are 36 + 24 x 8 = 228 pairs of blocks, of
 * which the 32 on the diagonal count half. Unfused products compute 8 blocks of keys for every
 * block of queries. */
START_TEST(block_sparse_attention_leaves_out_blocks)
{
    struct model model = approximate(ATTENTION_BLOCKS);
    double pairs = (228 - 16) * 64.0 * 64.0;
    ck_assert_double_eq_tol(forward_op(list_of(&model, 2048), "attention")->flops,
                            2.0 * 16 * pairs * (128 + 128), 1);
    struct ops unfused = list_with(&model, 2048, false);
    const struct op *scores = forward_op(unfused, "scores");
    ck_assert_double_eq(scores->flops, 2.0 * 16 * 2048 * 8 * 64 * 128);
    ck_assert_double_eq_tol(scores->model_flops, 2.0 * 16 * pairs * 128, 1);
    model.attention_blocks = 32; /* with all blocks it is causal attention */
    struct model full = approximate(ATTENTION_FULL);
    ck_assert_double_eq_tol(forward_op(list_of(&model, 2048), "attention")->flops /
                                forward_op(list_of(&full, 2048), "attention")->flops,
                            1, 1e-12);
}
END_TEST

/* Two products project keys and values from 2,048 rows (tokens) to 256 rows each, in all 16 x 128
 * channels. All heads share the matrices of these products. Each token then sees 256 keys. So the
 * time is proportional to the length of the sequence. */
START_TEST(low_rank_attention_is_linear_in_the_sequence)
{
    struct model model = approximate(ATTENTION_LOW_RANK);
    struct ops list = list_of(&model, 2048);
    ck_assert_double_eq(forward_op(list, "key_projection")->flops, 2.0 * 16 * 128 * 2048 * 256);
    ck_assert_double_eq(forward_op(list, "attention")->flops, 2.0 * 16 * 2048 * 256 * (128 + 128));
    ck_assert_double_eq(ops_flops(list_of(&model, 4096)), 2 * ops_flops(list));
    ck_assert_double_eq(weights_of(list), model_layer_parameters(&model));
    struct ops unfused = list_with(&model, 2048, false), backward = backward_of(list);
    ck_assert_double_eq(forward_op(unfused, "scores")->flops, 2.0 * 16 * 2048 * 256 * 128);
    ck_assert_ptr_nonnull(named_op(backward, "value_projection", PASS_BACKWARD_WEIGHT));
    ck_assert_ptr_nonnull(named_op(backward, "value_projection", PASS_BACKWARD_INPUT));
}
END_TEST

/* Attention and feed-forward read the block's input, through one norm or one each. Their outputs
 * and the input are added once. The matrix products are the same as with attention and feed-forward
 * in sequence. */
START_TEST(parallel_parts_read_one_input)
{
    static const enum parallel_kind kinds[] = { PARALLEL_OWN_NORMS, PARALLEL_ONE_NORM };
    struct model plain = model_of("gpt3-1.3b");
    for (int i = 0; i < LENGTH(kinds); i++) {
        struct model model = plain;
        model.parallel = (int)kinds[i];
        struct ops list = list_of(&model, 2048), backward = backward_of(list);
        int norms = 0, residuals = 0;
        for (int j = 0; j < list.count; j++) {
            norms += list.at[j].kind == OP_NORM;
            residuals += list.at[j].kind == OP_RESIDUAL;
            if (list.at[j].kind == OP_NORM)
                ck_assert_int_eq(list.at[j].in.at[0], list.input);
        }
        ck_assert_int_eq(norms, kinds[i] == PARALLEL_ONE_NORM ? 1 : 2);
        ck_assert_int_eq(residuals, 1);
        const struct op *residual = forward_op(list, "ffn_residual");
        ck_assert_int_eq(residual->in.count, 3);
        ck_assert_int_eq(residual->in.at[1], list.input);
        ck_assert_int_eq(residual->weights.count, 2); /* both biases */
        ck_assert_double_eq(ops_flops(list), ops_flops(list_of(&plain, 2048)));
        ck_assert_double_eq(ops_flops(backward),
                            2 * ops_flops(list) + forward_op(list, "attention")->flops / 2);
        ck_assert_double_eq(weights_of(list), model_layer_parameters(&model));
        ck_assert_int_ne(backward.output, NO_ID);
    }
}
END_TEST

/* If a value is quantised and also read by other ops, the gradients of all readers are summed. The
 * test uses the block's input, which the residual reads too. */
START_TEST(gradients_add_up_behind_a_quantisation)
{
    struct model model = model_of("bert-large");
    struct layer_dims dims = layer_dims(&model, 1, 512);
    struct layer_options options = options_of(true);
    options.recipe = precision_recipe(PRECISION_FP8_DELAYED);
    options.copies = 1;
    struct ops forward = layer_forward(&model, &dims, &options, &arena);
    struct ops backward = ops_backward(forward, &options, &arena);
    int maker = ops_maker(&backward, backward.output), sums = 0;
    ck_assert_int_ge(maker, 0);
    for (int i = 0; i < MAX_SUMS; i++)
        sums += backward.at[maker].sum[i] != NO_ID;
    ck_assert_int_eq(sums, 1);
}
END_TEST

/* The longest op list (sequence of operations) is that of a multi-token module of a model with an
 * indexer, experts, a shared expert and biases, in fp8, with adapters at every product. This list
 * fits in the fixed-size array of an op list. */
START_TEST(the_longest_op_lists_fit_in_their_arrays)
{
    struct model whole = model_of("deepseek-v3.2");
    whole.lora = 8;
    whole.shared_gate = whole.router_bias = whole.expert_bias = whole.sinks = true;
    whole.linear_bias = whole.attention_gate = true;
    whole.norm = NORM_LAYER;
    whole.dropout = 0.1;
    struct model model = model_of_later(&whole);
    struct layer_dims dims = layer_dims(&model, 1, 1024);
    for (int is_flash = 0; is_flash < 2; is_flash++) {
        struct layer_options options = options_of(is_flash);
        options.recipe = precision_recipe(PRECISION_FP8_BLOCK);
        options.copies = 2;
        struct ops forward = later_forward(&model, &dims, &options, &arena);
        struct ops backward = ops_backward(forward, &options, &arena);
        ck_assert_int_gt(forward.count, 80);
        ck_assert_int_gt(backward.count, forward.count);
        ck_assert_int_gt(forward.operands->num_weights, 48);
    }
}
END_TEST

/* Layouts whose ranks would divide data that these kinds of attention need whole are refused. */
START_TEST(ranks_that_would_cut_a_sequence_or_a_decoder_are_refused)
{
    static const struct {
        const char *model, *layout, *where, *rule;
    } cuts[] = { { "deepseek-v3.2", "cp2 mb1", "cp2", "context" },
                 { "t5-3b", "cp2 mb1", "cp2", "context" },
                 { "t5-3b", "pp2 mb1", "pp2", "pipeline_decoder" } };
    for (int i = 0; i < LENGTH(cuts); i++) {
        struct model model = model_of(cuts[i].model);
        struct plan plan = plan_of(cuts[i].layout, &arena);
        struct err why = { 0 };
        plan.dp = 1;
        const struct plan_rule *rule = plan_check(&plan, &model, 8, plan.pp * plan.cp, &why);
        ck_assert_ptr_nonnull(rule);
        ck_assert_str_eq(rule->name, cuts[i].rule);
        ck_assert_str_eq(why.where, cuts[i].where);
    }
}
END_TEST

START_TEST(answers_name_the_part_that_was_never_measured)
{
    static const struct {
        const char *model, *what;
    } rows[] = { { "deepseek-v3.2", "indexers of sparse attention" },
                 { "bert-large", "encoders" },
                 { "t5-3b", "decoders that read an encoder" },
                 { "qwen3-next-80b-a3b", "linear mixers" } };
    for (int i = 0; i < LENGTH(rows); i++) {
        struct model model = model_of(rows[i].model);
        ck_assert_str_eq(model_unmeasured(&model), rows[i].what);
    }
    struct model measured = model_of("deepseek-v3");
    ck_assert_ptr_null(model_unmeasured(&measured));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("models/attention_kinds");
    TCase *tc = tcase_create("attention kinds");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, lists_of_blocks_embedding_and_head_have_the_counted_weights);
    tcase_add_test(tc, an_indexer_scores_all_keys_and_attention_reads_the_chosen);
    tcase_add_test(tc, an_indexer_passes_no_gradient_on);
    tcase_add_test(tc, an_indexer_keeps_its_heads_and_chosen_keys);
    tcase_add_test(tc, a_frozen_indexer_has_no_backward);
    tcase_add_test(tc, encoders_see_the_whole_sequence);
    tcase_add_test(tc, bert_normalises_each_residual_sum);
    tcase_add_test(tc, berts_head_has_an_additional_product);
    tcase_add_test(tc, a_decoder_reads_the_encoder);
    tcase_add_test(tc, blocks_read_the_biases_of_their_stack);
    tcase_add_test(tc, block_sparse_attention_leaves_out_blocks);
    tcase_add_test(tc, low_rank_attention_is_linear_in_the_sequence);
    tcase_add_test(tc, parallel_parts_read_one_input);
    tcase_add_test(tc, gradients_add_up_behind_a_quantisation);
    tcase_add_test(tc, the_longest_op_lists_fit_in_their_arrays);
    tcase_add_test(tc, ranks_that_would_cut_a_sequence_or_a_decoder_are_refused);
    tcase_add_test(tc, answers_name_the_part_that_was_never_measured);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
