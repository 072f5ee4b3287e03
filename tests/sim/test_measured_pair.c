/* DeepSeek's profile of training (profile-data@4496024, train.json): an overlapped pair of a
 * forward and a backward through four MoE layers of DeepSeek-V3, on 64 H800 with ep64, 4,096 tokens
 * per rank and balanced routing. No constant was fitted on it. */
#include "models/blocks.h"
#include "sim/cost/compute.h"
#include "sim/cost/dispatcher.h"
#include "sim/cost/piece.h"
#include "sim/engine/simulate.h"
#include "tests/check_ok.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>

static struct arena arena;

/* Up-projections and norms are recomputed (DeepSeek-V3 report, 3.2.3). */
static const char layout[] = "tp1 ep64 pp1 mb1 dtype=fp8-block zero1 overlap=grad,param,ep "
                             "recompute=selective:mla_up_proj+layernorm";

static void set_up(void)
{
    struct err err = { 0 };
    check_ok(system_load("h800-8", "hai-llm", 64, &machine, &err), &err);
}

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

static struct model v3_of(int layers, double batch)
{
    struct model model = model_of("deepseek-v3");
    struct model of = model_of_kind(&model, 1);
    of.blocks = (struct blocks){ 0 };
    of.first_dense = of.mtp = 0;
    of.layers = layers;
    of.batch = batch;
    return of;
}

static double step_s(int layers, int microbatches)
{
    struct model model = v3_of(layers, 64.0 * microbatches);
    struct evaluator *evaluator = evaluator_new(&machine, &model);
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    double seconds = evaluate(evaluator, &plan).step_s;
    evaluator_free(evaluator);
    return seconds;
}

/* One more microbatch adds the time of a pair. The difference between eight and four layers is the
 * time of a pair of four layers. */
START_TEST(a_forward_backward_pair_agrees_with_the_measured_time)
{
    double eight_s = step_s(8, 33) - step_s(8, 32), four_s = step_s(4, 33) - step_s(4, 32);
    ck_assert_double_eq_tol(1e3 * (eight_s - four_s) / 129.0, 1, 0.10);
}
END_TEST

enum part {
    GROUPED,
    DENSE,
    WEIGHT,
    ATTENTION_FORWARD,
    ATTENTION_BACKWARD,
    PERMUTE,
    SWIGLU,
    NORM,
    CAST,
    NUM_PARTS
};

static enum part part_of(const struct op *op)
{
    bool is_weight = op->pass == PASS_BACKWARD_WEIGHT;
    if (op->kind == OP_FLASH_ATTENTION)
        return op->pass == PASS_FORWARD ? ATTENTION_FORWARD : ATTENTION_BACKWARD;
    if (op->kind == OP_SORT || op->kind == OP_DISPATCH || op->kind == OP_COMBINE)
        return PERMUTE;
    if (op->kind == OP_ACTIVATION)
        return SWIGLU;
    if (op->kind == OP_NORM || op->kind == OP_RESIDUAL)
        return NORM;
    if (op->kind == OP_QUANTIZE)
        return CAST;
    if (op->kind != OP_GEMM || !dtype_is_quantized(op->dtype))
        return NUM_PARTS;
    return is_weight ? WEIGHT : op->batch > 1 ? GROUPED : DENSE;
}

/* The H800 with the multiprocessors that transfers leave to compute, 112 of 132 (profile-data).
 * Memory keeps its rate. */
static struct gpu beside_transfers(void)
{
    struct gpu gpu = machine.gpu;
    double share = 1 - dispatchers[DISPATCHER_DEEPEP].sms / (double)gpu.num_sms;
    gpu.num_sms -= dispatchers[DISPATCHER_DEEPEP].sms;
    for (int dtype = 0; dtype < NUM_DTYPES; dtype++)
        gpu.peak_flops_per_s[dtype] *= share;
    return gpu;
}

/* Adds the milliseconds of each group of ops (enum part) in a layer. Up-projections and norms run
 * twice in the forward, because they are recomputed. */
static void add_parts(struct ops list, double part_ms[NUM_PARTS + 1])
{
    const struct recipe *recipe = precision_recipe(PRECISION_FP8_BLOCK);
    double product = machine.stack.product_efficiency * recipe->product_efficiency;
    struct gpu gpu = beside_transfers();
    for (int i = 0; i < list.count; i++) {
        const struct op *op = &list.at[i];
        if (op_is_collective(op->kind))
            continue;
        double alone_s = op_s(&gpu, &machine.profile, ATTENTION_FLASH3, op);
        bool is_again = op->region == REGION_LATENT_UP || op->kind == OP_NORM;
        double runs = is_again && op->pass == PASS_FORWARD ? 2 : 1;
        double efficiency = op->kind == OP_GEMM ? product : 1;
        if (part_of(op) == WEIGHT)
            efficiency *= recipe->weight_efficiency;
        if (part_of(op) == GROUPED || part_of(op) == DENSE)
            efficiency *= machine.stack.quantized_efficiency;
        part_ms[part_of(op)] += 1e3 * runs * alone_s / efficiency;
    }
}

/* The measured kernels fill the busy time and none adds residuals, so the norms' kernels are
 * assumed to add them. Rotary embedding is not among the compared parts: the model copies it into
 * the heads as Megatron-Core does, and its time is too long by a factor of 3. */
START_TEST(parts_of_a_pair_agree_with_the_measured_times)
{
    static const double measured_ms[NUM_PARTS] = { [GROUPED] = 22.93,
                                                   [DENSE] = 18.84,
                                                   [WEIGHT] = 32.76,
                                                   [ATTENTION_FORWARD] = 4.95,
                                                   [ATTENTION_BACKWARD] = 15.1,
                                                   [PERMUTE] = 5.1,
                                                   [SWIGLU] = 2.6,
                                                   [NORM] = 3.4,
                                                   [CAST] = 16.7 };
    double part_ms[NUM_PARTS + 1] = { 0 };
    struct model model = v3_of(4, 64);
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct local_ops lists =
        local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
    add_parts(lists.forward, part_ms);
    add_parts(lists.backward, part_ms);
    for (int part = 0; part < NUM_PARTS; part++)
        ck_assert_msg(fabs(4 * part_ms[part] - measured_ms[part]) <=
                          0.2 * fmax(4 * part_ms[part], measured_ms[part]),
                      "part %d: predicted %.1f ms, measured %.1f ms", part, 4 * part_ms[part],
                      measured_ms[part]);
}
END_TEST

/* TFLOP/s of DeepGEMM on an H800 for products of `groups` x m x n from k (its README at 55ab91f:
 * the products of experts with contiguous rows, and dense ones with 4,096 rows). */
static const struct {
    double groups, m, n, k, tflops;
} of_deepgemm[] = {
    { 4, 8192, 4096, 7168, 1346 },  { 4, 8192, 7168, 2048, 1214 }, { 1, 4096, 2112, 7168, 1127 },
    { 1, 4096, 24576, 1536, 1212 }, { 1, 4096, 32768, 512, 775 },  { 1, 4096, 7168, 16384, 1520 },
    { 1, 4096, 4096, 7168, 1410 },  { 1, 4096, 7168, 2048, 1168 },
};

/* The rate of a product in a training step. Memory traffic never limits products of these
 * shapes. */
static double rate_of(enum dtype dtype, double groups, double m, double n, double k)
{
    struct op op = { .kind = OP_GEMM,
                     .dtype = dtype,
                     .batch = groups,
                     .m = m,
                     .n = n,
                     .k = k,
                     .flops = 2 * groups * m * n * k };
    return op.flops / op_s(&machine.gpu, &machine.profile, ATTENTION_FLASH3, &op);
}

/* The stack's quantized_efficiency is the geometric mean of DeepGEMM's rates over those of
 * Transformer Engine, times the share of the rate of isolated products that products keep in
 * training. This share is taken from bf16, in which the fastest isolated product reaches 794.5
 * TFLOP/s on an H100 (ml-engineering). */
START_TEST(quantized_products_have_the_rates_of_deepgemm)
{
    const struct recipe *recipe = precision_recipe(PRECISION_FP8_BLOCK);
    double kept = rate_of(DTYPE_BF16, 1, 8192, 8192, 8192) / 794.5e12, logs = 0;
    for (size_t i = 0; i < LENGTH(of_deepgemm); i++)
        logs += log(kept * of_deepgemm[i].tflops * 1e12 /
                    (recipe->product_efficiency * rate_of(DTYPE_FP8, of_deepgemm[i].groups,
                                                          of_deepgemm[i].m, of_deepgemm[i].n,
                                                          of_deepgemm[i].k)));
    ck_assert_double_eq_tol(machine.stack.quantized_efficiency / exp(logs / LENGTH(of_deepgemm)), 1,
                            0.03);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/measured_pair");
    TCase *tc = tcase_create("pair");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_forward_backward_pair_agrees_with_the_measured_time);
    tcase_add_test(tc, parts_of_a_pair_agree_with_the_measured_times);
    tcase_add_test(tc, quantized_products_have_the_rates_of_deepgemm);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
