/* Tests the CUDA kernels, which are compiled for the host and run thread by thread
 * (tests/cuda_on_host). */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "tests/check_ok.h"
#include "tests/cuda_on_host/grid.h"
#include "tests/draw.h"
#include "tests/kernels/op_cases.h"
#include "tests/testing.h"

#include <stdlib.h>

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
                                .copy_in = op_host_copy_in,
                                .copy_out = op_host_copy_out,
                                .release = op_host_release,
                                .flash_scratch_bytes = scratch_bytes,
                                OP_RUNS };
}

START_TEST(ops_agree_with_the_host)
{
    if (is_spared(_i, 3))
        return;
    struct err err = { 0 };
    struct launch launch = { .storage = op_case_storage(_i),
                             .workspace = malloc(WORKSPACE_BYTES),
                             .gemm = gemm_open(NULL, &err) };
    ck_assert_ptr_nonnull(launch.workspace);
    check_ok(launch.gemm != NULL, &err);
    struct op_backend backend = backend_on(&launch);
    op_case_check(_i, &backend);
    gemm_close(launch.gemm);
    free(launch.workspace);
}
END_TEST

START_TEST(more_than_48_kib_of_shared_memory_must_be_requested)
{
    static const char kernel;
    ck_assert(grid_may_share(&kernel, 48 << 10));
    ck_assert(!grid_may_share(&kernel, 49 << 10));
    ck_assert(grid_ask_shared(&kernel, 50 << 10));
    ck_assert(grid_may_share(&kernel, 50 << 10));
    ck_assert(!grid_may_share(&kernel, 51 << 10));
    ck_assert(!grid_ask_shared(&kernel, 100 << 10));
}
END_TEST

/* Adds each case in one random storage type; in `make campaign` in all types. */
static void add_cases(TCase *ops)
{
    for (int i = 0; i < op_case_count(); i++)
        if (is_campaign() || op_case_is_drawn(i, told_seed()))
            tcase_add_loop_test(ops, ops_agree_with_the_host, i, i + 1);
}

static Suite *cuda_ops_suite(void)
{
    Suite *suite = suite_create("cuda_ops");
    TCase *ops = tcase_create("ops");
    add_cases(ops);
    tcase_add_test(ops, more_than_48_kib_of_shared_memory_must_be_requested);
    suite_add_tcase(suite, ops);
    return suite;
}

TEST_MAIN(cuda_ops_suite)
