#include "models/layer.h"

#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const unsigned all_fusions = (1u << NUM_FUSIONS) - 1;

static struct arena arena;
static struct err err;

static void release(void)
{
    arena_release(&arena);
}

typedef void check_fn(const struct model *model, const struct layer_options *options);

/* Calls `check` for every preset with and without flash attention, without fusions and with all. */
static void for_each_preset(check_fn *check)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++)
        for (int choice = 0; choice < 4 + NUM_PRECISIONS; choice++) {
            struct layer_options options = choice & 1 ? layer_flash : layer_unfused;
            options.fusions = choice & 2 ? all_fusions : 0;
            options.recipe = choice < 4 ? NULL : precision_recipe(choice - 4);
            options.copies = options.recipe ? 1 + choice % 2 : 0;
            if (has_costs(&presets[i].model))
                check(&presets[i].model, &options);
            arena_release(&arena);
        }
    free(presets);
}

static double sum_of_kind(struct ops ops, enum op_kind kind)
{
    double flops = 0;
    for (int i = 0; i < ops.count; i++)
        flops += ops.at[i].kind == kind ? ops.at[i].flops : 0;
    return flops;
}

/* FLOPs of products with an operand that needs no gradient: a constant, such as the sinusoids of
 * relative positions, or detached rows. */
static double flops_of_constants(struct ops ops)
{
    double flops = 0;
    for (int i = 0; i < ops.count; i++) {
        const struct op_value *read = &ops.operands->values[ops.at[i].in.at[0]];
        if (ops.at[i].kind == OP_GEMM && (read->form == VALUE_IDS || read->is_detached))
            flops += ops.at[i].flops;
    }
    return flops;
}

/* FLOPs of attention scores through which no gradient passes: `flops` are all FLOPs, `model_flops`
 * those that MFU counts. */
struct detached {
    double flops, model_flops;
};

static struct detached detached_scores(struct ops ops)
{
    struct detached sum = { 0 };
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].kind == OP_SCORES && ops.operands->values[ops.at[i].out.at[0]].is_detached) {
            sum.flops += ops.at[i].flops;
            sum.model_flops += ops.at[i].model_flops;
        }
    return sum;
}

static void check_backward_flops(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 2, model->seq);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops forward = builders[i](model, &dims, options, &arena);
        struct ops backward = ops_backward(forward, options, &arena);
        double once = flops_of_constants(forward);
        struct detached detached = detached_scores(forward);
        ck_assert_double_eq(sum_of_kind(backward, OP_GEMM),
                            2 * sum_of_kind(forward, OP_GEMM) - once);
        ck_assert_double_eq(sum_of_kind(backward, OP_SCORES),
                            2 * (sum_of_kind(forward, OP_SCORES) - detached.flops));
        ck_assert_double_eq(sum_of_kind(backward, OP_FLASH_ATTENTION),
                            2.5 * sum_of_kind(forward, OP_FLASH_ATTENTION));
        double model_flops = 2 * (ops_model_flops(forward) - detached.model_flops) - once;
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
    return kind == OP_GEMM || kind == OP_SCORES || kind == OP_ATTENTION_VALUES ||
           kind == OP_FLASH_ATTENTION || kind == OP_SCAN || kind == OP_INDEX_LOSS;
}

/* Checks that only products have FLOPs, and that these follow from the sizes m, n and k of the
 * product. */
static void check_op(const struct op *op)
{
    ck_assert_msg(op->flops == 0 || is_product(op->kind), "%s has FLOPs but is no product",
                  op->name);
    if (op->kind == OP_GEMM)
        ck_assert_double_eq(op->flops, 2 * op->batch * op->m * op->n * op->k);
    bool is_mark = op->kind == OP_TENSOR_ENTER || op->kind == OP_TENSOR_LEAVE ||
                   op->kind == OP_TENSOR_JOIN || op->kind == OP_CP_ENTER ||
                   op->kind == OP_CP_LEAVE || op->kind == OP_EXPERT_ENTER ||
                   op->kind == OP_EXPERT_LEAVE || op_is_collective(op->kind);
    /* no op computes the gradient of a sum: it equals the incoming gradient */
    bool is_free = is_mark || strcmp(op->name, "shared_add") == 0;
    ck_assert_msg(is_free || (op->bytes > 0 && op->kernels > 0), "%s has no bytes or no kernels",
                  op->name);
    ck_assert_msg(!is_mark || op->comm_bytes > 0, "%s sends no bytes", op->name);
    ck_assert_msg(isfinite(op->bytes) && isfinite(op->flops), "%s: bytes or FLOPs are not finite",
                  op->name);
}

static void check_lists(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    for (int i = 0; i < NUM_BUILDERS; i++) {
        struct ops forward = builders[i](model, &dims, options, &arena);
        struct ops backward = ops_backward(forward, options, &arena);
        check_operands(forward, backward);
        check_operands(ops_fuse(forward, options), ops_fuse(backward, options));
        for (int j = 0; j < forward.count; j++) {
            check_op(&forward.at[j]);
            ck_assert_int_eq(forward.at[j].pass, PASS_FORWARD);
            ck_assert_int_eq(forward.at[j].after, j - 1);
        }
        for (int j = 0; j < backward.count; j++) {
            check_op(&backward.at[j]);
            ck_assert_int_ne(backward.at[j].pass, PASS_FORWARD);
            ck_assert_int_eq(backward.at[j].after, j - 1);
            ck_assert_int_eq(backward.at[j].saved.count, 0);
        }
    }
}

START_TEST(every_op_has_work_and_waits_for_the_one_before_it)
{
    for_each_preset(check_lists);
}
END_TEST

static double elements(const struct op_weight *weight)
{
    return weight->rows * weight->columns;
}

/* Each weight has one gradient. A linear layer gets it from a product, a bias from a sum, and a
 * norm or an attention sink from the backward of the op that uses it. Score biases have no
 * gradient. */
static void check_gradients(const struct model *model, const struct layer_options *options)
{
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    struct ops backward =
        ops_backward(layer_forward(model, &dims, options, &arena), options, &arena);
    double products = 0, biases = 0, others = 0;
    for (int i = 0; i < backward.count; i++) {
        const struct op *op = &backward.at[i];
        if (op->kind == OP_GEMM && op->pass == PASS_BACKWARD_WEIGHT)
            products += op->batch * (op->m * op->n + (op->weights.count > 1 ? op->m : 0));
        else if (op->kind == OP_BIAS_GRAD)
            biases += op->batch * op->n;
        else if (op->kind != OP_GEMM)
            for (int j = 0; j < op->weights.count; j++)
                others += elements(&backward.operands->weights[op->weights.at[j]]);
    }
    ck_assert_msg(products + biases + others == model_layer_parameters(model),
                  "%s: a layer has %.0f gradients too many", model->name,
                  products + biases + others - model_layer_parameters(model));
}

START_TEST(a_layer_has_as_many_gradients_as_parameters)
{
    for_each_preset(check_gradients);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("laws");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, a_backward_multiplies_twice_as_much_as_its_forward);
    tcase_add_test(tc, every_op_has_work_and_waits_for_the_one_before_it);
    tcase_add_test(tc, a_layer_has_as_many_gradients_as_parameters);
    Suite *s = suite_create("models/layer: laws over presets");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
