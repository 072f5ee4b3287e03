#include "base/length.h"
#include "calibration/learn/train_log.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_text(const char *text, struct train_log *out, struct err *err)
{
    char path[] = "/tmp/train-log-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    bool ok = train_log_read(path, out, err);
    unlink(path);
    return ok;
}

#define MEGATRON(step, ms, loss, more)                                                          \
    " [2026-01-01 00:00:00] iteration " step "/ 100 | consumed samples: 64 | elapsed time per " \
    "iteration (ms): " ms " | throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: "        \
    "1.0E-04 | global batch size: 64 | lm loss: " loss " | loss scale: 1.0 |" more "\n"
#define SKIPPED " number of skipped iterations: 1 | number of nan iterations: 0 |"
#define TITAN(step, loss, memory, tps)                                                            \
    "[titan] 2026-01-01 00:00:00,000 - root - INFO - \033[31mstep: " step "  \033[32mloss: " loss \
    "  \033[38;2;180;60;0mgrad_norm:  1.0  \033[36mmemory: " memory                               \
    "GiB(60.00%)  \033[34mtps: " tps "  \033[36mtflops: 400.00  \033[35mmfu: 40.00%\033[39m\n"
#define DEEPSPEED(step, rate)                                                                 \
    "[2026-01-01] [INFO] epoch=0/micro_step=8/global_step=" step ", RunningAvgSamplesPerSec=" \
    "9.0, CurrSamplesPerSec=" rate ", MemAllocated=10.0GB, MaxMemAllocated=20.5GB\n"
#define PIPE(step, s) "steps: " step " loss: 2.5000 iter time (s): " s " samples/sec: 50.000\n"
#define BRIDGE(s)     "Step Time : " s "s GPU utilization: 500.0MODEL_TFLOP/s/GPU\n"

/* Log lines in the forms of the frameworks, with made-up numbers. */
static const struct {
    const char *what, *text, *format;
    double step_s, tokens, samples, gib, loss;
    int steps, warm_up, stragglers, bad, repeats, restarts;
} logs[] = {
    { "megatron",
      "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: "
      "3.0 | max reserved: 4096.0\n" MEGATRON("       1", "9000.0", "1.0E+01", "") MEGATRON(
          "       2", "2000.0", "9.0E+00", "") MEGATRON("       3", "2010.0", "8.0E+00", "")
          MEGATRON("       4", "1990.0", "7.5E+00", ""),
      "megatron", 2, -1, -1, 4, 7.5, 3, 1, 0, 0, 0, 0 },
    { "a straggler, a NaN and a skipped step",
      MEGATRON("1", "9000.0", "9.0", "") MEGATRON("2", "2000.0", "9.0", "")
          MEGATRON("3", "2000.0", "9.0", "") MEGATRON("4", "7000.0", "9.0", "")
              MEGATRON("5", "2000.0", "nan", "") MEGATRON("6", "1000.0", "8.0", SKIPPED)
                  MEGATRON("7", "2000.0", "8.0", ""),
      "megatron", 2, -1, -1, -1, 8, 3, 1, 1, 2, 0, 0 },
    { "a restart, whose first step compiles again",
      MEGATRON("1", "9000.0", "9.0", "") MEGATRON("2", "2000.0", "9.0", "")
          MEGATRON("3", "2000.0", "9.0", "") MEGATRON("4", "2000.0", "9.0", "")
              MEGATRON("1", "8000.0", "9.0", "") MEGATRON("2", "2000.0", "9.0", ""),
      "megatron", 2, -1, -1, -1, 9, 4, 2, 0, 0, 0, 1 },
    { "ranks of one step, the slowest counts",
      MEGATRON("1", "9.0", "9.0", "") MEGATRON("1", "9.0", "9.0", "")
          MEGATRON("2", "2000.0", "9.0", "") MEGATRON("3", "1000.0", "9.0", "")
              MEGATRON("2", "1000.0", "9.0", "") MEGATRON("3", "2000.0", "9.0", "")
                  MEGATRON("4", "2000.0", "9.0", ""),
      "megatron", 2, -1, -1, -1, 9, 3, 1, 0, 0, 3, 0 },
    { "torchtitan",
      TITAN(" 1", "11.0", "50.00", "100") TITAN("10", " 9.0", "50.00", "7,000")
          TITAN("20", " 8.0", "51.00", "7,010") TITAN("30", " 7.0", "50.00", "6,990"),
      "torchtitan", -1, 7000, -1, 51, 7, 3, 1, 0, 0, 0, 0 },
    { "deepspeed",
      DEEPSPEED("10", "1.0") DEEPSPEED("20", "50.0") DEEPSPEED("30", "51.0")
          DEEPSPEED("40", "49.0"),
      "deepspeed", -1, -1, 50, 20.5, NAN, 3, 1, 0, 0, 0, 0 },
    { "deepspeed's pipeline",
      PIPE("10", "9.0") PIPE("20", "1.2") PIPE("30", "1.2") PIPE("40", "1.2"), "deepspeed-pipe",
      1.2, -1, -1, -1, 2.5, 3, 1, 0, 0, 0, 0 },
    { "bridge", BRIDGE("30.00") BRIDGE("4.20") BRIDGE("4.21") BRIDGE("4.19"), "bridge", 4.2, -1, -1,
      -1, NAN, 3, 1, 0, 0, 0, 0 },
    { "hf",
      "{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
      "{'train_runtime': 100.0, 'train_samples_per_second': 4.0, 'train_steps_per_second': "
      "0.5, 'train_loss': 1.5, 'epoch': 1.0}\n",
      "hf", 2, -1, 4, -1, 1.5, 50, 0, 0, 0, 0, 0 },
};

static void expect(const char *what, const char *name, double got, double expected)
{
    bool same = isnan(expected) ? isnan(got) : fabs(got - expected) < 1e-9;
    ck_assert_msg(same, "%s: %s is %g, expected %g", what, name, got, expected);
}

START_TEST(step_times_are_read_from_a_log)
{
    struct train_log got;
    struct err err = { 0 };
    const char *what = logs[_i].what;
    ck_assert_msg(read_text(logs[_i].text, &got, &err), "%s: %s %s", what, err.where, err.msg);
    ck_assert_str_eq(got.format, logs[_i].format);
    expect(what, "step_s", got.step_s, logs[_i].step_s);
    expect(what, "tokens", got.tokens_per_s_per_gpu, logs[_i].tokens);
    expect(what, "samples", got.samples_per_s, logs[_i].samples);
    expect(what, "memory", got.memory_bytes < 0 ? -1 : got.memory_bytes / (1 << 30), logs[_i].gib);
    expect(what, "loss", got.last_loss, logs[_i].loss);
    expect(what, "steps", got.steps, logs[_i].steps);
    expect(what, "warm-up", got.warm_up, logs[_i].warm_up);
    expect(what, "stragglers", got.stragglers, logs[_i].stragglers);
    expect(what, "bad", got.bad, logs[_i].bad);
    expect(what, "repeats", got.repeats, logs[_i].repeats);
    expect(what, "restarts", got.restarts, logs[_i].restarts);
}
END_TEST

START_TEST(arguments_printed_at_the_start_of_a_log_are_read)
{
    struct train_log got;
    struct err err = { 0 };
    const char *text =
        "------------------------ arguments ------------------------\n"
        "  global_batch_size ............................... 64\n"
        "  decoder_seq_length .............................. None\n"
        "  hidden_size ..................................... 4096\n"
        "  num_layers ...................................... 32\n"
        "  seq_length ...................................... 2048\n" PIPE("10", "9.0")
            PIPE("20", "1.2") PIPE("30", "1.2") PIPE("40", "1.2");
    ck_assert(read_text(text, &got, &err));
    ck_assert_int_eq(got.layers, 32);
    ck_assert_int_eq(got.hidden, 4096);
    ck_assert_int_eq(got.seq, 2048);
    ck_assert_int_eq(got.batch, 64);
}
END_TEST

START_TEST(the_batch_is_read_from_logs_of_other_frameworks)
{
    struct train_log got;
    struct err err = { 0 };
    ck_assert(read_text(
        "[2026-01-01] [INFO] [config.py:1:print]   train_batch_size ............. 96\n"
        "[2026-01-01] [INFO] [config.py:1:print]   train_micro_batch_size_per_gpu  6\n" PIPE(
            "10", "9.0") PIPE("20", "1.2") PIPE("30", "1.2") PIPE("40", "1.2"),
        &got, &err));
    ck_assert_int_eq(got.batch, 96);
    ck_assert(
        read_text("***** Running training *****\n  Num examples = 1,000\n"
                  "  Total train batch size (w. parallel, distributed & accumulation) = 1,024\n"
                  "{'train_runtime': 100.0, 'train_samples_per_second': 4.0, "
                  "'train_steps_per_second': 0.5, 'train_loss': 1.5, 'epoch': 1.0}\n",
                  &got, &err));
    ck_assert_int_eq(got.batch, 1024);
}
END_TEST

static const struct {
    const char *text, *what;
} faulty[] = {
    { "", "found none in 0 lines" },
    { "hello\nworld\n", "found none in 2 lines" },
    { MEGATRON("1", "9000.0", "9.0", "") MEGATRON("2", "2000.0", "9.0", ""), "truncated" },
    { MEGATRON("1", "9000.0", "9.0",
               "") " [2026] iteration 2/ 100 | elapsed time per iteration (ms): ",
      "truncated" },
    { "{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n", "found none" },
};

START_TEST(a_log_without_steps_is_refused_by_name)
{
    struct train_log got;
    struct err err = { 0 };
    ck_assert(!read_text(faulty[_i].text, &got, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, "train-log-") && strstr(err.msg, faulty[_i].what), "%s: %s",
                  err.where, err.msg);
}
END_TEST

START_TEST(a_throughput_is_converted_to_a_time_by_the_batch)
{
    struct train_log tokens = { .step_s = -1, .tokens_per_s_per_gpu = 1000, .samples_per_s = -1 };
    struct train_log samples = { .step_s = -1, .tokens_per_s_per_gpu = -1, .samples_per_s = 32 };
    struct train_log none = { .step_s = -1, .tokens_per_s_per_gpu = -1, .samples_per_s = -1 };
    ck_assert_double_eq(train_log_step_s(&tokens, 64, 1000, 8), 8);
    ck_assert_double_eq(train_log_step_s(&samples, 64, 1000, 8), 2);
    ck_assert_double_eq(train_log_step_s(&none, 64, 1000, 8), -1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/learn/train_log");
    TCase *cases = tcase_create("logs");
    tcase_add_loop_test(cases, step_times_are_read_from_a_log, 0, LENGTH(logs));
    tcase_add_test(cases, arguments_printed_at_the_start_of_a_log_are_read);
    tcase_add_test(cases, the_batch_is_read_from_logs_of_other_frameworks);
    tcase_add_loop_test(cases, a_log_without_steps_is_refused_by_name, 0, LENGTH(faulty));
    tcase_add_test(cases, a_throughput_is_converted_to_a_time_by_the_batch);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
