/* Compares every op on a GPU with the host's op, through the kernel tables that a training step
 * uses. tests/gpu.sh runs it on a machine with a GPU; without one, tests/kernels/test_cuda_ops.c
 * runs the same kernels. */
#include "tests/check_ok.h"
#include "tests/exec/on_gpu.h"
#include "tests/kernels/op_cases.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static const struct backend *gpu;

/* A stream of the GPU, and kernels for the cases of one storage type. */
static struct rig {
    struct device *device;
    struct stream *stream;
    enum dtype storage;
    struct kernels *kernels; /* NULL until the kernels are opened */
} rig;

static void open_rig(void)
{
    struct err err = { 0 };
    struct device_options options = { .arena_bytes = (size_t)256 << 20, .poisons = true };
    gpu = on_gpu_backend(&err);
    check_ok(gpu != NULL, &err);
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

/* --- the GPU's kernels as a backend of op_cases.h --------------------------------------- */

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

START_TEST(ops_agree_with_the_host)
{
    use_storage(op_case_storage(_i));
    op_case_check(_i, &backend);
}
END_TEST

static Suite *suite_of(const char *op)
{
    Suite *suite = suite_create(op);
    TCase *cases = tcase_create(op);
    tcase_add_unchecked_fixture(cases, open_rig, close_rig);
    for (int i = 0; i < op_case_count(); i++)
        if (strcmp(op_case_name(i), op) == 0)
            tcase_add_loop_test(cases, ops_agree_with_the_host, i, i + 1);
    suite_add_tcase(suite, cases);
    return suite;
}

/* Checks an op in this process instead of a child process, because CUDA takes a second to start. */
static bool check_op(const char *op)
{
    enum { MOST_SHOWN = 4 };
    SRunner *runner = srunner_create(suite_of(op));
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    TestResult **failures = srunner_failures(runner);
    printf("%s: %d of %d cases give the host's results\n", op, srunner_ntests_run(runner) - failed,
           srunner_ntests_run(runner));
    for (int i = 0; i < failed && i < MOST_SHOWN; i++)
        printf("  %s\n", tr_msg(failures[i]));
    srunner_free(runner);
    return failed == 0;
}

static bool is_first_of_its_op(int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(op_case_name(i), op_case_name(index)) == 0)
            return false;
    return true;
}

/* Whether the arguments, parts of op names, select this op. */
static bool is_asked_for(const char *op, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(op, argv[i]))
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    enum { MOST_S = 120 };
    int passed = 0, count = 0;
    if (!on_gpu_is_there())
        return 1;
    for (int i = 0; i < op_case_count(); i++) {
        const char *op = op_case_name(i);
        if (!is_first_of_its_op(i) || !is_asked_for(op, argc, argv))
            continue;
        passed += on_gpu_alone(op, MOST_S, check_op, op);
        count++;
    }
    printf("%d of %d ops give the host's results\n", passed, count);
    return passed < count;
}
