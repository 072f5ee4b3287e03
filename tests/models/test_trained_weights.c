/* Tests which weights are trained, which values are kept and reduced, and what is computed with
 * frozen weights, adapters and reference models. Expected numbers are counted by hand. */
#include "models/trained_weights.h"

#include "models/blocks.h"
#include "sim/engine/simulate.h"
#include "tests/check_ok.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <string.h>

/* LLaMA 3 8B has 32 blocks of width 4096. The width of q is 4096, that of k and v 1024 each, and
 * that of the gated feed-forward 14336. The vocabulary has 128256 tokens. */
enum { BLOCKS = 32, HIDDEN = 4096, QKV = 6144, FFN = 14336, RANK = 16, SEQ = 1024 };
static const double vocabulary = 128256.0 * HIDDEN;
static const double products = (double)HIDDEN * QKV + (double)HIDDEN * HIDDEN + 3.0 * HIDDEN * FFN;
/* The parameters of one adapter, divided by the adapter's rank (inner width). The down product
 * reads the layer's input, the up product writes its output. */
static const double adapters =
    RANK * ((HIDDEN + QKV) + (HIDDEN + HIDDEN) + (HIDDEN + 2.0 * FFN) + ((double)FFN + HIDDEN));

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
    planned_release();
}

static struct model trained(const char *name, const char *what)
{
    struct model model = model_of(name);
    struct err err = { 0 };
    model.seq = SEQ;
    if (what)
        check_ok(training_parse(what, &model, &err), &err);
    return model;
}

/* --- parameters ------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    double trained, adapters;
    int without_backward; /* number of blocks, from the first one on, without a backward */
} counts[] = {
    { "lora:16", BLOCKS *adapters, BLOCKS *adapters, 0 },
    { "lora:16:qkv", BLOCKS *RANK *(HIDDEN + QKV), BLOCKS *RANK *(HIDDEN + QKV), 0 },
    { "lora:32:fc*", 2 * BLOCKS *RANK *(2.0 * HIDDEN + 3.0 * FFN),
      2 * BLOCKS *RANK *(2.0 * HIDDEN + 3.0 * FFN), 0 },
    { "qkv", (double)BLOCKS *HIDDEN *QKV, 0, 0 },
    { "*norm", (2 * BLOCKS + 1) * HIDDEN, 0, 0 },
    { "logits", 128256.0 * HIDDEN, 0, BLOCKS },
    { "final_norm,logits", 128256.0 * HIDDEN + HIDDEN, 0, BLOCKS },
    { "embedding", 128256.0 * HIDDEN, 0, 0 },
    { "last:4", 4 * (products + 2 * HIDDEN) + 128256.0 * HIDDEN + HIDDEN, 0, BLOCKS - 4 },
};

START_TEST(trained_parameters_equal_hand_counts)
{
    struct model model = trained("llama3-8b", counts[_i].what);
    ck_assert_double_eq(model_trained_parameters(&model), counts[_i].trained);
    ck_assert_double_eq(model_adapter_parameters(&model), counts[_i].adapters);
    ck_assert_double_eq(model_parameters(&model), 8030261248);
    for (int layer = 0; layer < BLOCKS; layer++) {
        int gradient = model_kind(&model, model_kind_of(&model, layer)).gradient;
        ck_assert_int_eq(gradient == GRADIENT_NONE, layer < counts[_i].without_backward);
    }
}
END_TEST

/* BLOOM has 70 blocks of width h = 14336, with 12 h^2 weights in products and 13 h parameters in
 * biases and norms. The head's matrix is the matrix of the embedding, which counts once, under the
 * embedding's name. */
START_TEST(a_tied_table_is_trained_with_the_embedding)
{
    const double h = 14336, table = 250880 * h, block = 12 * h * h + 13 * h;
    const struct {
        const char *what;
        double trained;
        bool of_head; /* the head's matrix (the embedding's matrix) has a gradient */
    } tied[] = {
        { "embedding", table, true },
        { "embedding_norm", 2 * h, false },
        { "embedding*,final_norm", table + 4 * h, true },
        { "last:4", 4 * block + 2 * h, false },
    };
    for (int i = 0; i < LENGTH(tied); i++) {
        struct model model = trained("bloom-176b", tied[i].what);
        struct layer_dims dims = layer_dims(&model, 1, SEQ);
        struct ops head = head_forward(&model, &dims, &layer_flash, &arena);
        const struct op *logits = op_named(head, "logits");
        ck_assert_double_eq(model_trained_parameters(&model), tied[i].trained);
        ck_assert(op_weight_of(&head, logits, WEIGHT_MATRIX)->is_frozen == !tied[i].of_head);
    }
    struct model model = model_of("bloom-176b");
    struct err err = { 0 };
    ck_assert(!training_parse("logits", &model, &err)); /* the head has no weight of its own */
}
END_TEST

START_TEST(a_written_model_keeps_its_trained_weights)
{
    struct model model = trained("deepseek-v3", "last:8"), again;
    struct err err = { 0 };
    json_t *object = model_write(&model);
    check_ok(model_read(object, &again, &err), &err);
    ck_assert(models_are_equal(&model, &again));
    json_decref(object);
    check_ok(model_set_layers(&model, 70, &err), &err);
    ck_assert_int_eq(model_kind(&model, model_kind_of(&model, 61)).gradient, GRADIENT_NONE);
    ck_assert_int_eq(model_kind(&model, model_kind_of(&model, 62)).gradient, GRADIENT_FROM_HERE);
    ck_assert_int_eq(model_kind(&model, model_kind_of(&model, 69)).gradient, GRADIENT_WHOLE);
}
END_TEST

START_TEST(invalid_values_of_train_are_refused)
{
    static const char *const faults[] = { "lora",   "lora:0",  "lora:16:",   "lora:16:QKV",
                                          "last:0", "last:33", "last:x",     "",
                                          "q,k,v",  "lora:-1", "lora:16 qkv" };
    for (int i = 0; i < LENGTH(faults); i++) {
        struct model model = model_of("llama3-8b");
        struct err err = { 0 };
        ck_assert_msg(!training_parse(faults[i], &model, &err), "%s was accepted", faults[i]);
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_str_eq(err.where, "--train");
    }
}
END_TEST

/* --- work ------------------------------------------------------------------------------------- */

static const struct layer_options flash = { .flash_attention = true,
                                            .dtype = DTYPE_BF16,
                                            .gradient_bytes = 4 };

struct passes {
    double forward_flops, backward_flops, saved_bytes;
    int backward_ops;
};

/* Forward and backward of block `layer` for one sequence. */
static struct passes passes_of(const struct model *model, int layer)
{
    struct model of = model_of_kind(model, model_kind_of(model, layer));
    struct layer_dims dims = layer_dims(&of, 1, SEQ);
    struct ops forward = layer_forward(&of, &dims, &flash, &arena);
    struct ops backward = ops_backward(forward, &flash, &arena);
    struct passes passes = { ops_flops(forward), ops_flops(backward), 0, backward.count };
    ops_drop_unread(&forward, &backward);
    for (int i = 0; i < forward.count; i++)
        passes.saved_bytes += op_saved_bytes(&forward, &forward.at[i]);
    return passes;
}

/* Products of the base model have only input gradients; products of adapters also have weight
 * gradients. Attention's backward is 2.5 times its forward. The first block's q, k and v need no
 * gradient of their input.
 */
START_TEST(adapters_omit_weight_gradients_of_the_base_model)
{
    struct model all = trained("llama3-8b", NULL), lora = trained("llama3-8b", "lora:16");
    double attention = passes_of(&all, 0).forward_flops - 2 * SEQ * products;
    struct passes first = passes_of(&lora, 0), other = passes_of(&lora, 1);
    ck_assert_double_eq(other.forward_flops, 2 * SEQ * (products + adapters) + attention);
    ck_assert_double_eq(other.backward_flops,
                        2 * SEQ * (products + 2 * adapters) + 2.5 * attention);
    ck_assert_double_eq(first.forward_flops, other.forward_flops);
    double to_input = (double)HIDDEN * QKV + (double)HIDDEN * RANK;
    ck_assert_double_eq(first.backward_flops, other.backward_flops - 2 * SEQ * to_input);
}
END_TEST

/* The model FLOPs of a step are 2/3 of the products' FLOPs of full training, minus the gradients
 * that the first block does not need, plus attention and the head's forward and input gradient. */
START_TEST(model_flops_count_the_executed_products)
{
    struct model lora = trained("llama3-8b", "lora:16");
    double attention = passes_of(&lora, 1).forward_flops - 2 * SEQ * (products + adapters);
    double blocks = BLOCKS * (4 * SEQ * products + 6 * SEQ * adapters + 3 * attention);
    blocks -= 2 * SEQ * ((double)HIDDEN * QKV + (double)HIDDEN * RANK);
    ck_assert_double_eq_tol(model_step_flops(&lora, 3, SEQ), 3 * (blocks + 4 * SEQ * vocabulary),
                            1);
}
END_TEST

START_TEST(blocks_below_the_lowest_trained_weight_have_no_backward)
{
    struct model last = trained("llama3-8b", "last:4"), head = trained("llama3-8b", "logits");
    struct passes frozen = passes_of(&last, 27), first = passes_of(&last, 28);
    ck_assert_int_eq(frozen.backward_ops, 0);
    ck_assert_double_eq(frozen.saved_bytes, 0);
    /* The gain of this block's first norm is trained, and the gain's gradient needs the gradient of
     * the norm's output. */
    ck_assert_double_eq(first.backward_flops, passes_of(&last, 31).backward_flops);
    ck_assert_int_eq(passes_of(&head, 31).backward_ops, 0);
    double attention = frozen.forward_flops - 2 * SEQ * products;
    double blocks = (BLOCKS + 2 * 4) * 2 * SEQ * products + (BLOCKS + 2 * 4) * attention;
    ck_assert_double_eq_tol(model_step_flops(&last, 1, SEQ), blocks + 6 * SEQ * vocabulary, 1);
    ck_assert_double_eq_tol(model_step_flops(&head, 1, SEQ),
                            BLOCKS * (2 * SEQ * products + attention) + 4 * SEQ * vocabulary, 1);
}
END_TEST

/* --- activations ------------------------------------------------------------------------------ */

/* Only weight gradients read the inputs of fc1 and fc2. The weight gradients of adapters (LoRA)
 * read the same inputs and the adapters' narrow rows. Attention keeps the input of the projection.
 */
START_TEST(inputs_that_no_gradient_reads_are_not_kept)
{
    struct model all = trained("llama3-8b", NULL);
    double kept = passes_of(&all, 1).saved_bytes;
    double unread = 2.0 * SEQ * (HIDDEN + FFN);
    struct model lora = trained("llama3-8b", "lora:16"), qkv = trained("llama3-8b", "lora:16:qkv");
    ck_assert_double_eq(passes_of(&lora, 1).saved_bytes, kept + 4 * 2 * SEQ * RANK);
    ck_assert_double_eq(passes_of(&qkv, 1).saved_bytes, kept - unread + 2 * SEQ * RANK);
    /* The first block's first norm has no backward, so its input and statistics are not kept. Its
     * output is kept, because the adapters of q, k and v read it. The sum of the residual is kept
     * as the second norm's input. */
    double statistics = 4 * SEQ;
    ck_assert_double_eq(passes_of(&lora, 0).saved_bytes,
                        kept + 4 * 2 * SEQ * RANK - 2.0 * SEQ * HIDDEN - statistics);
}
END_TEST

static const char *const shipped[] = { "gpt3-1.3b",    "llama3-8b",   "qwen3-30b",
                                       "mixtral-8x7b", "deepseek-v3", "gpt2-xl" };

/* With all weights trained, every kept value is read. */
START_TEST(training_everything_drops_nothing)
{
    struct model model = model_of(shipped[_i]);
    for (int kernel = 0; kernel < 2; kernel++) {
        struct layer_options options = kernel == 0 ? layer_flash : layer_unfused;
        for (int kind = 0; kind < model_num_kinds(&model); kind++) {
            struct model of = model_of_kind(&model, kind);
            struct layer_dims dims = layer_dims(&of, 1, SEQ);
            struct ops forward = layer_forward(&of, &dims, &options, &arena);
            struct ops backward = ops_backward(forward, &options, &arena);
            double kept = activation_bytes(forward, false);
            ops_drop_unread(&forward, &backward);
            ck_assert_double_eq(activation_bytes(forward, false), kept);
        }
    }
}
END_TEST

/* --- states and times ------------------------------------------------------------------------- */

static void load(const char *what, const char *layout)
{
    struct err err = { 0 };
    planned_load("dgx-h100", "megatron-core", "llama3-8b", 8);
    planned.model.batch = 64;
    if (what)
        check_ok(training_parse(what, &planned.model, &err), &err);
    planned_layout(layout);
}

static struct prediction predicted(void)
{
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct prediction prediction = evaluate(evaluator, &planned.plan);
    evaluator_free(evaluator);
    return prediction;
}

/* The state has 2 bytes for every weight. An adapter's weight has 4 more for the gradient and 12
 * for the optimizer. */
START_TEST(only_trained_weights_have_state)
{
    load("lora:16", "dp8 mb1");
    double added = BLOCKS * adapters, all = 8030261248 + added;
    struct stage_memory memory = planned_memory(0);
    ck_assert_double_eq(memory.weights_bytes, 2 * all);
    ck_assert_double_eq(memory.gradients_bytes, 4 * added);
    ck_assert_double_eq(memory.optimizer_bytes, 12 * added);
    release();
    load("lora:16", "dp8 mb1 zero1");
    ck_assert_double_eq(planned_memory(0).optimizer_bytes, 12 * added / 8);
    release();
    load("lora:16", "dp8 mb1 zero3");
    ck_assert_double_eq(planned_memory(0).weights_bytes, 2 * all / 8);
}
END_TEST

/* A tied embedding is one weight, which belongs to the embedding if the head is on the same stage.
 */
START_TEST(a_tied_table_that_is_frozen_has_no_state)
{
    static const char *const layouts[] = { "dp8 mb1", "pp2 dp4 mb1" };
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct err err = { 0 };
        planned_load("dgx-h100", "megatron-core", "gpt3-125m", 8);
        planned.model.batch = 64;
        check_ok(training_parse("lora:8", &planned.model, &err), &err);
        planned_layout(layouts[i]);
        double gradients_bytes = 0;
        for (int stage = 0; stage < planned.plan.pp; stage++)
            gradients_bytes += planned_memory(stage).gradients_bytes;
        ck_assert_double_eq(gradients_bytes, 4 * model_adapter_parameters(&planned.model));
        ck_assert_double_gt(predicted().step_s, 0);
        planned_release();
    }
}
END_TEST

/* Tensor ranks split one of an adapter's two products, and hold the other whole. They split the
 * product on the side where the layer is split: the up product of qkv and fc1, and the down product
 * of the projection and fc2. */
START_TEST(tensor_ranks_split_one_side_of_an_adapter)
{
    load("lora:16", "tp2 sp dp4 mb1");
    double split = RANK * (QKV + 2.0 * FFN + HIDDEN + FFN);
    double whole = adapters - split;
    ck_assert_double_eq(planned_memory(0).gradients_bytes, 4 * BLOCKS * (split / 2 + whole));
}
END_TEST

START_TEST(only_trained_weights_are_reduced_and_updated)
{
    load(NULL, "dp8 mb1 overlap=none");
    planned.system.stack.host.tensor_launches = 0; /* these ops take a fixed time per tensor */
    struct time_parts all = predicted().time;
    release();
    load("lora:16", "dp8 mb1 overlap=none");
    planned.system.stack.host.tensor_launches = 0;
    struct time_parts lora = predicted().time;
    double share = BLOCKS * adapters / 8030261248;
    ck_assert_double_lt(lora.data_comm_s, 2 * share * all.data_comm_s);
    ck_assert_double_lt(lora.optimizer_s, 2 * share * all.optimizer_s);
    ck_assert_double_lt(lora.compute_s, all.compute_s);
}
END_TEST

/* Recompute has nothing to do where there is no backward. */
START_TEST(frozen_blocks_are_not_recomputed)
{
    load("last:4", "dp8 mb1 recompute=full");
    struct prediction last = predicted();
    double frozen_bytes = planned_memory(0).activations_bytes;
    release();
    load(NULL, "dp8 mb1 recompute=full");
    struct prediction all = predicted();
    ck_assert_double_eq_tol(last.time.recompute_s, all.time.recompute_s / 8, 1e-9);
    ck_assert_double_lt(frozen_bytes, planned_memory(0).activations_bytes / 4);
}
END_TEST

/* A reference model adds a copy of the weights, and the forward passes of this copy over 8
 * microbatches. */
START_TEST(a_reference_model_runs_forward_beside_the_trained_one)
{
    load(NULL, "dp8 mb1");
    struct prediction alone = predicted();
    double weights_bytes = planned_memory(0).weights_bytes, forward_s = 0;
    forward_s += BLOCKS * planned.pieces.at[0].forward.total_s;
    forward_s += planned.pieces.at[PIECE_EMBEDDING].forward.total_s;
    forward_s += planned.pieces.at[PIECE_HEAD].forward.total_s;
    planned.model.reference = true;
    struct prediction beside = predicted();
    double added_s = beside.step_s - alone.step_s;
    ck_assert_double_ge(added_s, 8 * forward_s * (1 - 1e-9));
    ck_assert_double_lt(added_s, 8 * forward_s * 1.1);
    ck_assert_double_eq(planned_memory(0).weights_bytes, weights_bytes + 2 * 8030261248.0);
    ck_assert_double_eq_tol(beside.time.other_s - alone.time.other_s, added_s, 1e-9);
    planned.model.lora = 16; /* with adapters the reference model is the frozen base model, which is
                                in memory already */
    ck_assert_double_eq(planned_memory(0).weights_bytes, weights_bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("training");
    TCase *tc = tcase_create("training");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, trained_parameters_equal_hand_counts, 0, LENGTH(counts));
    tcase_add_test(tc, a_tied_table_is_trained_with_the_embedding);
    tcase_add_test(tc, a_written_model_keeps_its_trained_weights);
    tcase_add_test(tc, invalid_values_of_train_are_refused);
    tcase_add_test(tc, adapters_omit_weight_gradients_of_the_base_model);
    tcase_add_test(tc, model_flops_count_the_executed_products);
    tcase_add_test(tc, blocks_below_the_lowest_trained_weight_have_no_backward);
    tcase_add_test(tc, inputs_that_no_gradient_reads_are_not_kept);
    tcase_add_loop_test(tc, training_everything_drops_nothing, 0, LENGTH(shipped));
    tcase_add_test(tc, only_trained_weights_have_state);
    tcase_add_test(tc, a_tied_table_that_is_frozen_has_no_state);
    tcase_add_test(tc, tensor_ranks_split_one_side_of_an_adapter);
    tcase_add_test(tc, only_trained_weights_are_reduced_and_updated);
    tcase_add_test(tc, frozen_blocks_are_not_recomputed);
    tcase_add_test(tc, a_reference_model_runs_forward_beside_the_trained_one);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
