/* Compares the predicted memory of sharded state with what the device's arena counts in a run. */
#include "sim/engine/simulate.h"
#include "sim/memory/executor_pass_memory.h"
#include "sim/plan/ranks.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>

static struct system host;

static void set_up(void)
{
    struct err err = { 0 };
    ck_assert_msg(system_load("dgx-h100", "host", 2, &host, &err), "%s: %s", err.where, err.msg);
}

static void tear_down(void)
{
    system_release(&host);
}

/* A model large enough that padding and alignment are negligible. */
static struct model model_of(bool is_tied)
{
    struct model model = parity_gpt();
    model.hidden = 64;
    model.head_dim = 16;
    model.ffn = 256;
    model.vocab = 512;
    model.seq = model.max_positions = 32;
    model.batch = 4;
    model.layers = 6;
    model.tied = is_tied;
    return model;
}

/* Finds the maximum of the peaks of all ranks; the first rank of the first stage stores it. */
static bool keep_high_water(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int count;
    struct machine *machine = rank_machine(rank);
    const struct store *first = rank_stores(rank, &count)[0];
    double bytes = (double)machine->device_api->memory(machine->device).high_water_bytes;
    bool ok = rank_most(rank, &bytes, 1, err);
    if (first->shard == 0 && first->weights[0].layer == 0)
        *(double *)run->context = bytes;
    return ok;
}

static double measured_bytes(const struct model *model, const char *layout, const struct plan *plan)
{
    double bytes = 0;
    struct parity_result result;
    struct layer_options options = plan_layer_options(plan, &host);
    options.dtype = DTYPE_FP32;
    options.gradient_bytes = 4;
    struct parity_run run = { .steps = 2,
                              .optimizer = OPTIMIZER_ADAM,
                              .rate = 1e-3F,
                              .precision = PRECISION_FP32,
                              .prefetch = host.stack.shards.prefetch,
                              .arena_bytes = 8 << 20,
                              .options = &options,
                              .after = keep_high_water,
                              .context = &bytes };
    parity_run(model, layout, &run, &result);
    parity_release(&result);
    return bytes;
}

struct peak {
    double measured_bytes, predicted_bytes;
};

static struct peak peak_of(const struct model *model, const char *layout)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s", err.msg);
    ck_assert(plan_derive_data(&plan, parity_ranks(layout), &err));
    struct evaluator *evaluator = evaluator_new(&host, model);
    struct peak peak = { measured_bytes(model, layout, &plan),
                         evaluate_peak_bytes(evaluator, &plan) };
    evaluator_free(evaluator);
    arena_release(&arena);
    return peak;
}

static const char *const layouts[] = {
    "dp2 zero2 dtype=fp32",
    "dp2 zero2 mb2 recompute=full dtype=fp32",
    "dp2 zero3 dtype=fp32",
    "dp2 zero3 mb2 dtype=fp32",
    "dp2 zero3 recompute=full dtype=fp32",
    "dp2 zero3 mb2 recompute=full:3 dtype=fp32",
    "dp2 zero3 recompute=selective attn=unfused dtype=fp32",
    "dp2 zero3 recompute=block:2 dtype=fp32",
    "pp2 dp2 zero2 dtype=fp32",
    "pp2 dp2 zero3 dtype=fp32",
    "pp2 dp2 zero3 recompute=full dtype=fp32",
    "pp2 dp2 zero3 reshard=pass dtype=fp32",
    "pp2 dp2 zero3 reshard=gradients dtype=fp32",
};
enum { NUM_LAYOUTS = LENGTH(layouts), NUM_PREFETCHES = 3 };

START_TEST(the_peak_of_a_pass_agrees_with_the_arena)
{
    if (is_spared(_i, 3))
        return;
    struct model model = model_of(_i % 2);
    const char *layout = layouts[_i / NUM_PREFETCHES];
    host.stack.shards.prefetch = _i % NUM_PREFETCHES;
    struct peak peak = peak_of(&model, layout);
    ck_assert_msg(fabs(peak.predicted_bytes / peak.measured_bytes - 1) < 0.01,
                  "%s, prefetch %d: predicted %.0f bytes, measured %.0f", layout,
                  host.stack.shards.prefetch, peak.predicted_bytes, peak.measured_bytes);
}
END_TEST

/* The single stage has all layers, so ZeRO-3 saves the memory of many weights. */
START_TEST(the_saving_of_zero_3_over_zero_2_is_as_predicted)
{
    struct model model = model_of(true);
    struct peak two = peak_of(&model, "dp2 zero2 dtype=fp32");
    struct peak three = peak_of(&model, "dp2 zero3 dtype=fp32");
    double saved = two.measured_bytes - three.measured_bytes;
    double predicted = two.predicted_bytes - three.predicted_bytes;
    double weights = 4.0 * (double)model_parameters(&model);
    ck_assert_double_gt(saved, 0.2 * weights);
    ck_assert_double_eq_tol(saved, predicted, 0.03 * predicted);
}
END_TEST

static const struct {
    const char *layout;
    int rows;
} runs[] = {
    { "dp2 zero1 mb2 dtype=fp32", 32 },
    { "dp2 zero1 mb2 dtype=fp32", 33 },
    { "dp2 zero1 mb2 dtype=fp32", 1 },
    { "dp2 zero2 mb2 dtype=fp32", 25 },
    { "tp2 sp mb2 dtype=fp32", 40 },
    { "dp2 zero3 mb2 recompute=full dtype=fp32", 32 },
    { "dp2 zero1 mb2 recompute=selective attn=unfused dtype=fp32", 16 },
};
enum { NUM_RUNS = LENGTH(runs) };

/* With fused ops, the op before a fused one keeps its values, and fewer gradients are in memory.
 */
START_TEST(the_peak_of_a_fused_pass_agrees_with_the_arena)
{
    if (is_spared(_i, 2))
        return;
    struct model model = model_of(true);
    host.stack.fusions |= 1u << FUSION_WGRAD_BIAS | FOLDING_FUSIONS;
    struct peak peak = peak_of(&model, layouts[_i]);
    ck_assert_msg(fabs(peak.predicted_bytes / peak.measured_bytes - 1) < 0.01,
                  "%s: predicted %.0f bytes, measured %.0f", layouts[_i], peak.predicted_bytes,
                  peak.measured_bytes);
}
END_TEST

/* The vocabulary is so large that logits fill most of the memory. They are computed at once or in
 * two row blocks. */
START_TEST(memory_of_logits_in_row_blocks_is_as_predicted)
{
    if (is_spared(_i, 2))
        return;
    struct model model = model_of(false);
    model.vocab = 2048;
    model.layers = 2;
    struct peak once = peak_of(&model, runs[_i].layout);
    host.stack.memory.logits_rows = runs[_i].rows;
    struct peak peak = peak_of(&model, runs[_i].layout);
    ck_assert_msg(fabs(peak.predicted_bytes / peak.measured_bytes - 1) < 0.01,
                  "%s, %d rows: predicted %.0f bytes, measured %.0f", runs[_i].layout,
                  runs[_i].rows, peak.predicted_bytes, peak.measured_bytes);
    ck_assert_double_gt(once.measured_bytes, peak.measured_bytes);
    ck_assert_double_gt(once.predicted_bytes, peak.predicted_bytes);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("pass_memory");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, the_peak_of_a_pass_agrees_with_the_arena, 0,
                        NUM_LAYOUTS * NUM_PREFETCHES);
    tcase_add_loop_test(tc, the_peak_of_a_fused_pass_agrees_with_the_arena, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, memory_of_logits_in_row_blocks_is_as_predicted, 0, NUM_RUNS);
    tcase_add_test(tc, the_saving_of_zero_3_over_zero_2_is_as_predicted);
    Suite *s = suite_create("exec/pass_memory");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
