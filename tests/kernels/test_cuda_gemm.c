/* Tests the tuning of matrix products with a replacement of cuBLASLt that has few algorithms
 * (tests/cuda_on_host/cublasLt.h). */
#include "base/file.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_table.h"
#include "kernels/host/round.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/testing.h"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/simsearch-gemm-XXXXXX";
static struct err err;

/* Chooses the name of a file that does not exist, for the tuning table. */
static void begin(void)
{
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    unlink(path);
    err = (struct err){ 0 };
}

static void end(void)
{
    unlink(path);
}

static struct gemm_choice choice_of(int64_t m, uint64_t word)
{
    return (struct gemm_choice){ .shape = { .m = m, .n = -1, .alignment_bytes = 16 },
                                 .is_taken = true,
                                 .algorithm = { word, 0, UINT64_MAX },
                                 .workspace_bytes = 12345 };
}

START_TEST(a_written_table_reads_back_equal)
{
    struct gemm_table table = { 0 }, again;
    struct gemm_choice first = choice_of(7, 3), second = choice_of(8, 4);
    gemm_table_add(&table, &first);
    gemm_table_add(&table, &second);
    ck_assert(gemm_table_add_to_file(path, &table, &err));
    ck_assert_msg(gemm_table_read(path, &again, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_eq(again.count, 2);
    ck_assert_mem_eq(again.at, table.at, 2 * sizeof *table.at);
    ck_assert_ptr_eq(gemm_table_find(&again, &second.shape), &again.at[1]);
    second.shape.k = 1;
    ck_assert_ptr_null(gemm_table_find(&again, &second.shape));
    gemm_table_release(&table);
    gemm_table_release(&again);
}
END_TEST

START_TEST(saving_adds_missing_lines_and_keeps_those_of_others)
{
    struct gemm_table first = { 0 }, second = { 0 }, file;
    struct gemm_choice of_both = choice_of(1, 3), of_second = choice_of(2, 4);
    gemm_table_add(&first, &of_both);
    of_both.algorithm[0] = 5;
    gemm_table_add(&second, &of_both);
    gemm_table_add(&second, &of_second);
    ck_assert(gemm_table_add_to_file(path, &first, &err));
    ck_assert(gemm_table_add_to_file(path, &second, &err));
    ck_assert(gemm_table_add_to_file(path, &first, &err));
    ck_assert(gemm_table_read(path, &file, &err));
    ck_assert_int_eq(file.count, 2);
    ck_assert_uint_eq(gemm_table_find(&file, &of_both.shape)->algorithm[0], 3);
    ck_assert_uint_eq(gemm_table_find(&file, &of_second.shape)->algorithm[0], 4);
    gemm_table_release(&first);
    gemm_table_release(&second);
    gemm_table_release(&file);
}
END_TEST

START_TEST(every_shape_is_found_and_the_first_of_two_lines_is_used)
{
    enum { MANY = 1000 };
    struct gemm_table table = { 0 };
    for (int i = 0; i < 2 * MANY; i++) {
        struct gemm_choice choice = choice_of(i % MANY, (uint64_t)i);
        gemm_table_add(&table, &choice);
    }
    for (int i = 0; i < MANY; i++) {
        struct gemm_choice choice = choice_of(i, 0);
        ck_assert_uint_eq(gemm_table_find(&table, &choice.shape)->algorithm[0], (uint64_t)i);
    }
    struct gemm_choice other = choice_of(MANY, 0);
    ck_assert_ptr_null(gemm_table_find(&table, &other.shape));
    gemm_table_release(&table);
}
END_TEST

START_TEST(an_absent_table_is_empty)
{
    struct gemm_table table;
    ck_assert(gemm_table_read(path, &table, &err));
    ck_assert_int_eq(table.count, 0);
}
END_TEST

START_TEST(an_invalid_line_is_named)
{
    static const char *const lines[] = { "\n", "1 2 3\n", "nonsense",
                                         "1 2 3 4 5 6 7 8 9 10 11 12 "
                                         "13 14 15 16 17 18 19 20 21 1 22 0 0 "
                                         "0 0 0 0 0 0 0\n" };
    struct gemm_table table = { 0 }, again;
    struct gemm_choice choice = choice_of(7, 3);
    gemm_table_add(&table, &choice);
    ck_assert(gemm_table_add_to_file(path, &table, &err));
    FILE *file = fopen(path, "a");
    ck_assert_ptr_nonnull(file);
    fputs(lines[_i], file);
    fclose(file);
    ck_assert(!gemm_table_read(path, &again, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.where, "line 2"));
    ck_assert_ptr_nonnull(strstr(err.where, path));
    gemm_table_release(&table);
    gemm_table_release(&again);
}
END_TEST

/* The product c[m, n] = a[m, k] b[n, k]^T, where all elements of a and b are 1. */
static struct gemm_product product_of(long m, long n, long k, enum dtype dtype, const void *ones,
                                      void *c)
{
    return (struct gemm_product){ .m = m,
                                  .n = n,
                                  .k = k,
                                  .b_is_transposed = true,
                                  .c_dtype = dtype,
                                  .a = ones,
                                  .b = ones,
                                  .c = c,
                                  .a_stride = k,
                                  .b_stride = k,
                                  .c_stride = n,
                                  .batch = 1 };
}

/* Adds the product to the values in c. */
static void multiply_on(cudaStream_t stream, struct gemm *gemm, float *c)
{
    static char workspace[1];
    static const float ones[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    struct launch launch = {
        .stream = stream, .storage = DTYPE_FP32, .workspace = workspace, .gemm = gemm
    };
    struct gemm_product product = product_of(2, 3, 4, DTYPE_FP32, ones, c);
    product.is_added = true;
    ck_assert_int_eq(gemm_run(&launch, &product), cudaSuccess);
}

static void multiply(struct gemm *gemm, float *c)
{
    multiply_on(NULL, gemm, c);
}

START_TEST(the_fastest_algorithm_is_kept_and_tuning_adds_no_product)
{
    float c[6] = { 1, 2, 3, 4, 5, 6 };
    struct gemm *gemm = gemm_open(path, &err);
    ck_assert_msg(gemm != NULL, "%s: %s", err.where, err.msg);
    multiply(gemm, c);
    multiply(gemm, c);
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq((double)c[i], i + 1 + 8);
    ck_assert_str_eq(gemm_failure(gemm), "");
    gemm_close(gemm);
    struct gemm_table table;
    ck_assert_msg(gemm_table_read(path, &table, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_eq(table.count, 1);
    ck_assert_int_eq(table.at[0].shape.m, 2);
    ck_assert_uint_eq(table.at[0].algorithm[0], FAST);
    gemm_table_release(&table);
}
END_TEST

/* The tuning table in the home directory was written for another GPU (H100 PCIe), or before an
 * update of the driver. */
START_TEST(lines_of_another_gpu_are_kept_but_not_used)
{
    float c[6] = { 0 };
    struct gemm_table table, again;
    struct gemm *gemm = gemm_open(path, &err);
    multiply(gemm, c);
    gemm_close(gemm);
    ck_assert(gemm_table_read(path, &table, &err));
    ck_assert_int_eq(table.at[0].shape.capability, 90);
    ck_assert_int_eq(table.at[0].shape.num_processors, 132);
    if (_i == 0)
        table.at[0].shape.num_processors = 114;
    else
        table.at[0].shape.driver--;
    table.at[0].algorithm[0] = SLOW;
    unlink(path);
    ck_assert(gemm_table_add_to_file(path, &table, &err));
    gemm = gemm_open(path, &err);
    multiply(gemm, c);
    gemm_close(gemm);
    ck_assert(gemm_table_read(path, &again, &err));
    ck_assert_int_eq(again.count, 2);
    ck_assert_uint_eq(again.at[0].algorithm[0], SLOW);
    ck_assert_uint_eq(again.at[1].algorithm[0], FAST);
    gemm_table_release(&table);
    gemm_table_release(&again);
}
END_TEST

/* c[8, 8] = a b^T (+ bias), where all inputs are 1 in 16 bits: each result is k. */
enum { MOST_TERMS = 131 };
static float product_of_ones(long k, const uint16_t *bias, uint64_t *algorithm)
{
    static uint16_t ones[8 * MOST_TERMS], c[8 * 8];
    static const float one = 1;
    for (int i = 0; i < 8 * MOST_TERMS; i++)
        bf16_pack(1, &one, &ones[i]);
    struct gemm *gemm = gemm_open(path, &err);
    struct launch launch = { .storage = DTYPE_BF16, .gemm = gemm };
    struct gemm_product product = product_of(8, 8, k, DTYPE_BF16, ones, c);
    product.bias = bias;
    ck_assert_int_eq(gemm_run(&launch, &product), cudaSuccess);
    gemm_close(gemm);
    struct gemm_table table;
    ck_assert(gemm_table_read(path, &table, &err));
    *algorithm = table.at[0].algorithm[0];
    gemm_table_release(&table);
    float sum;
    bf16_unpack(1, &c[7], &sum);
    return sum;
}

START_TEST(sums_of_whole_blocks_may_use_split_k)
{
    uint64_t algorithm;
    ck_assert_double_eq((double)product_of_ones(128, NULL, &algorithm), 128);
    ck_assert_uint_eq(algorithm, IN_PARTS);
}
END_TEST

START_TEST(no_term_of_a_product_is_lost)
{
    uint64_t algorithm;
    ck_assert_double_eq((double)product_of_ones(MOST_TERMS, NULL, &algorithm), MOST_TERMS);
    ck_assert_uint_eq(algorithm, FAST);
}
END_TEST

START_TEST(a_product_with_a_bias_does_not_use_split_k)
{
    static const uint16_t bias[8];
    uint64_t algorithm;
    ck_assert_double_eq((double)product_of_ones(128, bias, &algorithm), 128);
    ck_assert_uint_eq(algorithm, FAST);
}
END_TEST

/* c[8, n] = a^T b, where a[k, 8] holds 1, 2, ... and all elements of b are 1; the columns of a are
 * summed too (the bias gradient). */
enum { MOST_K = 5, MOST_N = 16 };
static struct gemm_product with_sums(long n, long k, float *c, float *sums)
{
    static float a[8 * MOST_K], ones[MOST_K * MOST_N];
    for (int i = 0; i < 8 * MOST_K; i++)
        a[i] = (float)(i + 1);
    for (int i = 0; i < MOST_K * MOST_N; i++)
        ones[i] = 1;
    return (struct gemm_product){ .m = 8,
                                  .n = n,
                                  .k = k,
                                  .a_is_transposed = true,
                                  .is_added = true,
                                  .c_dtype = DTYPE_FP32,
                                  .a = a,
                                  .b = ones,
                                  .c = c,
                                  .a_sums = sums,
                                  .a_stride = 8,
                                  .b_stride = n,
                                  .c_stride = n,
                                  .batch = 1 };
}

/* Column i of a holds i + 1, i + 9 and i + 17. */
START_TEST(bias_sums_are_overwritten_by_every_tuning_run)
{
    float c[128] = { 0 }, sums[8] = { 99, 99, 99, 99, 99, 99, 99, 99 };
    struct gemm *gemm = gemm_open(NULL, &err);
    struct launch launch = { .storage = DTYPE_FP32, .workspace = c, .gemm = gemm };
    struct gemm_product product = with_sums(16, 3, c, sums);
    ck_assert(gemm_offers(&launch, &product));
    ck_assert_int_eq(gemm_run(&launch, &product), cudaSuccess);
    for (int i = 0; i < 8; i++) {
        ck_assert_double_eq((double)sums[i], 3 * i + 27);
        ck_assert_double_eq((double)c[16 * i + 15], 3 * i + 27);
    }
    ck_assert(gemm_offers(&launch, &product));
    gemm_close(gemm);
}
END_TEST

/* cuBLASLt proposes no algorithm for the first product, and those that it proposes for the second
 * fail to run. */
START_TEST(a_product_without_proposals_for_its_epilogue_runs_separately)
{
    static const struct {
        long n, k;
        float sum;
    } refused[] = { { 15, 3, 27 }, { 16, 5, 85 } };
    float c[128] = { 0 }, sums[8];
    struct gemm *gemm = gemm_open(path, &err);
    struct launch launch = { .storage = DTYPE_FP32, .workspace = c, .gemm = gemm };
    struct gemm_product product = with_sums(refused[_i].n, refused[_i].k, c, sums);
    int asked = algorithms_asked;
    ck_assert(!gemm_offers(&launch, &product));
    ck_assert(!gemm_offers(&launch, &product));
    ck_assert_int_eq(gemm_run(&launch, &product), cudaErrorUnknown);
    ck_assert_int_eq(algorithms_asked, asked + 1);
    ck_assert(!file_exists(path));
    product.a_sums = NULL;
    ck_assert(gemm_offers(&launch, &product));
    ck_assert_int_eq(gemm_run(&launch, &product), cudaSuccess);
    ck_assert_double_eq((double)c[0], (double)refused[_i].sum);
    gemm_close(gemm);
}
END_TEST

static cudaError_t count(const struct launch *on, const void *args)
{
    (void)on;
    ++**(int *const *)args;
    return cudaSuccess;
}

START_TEST(bias_sums_use_the_epilogue_only_if_it_is_faster)
{
    float c[128] = { 0 }, sums[8];
    int passes = 0, *counted = &passes;
    struct gemm_work pass = { count, &counted };
    struct gemm_product product = with_sums(16, 3, c, sums);
    sums_ms = _i == 0 ? -1000 : 1000;
    for (int run = 0; run < 2; run++) {
        struct gemm *gemm = gemm_open(path, &err);
        struct launch launch = { .storage = DTYPE_FP32, .workspace = c, .gemm = gemm };
        ck_assert_int_eq(gemm_sums_pay(&launch, &product, &pass), _i == 0);
        ck_assert_int_eq(gemm_sums_pay(&launch, &product, &pass), _i == 0);
        gemm_close(gemm);
    }
    ck_assert_int_eq(algorithms_asked, 2);
    ck_assert_int_eq(passes,
                     1 + 3 * 3); /* one run without timing, then three timed rounds of three runs */
    ck_assert_double_eq((double)c[0], 0);
}
END_TEST

START_TEST(a_bias_gradient_is_equal_with_and_without_epilogue)
{
    enum { ROWS = 3, OUT = 16, IN = 8 };
    float dy[ROWS * OUT], x[ROWS * IN], dweight[OUT * IN] = { 0 }, dbias[OUT] = { 0 };
    for (int i = 0; i < ROWS * OUT; i++)
        dy[i] = (float)(i / OUT + 1);
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = 1;
    sums_ms = _i == 0 ? -1000 : 1000;
    struct gemm *gemm = gemm_open(NULL, &err);
    struct launch launch = { .storage = DTYPE_FP32,
                             .workspace = malloc(WORKSPACE_BYTES),
                             .gemm = gemm };
    struct linear_weight_gradient args = { ROWS, OUT, IN, dy, x, dweight, dbias };
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(launch_linear_weight_gradient(&launch, &args), cudaSuccess);
    for (int i = 0; i < OUT; i++)
        ck_assert_double_eq((double)dbias[i], 12);
    for (int i = 0; i < OUT * IN; i++)
        ck_assert_double_eq((double)dweight[i], 12);
    free(launch.workspace);
    gemm_close(gemm);
}
END_TEST

static void replay(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t again;
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphInstantiate(&again, graph, 0), cudaSuccess);
    ck_assert_int_eq(cudaGraphLaunch(again, stream), cudaSuccess);
    ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
    cudaGraphExecDestroy(again);
    cudaGraphDestroy(graph);
}

/* Free memory holds one row of three floats, but not two. */
START_TEST(a_product_too_large_for_free_memory_is_tuned_on_part_of_its_rows)
{
    float c[6] = { 0 };
    struct gemm *gemm = gemm_open(path, &err);
    runtime_most_bytes = sizeof c - 1;
    multiply_on(NULL, gemm, c);
    runtime_most_bytes = 0;
    ck_assert(file_exists(path));
    ck_assert_double_eq((double)c[0], 4);
    gemm_close(gemm);
}
END_TEST

START_TEST(an_untunable_product_requests_algorithms_once_and_never_during_capture)
{
    float c[6] = { 0 };
    cudaStream_t stream;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    struct gemm *gemm = gemm_open(path, &err);
    int asked = algorithms_asked;
    runtime_memory_is_full = true;
    multiply_on(stream, gemm, c);
    multiply_on(stream, gemm, c);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    multiply_on(stream, gemm, c);
    replay(stream);
    ck_assert_int_eq(algorithms_asked, asked + 1);
    ck_assert_double_eq((double)c[0], 12);
    ck_assert(!file_exists(path));
    gemm_close(gemm);
    cudaStreamDestroy(stream);
}
END_TEST

/* The bias sums of the first product fill the workspace exactly; those of the second do not fit.
 * Neither product writes beyond the workspace. */
START_TEST(sums_too_large_for_the_workspace_run_separately)
{
    enum { MOST = SUMS_BYTES / sizeof(float), IN = 2, BEHIND = 64 };
    long out = MOST + 8 * _i;
    struct gemm *gemm = gemm_open(NULL, &err);
    unsigned char *workspace = malloc(WORKSPACE_BYTES + BEHIND);
    float *dy = malloc((size_t)out * sizeof *dy), *dbias = calloc((size_t)out, sizeof *dbias);
    float *dweight = calloc((size_t)out * IN, sizeof *dweight);
    float x[IN] = { 3, 3 };
    memset(workspace + WORKSPACE_BYTES, 0x5a, BEHIND);
    for (long i = 0; i < out; i++)
        dy[i] = 1;
    struct launch launch = { .storage = DTYPE_FP32, .workspace = workspace, .gemm = gemm };
    struct linear_weight_gradient args = { 1, out, IN, dy, x, dweight, dbias };
    ck_assert_int_eq(launch_linear_weight_gradient(&launch, &args), cudaSuccess);
    double wrong = 0;
    for (long i = 0; i < out; i++)
        wrong += fabs((double)dbias[i] - 1) + fabs((double)dweight[i * IN + i % IN] - 3);
    ck_assert_double_eq(wrong, 0);
    for (int i = 0; i < BEHIND; i++)
        ck_assert_uint_eq(workspace[WORKSPACE_BYTES + i], 0x5a);
    free(workspace);
    free(dy);
    free(dbias);
    free(dweight);
    gemm_close(gemm);
}
END_TEST

START_TEST(an_unwritable_table_is_no_error)
{
    float c[6] = { 0 };
    struct gemm *gemm = gemm_open("/tmp/no/such/folder/gemm.table", &err);
    ck_assert_ptr_nonnull(gemm);
    multiply(gemm, c);
    ck_assert_double_eq((double)c[0], 4);
    ck_assert_str_eq(gemm_failure(gemm), "");
    gemm_close(gemm);
}
END_TEST

START_TEST(a_product_that_the_library_refuses_is_named)
{
    struct gemm *gemm = gemm_open(NULL, &err);
    struct launch launch = { .storage = DTYPE_FP32, .gemm = gemm };
    struct gemm_product product = {
        .m = 2, .n = 3, .k = 4, .a_stride = 3, .b_stride = 3, .c_stride = 3, .batch = 1
    };
    ck_assert_int_eq(gemm_run(&launch, &product), cudaErrorUnknown);
    ck_assert_ptr_nonnull(strstr(gemm_failure(gemm), "[2,3] from 4"));
    gemm_close(gemm);
}
END_TEST

static Suite *cuda_gemm_suite(void)
{
    Suite *suite = suite_create("cuda_gemm");
    TCase *gemm = tcase_create("gemm");
    tcase_add_checked_fixture(gemm, begin, end);
    tcase_add_test(gemm, a_written_table_reads_back_equal);
    tcase_add_test(gemm, saving_adds_missing_lines_and_keeps_those_of_others);
    tcase_add_test(gemm, every_shape_is_found_and_the_first_of_two_lines_is_used);
    tcase_add_test(gemm, an_absent_table_is_empty);
    tcase_add_loop_test(gemm, an_invalid_line_is_named, 0, 4);
    tcase_add_test(gemm, the_fastest_algorithm_is_kept_and_tuning_adds_no_product);
    tcase_add_loop_test(gemm, lines_of_another_gpu_are_kept_but_not_used, 0, 2);
    tcase_add_test(gemm, sums_of_whole_blocks_may_use_split_k);
    tcase_add_test(gemm, no_term_of_a_product_is_lost);
    tcase_add_test(gemm, a_product_with_a_bias_does_not_use_split_k);
    tcase_add_test(gemm, bias_sums_are_overwritten_by_every_tuning_run);
    tcase_add_loop_test(gemm, a_product_without_proposals_for_its_epilogue_runs_separately, 0, 2);
    tcase_add_loop_test(gemm, bias_sums_use_the_epilogue_only_if_it_is_faster, 0, 2);
    tcase_add_loop_test(gemm, a_bias_gradient_is_equal_with_and_without_epilogue, 0, 2);
    tcase_add_test(gemm, a_product_too_large_for_free_memory_is_tuned_on_part_of_its_rows);
    tcase_add_test(gemm, an_untunable_product_requests_algorithms_once_and_never_during_capture);
    tcase_add_loop_test(gemm, sums_too_large_for_the_workspace_run_separately, 0, 2);
    tcase_add_test(gemm, an_unwritable_table_is_no_error);
    tcase_add_test(gemm, a_product_that_the_library_refuses_is_named);
    suite_add_tcase(suite, gemm);
    return suite;
}

TEST_MAIN(cuda_gemm_suite)
