/* not under asan: test_ptx has the interpreter's own code. */
/* The PTX that nvcc makes of kernels/cuda, run instruction by instruction (tests/kernels/ptx) for
 * the launches that kernels/cuda makes, and its results compared with the host's. */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "tests/check_ok.h"
#include "tests/cuda_on_host/grid.h"
#include "tests/draw.h"
#include "tests/kernels/op_cases.h"
#include "tests/kernels/ptx/ptx_grid.h"
#include "tests/kernels/ptx/ptx_library.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the backend -------------------------------------------------------------------------- */

enum { MOST_KERNELS = 512 };

/* A kernel as a function of this program. */
struct known {
    const void *function;
    struct ptx_kernel *kernel;
};

static struct rig {
    struct ptx_library library;
    struct ptx_machine machine;
    struct known known[MOST_KERNELS];
    int num_known;
    bool only_notes; /* launches are noted and not run */
    struct launch launch;
    struct err err; /* of the first launch that failed */
} rig;

static struct ptx_kernel *kernel_of(const void *function)
{
    for (int i = 0; i < rig.num_known; i++)
        if (rig.known[i].function == function)
            return rig.known[i].kernel;
    const char *name = ptx_name_of_function(&rig.library, function);
    if (!name || rig.num_known == MOST_KERNELS) {
        err_set(&rig.err, ERR_UNAVAILABLE, "", "a kernel that this program does not name");
        return NULL;
    }
    struct ptx_kernel *kernel = ptx_library_find(&rig.library, name, &rig.err);
    rig.known[rig.num_known++] = (struct known){ function, kernel };
    return kernel;
}

/* After a launch that failed no other one runs. */
static int run_launch(const void *function, const struct grid_shape *shape,
                      const void *const *arguments)
{
    struct ptx_kernel *kernel = rig.err.code ? NULL : kernel_of(function);
    if (!kernel || rig.only_notes)
        return kernel != NULL;
    struct ptx_launch launch = { .kernel = kernel,
                                 .blocks = { shape->blocks.x, shape->blocks.y, shape->blocks.z },
                                 .threads = { shape->threads.x, shape->threads.y,
                                              shape->threads.z },
                                 .shared_bytes = shape->shared_bytes,
                                 .arguments = arguments };
    return ptx_run(&rig.machine, &launch, &rig.err);
}

/* As aligned as a GPU's memory is. */
static void *copy_in(void *self, const void *from, size_t bytes)
{
    enum { ALIGNMENT = 256 };
    (void)self;
    size_t whole = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, whole);
    ck_assert_ptr_nonnull(memory);
    memcpy(memory, from, bytes);
    ptx_memory_add(&rig.machine.memory, memory, bytes);
    return memory;
}

static void release(void *self, void *memory)
{
    (void)self;
    ptx_memory_remove(&rig.machine.memory, memory);
    free(memory);
}

static size_t scratch_bytes(void *self, const struct attention *attention)
{
    (void)self;
    return launch_flash_scratch_bytes(attention);
}

#define X(name, args)                                                      \
    static void run_##name(void *self, const struct args *a)               \
    {                                                                      \
        (void)self;                                                        \
        if (!rig.err.code && launch_##name(&rig.launch, a) != cudaSuccess) \
            err_set(&rig.err, ERR_INPUT, #name, "the launch was refused"); \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

static const struct op_backend backend = { .name = "ptx",
                                           .copy_in = copy_in,
                                           .copy_out = op_host_copy_out,
                                           .release = release,
                                           .flash_scratch_bytes = scratch_bytes,
                                           OP_RUNS };

static void begin_launches(enum dtype storage)
{
    struct err err = { 0 };
    void *workspace = aligned_alloc(256, WORKSPACE_BYTES);
    rig.launch = (struct launch){ .storage = storage,
                                  .workspace = workspace,
                                  .gemm = gemm_open(NULL, &err) };
    check_ok(rig.launch.gemm != NULL, &err);
    ck_assert_ptr_nonnull(workspace);
    ptx_memory_add(&rig.machine.memory, workspace, WORKSPACE_BYTES);
    rig.machine.random = random_new(told_seed(), 7);
    rig.err = (struct err){ 0 };
    grid_interpreted_by = run_launch;
}

static void end_launches(void)
{
    grid_interpreted_by = NULL;
    gemm_close(rig.launch.gemm);
    ptx_memory_free(&rig.machine.memory);
    free(rig.launch.workspace);
}

/* --- cases -------------------------------------------------------------------------------- */

static bool holds(int index, struct err *err)
{
    begin_launches(op_case_storage(index));
    bool ok = op_case_holds(index, &backend, err);
    if (rig.err.code) { /* what comes after a launch that failed says nothing */
        *err = rig.err;
        ok = false;
    }
    end_launches();
    return ok;
}

START_TEST(ops_are_those_of_the_host)
{
    struct err err = { 0 };
    check_ok(holds(_i, &err), &err);
}
END_TEST

/* --- kernels ------------------------------------------------------------------------------ */

START_TEST(every_instruction_is_known)
{
    struct err err = { 0 };
    for (struct ptx_kernel *k = rig.library.kernels; k; k = k->next)
        check_ok(ptx_decode(&rig.library.arena, k, &err), &err);
}
END_TEST

/* A template that several files use is in the PTX of each of them. */
static bool is_noted(const struct ptx_kernel *kernel)
{
    for (int i = 0; i < rig.num_known; i++)
        if (strcmp(rig.known[i].kernel->name, kernel->name) == 0)
            return true;
    return false;
}

/* A case of cuBLASLt's, which is loops here. Other cases have its kernels too. */
static bool is_product(int index)
{
    return strcmp(op_case_name(index), "linear") == 0;
}

START_TEST(the_cases_launch_every_kernel)
{
    rig.only_notes = true;
    for (int i = 0; i < op_case_count(); i++) {
        if (is_product(i))
            continue;
        begin_launches(op_case_storage(i));
        op_case_run(i, &backend);
        check_ok(rig.err.code == ERR_NONE, &rig.err);
        end_launches();
    }
    for (const struct ptx_kernel *k = rig.library.kernels; k; k = k->next)
        ck_assert_msg(is_noted(k), "%s: no case launches %s", k->file, k->name);
}
END_TEST

/* Each case in one of the ways numbers are stored, drawn anew each time; a campaign has all. */
static void add_cases(TCase *ops)
{
    int of_a_storage = 0, storages;
    while (of_a_storage < op_case_count() && op_case_storage(of_a_storage) == op_case_storage(0))
        of_a_storage++;
    storages = op_case_count() / of_a_storage;
    int drawn = (int)(told_seed() % (uint64_t)storages);
    for (int i = 0; i < op_case_count(); i++)
        if (!is_product(i) &&
            (is_campaign() || (i % of_a_storage + i / of_a_storage) % storages == drawn))
            tcase_add_loop_test(ops, ops_are_those_of_the_host, i, i + 1);
}

static Suite *cuda_ptx_suite(void)
{
    Suite *suite = suite_create("cuda_ptx");
    TCase *ops = tcase_create("ops"), *kernels = tcase_create("kernels");
    tcase_set_timeout(ops, 30);
    tcase_set_timeout(kernels, 30);
    tcase_add_test(kernels, every_instruction_is_known);
    tcase_add_test(kernels, the_cases_launch_every_kernel);
    add_cases(ops);
    suite_add_tcase(suite, kernels);
    suite_add_tcase(suite, ops);
    return suite;
}

int main(void)
{
    enum { NOT_RUN = 77 };
    const char *folder = getenv("SIMSEARCH_PTX");
    struct err err = { 0 };
    if (!folder || !*folder) {
        printf("not run: install nvcc, which makes the PTX of kernels/cuda\n");
        return NOT_RUN;
    }
    if (!ptx_library_open(&rig.library, folder, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        return 1;
    }
    int status = run_suite(cuda_ptx_suite());
    ptx_library_close(&rig.library);
    return status;
}
