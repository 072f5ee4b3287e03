/* Every op on a GPU against the host's, through the tables that a step runs by. tests/gpu.sh runs
 * it where there is a GPU; where there is none, tests/test_cuda_ops.c runs the same kernels. */
#include "exec/backend.h"
#include "tests/check_ok.h"
#include "tests/op_cases.h"
#include "tests/testing.h"

static const struct backend *gpu;

/* One stream of the GPU, and kernels for the cases of one storage. */
static struct rig {
    struct device *device;
    struct stream *stream;
    enum dtype storage;
    struct kernels *kernels; /* NULL: of none yet */
} rig;

static void open_rig(void)
{
    struct err err = { 0 };
    struct device_options options = { .arena_bytes = (size_t)256 << 20, .poisons = true };
    gpu = backend_find("cuda", &err);
    check_ok(gpu && gpu->device->is_there(0, &err), &err);
    rig.device = gpu->device->open(&options, &err);
    check_ok(rig.device != NULL, &err);
    rig.stream = gpu->device->stream_new(rig.device, "ops", &err);
    check_ok(rig.stream != NULL, &err);
}

static void close_kernels(void)
{
    if (rig.kernels)
        gpu->kernels->close(rig.kernels);
}

static void use_storage(enum dtype storage)
{
    struct err err = { 0 };
    if (rig.kernels && rig.storage == storage)
        return;
    close_kernels();
    rig.storage = storage;
    rig.kernels = gpu->kernels->open(rig.device, storage, &err);
    check_ok(rig.kernels != NULL, &err);
}

static void close_rig(void)
{
    close_kernels();
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
    check_ok(memory != NULL, &err);
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
                                           OP_RUNS };

/* --- cases -------------------------------------------------------------------------------- */

START_TEST(ops_are_those_of_the_host)
{
    use_storage(op_case_storage(_i));
    op_case_check(_i, &backend);
}
END_TEST

static Suite *gpu_ops_suite(void)
{
    Suite *suite = suite_create("gpu_ops");
    TCase *ops = tcase_create("ops");
    tcase_add_unchecked_fixture(ops, open_rig, close_rig);
    tcase_add_loop_test(ops, ops_are_those_of_the_host, 0, op_case_count());
    suite_add_tcase(suite, ops);
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
