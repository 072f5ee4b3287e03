/* The kernels of CUDA, compiled for the host and run thread by thread (tests/cuda_on_host). */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "tests/op_cases.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

static void *copy_in(void *self, const void *from, size_t bytes)
{
    (void)self;
    void *memory = malloc(bytes ? bytes : 1);
    ck_assert_ptr_nonnull(memory);
    memcpy(memory, from, bytes);
    return memory;
}

static void copy_out(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
}

static void release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static size_t scratch_bytes(void *self, const struct attention *attention)
{
    (void)self;
    return launch_flash_scratch_bytes(attention);
}

#define X(name, args)                                          \
    static void run_##name(void *self, const struct args *a)   \
    {                                                          \
        ck_assert_int_eq(launch_##name(self, a), cudaSuccess); \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

static struct op_backend backend_on(struct launch *launch)
{
    return (struct op_backend){ .name = "cuda on the host",
                                .self = launch,
                                .copy_in = copy_in,
                                .copy_out = copy_out,
                                .release = release,
                                .flash_scratch_bytes = scratch_bytes,
#define X(name, args) .name = run_##name,
                                KERNELS(X) EXCHANGE_KERNELS(X)
#undef X
    };
}

static void check_case(int index, enum dtype storage)
{
    struct err err = { 0 };
    struct launch launch = { .storage = storage, .workspace = malloc(WORKSPACE_BYTES) };
    launch.gemm = gemm_open(NULL, &err);
    ck_assert_ptr_nonnull(launch.workspace);
    ck_assert_msg(launch.gemm != NULL, "%s: %s", err.where, err.msg);
    struct op_backend backend = backend_on(&launch);
    op_case_check(index, storage, &backend);
    gemm_close(launch.gemm);
    free(launch.workspace);
}

START_TEST(ops_in_fp32_are_those_of_the_host)
{
    check_case(_i, DTYPE_FP32);
}
END_TEST

START_TEST(ops_in_bf16_are_those_of_the_host)
{
    check_case(_i, DTYPE_BF16);
}
END_TEST

START_TEST(ops_in_fp16_are_those_of_the_host)
{
    check_case(_i, DTYPE_FP16);
}
END_TEST

static Suite *cuda_ops_suite(void)
{
    Suite *suite = suite_create("cuda_ops");
    TCase *ops = tcase_create("ops");
    tcase_add_loop_test(ops, ops_in_fp32_are_those_of_the_host, 0, op_case_count());
    tcase_add_loop_test(ops, ops_in_bf16_are_those_of_the_host, 0, op_case_count());
    tcase_add_loop_test(ops, ops_in_fp16_are_those_of_the_host, 0, op_case_count());
    suite_add_tcase(suite, ops);
    return suite;
}

TEST_MAIN(cuda_ops_suite)
