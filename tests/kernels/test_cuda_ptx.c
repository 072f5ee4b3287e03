/* not under release, asan, tsan, clang, cov: make nvcc-tests runs it. */
/* Runs the PTX that nvcc generates for kernels/cuda instruction by instruction (tests/kernels/ptx),
 * with the launches of kernels/cuda, and compares the results with the host's. */
#include "base/length.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch.h"
#include "tests/check_ok.h"
#include "tests/cuda_on_host/grid.h"
#include "tests/draw.h"
#include "tests/kernels/op_cases.h"
#include "tests/kernels/ptx/ptx_fault.h"
#include "tests/kernels/ptx/ptx_grid.h"
#include "tests/kernels/ptx/ptx_library.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the backend -------------------------------------------------------------------------- */

enum { MOST_KERNELS = 512 };

/* A kernel, identified by the host function of this program that was compiled from it. */
struct known {
    const void *function;
    struct ptx_kernel *kernel;
};

static struct rig {
    struct ptx_library library;
    struct ptx_machine machine;
    struct known known[MOST_KERNELS];
    int num_known;
    uint64_t seed;
    bool only_notes; /* launches are recorded but not run */
    struct launch launch;
    struct err err; /* error of the first launch that failed */
} rig;

static struct ptx_kernel *kernel_of(const void *function)
{
    for (int i = 0; i < rig.num_known; i++)
        if (rig.known[i].function == function)
            return rig.known[i].kernel;
    const char *name = ptx_name_of_function(&rig.library, function);
    if (!name || rig.num_known == MOST_KERNELS) {
        err_set(&rig.err, ERR_UNAVAILABLE, "", "the launched kernel's function has no name");
        return NULL;
    }
    struct ptx_kernel *kernel = ptx_library_find(&rig.library, name, &rig.err);
    rig.known[rig.num_known++] = (struct known){ function, kernel };
    return kernel;
}

/* Runs a launch, unless an earlier one failed. */
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

/* Copies to memory with the alignment of a GPU's memory. */
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
    rig.machine.random = random_new(rig.seed, 7);
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
    if (rig.err.code) { /* after a failed launch the results are meaningless */
        *err = rig.err;
        ok = false;
    }
    end_launches();
    return ok;
}

START_TEST(ops_agree_with_the_host)
{
    struct err err = { 0 };
    check_ok(holds(_i, &err), &err);
}
END_TEST

/* --- how tensor cores add ----------------------------------------------------------------- */

/* Models of tensor cores: terms added at once, and bits that a term keeps beyond the last bit of a
 * float. Hopper adds 16 terms with 2 more bits, Ampere 8 terms with 1 more bit, and Volta, which is
 * the least accurate, 4 terms with no more bits (Fasi et al. 2021, "Numerical behavior of NVIDIA
 * tensor cores"; arXiv 2502.15999 and 2512.07004). GPUs guarantee none of these models, so results
 * must be accurate enough in each. */
static const struct ptx_numerics numerics[] = { { 16, 2 }, { 8, 1 }, { 4, 0 } };

static bool is_on_tensor_cores(int index)
{
    return strcmp(op_case_name(index), "flash attention") == 0 &&
           op_case_storage(index) != DTYPE_FP32;
}

START_TEST(attention_agrees_with_the_host_for_every_tensor_core_model)
{
    struct err err = { 0 };
    rig.machine.numerics = numerics[_i % LENGTH(numerics)];
    check_ok(holds(_i / LENGTH(numerics), &err), &err);
}
END_TEST

static void add_numerics(TCase *cores)
{
    int n = 0;
    for (int i = 0; i < op_case_count() * LENGTH(numerics); i++)
        if (is_on_tensor_cores(i / LENGTH(numerics)) && !is_spared(n++ + (int)(rig.seed % 24), 24))
            tcase_add_loop_test(cores, attention_agrees_with_the_host_for_every_tensor_core_model,
                                i, i + 1);
}

/* --- faults ------------------------------------------------------------------------------- */

#define MMA_BF16       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define MMA_FP16       "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define LDMATRIX       "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
#define LDMATRIX_TRANS "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
#define FORWARD        "forward_tileI4bf16Li64ELb0"
#define KEYS           "key_gradientsI4bf16Li64ELb0"
#define QUERIES        "query_gradientsI4fp16Li64ELb0"

/* A fault in a kernel, and the case that runs the kernel, given by the op, the number among the
 * op's cases, and the storage type. */
static const struct slip {
    struct ptx_fault fault;
    const char *op;
    int nth;
    enum dtype storage;
} slips[] = {
#define AT_FORWARD "flash attention", 4, DTYPE_BF16
    { { FORWARD, MMA_BF16, PTX_SWAP, 5, 6, NULL, 0.1 }, AT_FORWARD },
    { { FORWARD, MMA_BF16, PTX_SWAP, 4, 5, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, MMA_BF16, PTX_SWAP, 8, 9, NULL, 0.3 }, AT_FORWARD },
    { { FORWARD, MMA_BF16, PTX_SWAP, 10, 11, NULL, 0.8 }, AT_FORWARD },
    { { FORWARD, MMA_BF16, PTX_SWAP, 0, 2, NULL, 0.2 }, AT_FORWARD },
    { { FORWARD, MMA_BF16, PTX_BECOME, 0, 0, MMA_FP16, 0.5 }, AT_FORWARD },
    { { FORWARD, LDMATRIX, PTX_SWAP, 1, 2, NULL, 0 }, AT_FORWARD },
    { { FORWARD, LDMATRIX, PTX_BECOME, 0, 0, LDMATRIX_TRANS, 0.4 }, AT_FORWARD },
    { { FORWARD, LDMATRIX, PTX_SHIFT, 4, 16, NULL, 0.6 }, AT_FORWARD },
    { { FORWARD, LDMATRIX, PTX_SHIFT, 4, 2, NULL, 0.7 }, AT_FORWARD },
    { { FORWARD, LDMATRIX_TRANS, PTX_BECOME, 0, 0, LDMATRIX, 0.5 }, AT_FORWARD },
    { { FORWARD, LDMATRIX_TRANS, PTX_SHIFT, 4, 128, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, "bar.sync", PTX_DROP, 0, 0, NULL, 0 }, AT_FORWARD },
    { { FORWARD, "bar.sync", PTX_DROP, 0, 0, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, "cp.async.wait_group", PTX_DROP, 0, 0, NULL, 0 }, AT_FORWARD },
    { { FORWARD, "cp.async.wait_group", PTX_SHIFT, 0, 1, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, "cp.async.commit_group", PTX_DROP, 0, 0, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, "cp.async.cg.shared.global", PTX_SHIFT, 0, 16, NULL, 0.5 }, AT_FORWARD },
    { { FORWARD, "cp.async.cg.shared.global", PTX_SHIFT, 1, 16, NULL, 0.2 }, AT_FORWARD },
    { { FORWARD, "shfl.sync.bfly.b32", PTX_BECOME, 0, 0, "shfl.sync.idx.b32", 0 }, AT_FORWARD },
    { { FORWARD, "xor.b32", PTX_SHIFT, 2, 32, NULL, 0.9 }, AT_FORWARD },
    { { FORWARD, "cvt.rn.bf16x2.f32", PTX_SWAP, 1, 2, NULL, 0.3 }, AT_FORWARD },
    { { FORWARD, "ex2.approx.ftz.f32", PTX_BECOME, 0, 0, "mov.f32", 0.5 }, AT_FORWARD },
    { { FORWARD, "st.shared.u32", PTX_SHIFT, 0, 4, NULL, 0.5 }, AT_FORWARD },
    { { FORWARD, "bar.warp.sync", PTX_DROP, 0, 0, NULL, 0.9 }, AT_FORWARD },
    { { KEYS, MMA_BF16, PTX_SWAP, 6, 7, NULL, 0.1 }, AT_FORWARD },
    { { KEYS, MMA_BF16, PTX_SWAP, 8, 9, NULL, 0.9 }, AT_FORWARD },
    { { KEYS, LDMATRIX_TRANS, PTX_SWAP, 0, 3, NULL, 0.6 }, AT_FORWARD },
    { { KEYS, "bar.sync", PTX_DROP, 0, 0, NULL, 0.5 }, AT_FORWARD },
    { { KEYS, "cp.async.wait_group", PTX_DROP, 0, 0, NULL, 0.9 }, AT_FORWARD },
    { { KEYS, "ld.shared.f32", PTX_SHIFT, 1, 4, NULL, 0.5 }, AT_FORWARD },
#define AT_PARTS "flash attention", 3, DTYPE_BF16
    { { KEYS, "st.global.v2.f32", PTX_SHIFT, 0, 8, NULL, 0.5 }, AT_PARTS },
    { { "add_partsI4bf16", "ld.global.v4.f32", PTX_SHIFT, 4, 16, NULL, 0.9 }, AT_PARTS },
    { { "add_partsI4bf16", "add.f32", PTX_BECOME, 0, 0, "mul.f32", 0.5 }, AT_PARTS },
#define AT_QUERIES "flash attention", 4, DTYPE_FP16
    { { QUERIES, MMA_FP16, PTX_SWAP, 4, 6, NULL, 0.5 }, AT_QUERIES },
    { { QUERIES, LDMATRIX, PTX_SWAP, 0, 1, NULL, 0.3 }, AT_QUERIES },
    { { QUERIES, "bar.sync", PTX_DROP, 0, 0, NULL, 0.5 }, AT_QUERIES },
    { { QUERIES, "cvt.rn.f16x2.f32", PTX_SWAP, 1, 2, NULL, 0.7 }, AT_QUERIES },
#define AT_NORM "layer norm", 2, DTYPE_BF16
    { { "norm_forward", "bar.sync", PTX_DROP, 0, 0, NULL, 0.3 }, AT_NORM },
    { { "norm_forward", "bar.sync", PTX_DROP, 0, 0, NULL, 0.6 }, AT_NORM },
    { { "norm_forward", "shfl.sync.bfly.b32", PTX_BECOME, 0, 0, "shfl.sync.idx.b32", 0.5 },
      AT_NORM },
    { { "sum_slice", "bar.sync", PTX_DROP, 0, 0, NULL, 0 }, "bias gradient", 1, DTYPE_BF16 },
    { { "sum_slice", "bar.sync", PTX_DROP, 0, 0, NULL, 0.9 }, "bias gradient", 1, DTYPE_BF16 },
    { { "sum_slice", "ld.shared.f32", PTX_SHIFT, 1, 4, NULL, 0.9 },
      "bias gradient",
      1,
      DTYPE_FP32 },
    { { "softmax_row", "bar.sync", PTX_DROP, 0, 0, NULL, 0.3 },
      "unfused attention",
      2,
      DTYPE_FP16 },
    { { "softmax_row", "max.f32", PTX_BECOME, 0, 0, "min.f32", 0 },
      "unfused attention",
      2,
      DTYPE_BF16 },
    { { "sum_squares", "bar.sync", PTX_DROP, 0, 0, NULL, 0.5 }, "squares", 0, DTYPE_FP32 },
    { { "update_adamw", "st.global.f32", PTX_SHIFT, 0, 4, NULL, 0 }, "update", 2, DTYPE_FP32 },
    { { "turn", "fma.rn.f32", PTX_SWAP, 1, 3, NULL, 0 }, "rotary", 1, DTYPE_FP32 },
};

static int case_of(const struct slip *slip)
{
    int nth = slip->nth;
    for (int i = 0; i < op_case_count(); i++)
        if (op_case_storage(i) == slip->storage && strcmp(op_case_name(i), slip->op) == 0 &&
            nth-- == 0)
            return i;
    ck_abort_msg("no such case: %s, %d", slip->op, slip->nth);
    return -1;
}

/* Puts the fault in a kernel, which must have run before. */
static bool make_fault(const struct ptx_fault *fault)
{
    for (int i = 0; i < rig.num_known; i++) {
        struct ptx_kernel *kernel = rig.known[i].kernel;
        if (strstr(kernel->name, fault->kernel) &&
            ptx_fault_make(&rig.library.arena, kernel, fault))
            return true;
    }
    return false;
}

static bool is_tested(int slip)
{
    return !is_spared(slip + (int)(rig.seed % 4), 4);
}

/* Whether an earlier slip (injected fault) that is tested uses the same case. */
static bool is_run_before(int slip)
{
    for (int i = 0; i < slip; i++)
        if (is_tested(i) && case_of(&slips[i]) == case_of(&slips[slip]))
            return true;
    return false;
}

/* Runs the cases without faults, in the parent process of the tests. */
static void run_cases_of_slips(void)
{
    for (int i = 0; i < LENGTH(slips); i++) {
        if (!is_tested(i) || is_run_before(i))
            continue;
        begin_launches(slips[i].storage);
        op_case_run(case_of(&slips[i]), &backend);
        check_ok(rig.err.code == ERR_NONE, &rig.err);
        end_launches();
    }
}

START_TEST(an_injected_fault_changes_the_result)
{
    const struct slip *slip = &slips[_i];
    struct err err = { 0 };
    int index = case_of(slip);
    ck_assert_msg(make_fault(&slip->fault), "%s executes no %s", slip->fault.kernel,
                  slip->fault.opcode);
    ck_assert_msg(
        !holds(index, &err),
        "%s: no check notices the fault in the instruction %s at the fraction %g of the kernel",
        slip->fault.kernel, slip->fault.opcode, slip->fault.which);
}
END_TEST

/* --- kernels ------------------------------------------------------------------------------ */

START_TEST(the_interpreter_knows_every_instruction)
{
    struct err err = { 0 };
    for (struct ptx_kernel *k = rig.library.kernels; k; k = k->next)
        check_ok(ptx_decode(&rig.library.arena, k, &err), &err);
}
END_TEST

/* Whether the kernel was launched. A template that several files use is in the PTX of each of them;
 * a launch from any file counts. */
static bool is_noted(const struct ptx_kernel *kernel)
{
    for (int i = 0; i < rig.num_known; i++)
        if (strcmp(rig.known[i].kernel->name, kernel->name) == 0)
            return true;
    return false;
}

/* Whether the case runs a matrix product of cuBLASLt, which this test replaces by a plain loop. */
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

/* Adds every third case in one random storage type; in `make campaign` all cases in all types. */
static void add_cases(TCase *ops)
{
    int listed = (int)(rig.seed / 4 % 3);
    for (int i = 0; i < op_case_count(); i++)
        if (!is_product(i) &&
            (is_campaign() || (op_case_is_drawn(i, rig.seed) && listed++ % 3 == 0)))
            tcase_add_loop_test(ops, ops_agree_with_the_host, i, i + 1);
}

static Suite *cuda_ptx_suite(void)
{
    Suite *suite = suite_create("cuda_ptx");
    TCase *ops = tcase_create("ops"), *kernels = tcase_create("kernels");
    TCase *cores = tcase_create("numerics"), *faults = tcase_create("faults");
    tcase_set_timeout(ops, 30);
    tcase_set_timeout(kernels, 30);
    tcase_add_test(kernels, the_interpreter_knows_every_instruction);
    tcase_add_test(kernels, the_cases_launch_every_kernel);
    add_cases(ops);
    add_numerics(cores);
    tcase_set_timeout(cores, 30);
    tcase_set_timeout(faults, 30);
    for (int i = 0; i < LENGTH(slips); i++)
        if (is_tested(i))
            tcase_add_loop_test(faults, an_injected_fault_changes_the_result, i, i + 1);
    tcase_add_unchecked_fixture(faults, run_cases_of_slips, NULL);
    suite_add_tcase(suite, cores);
    suite_add_tcase(suite, faults);
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
    rig.seed = told_seed();
    int status = run_suite(cuda_ptx_suite());
    ptx_library_close(&rig.library);
    return status;
}
