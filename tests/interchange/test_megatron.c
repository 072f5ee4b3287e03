/* Tests Megatron-LM's arguments: reads them from lists and scripts, and checks which rules they
 * break. */
#include "interchange/target.h"
#include "tests/search/random_question.h"
#include "tests/testing.h"

#include "base/text.h"

#include <string.h>

static struct arena arena;
static struct imported imported;

static const struct target *megatron(void)
{
    struct err err = { 0 };
    return target_find("megatron", "--from", &err);
}

static void begin(int num_gpus)
{
    struct stack stack;
    struct err err = { 0 };
    struct gpu gpu = { 0 };
    arena_release(&arena);
    ck_assert(stack_load("megatron-core", &stack, &err));
    memset(&imported, 0, sizeof imported);
    imported.job = job_begin(&stack, &gpu);
    imported.job.num_gpus = num_gpus;
    imported.given.arena = imported.unknown.arena = imported.ignored.arena =
        imported.environment.arena = &arena;
    stack_release(&stack);
}

static bool read_text(const char *text, int num_gpus, struct err *err)
{
    begin(num_gpus);
    if (!megatron()->parse("args.txt", text, &imported, &arena, err))
        return false;
    if (num_gpus > 0)
        imported.job.num_gpus = num_gpus;
    return target_read(megatron(), &imported, &arena, err);
}

/* The layout text, valid until the next call. */
static const char *layout_of(const struct plan *plan)
{
    static char kept[1024];
    struct text text = { 0 };
    plan_write(plan, &text);
    snprintf(kept, sizeof kept, "%s", text_get(&text));
    text_release(&text);
    return kept;
}

#define MODEL                                                                         \
    "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 " \
    "--max-position-embeddings 2048 --vocab-size 50257 --bf16 "

/* Arguments that are appended to those of a model on 64 GPUs, and the layout that they mean. */
static const struct {
    const char *arguments, *layout;
} layouts[] = {
    { "--micro-batch-size 1 --global-batch-size 64", "tp1 pp1 dp64 mb1 overlap=none" },
    { "--tensor-model-parallel-size 8 --sequence-parallel --micro-batch-size 2 "
      "--global-batch-size 64 --use-distributed-optimizer --overlap-grad-reduce "
      "--overlap-param-gather",
      "tp8 pp1 dp8 mb2 sp zero1" },
    { "--tensor-model-parallel-size=8 --pipeline-model-parallel-size=8 --micro-batch-size=1 "
      "--num-layers-per-virtual-pipeline-stage=4 --overlap-grad-reduce",
      "tp8 pp8 dp1 mb1 vpp3" },
    { "--pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 6 "
      "--micro-batch-size 1 --global-batch-size 64 --overlap-grad-reduce "
      "--no-overlap-p2p-communication",
      "tp1 pp8 dp8 mb1 vpp6 overlap=grad" },
    { "--pipeline-model-parallel-size 8 --micro-batch-size 1 --overlap-grad-reduce "
      "--pipeline-model-parallel-layout Et*11|(t*12|)*6t*13L",
      "tp1 pp8 dp8 mb1 stages=11,12x6,13" },
    { "--pipeline-model-parallel-size 7 --micro-batch-size 1 --overlap-grad-reduce "
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
      "tp1 pp7 dp9 mb1 stages=13,14x5,13" },
    { "--pipeline-model-parallel-size 8 --micro-batch-size 1 --overlap-grad-reduce "
      "--decoder-first-pipeline-num-layers 10 --decoder-last-pipeline-num-layers 8",
      "tp1 pp8 dp8 mb1 stages=10,13x6,8" },
    { "--micro-batch-size 1 --overlap-grad-reduce --recompute-granularity full --recompute-method "
      "uniform --recompute-num-layers 4",
      "tp1 pp1 dp64 mb1 recompute=full:4" },
    { "--micro-batch-size 1 --overlap-grad-reduce --recompute-granularity full --recompute-method "
      "block --recompute-num-layers 4",
      "tp1 pp1 dp64 mb1 recompute=block:4" },
    { "--micro-batch-size 1 --overlap-grad-reduce --recompute-activations "
      "--recompute-modules core_attn layernorm",
      "tp1 pp1 dp64 mb1 recompute=selective:core_attn+layernorm" },
    { "--micro-batch-size 1 --use-megatron-fsdp --data-parallel-sharding-strategy "
      "optim_grads_params --overlap-grad-reduce --overlap-param-gather",
      "tp1 pp1 dp64 mb1 zero3" },
    { "--micro-batch-size 1 --use-distributed-optimizer --num-distributed-optimizer-instances 4 "
      "--overlap-grad-reduce --overlap-param-gather",
      "tp1 pp1 dp64 mb1 zero1 shard=16" },
    { "--micro-batch-size 1 --overlap-grad-reduce --fp8-format hybrid --fp8-recipe tensorwise "
      "--attention-backend unfused --context-parallel-size 2 --cp-comm-type a2a",
      "tp1 cp2 pp1 dp32 mb1 attn=unfused cp-comm=a2a dtype=fp8-cs" },
    { "--micro-batch-size 1 --overlap-grad-reduce --use-tp-pp-dp-mapping --grad-reduce-in-bf16",
      "tp1 pp1 dp64 mb1 grad=bf16 order=tp-cp-pp-dp" },
};

START_TEST(arguments_are_read_as_a_layout)
{
    struct err err = { 0 };
    char text[2048];
    snprintf(text, sizeof text, MODEL "%s", layouts[_i].arguments);
    bool ok = read_text(text, 64, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    struct plan expected;
    ck_assert(plan_parse(layouts[_i].layout, &arena, &expected, &err));
    ck_assert_str_eq(layout_of(&imported.job.plan), layout_of(&expected));
    ck_assert_int_eq(imported.unknown.count, 0);
}
END_TEST

/* Scripts that start the same training. */
static const char *const scripts[] = {
    "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n"
    "ARGS=\"" MODEL "\\\n  --micro-batch-size 1\"\nsrun python pretrain_gpt.py $ARGS "
    "--overlap-grad-reduce > log.txt\n",
    "GPUS_PER_NODE=8; NNODES=${SLURM_NNODES:-4}\nDIST=(--nproc_per_node $GPUS_PER_NODE\n"
    "  --nnodes=$NNODES # how many\n)\nMODEL=( " MODEL ")\nMODEL+=(--micro-batch-size 1)\n"
    "if [ -z \"$X\" ]; then MODEL+=( '--overlap-grad-reduce' ); fi\n"
    "torchrun ${DIST[@]} train/pretrain_gpt.py ${MODEL[@]} 2>&1 | tee log\n",
    "export MB=$((3-2)) WORLD_SIZE=$((4 * 8))\npython -u a.py --x 1\n"
    "bash -c \"python pretrain_gpt.py " MODEL " --micro-batch-size $MB --overlap-grad-reduce\"\n",
};

START_TEST(scripts_are_read_without_being_run)
{
    struct err err = { 0 };
    bool ok = read_text(scripts[_i], 0, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    ck_assert_int_eq(imported.job.num_gpus, 32);
    ck_assert_str_eq(layout_of(&imported.job.plan), "tp1 pp1 dp32 mb1");
    ck_assert_int_eq(imported.unknown.count, 0);
}
END_TEST

START_TEST(unknown_flags_are_listed_with_their_lines)
{
    struct err err = { 0 };
    ck_assert(read_text(MODEL "\n--micro-batch-size 1\n--frobnicate 3 4\n--lr 1e-4\n", 8, &err));
    ck_assert_int_eq(imported.unknown.count, 1);
    ck_assert_str_eq(imported.unknown.at[0].key, "--frobnicate");
    ck_assert_int_eq(imported.unknown.at[0].num_values, 2);
    ck_assert_int_eq(imported.unknown.at[0].line, 3);
    ck_assert_int_eq(imported.ignored.count, 1);
}
END_TEST

static const struct {
    const char *text, *where, *msg;
} faults[] = {
    { MODEL "\n--micro-batch-size two", "2: --micro-batch-size", "a whole number" },
    { MODEL "--recompute-granularity half", "--recompute-granularity", "one of none, full" },
    { "--num-layers 4 --hidden-size 64 --seq-length 64", "--num-attention-heads", "missing" },
    { MODEL "--pipeline-model-parallel-layout Ettx", "--pipeline-model-parallel-layout", "x" },
    { "echo hello\n", "", "runs a .py" },
    { "A='open\n", "", "quotation" },
};

START_TEST(faults_are_named)
{
    struct err err = { 0 };
    ck_assert(!read_text(faults[_i].text, 8, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, faults[_i].where) && strstr(err.msg, faults[_i].msg), "%s: %s",
                  err.where, err.msg);
}
END_TEST

/* Arguments that break a rule when they are appended to those of a model on 64 GPUs. */
static const struct {
    const char *arguments, *rule;
} broken[] = {
    { "--tensor-model-parallel-size 12", "P1" },
    { "--global-batch-size 65", "P2" },
    { "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
      "--num-layers-per-virtual-pipeline-stage 12",
      "P3" },
    { "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers 90", "P4" },
    { "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5", "P5" },
    { "--num-virtual-stages-per-pipeline-rank 2", "P6" },
    { "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5", "P7" },
    { "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*24|(t*24|)*2t*23L",
      "P8" },
    { "--overlap-param-gather --overlap-grad-reduce", "P9" },
    { "--overlap-param-gather --use-distributed-optimizer", "P9" },
    { "--num-attention-heads 80", "P10" },
    { "--tensor-model-parallel-size 64", "P11" },
    { "--group-query-attention --num-query-groups 6 --tensor-model-parallel-size 4", "P12" },
    { "--context-parallel-size 64 --seq-length 2000", "P13" },
    { "--max-position-embeddings 1024", "P14" },
    { "--recompute-granularity full", "P15" },
    { "--recompute-granularity selective --recompute-method uniform", "P15" },
    { "--sequence-parallel", "P16" },
    { "--tensor-model-parallel-size 2 --tp-comm-overlap", "P16" },
    { "--expert-model-parallel-size 2", "P17" },
    { "--num-experts 8 --expert-model-parallel-size 3 --disable-bias-linear", "P17" },
    { "--cpu-offloading --pipeline-model-parallel-size 2", "P18" },
    { "--use-megatron-fsdp", "P20" },
    { "--train-iters 5 --train-samples 6", "P21" },
    { "--use-precision-aware-optimizer", "P22" },
    { "--pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 5", "R1" },
    { "--pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 2 "
      "--global-batch-size 104",
      "R2" },
    { "--num-experts 128 --expert-model-parallel-size 128 --disable-bias-linear", "R3" },
    { "--num-experts 8 --tensor-model-parallel-size 2 --disable-bias-linear", "R4" },
    { "--rampup-batch-size 63 64 1000 --global-batch-size 128", "R5" },
    { "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel", "E1" },
    { "--num-experts 8 --moe-router-topk 1 --disable-bias-linear", "E2" },
    { "--num-experts 8 --overlap-moe-expert-parallel-comm --disable-bias-linear", "E3" },
    { "--num-experts 8 --moe-pad-expert-input-to-capacity --disable-bias-linear", "E4" },
    { "--mtp-num-layers 1", "E5" },
};

/* Each mistake must break its rule, and no earlier rule. */
START_TEST(each_mistake_breaks_its_rule)
{
    struct err err = { 0 }, found = { 0 };
    char text[2048];
    snprintf(text, sizeof text, MODEL "--micro-batch-size 1 --overlap-grad-reduce %s",
             broken[_i].arguments);
    if (strstr(text, "--overlap-param-gather --use"))
        snprintf(text, sizeof text, MODEL "--micro-batch-size 1 %s", broken[_i].arguments);
    begin(64);
    ck_assert(megatron()->parse("", text, &imported, &arena, &err));
    bool is_read = target_read(megatron(), &imported, &arena, &err);
    const struct target_rule *rule = target_check_file(megatron(), &imported, NULL, &found);
    ck_assert_msg(rule && strcmp(rule->id, broken[_i].rule) == 0,
                  "expected rule %s, found %s: %s %s (import: %s)", broken[_i].rule,
                  rule ? rule->id : "none", found.where, found.msg, is_read ? "ok" : err.msg);
}
END_TEST

Suite *suite(void);
Suite *suite(void)
{
    Suite *suite = suite_create("megatron");
    TCase *reading = tcase_create("reading");
    tcase_add_loop_test(reading, arguments_are_read_as_a_layout, 0, LENGTH(layouts));
    tcase_add_loop_test(reading, scripts_are_read_without_being_run, 0, LENGTH(scripts));
    tcase_add_test(reading, unknown_flags_are_listed_with_their_lines);
    tcase_add_loop_test(reading, faults_are_named, 0, LENGTH(faults));
    tcase_add_loop_test(reading, each_mistake_breaks_its_rule, 0, LENGTH(broken));
    suite_add_tcase(suite, reading);
    return suite;
}
TEST_MAIN(suite)
