/* Compares whole training steps on a GPU with PyTorch's results in the tree and with the host's:
 * losses, gradient norms, gradients, and weights after a few updates. tests/gpu.sh runs this
 * program on a machine with a GPU. */
#include "sim/cost/hardware.h"
#include "tests/exec/on_gpu.h"
#include "tests/exec/parity.h"
#include "tests/exec/torch_steps.h"
#include "tests/testing.h"

#include <math.h>

static const struct backend *gpu;
static const struct comm_api *staged;

static void find_gpu(void)
{
    struct err err = { 0 };
    if ((gpu = on_gpu_backend(&err)))
        staged = comm_find("staged", &err);
    ck_assert_msg(staged != NULL, "%s: %s", err.where, err.msg);
}

/* A run on one rank, without a communicator. */
static struct parity_run on_gpu(struct parity_run run)
{
    run.device = gpu->device;
    run.kernels = gpu->kernels;
    run.comm = staged;
    return run;
}

/* Tolerances of one step. They allow for sums in another order and for other roundings, but not for
 * TF32 products instead of fp32 ones. */
static const struct {
    int precision;
    double loss_error, norm_error, distance;
} kept[] = {
    { PRECISION_FP32, 1e-5, 1e-4, 1e-4 },
    { PRECISION_BF16, 4e-3, 2e-2, 5e-2 },
    { PRECISION_FP16, 1e-3, 5e-3, 5e-2 },
};
enum { NUM_KEPT = LENGTH(kept) };

static const struct {
    bool is_llama, is_unfused;
    double dropout;
} cases[] = {
    { false, false, 0 }, { false, false, 0.1 }, { false, true, 0.1 }, { true, false, 0 }
};
enum { NUM_CASES = LENGTH(cases) };

/* Flash attention on a GPU needs heads of at least 64 channels. */
static struct model model_of(int i)
{
    struct model model = cases[i].is_llama ? parity_llama() : parity_gpt();
    model.hidden = 256;
    model.heads = 4;
    model.kv_heads = cases[i].is_llama ? 2 : 4;
    model.head_dim = 64;
    model.ffn = 512;
    model.dropout = cases[i].dropout;
    return model;
}

static struct parity_run run_of(int i, int precision)
{
    return (struct parity_run){ .steps = 4,
                                .optimizer = OPTIMIZER_SGD,
                                .rate = 0.05F,
                                .precision = precision,
                                .unfused = cases[i].is_unfused,
                                .arena_bytes = 256 << 20,
                                .seed = 11 };
}

/* The fusions of a run on GPUs, and logits in blocks of at most 10 of 32 rows. */
static struct layer_options fused_options(const struct parity_run *run)
{
    struct err err = { 0 };
    struct stack stack;
    ck_assert_msg(stack_load("cuda", &stack, &err), "%s: %s", err.where, err.msg);
    struct layer_options options = { .flash_attention = !run->unfused,
                                     .fusions = stack.fusions,
                                     .unfused = &stack.unfused,
                                     .dtype = precision_value_dtype(run->precision),
                                     .gradient_bytes = 4,
                                     .logits_rows = 10 };
    stack_release(&stack);
    return options;
}

/* The host runs every op separately. */
START_TEST(steps_agree_with_the_host)
{
    int i = _i / NUM_KEPT, k = _i % NUM_KEPT;
    struct model model = model_of(i);
    struct parity_run host_run = run_of(i, kept[k].precision), gpu_run = on_gpu(host_run);
    struct layer_options options = fused_options(&gpu_run);
    struct parity_result host, on;
    gpu_run.options = &options;
    parity_run(&model, "mb2", &host_run, &host);
    parity_run(&model, "mb2", &gpu_run, &on);
    for (int step = 0; step < host_run.steps; step++) {
        double loss = fabs(on.loss[step] / host.loss[step] - 1);
        double norm = fabs(on.gradient_norm[step] / host.gradient_norm[step] - 1);
        ck_assert_msg(loss < kept[k].loss_error, "step %d: loss %.7g, on the host %.7g", step + 1,
                      on.loss[step], host.loss[step]);
        ck_assert_msg(norm < kept[k].norm_error, "step %d: gradient norm %.7g, on the host %.7g",
                      step + 1, on.gradient_norm[step], host.gradient_norm[step]);
    }
    double distance = parity_distance(&host, &on);
    ck_assert_msg(distance < kept[k].distance, "weights are %.2g apart", distance);
    parity_release(&host);
    parity_release(&on);
}
END_TEST

/* Layouts without and with recompute, whose results must have the same bits. */
static const char *const layouts[] = { "mb2", "mb2 recompute=full", "mb2 recompute=selective" };

START_TEST(repeated_runs_and_recompute_have_the_same_bits)
{
    struct model model = model_of(1);
    struct parity_run run = on_gpu(run_of(1, PRECISION_BF16));
    struct parity_result one, other;
    parity_run(&model, "mb2", &run, &one);
    parity_run(&model, layouts[_i], &run, &other);
    ck_assert_msg(parity_is_equal(&one, &other, run.steps), "%s: other bits", layouts[_i]);
    parity_release(&one);
    parity_release(&other);
}
END_TEST

/* Covers recompute, dropout, several microbatches and 16-bit values. */
START_TEST(graphs_change_no_bit)
{
    struct model model = model_of(1);
    struct parity_run run = on_gpu(run_of(1, kept[_i % NUM_KEPT].precision)), replayed = run;
    struct parity_result one, other;
    replayed.has_graphs = true;
    parity_run(&model, layouts[_i / NUM_KEPT], &run, &one);
    parity_run(&model, layouts[_i / NUM_KEPT], &replayed, &other);
    ck_assert_msg(parity_is_equal(&one, &other, run.steps), "%s: results differ with graphs",
                  layouts[_i / NUM_KEPT]);
    parity_release(&one);
    parity_release(&other);
}
END_TEST

/* Heads have 8 channels in fp32, so attention uses the kernels without tensor cores or is unfused.
 */
START_TEST(steps_agree_with_pytorch)
{
    struct parity_run run = on_gpu(torch_run(_i / TORCH_MODELS == 1));
    run.arena_bytes = 256 << 20;
    torch_check_losses(_i % TORCH_MODELS, "mb2", run);
    torch_check_gradients(_i % TORCH_MODELS, "mb4", run);
}
END_TEST

/* CK_RUN_CASE=torch runs only this case. */
static TCase *torch_case(void)
{
    TCase *tc = tcase_create("torch");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, find_gpu, NULL);
    tcase_add_loop_test(tc, steps_agree_with_pytorch, 0, 2 * TORCH_MODELS);
    return tc;
}

static Suite *suite(void)
{
    TCase *tc = tcase_create("host");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, find_gpu, NULL);
    tcase_add_loop_test(tc, steps_agree_with_the_host, 0, NUM_CASES * NUM_KEPT);
    tcase_add_loop_test(tc, repeated_runs_and_recompute_have_the_same_bits, 0, 3);
    tcase_add_loop_test(tc, graphs_change_no_bit, 0, 3 * NUM_KEPT);
    Suite *s = suite_create("exec on a GPU");
    suite_add_tcase(s, torch_case());
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return on_gpu_is_there() ? run_suite(suite()) : 1;
}
