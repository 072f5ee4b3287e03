#include "base/file.h"
#include "base/length.h"
#include "base/text.h"
#include "calibration/learn/train_log.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Traces in the formats of the profilers; names and times are made up. */
static bool read_text(const char *text, struct trace *out, struct err *err)
{
    char path[] = "/tmp/trace-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ck_assert(trace_is(path));
    bool ok = trace_read(path, out, err);
    unlink(path);
    return ok;
}

#define HEAD                                                                                       \
    "{ \"schemaVersion\": 1, \"deviceProperties\": [ { \"id\": 0, \"name\": \"Made-up GPU\" } "    \
    "],\n"                                                                                         \
    "\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": 1700000000000000000, \"traceEvents\": " \
    "[\n"
#define EVENT(cat, name, ts, dur, args)                        \
    "{ \"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name \
    "\", \"pid\": 0, \"tid\": 7,\n  \"ts\": " ts ", \"dur\": " dur ", \"args\": { " args " } },\n"
#define STEP(n, ts, dur) EVENT("user_annotation", "ProfilerStep#" n, ts, dur, "\"Ev Idx\": 1")
#define PRODUCT(ts, dur) \
    EVENT("kernel", "made_up_gemm_bf16", ts, dur, "\"device\": 0, \"stream\": 7, \"queued\": 0")
#define GATHER(ts, dur)                                                                           \
    EVENT("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ts, dur, \
          "\"device\": 0, \"stream\": 9, \"Collective name\": \"_allgather_base\", "              \
          "\"In msg nelems\": 64, \"Group size\": 8, \"dtype\": \"BFloat16\"")
#define TAIL "{ \"ph\": \"i\", \"name\": \"Record Window End\", \"s\": \"g\", \"ts\": 5000 } ] }\n"

/* Four steps: a warm-up of 900 us, then steps of 100, 120 and 140 us. In each counted step, the
 * first half of a collective of 40 us overlaps a product. So the times of product, exposed
 * collective and idle are 60, 20 and 20 us; 80, 20 and 20; and 100, 20 and 20. Events are out of
 * order, and there are other categories, instants and a second GPU. */
#define STEPS                       \
    STEP("3", "100.000", "900.000") \
    STEP("5", "1100.000", "120.000") STEP("4", "1000.000", "100.000") STEP("6", "1220.000", "140.0")
#define KERNELS                                                                             \
    GATHER("1040.000", "40.000")                                                            \
    PRODUCT("200.000", "700.000")                                                           \
    PRODUCT("1000.000", "60.000")                                                           \
    PRODUCT("1100.000", "80.000")                                                           \
    GATHER("1160.000", "40.000")                                                            \
    PRODUCT("1220.000", "100.000")                                                          \
    GATHER("1300.000", "40.000")                                                            \
    EVENT("kernel", "made_up_gemm_bf16", "1000.0", "360.0", "\"device\": 1, \"stream\": 7") \
    EVENT("cpu_op", "aten::mm", "1000.000", "360.000", "\"External id\": 4")

START_TEST(steps_and_kernels_are_read_from_a_kineto_trace)
{
    struct trace got;
    struct err err = { 0 };
    check_ok(read_text(HEAD STEPS PRODUCT("150.0", "1.0") KERNELS TAIL, &got, &err), &err);
    ck_assert_str_eq(got.format, "kineto");
    ck_assert_int_eq(got.steps, 3);
    ck_assert_int_eq(got.warm_up, 1);
    ck_assert_double_eq_tol(got.step_s, 120e-6, 1e-12);
    ck_assert_double_eq_tol(got.compute_s, 80e-6, 1e-12);
    ck_assert_double_eq_tol(got.exposed_s, 20e-6, 1e-12);
    ck_assert_double_eq_tol(got.idle_s, 20e-6, 1e-12);
    ck_assert_int_eq(got.num_collectives, 1);
    ck_assert_str_eq(got.collectives[0].name, "AllGather");
    ck_assert_double_eq_tol(got.collectives[0].seconds, 40e-6, 1e-12);
    ck_assert_double_eq_tol(got.collectives[0].count, 1, 1e-12);
}
END_TEST

#define NSYS_HEAD                                                                                 \
    "Processing [made_up.sqlite] with [cuda_gpu_trace.py]...\n"                                   \
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem " \
    "(MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
#define ROW(start, duration, name) \
    start "," duration ",1,1,1,1,1,1,1,1,0.000,0.000,,,,,Made-up GPU (0),1,,7," name "\n"
#define ADAM \
    "\"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int, int)\""

/* Steps end with two optimizer kernels of 20 us, 10 us apart, at 1000, 2000 and 3100 us. So there
 * are two steps, of 1000 and 1100 us. */
START_TEST(an_nsys_trace_is_divided_into_steps_at_its_optimizer_kernels)
{
    struct trace got;
    struct err err = { 0 };
    const char *text =
        NSYS_HEAD ROW("100000", "500000", "made_up_gemm") ROW("1000000", "20000", ADAM)
            ROW("1030000", "20000", ADAM) ROW("1100000", "600000", "made_up_gemm")
                ROW("1700000", "100000", "\"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)\"")
                    ROW("1800000", "5000", "[CUDA memcpy Device-to-Device]")
                        ROW("2000000", "20000", ADAM) ROW("2030000", "20000", ADAM)
                            ROW("2100000", "700000", "made_up_gemm") ROW("3100000", "20000", ADAM)
                                ROW("3130000", "20000", ADAM);
    check_ok(read_text(text, &got, &err), &err);
    ck_assert_str_eq(got.format, "nsys");
    ck_assert_int_eq(got.steps, 2);
    ck_assert_double_eq_tol(got.step_s, 1100e-6, 1e-12);
    ck_assert_double_eq_tol(got.compute_s, (600 + 40 + 700 + 40) / 2 * 1e-6, 1e-12);
    ck_assert_double_eq_tol(got.exposed_s, 50e-6, 1e-12);
    ck_assert_double_eq_tol(got.idle_s, 1050e-6 - got.compute_s - got.exposed_s, 1e-12);
    ck_assert_str_eq(got.collectives[0].name, "ReduceScatter");
}
END_TEST

static const struct {
    const char *text, *what;
} faulty[] = {
    { HEAD TAIL, "expected kernels" },
    { HEAD PRODUCT("1.0", "2.0") TAIL, "expected steps" },
    { HEAD STEP("1", "0.0", "0.0") PRODUCT("1.0", "2.0") TAIL, "steps that take time" },
    { HEAD STEP("1", "0.0", "9.0") "{ \"ph\": \"X\", \"cat\": \"ker", "truncated" },
    { HEAD "7 ] }", "expected an event" },
    { "{ \"deviceProperties\": [], \"traceEvents\": 7 }", "a list" },
    { NSYS_HEAD, "expected kernels" },
    { NSYS_HEAD ROW("1", "2", "made_up_gemm"), "expected steps" },
    { NSYS_HEAD "1,2,3\n", "truncated" },
    { NSYS_HEAD ROW("nan", "2", "made_up_gemm"), "expected a row" },
    { "Start (ns),Duration (ns)\n1,2\n", "the columns" },
    /* this trace has one optimizer phase, whose kernels are a few us apart */
    { NSYS_HEAD ROW("100000", "900000", "made_up_gemm") ROW("1000000", "20", ADAM)
          ROW("1000030", "20", ADAM) ROW("1000060", "20", ADAM),
      "two optimizer phases" },
};

START_TEST(a_trace_without_steps_is_refused_by_name)
{
    struct trace got;
    struct err err = { 0 };
    ck_assert(!read_text(faulty[_i].text, &got, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, "trace-") && strstr(err.msg, faulty[_i].what), "%s: %s",
                  err.where, err.msg);
}
END_TEST

/* Every truncated trace is either read or refused. No truncated trace crashes the program. */
START_TEST(truncated_traces_are_refused)
{
    static const char whole[] = HEAD STEPS KERNELS TAIL;
    char part[sizeof whole];
    for (size_t n = strlen(HEAD); n + 3 < sizeof whole; n += 7) {
        struct trace got;
        struct err err = { 0 };
        memcpy(part, whole, n);
        part[n] = '\0';
        ck_assert_msg(!read_text(part, &got, &err), "accepted a trace cut after %zu bytes", n);
        ck_assert_int_eq(err.code, ERR_INPUT);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/learn/trace");
    TCase *cases = tcase_create("traces");
    tcase_add_test(cases, steps_and_kernels_are_read_from_a_kineto_trace);
    tcase_add_test(cases, an_nsys_trace_is_divided_into_steps_at_its_optimizer_kernels);
    tcase_add_loop_test(cases, a_trace_without_steps_is_refused_by_name, 0, LENGTH(faulty));
    tcase_add_test(cases, truncated_traces_are_refused);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
