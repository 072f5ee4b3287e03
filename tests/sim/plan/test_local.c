#include "sim/plan/local.h"

#include "base/text.h"
#include "models/layer.h"
#include "sim/plan/axis.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stddef.h>

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* --- dimensions ------------------------------------------------------------------------------- */

START_TEST(tensor_ranks_divide_heads_and_ffn_and_nothing_else)
{
    struct model model = model_of("llama3-8b");
    struct plan plan = plan_of("tp4 mb2", &arena);
    struct layer_dims dims = local_dims(rank_share_of(&plan), &model, 8192);
    ck_assert_double_eq(dims.batch, 2);
    ck_assert_double_eq(dims.tokens, 2 * 8192);
    ck_assert_double_eq(dims.norm_tokens, 2 * 8192);
    ck_assert_double_eq(dims.hidden, 4096);
    ck_assert_double_eq(dims.heads, 8);
    ck_assert_double_eq(dims.kv_heads, 2);
    ck_assert_double_eq(dims.head_dim, 128);
    ck_assert_double_eq(dims.ffn, 3584);
    ck_assert_double_eq(dims.vocab, 128512 / 4.0); /* padded to 251 x 512 rows */
}
END_TEST

START_TEST(sequence_parallelism_splits_the_tokens_between_tensor_regions)
{
    struct model model = model_of("llama3-8b");
    struct plan plan = plan_of("tp4 sp", &arena);
    struct layer_dims dims = local_dims(rank_share_of(&plan), &model, 8192);
    ck_assert_double_eq(dims.tokens, 8192);
    ck_assert_double_eq(dims.norm_tokens, 2048);
}
END_TEST

START_TEST(ranks_beyond_the_key_heads_hold_a_copy_of_one)
{
    struct model model = model_of("llama3-8b");
    struct plan plan = plan_of("tp16", &arena);
    ck_assert_double_eq(local_dims(rank_share_of(&plan), &model, 8192).kv_heads, 1);
}
END_TEST

START_TEST(data_and_pipeline_ranks_divide_no_size)
{
    struct model model = model_of("gpt3-175b");
    struct plan one = plan_of("tp8", &arena);
    struct plan many = plan_of("tp8 pp8 dp16 vpp3 zero1", &arena);
    struct layer_dims a = local_dims(rank_share_of(&one), &model, 2048);
    struct layer_dims b = local_dims(rank_share_of(&many), &model, 2048);
    ck_assert_mem_eq(&a, &b, offsetof(struct layer_dims, is_padded)); /* all sizes */
    ck_assert_int_eq(a.is_padded, b.is_padded);
}
END_TEST

/* Megatron-LM pads the vocabulary to a multiple of 128 tp. */
START_TEST(the_vocabulary_is_padded_to_128_rows_per_rank)
{
    struct model model = { .vocab = 50257 };
    ck_assert_double_eq(padded_vocab(&model, 1), 50304);
    ck_assert_double_eq(padded_vocab(&model, 8), 51200);
    model.vocab = 51200;
    ck_assert_double_eq(padded_vocab(&model, 8), 51200);
    model.vocab = 131073;
    ck_assert_double_eq(padded_vocab(&model, 4), 131584);
}
END_TEST

/* --- op lists --------------------------------------------------------------------------------- */

static struct local_ops layer_of(const char *model_name, const char *layout, bool overlap_tp)
{
    struct model model = model_of(model_name);
    struct plan plan = plan_of(layout, &arena);
    return local_layer(rank_share_of(&plan), &model, model.seq, &layer_flash, overlap_tp, &arena);
}

START_TEST(one_tensor_rank_exchanges_nothing)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp1", &arena);
    struct local_ops parts[] = {
        local_layer(rank_share_of(&plan), &model, 2048, &layer_flash, true, &arena),
        local_embedding(rank_share_of(&plan), &model, 2048, &layer_flash, true, &arena),
        local_head(rank_share_of(&plan), &model, 2048, &layer_flash, true, &arena),
    };
    for (size_t part = 0; part < 3; part++)
        for (int i = 0; i < parts[part].forward.count; i++)
            ck_assert_int_eq(parts[part].forward.at[i].stream, STREAM_COMPUTE);
}
END_TEST

/* The collectives of a layer are those of Korthikanti et al. 2022, section 4.2. Without sequence
 * parallelism, attention and feed-forward each have one all-reduce in each direction. With it, they
 * have an all-gather and a reduce-scatter instead, and the backward gathers the two saved inputs
 * again. */
static const struct {
    const char *layout;
    int forward[3], backward[3]; /* numbers of all-reduces, all-gathers and reduce-scatters */
} exchanges[] = {
    { "tp1", { 0, 0, 0 }, { 0, 0, 0 } },
    { "tp8", { 2, 0, 0 }, { 2, 0, 0 } },
    { "tp8 sp", { 0, 2, 2 }, { 0, 4, 2 } },
};
enum { NUM_EXCHANGES = LENGTH(exchanges) };

START_TEST(a_layer_has_the_collectives_of_its_paper)
{
    static const enum op_kind kinds[] = { OP_ALL_REDUCE, OP_ALL_GATHER, OP_REDUCE_SCATTER };
    struct local_ops ops = layer_of("gpt3-175b", exchanges[_i].layout, false);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(count_kind(ops.forward, kinds[i]), exchanges[_i].forward[i]);
        ck_assert_int_eq(count_kind(ops.backward, kinds[i]), exchanges[_i].backward[i]);
    }
}
END_TEST

/* A collective carries 2 s b h bytes in bf16: the whole residual stream, i.e. the tensor before a
 * reduce-scatter or after an all-gather. */
START_TEST(a_collective_of_a_layer_carries_all_tokens)
{
    struct local_ops ops = layer_of("gpt3-175b", "tp8 sp mb2", false);
    for (int i = 0; i < ops.backward.count; i++)
        if (op_is_collective(ops.backward.at[i].kind)) {
            ck_assert_double_eq(ops.backward.at[i].comm_bytes, 2.0 * 2048 * 2 * 12288);
            ck_assert_int_eq(ops.backward.at[i].stream, STREAM_TENSOR);
            ck_assert_double_eq(ops.backward.at[i].flops, 0);
            ck_assert_double_eq(ops.backward.at[i].bytes, 0);
        }
}
END_TEST

/* In PyTorch's DTensor a rank keeps the two inputs whole, and not an eighth of each (as traced,
 * tests/fixtures/traces). */
START_TEST(inputs_that_are_kept_gathered_are_not_gathered_again)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp8 sp", &arena);
    struct layer_options keeps = layer_flash;
    keeps.keeps_gathered = true;
    struct local_ops part = layer_of("gpt3-175b", "tp8 sp", false);
    struct local_ops whole =
        local_layer(rank_share_of(&plan), &model, model.seq, &keeps, false, &arena);
    check_operands(whole.forward, whole.backward);
    ck_assert_int_eq(count_kind(part.backward, OP_ALL_GATHER), 4);
    ck_assert_int_eq(count_kind(whole.backward, OP_ALL_GATHER), 2);
    ck_assert_double_eq(activation_bytes(whole.forward, false),
                        activation_bytes(part.forward, false) +
                            2 * 2.0 * 2048 * 12288 * (1 - 1.0 / 8));
}
END_TEST

START_TEST(the_loss_of_a_split_vocabulary_is_reduced_once_forward)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp8", &arena);
    struct local_ops ops =
        local_head(rank_share_of(&plan), &model, 2048, &layer_flash, false, &arena);
    ck_assert_int_eq(count_kind(ops.forward, OP_ALL_REDUCE), 1);
    ck_assert_double_eq(ops.forward.at[2].comm_bytes, 3 * 4 * 2048);
    ck_assert_int_eq(count_kind(ops.backward, OP_ALL_REDUCE),
                     1); /* this collective is the all-reduce of the logits' input gradient */
}
END_TEST

START_TEST(an_embedding_of_a_split_vocabulary_is_summed_forward)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp8", &arena);
    struct plan sharded = plan_of("tp8 sp", &arena);
    struct local_ops ops =
        local_embedding(rank_share_of(&plan), &model, 2048, &layer_flash, false, &arena);
    ck_assert_int_eq(count_kind(ops.forward, OP_ALL_REDUCE), 1);
    ck_assert_int_eq(count_kind(ops.backward, OP_ALL_REDUCE), 0);
    ops = local_embedding(rank_share_of(&sharded), &model, 2048, &layer_flash, false, &arena);
    ck_assert_int_eq(count_kind(ops.forward, OP_REDUCE_SCATTER), 1);
    ck_assert_int_eq(count_kind(ops.backward, OP_ALL_GATHER), 1);
}
END_TEST

static const char *const layouts[] = { "tp1", "tp2", "tp4", "tp8", "tp8 sp", "tp2 sp" };
enum { NUM_LAYOUTS = LENGTH(layouts) };

START_TEST(no_placeholder_is_left_and_each_op_waits_for_an_earlier_one)
{
    for (int overlap_tp = 0; overlap_tp < 2; overlap_tp++) {
        struct local_ops ops = layer_of("gpt3-175b", layouts[_i], overlap_tp);
        struct ops lists[] = { ops.forward, ops.backward };
        for (int list = 0; list < 2; list++)
            for (int i = 0; i < lists[list].count; i++) {
                const struct op *op = &lists[list].at[i];
                ck_assert(op->kind != OP_TENSOR_ENTER && op->kind != OP_TENSOR_LEAVE);
                ck_assert(op->after >= -1 && op->after < i);
                if (!overlap_tp)
                    ck_assert_int_eq(op->after, i - 1);
            }
    }
}
END_TEST

/* Whether a value is read by an op of the lists, or kept for the backward. */
static bool is_read(const struct local_ops *ops, int value)
{
    const struct ops lists[] = { ops->forward, ops->backward };
    bool read = value == ops->forward.output || value == ops->backward.output;
    for (int list = 0; list < 2; list++)
        for (int i = 0; i < lists[list].count; i++)
            read |= op_reads(&lists[list].at[i], value);
    return read;
}

/* Rows of experts are exchanged over expert ranks and then over tensor ranks, and back. The result
 * of every collective must be read. */
START_TEST(every_collectives_result_is_read)
{
    static const char *const layouts_of_experts[] = { "tp4 sp", "ep4", "tp2 sp ep2 etp2",
                                                      "tp4 ep2 etp4 sp" };
    for (int l = 0; l < LENGTH(layouts_of_experts); l++) {
        struct local_ops ops = layer_of("mixtral-8x7b", layouts_of_experts[l], false);
        const struct ops lists[] = { ops.forward, ops.backward };
        for (int list = 0; list < 2; list++)
            for (int i = 0; i < lists[list].count; i++) {
                const struct op *op = &lists[list].at[i];
                for (int j = 0; op_is_collective(op->kind) && j < op->out.count; j++)
                    ck_assert_msg(is_read(&ops, op->out.at[j]), "%s: no op reads the result of %s",
                                  layouts_of_experts[l], op->name);
            }
    }
}
END_TEST

/* The last op before op i on the same stream, or -1. */
static int previous_on_stream(struct ops ops, int i)
{
    int previous = i - 1;
    while (previous >= 0 && ops.at[previous].stream != ops.at[i].stream)
        previous--;
    return previous;
}

/* The backward of a product runs its input gradient (I), the sum of it over the tensor ranks, and
 * its weight gradient (W). W does not need the sum. It waits only for I or, if W's input is
 * gathered again, for that gather. The op after W needs the sum. I does not need the gather, so it
 * waits for the op before the gather. All other ops wait for the op right before them. */
static const struct {
    const char *model, *layout;
    bool is_head;
    const char *edges; /* the dependencies (edges) that skip an op */
} skipping[] = {
    { "gpt3-175b", "tp1", false, "" },
    { "gpt3-175b", "tp8", false,
      "fc1 gemm W after fc1 gemm I, ffn_norm norm I after ffn_enter all_reduce I, "
      "qkv gemm W after qkv gemm I, attention_norm norm I after attention_enter all_reduce I, " },
    { "gpt3-175b", "tp8 sp", false,
      "fc1 gemm I after fc1 bias_grad W, fc1 gemm W after ffn_enter all_gather W, "
      "ffn_norm norm I after ffn_enter reduce_scatter I, "
      "qkv gemm I after qkv bias_grad W, qkv gemm W after attention_enter all_gather W, "
      "attention_norm norm I after attention_enter reduce_scatter I, " },
    { "gpt3-175b", "tp8 sp", true,
      "logits gemm I after cross_entropy cross_entropy I, logits gemm W after head_enter "
      "all_gather W, final_norm norm I after head_enter reduce_scatter I, " },
    { "mixtral-8x7b", "tp4 sp ep2", false,
      "qkv gemm I after rotary rotary I, qkv gemm W after attention_enter all_gather W, "
      "attention_norm norm I after attention_enter reduce_scatter I, " },
};

static void write_op(struct text *to, const struct op *op)
{
    text_add(to, "%s %s %c", op->name, op_kind_infos[op->kind].text,
             op->pass == PASS_BACKWARD_WEIGHT ? 'W' : 'I');
}

START_TEST(only_sums_and_gathers_of_a_product_overlap_its_gradients)
{
    struct model model = model_of(skipping[_i].model);
    struct plan plan = plan_of(skipping[_i].layout, &arena);
    struct rank_share share = rank_share_of(&plan);
    struct ops ops = (skipping[_i].is_head ? local_head : local_layer)(share, &model, model.seq,
                                                                       &layer_flash, true, &arena)
                         .backward;
    struct text edges = { 0 };
    for (int i = 0; i < ops.count; i++) {
        if (ops.at[i].after == i - 1)
            continue;
        write_op(&edges, &ops.at[i]);
        text_add(&edges, " after ");
        write_op(&edges, &ops.at[ops.at[i].after]);
        text_add(&edges, ", ");
    }
    ck_assert_str_eq(text_get(&edges), skipping[_i].edges);
    text_release(&edges);
}
END_TEST

/* The time at which the last op ends if every op takes one second. */
static int finish_s(struct ops ops)
{
    int finish[128];
    int last = 0;
    for (int i = 0; i < ops.count; i++) {
        int previous = previous_on_stream(ops, i);
        int start = previous < 0 ? 0 : finish[previous];
        if (ops.at[i].after >= 0 && finish[ops.at[i].after] > start)
            start = finish[ops.at[i].after];
        finish[i] = start + 1;
        last = finish[i] > last ? finish[i] : last;
    }
    return last;
}

START_TEST(overlap_hides_one_collective_for_each_gradient_of_a_column_parallel_product)
{
    ck_assert_int_eq(finish_s(layer_of("gpt3-175b", "tp1", false).backward),
                     finish_s(layer_of("gpt3-175b", "tp1", true).backward));
    ck_assert_int_eq(finish_s(layer_of("gpt3-175b", "tp8", false).backward) -
                         finish_s(layer_of("gpt3-175b", "tp8", true).backward),
                     2);
    ck_assert_int_eq(finish_s(layer_of("gpt3-175b", "tp8 sp", false).backward) -
                         finish_s(layer_of("gpt3-175b", "tp8 sp", true).backward),
                     4);
}
END_TEST

static TCase *dimensions(void)
{
    TCase *tc = tcase_create("dimensions");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, tensor_ranks_divide_heads_and_ffn_and_nothing_else);
    tcase_add_test(tc, sequence_parallelism_splits_the_tokens_between_tensor_regions);
    tcase_add_test(tc, ranks_beyond_the_key_heads_hold_a_copy_of_one);
    tcase_add_test(tc, data_and_pipeline_ranks_divide_no_size);
    tcase_add_test(tc, the_vocabulary_is_padded_to_128_rows_per_rank);
    return tc;
}

static TCase *op_lists(void)
{
    TCase *tc = tcase_create("op lists");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, one_tensor_rank_exchanges_nothing);
    tcase_add_loop_test(tc, a_layer_has_the_collectives_of_its_paper, 0, NUM_EXCHANGES);
    tcase_add_test(tc, a_collective_of_a_layer_carries_all_tokens);
    tcase_add_test(tc, inputs_that_are_kept_gathered_are_not_gathered_again);
    tcase_add_test(tc, the_loss_of_a_split_vocabulary_is_reduced_once_forward);
    tcase_add_test(tc, an_embedding_of_a_split_vocabulary_is_summed_forward);
    tcase_add_test(tc, every_collectives_result_is_read);
    tcase_add_loop_test(tc, no_placeholder_is_left_and_each_op_waits_for_an_earlier_one, 0,
                        NUM_LAYOUTS);
    tcase_add_loop_test(tc, only_sums_and_gathers_of_a_product_overlap_its_gradients, 0,
                        LENGTH(skipping));
    tcase_add_test(tc, overlap_hides_one_collective_for_each_gradient_of_a_column_parallel_product);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/plan/local");
    suite_add_tcase(s, dimensions());
    suite_add_tcase(s, op_lists());
    return s;
}

TEST_MAIN(suite)
