/* Every op on a GPU against the host's, through the tables that a step runs by. tests/gpu.sh runs
 * it where there is a GPU; where there is none, tests/test_cuda_ops.c runs the same kernels. */
#include "exec/backend.h"
#include "tests/op_cases.h"
#include "tests/testing.h"

static const struct backend *gpu;

/* One stream of the GPU, and kernels for one storage: for all cases. */
static struct rig {
    enum dtype storage;
    struct device *device;
    struct stream *stream;
    struct kernels *kernels;
} rig;

static void open_rig(enum dtype storage)
{
    struct err err = { 0 };
    struct device_options options = { .arena_bytes = (size_t)256 << 20, .poisons = true };
    gpu = backend_find("cuda", &err);
    ck_assert_msg(gpu && gpu->device->is_there(0, &err), "%s: %s", err.where, err.msg);
    rig = (struct rig){ .storage = storage, .device = gpu->device->open(&options, &err) };
    ck_assert_msg(rig.device != NULL, "%s: %s", err.where, err.msg);
    rig.stream = gpu->device->stream_new(rig.device, "ops", &err);
    ck_assert_msg(rig.stream != NULL, "%s: %s", err.where, err.msg);
    rig.kernels = gpu->kernels->open(rig.device, storage, &err);
    ck_assert_msg(rig.kernels != NULL, "%s: %s", err.where, err.msg);
}

static void open_fp32(void)
{
    open_rig(DTYPE_FP32);
}

static void open_bf16(void)
{
    open_rig(DTYPE_BF16);
}

static void open_fp16(void)
{
    open_rig(DTYPE_FP16);
}

static void close_rig(void)
{
    gpu->kernels->close(rig.kernels);
    gpu->device->stream_free(rig.stream);
    gpu->device->close(rig.device);
}

/* --- the rig as a backend ----------------------------------------------------------------- */

static void finish(const char *what)
{
    struct err err = { 0 };
    bool ok = gpu->device->stream_sync(rig.stream, &err);
    ck_assert_msg(ok, "%s: %s: %s", what, err.where, err.msg);
}

static void *copy_in(void *self, const void *from, size_t bytes)
{
    (void)self;
    struct err err = { 0 };
    void *memory = gpu->device->alloc(rig.device, rig.stream, bytes ? bytes : 1, &err);
    ck_assert_msg(memory != NULL, "%s: %s", err.where, err.msg);
    gpu->device->copy(rig.stream, memory, from, bytes);
    finish("copying in");
    return memory;
}

static void copy_out(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    gpu->device->copy(rig.stream, to, from, bytes);
    finish("copying out");
}

static void release(void *self, void *memory)
{
    (void)self;
    gpu->device->free(rig.device, rig.stream, memory);
}

static size_t scratch_bytes(void *self, const struct attention *attention)
{
    (void)self;
    return gpu->kernels->flash_scratch_bytes(rig.kernels, attention);
}

#define X(name, args)                                        \
    static void run_##name(void *self, const struct args *a) \
    {                                                        \
        (void)self;                                          \
        gpu->kernels->name(rig.kernels, rig.stream, a);      \
        finish(#name);                                       \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

static const struct op_backend backend = { .name = "cuda",
                                           .copy_in = copy_in,
                                           .copy_out = copy_out,
                                           .release = release,
                                           .flash_scratch_bytes = scratch_bytes,
#define X(name, args) .name = run_##name,
                                           KERNELS(X) EXCHANGE_KERNELS(X)
#undef X
};

/* --- cases -------------------------------------------------------------------------------- */

START_TEST(ops_are_those_of_the_host)
{
    op_case_check(_i, rig.storage, &backend);
}
END_TEST

static void add_cases(Suite *suite, const char *name, void (*open)(void))
{
    TCase *cases = tcase_create(name);
    tcase_add_unchecked_fixture(cases, open, close_rig);
    tcase_add_loop_test(cases, ops_are_those_of_the_host, 0, op_case_count());
    suite_add_tcase(suite, cases);
}

static Suite *gpu_ops_suite(void)
{
    Suite *suite = suite_create("gpu_ops");
    add_cases(suite, "fp32", open_fp32);
    add_cases(suite, "bf16", open_bf16);
    add_cases(suite, "fp16", open_fp16);
    return suite;
}

/* In one process: CUDA takes a second to start. */
int main(void)
{
    SRunner *runner = srunner_create(gpu_ops_suite());
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
