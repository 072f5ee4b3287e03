/* Tests that every layout trains the model as one rank alone does. Ranks are threads and, if MPI is
 * installed, also processes. */
#include "tests/exec/mpirun.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static const char *const layouts[] = {
    "dp2",
    "dp4 mb2",
    "tp2",
    "tp2 sp",
    "tp4 sp",
    "pp2",
    "pp4",
    "pp2 vpp2",
    "pp2 schedule=gpipe",
    "pp2 schedule=zb-h1",
    "dp2 zero1",
    "dp2 zero2",
    "dp2 zero3",
    "recompute=full",
    "recompute=selective",
    "recompute=block:1 mb2",
    "pp2 dp2 recompute=block-share:0.5",
    "recompute=op-selective mb2",
    "tp2 sp overlap=tp recompute=op-selective",
    "tp2 pp2 schedule=zb-h1 recompute=op-selective",
    "pp2 vpp2 dp2 zero3 recompute=op-selective",
    "tp2 sp pp2 dp2 zero1",
    "tp2 pp2 recompute=full",
    "tp2 sp overlap=tp",
    "pp2 dp2 zero1 recompute=selective",
    "tp2 pp2 mb2 recompute=selective:core_attn,none",
    "pp4 stages=1,1,1,1",
    "pp2 stages=1,3",
    "tp2 sp pp2 schedule=zb-h1",
    "dp2 zero3 tp2 recompute=full",
    "dp2 zero3 mb2 recompute=full:3",
    "dp4 zero3 recompute=selective",
    "dp2 zero2 tp2 sp recompute=block:2",
    "pp2 stages=0,4",
    "pp2 vpp2 stages=0,2,1,1",
    "pp2 vpp2 schedule=zb-v",
    "pp2 vpp2 dp2 zero1 schedule=dualpipev recompute=selective",
    "tp2 sp pp2 vpp2 dp2 schedule=zb-v stages=0,2,1,1",
    "pp2 vpp2 schedule=dualpipev",
    "pp3 vpp2 stages=0,1,1,1,1,0", /* 8 microbatches, interleaved in groups of 4 */
    "pp2 dp2 zero2",
    "pp2 dp2 zero3",
    "pp2 dp2 zero3 reshard=pass",
    "pp2 dp2 zero3 reshard=gradients",
    "pp2 dp2 zero2 reshard=gradients schedule=zb-h1",
    "tp2 sp pp2 dp2 zero3 recompute=full",
    "pp2 vpp2 dp2 zero3 reshard=gradients recompute=selective",
    "pp2 dp2 zero3 stages=0,4 schedule=zb-h1",
};
enum { NUM_LAYOUTS = LENGTH(layouts), NUM_MODELS = 3 };

/* The rank of this process, if mpirun has started it. */
static struct parity_process process;

/* Compares gradient norms. A norm that counts an element twice or omits one would scale all
 * gradients by another factor.
 */
static void check_norm(const char *layout, double alone, double many, double clip)
{
    ck_assert_msg(alone > 2 * clip, "a norm of %g is hardly clipped", alone);
    ck_assert_msg(fabs(many / alone - 1) < 1e-5, "%s: the norm is %.9g, but %.9g on one rank",
                  layout, many, alone);
}

/* Makes the first block wide, instead of the second and the fourth. */
static struct model first_is_wide(void)
{
    struct model model = parity_mixed();
    model.blocks.runs[0] = (struct block_run){ 1, 1 };
    model.blocks.runs[1] = (struct block_run){ 0, 3 };
    return model;
}

typedef struct model parity_model(void);
static parity_model *const models[] = { parity_gpt, parity_llama, parity_mixed, first_is_wide };
enum { FIRST_IS_WIDE = NUM_MODELS };

static void check_layout(const char *layout, int which, bool is_unfused)
{
    struct model model = models[which]();
    struct parity_run run = {
        .steps = 3, .optimizer = OPTIMIZER_SGD, .rate = 0.5F, .clip = 0.25, .seed = 7
    };
    struct parity_result one, many;
    run.unfused = is_unfused;
    run.prefetch = (which > 0) + is_unfused;
    if (which > 0 && strstr(layout, "tp4"))
        return;
    parity_run(&model, "mb1", &run, &one);
    run.process = process.comm ? &process : NULL;
    parity_run(&model, layout, &run, &many);
    struct parity_verdict verdict = parity_compare(&run, &one, &many);
    ck_assert_msg(verdict.agrees, "%s: %s", layout, verdict.difference);
    for (int step = 0; step < run.steps; step++)
        check_norm(layout, one.gradient_norm[step], many.gradient_norm[step], run.clip);
    parity_release(&one);
    parity_release(&many);
}

static int num_words(const char *layout)
{
    int words = 1;
    for (; *layout; layout++)
        words += *layout == ' ';
    return words;
}

/* In `make test`, only layouts of at least three words are trained, each with one model; in `make
 * campaign` every layout is trained with every model. */
START_TEST(every_layout_trains_like_one_rank)
{
    int layout = _i / NUM_MODELS, model = _i % NUM_MODELS;
    bool is_sampled = num_words(layouts[layout]) > 2 && layout % NUM_MODELS == model;
    if (!is_campaign() && (!is_sampled || layout % SPARSE != 0))
        return;
    check_layout(layouts[layout], model, _i % 4 >= 2);
}
END_TEST

/* A step with a learning rate of 0 changes no weight, so the test sees the initial weights.
 * Matrices are drawn with a standard deviation of 0.02; matrices that write to the residual stream
 * of 4 layers have 0.02 / sqrt(2 x 4). The deviation of n draws has a relative error of about 1 /
 * sqrt(2 n). Gains of norms are 1. */
START_TEST(initial_weights_have_megatrons_standard_deviations)
{
    struct model model = parity_llama();
    struct parity_run run = { .steps = 1, .optimizer = OPTIMIZER_SGD, .seed = 7 };
    struct parity_result result;
    parity_run(&model, "tp2 sp", &run, &result);
    for (int i = 0; i < result.num_weights; i++) {
        const struct parity_weight *weight = &result.weights[i];
        double squares = 0, n = 0;
        bool is_norm = strstr(weight->name, "norm") != NULL;
        bool feeds = strstr(weight->name, "projection") || strstr(weight->name, "fc2");
        for (size_t j = 0; j < weight->elements; j++) {
            squares += (double)weight->values[j] * (double)weight->values[j];
            n += weight->values[j] != 0; /* the padding of the vocabulary is 0 */
        }
        double expected = is_norm ? 1 : feeds ? 0.02 / sqrt(8) : 0.02;
        ck_assert_msg(fabs(sqrt(squares / n) / expected - 1) <= (is_norm ? 0 : 5 / sqrt(2 * n)),
                      "%s: the root mean square is %g, not %g", weight->name, sqrt(squares / n),
                      expected);
    }
    parity_release(&result);
}
END_TEST

START_TEST(a_model_with_a_wide_first_block_trains_like_one_rank)
{
    static const char *const of_both_kinds[] = { "pp2 stages=1,3", "tp2 sp pp2 vpp2",
                                                 "pp4 dp2 zero1", "dp2 zero3 recompute=full" };
    check_layout(of_both_kinds[_i], FIRST_IS_WIDE, false);
}
END_TEST

static struct parity_result run_with(const char *layout, struct parity_run run, double dropout)
{
    struct model model = parity_gpt();
    struct parity_result result;
    model.dropout = dropout;
    run.steps = 3;
    run.optimizer = OPTIMIZER_SGD;
    run.rate = 0.5F;
    run.seed = 7;
    parity_run(&model, layout, &run, &result);
    return result;
}

static void check_same(struct parity_run run, struct parity_result one, struct parity_result many)
{
    run.steps = 3;
    struct parity_verdict verdict = parity_compare(&run, &one, &many);
    ck_assert_msg(verdict.agrees, "%s", verdict.difference);
    parity_release(&one);
    parity_release(&many);
}

/* Fused and unfused attention draw the same random numbers, in attention and in later ops. */
START_TEST(fused_and_unfused_attention_drop_the_same_values)
{
    static const char *const others[] = { "mb2", "tp2 sp pp2 mb2 recompute=selective" };
    struct parity_run fused = { 0 }, unfused = { .unfused = true };
    if (is_spared(_i, 1))
        return;
    check_same(fused, run_with("mb1", fused, 0.2), run_with(others[_i], unfused, 0.2));
}
END_TEST

/* Averaging weights after each SGD step equals using the mean gradient, unless gradients are
 * clipped, as each rank clips by its own norm. */
START_TEST(averaging_weights_each_step_equals_all_reduce_without_clipping)
{
    static const char *const others[] = { "dp2 mb2 exchange=local:1", "dp4 mb1 exchange=pga:1" };
    struct parity_run run = { .unclipped = true }, clipped = { .clip = 0.25 };
    if (is_spared(_i, 1))
        return;
    struct parity_result all = run_with("dp2 mb2", run, 0), each = run_with(others[_i], run, 0);
    memcpy(each.gradient_norm, all.gradient_norm,
           sizeof all.gradient_norm); /* each rank has its own norm */
    check_same(run, all, each);
    all = run_with("dp2 mb2", clipped, 0);
    each = run_with(others[_i], clipped, 0);
    ck_assert_double_gt(parity_distance(&all, &each), 1e-4);
    parity_release(&all);
    parity_release(&each);
}
END_TEST

/* Runs the layouts that have as many ranks as were started. */
START_TEST(each_layout_over_mpi_trains_like_one_rank)
{
    int seen = 0;
    for (int i = 0; i < NUM_LAYOUTS; i++)
        if (parity_ranks(layouts[i]) == process.size && !is_spared(seen++, 5))
            check_layout(layouts[i], i % NUM_MODELS, i % 4 >= 2);
}
END_TEST

START_TEST(mpi_ranks_train_like_one_rank)
{
    if (!mpirun_is_here())
        return;
    mpirun_self(2);
    mpirun_self(4);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("parity");
    tcase_set_tags(cases, THREADS);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, a_model_with_a_wide_first_block_trains_like_one_rank, 0, 4);
    tcase_add_test(cases, initial_weights_have_megatrons_standard_deviations);
    tcase_add_loop_test(cases, every_layout_trains_like_one_rank, 0, NUM_LAYOUTS * NUM_MODELS);
    tcase_add_loop_test(cases, fused_and_unfused_attention_drop_the_same_values, 0, 2);
    tcase_add_loop_test(cases, averaging_weights_each_step_equals_all_reduce_without_clipping, 0,
                        2);
    tcase_add_test(cases, mpi_ranks_train_like_one_rank);
    Suite *s = suite_create("exec/parity");
    suite_add_tcase(s, cases);
    return s;
}

static void add_rank_tests(TCase *cases)
{
    tcase_add_test(cases, each_layout_over_mpi_trains_like_one_rank);
}

int main(void)
{
    return mpirun_main(&process, suite, add_rank_tests);
}
