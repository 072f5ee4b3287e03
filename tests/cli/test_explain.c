/* The output of `explain`: for two plans, terms that sum to the difference of the step times; for
 * one plan, the lecture's formulas with numbers. */
#include "tests/testing.h"

#include "cli/input/command.h"
#include "cli/lecture/from_run.h"
#include "cli/lecture/lecture.h"
#include "cli/lecture/textbook_view.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"
#include "tests/cli/arithmetic.h"
#include "tests/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Divides the layers over the stages at random, with at least one layer each. */
static void divide_layers(struct random *rng, const struct model *model, int *layers,
                          int num_stages)
{
    for (int i = 0; i < num_stages; i++)
        layers[i] = 1;
    for (int left = model->layers - num_stages; left > 0; left--)
        layers[random_below(rng, num_stages)]++;
}

/* Draws a plan, which may break rules. */
static struct plan random_plan(struct random *rng, const struct model *model, int *layers)
{
    static const char *const schedules[] = { "", "", "gpipe", "naive", "zb-h1" };
    struct plan plan = plan_default();
    plan.tp = PICK(rng, 1, 2, 4, 8);
    plan.cp = PICK(rng, 1, 1, 2);
    plan.sp = plan.tp > 1 && random_below(rng, 2);
    plan.pp = PICK(rng, 1, 2, 4, 8);
    plan.microbatch = PICK(rng, 1, 2, 4);
    plan.vpp = PICK(rng, 1, 1, 2, 3);
    plan.zero = random_below(rng, 4);
    plan.recompute = PICK(rng, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL);
    strcpy(plan.schedule, schedules[random_below(rng, LENGTH(schedules))]);
    if (plan.vpp == 1 && plan.pp > 1 && random_below(rng, 3) == 0) {
        divide_layers(rng, model, layers, plan.pp);
        plan.chunk_layers = layers;
        plan.num_chunk_layers = plan.pp;
    }
    return plan;
}

static struct plan valid_plan(struct random *rng, const struct model *model,
                              const struct system *system, int *layers)
{
    for (;;) {
        struct plan plan = random_plan(rng, model, layers);
        struct err err = { 0 };
        if (plan_derive_data(&plan, system->num_gpus, &err) &&
            !plan_check(&plan, model, model->batch, system->num_gpus, &err) &&
            system_check(system, &plan, &err))
            return plan;
    }
}

static const struct {
    const char *cluster, *stack, *model;
    int num_gpus;
} cases[] = {
    { "dgx-h100", "megatron-core", "gpt3-13b", 64 },
    { "dgx-a100-80g", "megatron-core", "llama2-70b", 32 },
    { "gb200-nvl72", "megatron-core", "llama3-8b", 64 },
    { "dgx-a100-40g", "megatron-2021", "megatron-18b", 16 },
    { "dgx-h100", "torchtitan", "qwen2.5-7b", 16 },
};

/* The tolerance is 1e-12 of the longer step, for the rounding of sums of some hundred terms. */
START_TEST(terms_of_two_plans_add_up_to_the_difference_of_their_steps)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    bool ok = system_load(cases[_i].cluster, cases[_i].stack, cases[_i].num_gpus, &system, &err) &&
              model_load(cases[_i].model, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    model.batch = 192;
    struct random rng = random_new(11, (uint64_t)_i);
    struct evaluator *evaluator = evaluator_new(&system, &model);
    for (int turn = 0; turn < TURNS(64); turn++) {
        int layers[2][8];
        struct plan first = valid_plan(&rng, &model, &system, layers[0]);
        struct plan second = valid_plan(&rng, &model, &system, layers[1]);
        struct prediction a = evaluate(evaluator, &first);
        struct prediction b = evaluate(evaluator, &second);
        double sum_s = 0;
        for (int i = 0; i < num_time_parts; i++)
            sum_s += time_part_s(&b.time, i) - time_part_s(&a.time, i);
        ck_assert_double_eq_tol(sum_s, b.step_s - a.step_s, 1e-12 * fmax(a.step_s, b.step_s));
    }
    evaluator_free(evaluator);
    system_release(&system);
}
END_TEST

/* --- the lecture on one plan ---------------------------------------------------------------- */

/* Each row has a plan, to which `explain` applies the lecture's formulas. */
struct question {
    const char *model, *cluster, *batch, *layout;
    int gpus;
};

static struct lecture lecture_on(const struct question *question, struct setup *setup)
{
    struct options options = {
        .model = question->model,
        .cluster = question->cluster,
        .gpus = question->gpus,
        .batch = question->batch,
        .layout = question->layout,
        .precision = -1,
        .optimizer = -1,
    };
    struct err err = { 0 };
    bool ok = setup_load(&options, NULL, setup, &err);
    ck_assert_msg(ok, "%s: %s: %s", question->layout, err.where, err.msg);
    struct textbook_setup textbook = textbook_of(setup, &setup->plan);
    struct textbook_estimate estimate = textbook_estimate(&textbook);
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    struct lecture lecture = lecture_of(setup, &textbook, &estimate, &prediction);
    evaluator_free(evaluator);
    return lecture;
}

static const struct lecture_row *row_named(const struct lecture *lecture, const char *name)
{
    for (int i = 0; i < lecture->count; i++)
        if (strcmp(lecture->rows[i].name, name) == 0)
            return &lecture->rows[i];
    ck_abort_msg("no row %s", name);
}

/* GPT-3 has 96 layers of width 12288 with 96 heads, a vocabulary of 50257 and sequences of 2048
 * tokens. The model of 13B has 40 layers of width 5120, that of 1.3B has 24 layers of width 2048.
 */
#define GPT3_ALONE(words)                 \
    {                                     \
        "175b", "dgx-h100", "1", words, 1 \
    }
#define P3(words)                                    \
    {                                                \
        "gpt3-1.3b", "p3-v100-16g", "512", words, 64 \
    }
#define PIPE(words)                            \
    {                                          \
        "gpt3-13b", "dgx-h100", "16", words, 8 \
    }
#define LARGE(words)                            \
    {                                           \
        "175b", "dgx-h100", "1536", words, 1024 \
    }

// clang-format off
static const struct {
    struct question question;
    const char *row;
    double want;
} rights[] = {
    /* 12 l h^2 + 2 v h = 12 x 96 x 12288^2 + 2 x 50257 x 12288 */
    { GPT3_ALONE("mb1 dtype=fp32"), "parameters P", 175181291520.0 },
    /* weight, gradient and two moments: four values of four bytes per parameter */
    { GPT3_ALONE("mb1 dtype=fp32"), "state, four fp32 values", 16 * 175181291520.0 },
    /* the lecture's 444.5 GB: 4 x 96 x (2 x 2048^2 x 96 + 14 x 2048 x 12288) */
    { GPT3_ALONE("mb1 dtype=fp32"), "activations of a microbatch", 444529115136.0 },
    /* the activations plus the state: 48 x 96 x 12288^2 values of 4 bytes */
    { GPT3_ALONE("mb1 dtype=fp32"), "fp32 training of a microbatch", 2783138807808.0 + 444529115136.0 },
    /* half of the 444.5 GB, because values have 16 bits */
    { GPT3_ALONE("mb1"), "activations of a microbatch", 222264557568.0 },
    /* gradients have 2 bytes per parameter */
    { GPT3_ALONE("mb1"), "gradients to all-reduce, 16 bits", 350362583040.0 },
    /* 2 bytes for each of 4 P values, where P is the number of parameters, and for each of the
     * 111.13e9 activations of a sequence */
    { GPT3_ALONE("mb1"), "data-parallel training, 16 bits", 8 * 175181291520.0 + 222264557568.0 },
    /* Bytes per parameter: 2 for the weight, 4 for the gradient, 4 for the master weight and 4 for
     * each of two moments. Gradients in bf16 save 2 bytes, and moments in bf16 save 4. The
     * optimizer `momentum` saves 4 too, because it has one moment. bf16-pure has 2 bytes each for
     * weight, gradient and moment; fp32 has 4 bytes each and no master weight. */
    { GPT3_ALONE("mb1"), "state per parameter", 18 },
    { GPT3_ALONE("mb1 grad=bf16"), "state per parameter", 16 },
    { GPT3_ALONE("mb1 optimizer=adam-bf16"), "state per parameter", 14 },
    { GPT3_ALONE("mb1 optimizer=momentum grad=bf16"), "state per parameter", 12 },
    { GPT3_ALONE("mb1 dtype=bf16-pure optimizer=momentum"), "state per parameter", 6 },
    { GPT3_ALONE("mb1 dtype=fp32"), "state per parameter", 16 },
    /* A parameter server exchanges gradients of S bytes over links of B bytes/s. Here S is 4 bytes
     * for each of 1413812224 / 8 parameters, and B is 25 Gb/s / 8 ranks. One server takes 2 x 7 x
     * S/B seconds, two servers take half of that. */
    { P3("tp8 dp8 mb1 exchange=ps:1"), "data ranks, as here", 14 * 706906112.0 / 390.625e6 },
    { P3("tp8 dp8 mb1 exchange=ps:2"), "data ranks, as here", 7 * 706906112.0 / 390.625e6 },
    /* The same gradients by other exchanges. A ring takes 14 x (20 us + S/(8 B)). Local SGD uses
     * this ring in every 4th step. A tree has three levels, up and down. */
    { P3("tp8 dp8 mb1"), "data ranks, as here", 14 * (20e-6 + 706906112.0 / 8 / 390.625e6) },
    { P3("tp8 dp8 mb1 exchange=local:4"), "data ranks, as here", 3.5 * (20e-6 + 706906112.0 / 8 / 390.625e6) },
    { P3("tp8 dp8 mb1 exchange=tree"), "data ranks, as here", 6 * 20e-6 + 2 * 706906112.0 / 390.625e6 },
    /* A ring of 64 ranks sums whole gradients. In each node one of eight ranks sends to the next
     * node, at 3.125 GB/s. The ring takes 126 x (20 us + S / 64 / 3.125 GB/s). */
    { P3("dp64 mb1"), "data ranks, as here", 126 * (20e-6 + 5655248896.0 / 64 / 3.125e9) },
    /* ZeRO-3 in shard groups of 8 ranks, with P = 7493124096 parameters. Within the node, at 450
     * GB/s, each rank sends 7 parts of P/8 values three times: once in 4 bytes, to reduce
     * gradients, and twice in 2 bytes, to gather weights. Between 8 nodes, at 50 GB/s, each rank's
     * P/8 sums are all-reduced, which sends 2 x 7 parts of 1/8. */
    { { "llama3-8b", "dgx-h100", "128", "dp64 mb1 zero3 shard=8", 64 }, "data ranks, as here",
      7 * (2e-6 + 7493124096.0 / 2 / 450e9) + 14 * (2e-6 + 7493124096.0 / 4 / 450e9) +
          14 * (5e-6 + 7493124096.0 / 16 / 50e9) },
    { P3("tp8 dp8 mb1"), "data ranks by one server", 14 * 706906112.0 / 390.625e6 },
    /* The bubble is the idle time of a stage, relative to its work. On 8 stages with 16
     * microbatches it is 7 for the naive schedule, 7 / 16 for 1F1B, 7 / (16 x 5) for 5 chunks per
     * stage, and a third of 7 / 16 for ZB-H1. */
    { PIPE("pp8 mb1 schedule=naive"), "bubble relative to compute", 7 },
    { PIPE("pp8 mb1 schedule=naive"), "bubble relative to the step", 7.0 / 8 },
    { PIPE("pp8 mb1 schedule=gpipe"), "bubble relative to compute", 7.0 / 16 },
    { PIPE("pp8 mb1"), "bubble relative to compute", 7.0 / 16 },
    { PIPE("pp8 mb1"), "bubble relative to the step", 7.0 / 23 },
    { PIPE("pp8 mb1 vpp5"), "bubble relative to compute", 7.0 / 80 },
    { PIPE("pp8 mb1 schedule=zb-h1"), "bubble relative to compute", 7.0 / 48 },
    { PIPE("pp8 mb1 schedule=zb-h2"), "bubble relative to compute", 0 },
    /* A layer keeps 34 bytes for each of the 2048 x 5120 elements of the hidden state. A stage of 5
     * layers holds the activations of 5 layers in the naive schedule, of 16 x 5 in GPipe and of 8 x
     * 5 in 1F1B; interleaved it holds 7 chunks of one layer more than 1F1B. Unfused attention adds
     * 5 a s/h = 5 x 40 x 2048/5120 bytes per element. */
    { PIPE("pp8 mb1 schedule=naive"), "activations kept", 5 * 34 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 schedule=gpipe"), "activations kept", 80 * 34 * 2048.0 * 5120 },
    { PIPE("pp8 mb1"), "activations kept", 40 * 34 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 vpp5"), "activations kept", 47 * 34 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 attn=unfused"), "activations kept", 40 * (34 + 80) * 2048.0 * 5120 },
    { PIPE("pp8 mb1 attn=unfused recompute=selective"), "activations kept", 40 * 34 * 2048.0 * 5120 },
    /* Recompute keeps 2 bytes per element of the input of each layer, of every fifth layer, or of
     * two layers in five; in the last case the other three layers keep 34 bytes per element. */
    { PIPE("pp8 mb1 recompute=full"), "activations kept", 40 * 2 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 recompute=full:5"), "activations kept", 8 * 2 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 recompute=block:2"), "activations kept", (16 * 2 + 24 * 34) * 2048.0 * 5120 },
    /* With one checkpoint for 5 layers, a stage of 5 layers keeps one input per microbatch, and
     * holds all activations of the 5 layers while they are recomputed. A step takes 8 FLOPs per
     * token and parameter with full recompute, and 6 + 2 x 2/5 if two layers in five are
     * recomputed. */
    { PIPE("pp8 mb1 recompute=full:5"), "recomputed activations", 5 * 34 * 2048.0 * 5120 },
    { PIPE("pp8 mb1 recompute=full:5"), "layers held in memory by recompute", 6 },
    { PIPE("pp8 mb1"), "layers held in memory by recompute", 4.47213595499958 }, /* 2 sqrt(5): a stage has 5 layers */
    { PIPE("pp8 mb1 recompute=full:5"), "FLOPs", 8 * 16 * 2048 * 13097543680.0 },
    { PIPE("pp8 mb1 recompute=block:2"), "FLOPs", 6.8 * 16 * 2048 * 13097543680.0 },
    { PIPE("pp8 mb1"), "FLOPs", 6.0 * 16 * 2048 * 13097543680.0 },
    /* A rank has P/64 parameters of 2 (weight) + 4 (gradient) + 12 (optimizer) bytes. ZeRO 1
     * shards the 12 bytes over 16 ranks, ZeRO 2 also the 4, and ZeRO 3 also the 2. */
    { LARGE("tp8 pp8 mb1 sp zero1"), "ZeRO-0", 175181291520.0 / 64 * 18 },
    { LARGE("tp8 pp8 mb1 sp zero1"), "ZeRO-1, as here", 175181291520.0 / 64 * 6.75 },
    { LARGE("tp8 pp8 mb1 sp zero1"), "ZeRO-2", 175181291520.0 / 64 * 3 },
    { LARGE("tp8 pp8 mb1 sp zero1"), "ZeRO-3", 175181291520.0 / 64 * 1.125 },
    /* 79.1 GiB / 18 bytes per parameter; programs can use 79.1 of 80 GiB */
    { LARGE("tp8 pp8 mb1 sp zero1"), "parameters whose state fills a GPU", 79.1 * 1024 * 1024 * 1024 / 18 },
};
// clang-format on

START_TEST(rows_of_the_lecture_equal_derived_numbers)
{
    struct setup setup;
    struct lecture lecture = lecture_on(&rights[_i].question, &setup);
    const struct lecture_row *row = row_named(&lecture, rights[_i].row);
    ck_assert_msg(fabs(row->textbook - rights[_i].want) <= 1e-9 * rights[_i].want,
                  "%s, %s: %.12g instead of %.12g", rights[_i].question.layout, row->name,
                  row->textbook, rights[_i].want);
    lecture_release(&lecture);
    setup_release(&setup);
}
END_TEST

/* These plans cover every kind of exchange phase, schedules, recompute, ZeRO, fp8 and context
 * parallelism. */
static const struct question questions[] = {
    GPT3_ALONE("mb1 dtype=fp32"),
    P3("tp8 dp8 mb1 exchange=ps:2"),
    P3("tp8 dp8 mb1 exchange=tree"),
    P3("tp8 dp8 mb1 exchange=pga:6"),
    P3("dp64 mb1 exchange=hierarchical"),
    P3("dp64 mb1 exchange=gossip:exp"),
    P3("tp8 dp8 mb1 exchange=powersgd:4"),
    P3("tp8 dp8 mb1 exchange=topk:0.01"),
    P3("tp8 dp8 mb1 exchange=local:8"),
    PIPE("pp8 mb1 schedule=naive"),
    PIPE("pp8 mb1 schedule=gpipe recompute=selective"),
    PIPE("pp8 mb1 schedule=zb-h2"),
    PIPE("pp8 mb1 schedule=zb-h1 attn=unfused"),
    PIPE("pp4 dp2 mb1 vpp5 recompute=block:1"),
    PIPE("tp8 mb2 sp recompute=full:5"),
    LARGE("tp8 pp8 mb1 sp zero1 recompute=full"),
    LARGE("tp8 pp8 mb1 zero1 grad=bf16 optimizer=adam-8bit"),
    { "llama3-8b", "dgx-h100", "128", "tp2 cp2 dp16 mb1 sp zero3", 64 },
    { "llama3-8b", "dgx-h100", "128", "dp64 mb1 zero3 shard=8", 64 },
    { "llama2-70b", "dgx-h100", "128", "tp8 pp2 mb1 sp dtype=fp8", 64 },
    { "tiny", "rtx-2080ti-4", "16", "tp2 dp2 mb1", 4 },
};

/* Checks that a printed sentence mentions recompute only if the plan recomputes. */
static void check_gap(const struct lecture_row *row, const struct plan *plan)
{
    const char *gap = text_get(&row->gap);
    size_t length = strlen(gap);
    bool apart = isfinite(row->detailed) && lecture_has_gap(row);
    ck_assert_msg(!apart || length > 0, "%s: the difference between %g and %g is not explained",
                  row->name, row->textbook, row->detailed);
    ck_assert_msg(length == 0 || gap[length - 1] == '.', "%s: %s", row->name, gap);
    ck_assert_msg(length == 0 || (gap[0] >= 'A' && gap[0] <= 'Z') || gap[0] == 'r', "%s: %s",
                  row->name, gap);
    if (plan->recompute == RECOMPUTE_NONE)
        ck_assert_msg(!strstr(gap, "ecompute") && !strstr(gap, "run again") &&
                          !strstr(gap, "runs twice"),
                      "%s: %s", row->name, gap);
}

/* The tolerance is 0.3 %, because numbers are filled in with four digits. */
START_TEST(formulas_with_numbers_equal_their_values_and_differences_are_explained)
{
    struct setup setup;
    struct lecture lecture = lecture_on(&questions[_i], &setup);
    ck_assert_int_gt(lecture.count, 20);
    for (int i = 0; i < lecture.count; i++) {
        const struct lecture_row *row = &lecture.rows[i];
        double value = arithmetic(text_get(&row->filled));
        ck_assert_msg(fabs(value - row->textbook) <= 3e-3 * fabs(row->textbook),
                      "%s, %s: %s is %g, not %g", questions[_i].layout, row->name,
                      text_get(&row->filled), value, row->textbook);
        check_gap(row, &setup.plan);
    }
    lecture_release(&lecture);
    setup_release(&setup);
}
END_TEST

/* 72 B s l h^2 (1 + s/(12 h) + v/(12 l h)) are the FLOPs of a GPT's step that MFU counts, with the
 * causal half of attention and the output head.
 */
START_TEST(mfu_counts_the_causal_half_and_the_head)
{
    const struct question question = LARGE("tp8 pp8 mb1 sp zero1");
    struct setup setup;
    struct lecture lecture = lecture_on(&question, &setup);
    const struct lecture_row *row = row_named(&lecture, "causal half, with the head (as here)");
    ck_assert_double_eq_tol(row->textbook, row->detailed, 1e-6);
    row = row_named(&lecture, "full attention, with the head");
    ck_assert_double_eq_tol(row->textbook, row->detailed, 1e-6);
    lecture_release(&lecture);
    setup_release(&setup);
}
END_TEST

/* 8 FLOPs per token and parameter use 8 x 300e9 x 175e9 / (1024 x 312e12 x 34 x 86400) = 44.75 % of
 * the peak, and 6 FLOPs use 6/8 of that. With 45 % instead of 34 days, the same formula gives 33.81
 * days. The published 34 days correspond to 140/312 = 44.87 %. V100s are rated in fp16. */
START_TEST(utilization_and_days_follow_from_8tp_and_6tp)
{
    static const struct {
        const char *words;
        double with, without;
    } table[] = {
        { "params=175B tokens=300B gpus=1024 gpu=a100 days=34", 0.447509, 0.335632 },
        { "params=175B tokens=300B gpus=1024 gpu=a100 u=0.45", 33.8118 * 86400, 25.3588 * 86400 },
        { "gpu=v100 gpus=10000 days=14.8 params=174600M tokens=300B", 0.262162, 0.196622 },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        struct from_run run;
        struct err err = { 0 };
        ck_assert_msg(from_run_read(table[i].words, &run, &err), "%s: %s", err.where, err.msg);
        struct lecture lecture = from_run_lecture(&run);
        ck_assert_double_eq_tol(lecture.rows[0].textbook, table[i].with, 1e-5 * table[i].with);
        ck_assert_double_eq_tol(lecture.rows[1].textbook, table[i].without,
                                1e-5 * table[i].without);
        for (int row = 0; row < lecture.count; row++)
            ck_assert_double_eq_tol(arithmetic(text_get(&lecture.rows[row].filled)),
                                    lecture.rows[row].textbook, 1e-5 * lecture.rows[row].textbook);
        lecture_release(&lecture);
    }
}
END_TEST

START_TEST(the_error_of_a_wrong_run_option_names_its_word)
{
    static const char *const table[][2] = {
        { "params=175B", "lacks tokens=" },
        { "params=175B params=1B", "twice" },
        { "parms=175B", "did you mean params=" },
        { "params", "found \"params\"" },
        { "params=big", "with k, M, B or T" },
        { "params=1B tokens=1B gpus=8 gpu=a100", "found neither" },
        { "params=1B tokens=1B gpus=8 gpu=a100 days=1 u=0.4", "found both" },
        { "params=1B tokens=1B gpus=0 gpu=a100 days=1", "expected gpus" },
        { "params=1B tokens=1B gpus=8 gpu=v100 dtype=bf16 days=1", "no matrix units for bf16" },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        struct from_run run;
        struct err err = { 0 };
        ck_assert(!from_run_read(table[i][0], &run, &err));
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, table[i][1]) != NULL, "%s: %s", table[i][0], err.msg);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("explain");
    TCase *terms = tcase_create("terms");
    tcase_set_timeout(terms, 60);
    tcase_add_loop_test(terms, terms_of_two_plans_add_up_to_the_difference_of_their_steps, 0,
                        LENGTH(cases));
    suite_add_tcase(s, terms);
    TCase *lecture = tcase_create("lecture");
    tcase_add_loop_test(lecture, rows_of_the_lecture_equal_derived_numbers, 0, LENGTH(rights));
    tcase_add_loop_test(lecture,
                        formulas_with_numbers_equal_their_values_and_differences_are_explained, 0,
                        LENGTH(questions));
    tcase_add_test(lecture, mfu_counts_the_causal_half_and_the_head);
    tcase_add_test(lecture, utilization_and_days_follow_from_8tp_and_6tp);
    tcase_add_test(lecture, the_error_of_a_wrong_run_option_names_its_word);
    suite_add_tcase(s, lecture);
    return s;
}

TEST_MAIN(suite)
