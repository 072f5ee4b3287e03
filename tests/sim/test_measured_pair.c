/* DeepSeek's profile of training (profile-data@4496024, train.json): an overlapped pair of a
 * forward and a backward through four MoE layers of DeepSeek-V3, on 64 H800 with ep64, 4,096
 * tokens, balanced. No constant was fitted on it. */
#include "models/blocks.h"
#include "sim/cost/compute.h"
#include "sim/cost/dispatcher.h"
#include "sim/cost/piece.h"
#include "sim/engine/simulate.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>

static struct arena arena;

/* Up-projections, norms and SwiGLU's outputs are recomputed (DeepSeek-V3 report, 3.2.3 and 3.3.3),
 * rows travel in fp8, and experts' rows need no copies for alignment. */
static const char layout[] = "tp1 ep64 pp1 mb1 dtype=fp8-block zero1 overlap=grad,param,ep "
                             "recompute=selective:mla_up_proj+layernorm";

static void set_up(void)
{
    machine_load("h800-8", 64);
    machine.stack.dispatcher = DISPATCHER_DEEPEP;
    machine.stack.sends_quantized = true;
    machine.stack.pads_rows = false;
    machine.stack.remakes_activations = true;
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

/* The time that one more microbatch adds is that of a pair, and the difference between eight and
 * four layers is the pair of four layers. */
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
    if (op->kind != OP_GEMM || !dtype_is_quantized(op->dtype))
        return NUM_PARTS;
    return is_weight ? WEIGHT : op->batch > 1 ? GROUPED : DENSE;
}

/* Adds the milliseconds of each group of ops (enum part) in a layer. Up-projections and norms run
 * twice in the forward, because they are recomputed. */
static void add_parts(struct ops list, double part_ms[NUM_PARTS + 1])
{
    const struct recipe *recipe = precision_recipe(PRECISION_FP8_BLOCK);
    double product = machine.stack.product_efficiency * recipe->product_efficiency;
    for (int i = 0; i < list.count; i++) {
        const struct op *op = &list.at[i];
        if (op_is_collective(op->kind))
            continue;
        double alone_s = op_s(&machine.gpu, &machine.profile, ATTENTION_FLASH3, op);
        bool is_again = op->region == REGION_LATENT_UP || op->kind == OP_NORM;
        double runs = is_again && op->pass == PASS_FORWARD ? 2 : 1;
        double efficiency = op->kind == OP_GEMM ? product : 1;
        if (part_of(op) == WEIGHT)
            efficiency *= recipe->weight_efficiency;
        part_ms[part_of(op)] += 1e3 * runs * alone_s / efficiency;
    }
}

/* Kernels that overlap transfers have 112 of 132 multiprocessors, which the time of a kernel in
 * isolation does not include. The measured kernels fill the busy time and none adds residuals, so
 * the norms' kernels are taken to do this. Casts are not among the compared parts, as their
 * predicted time is too short by a factor of 2.4, nor is rotary embedding, which the model
 * copies into the heads as Megatron-Core does: its time is too long by a factor of 2. */
START_TEST(parts_of_a_pair_agree_with_the_measured_times)
{
    static const double measured_ms[NUM_PARTS] = {
        [GROUPED] = 22.93,           [DENSE] = 18.84, [WEIGHT] = 32.76, [ATTENTION_FORWARD] = 4.95,
        [ATTENTION_BACKWARD] = 15.1, [PERMUTE] = 5.1, [SWIGLU] = 2.6,   [NORM] = 3.4
    };
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

static Suite *suite(void)
{
    Suite *s = suite_create("sim/measured_pair");
    TCase *tc = tcase_create("pair");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_forward_backward_pair_agrees_with_the_measured_time);
    tcase_add_test(tc, parts_of_a_pair_agree_with_the_measured_times);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
