/* not under release, asan, tsan, clang, cov: make nvcc-tests runs it. */
/* Compares the machine code that ptxas generates from kernels/cuda for sm_90a with
 * tests/kernels/sass.table: no registers are spilled, the number of tensor-core products matches
 * the FLOPs of a tile, copies are asynchronous, and registers, shared memory and loops equal the
 * table's. A commit that changes a line must give the reason. SIMSEARCH_GOLDEN=write CAMPAIGN=1
 * rewrites the table. */
#include "base/file.h"
#include "base/text.h"
#include "kernels/cuda/launch.h"
#include "tests/check_ok.h"
#include "tests/cuda_on_host/grid.h"
#include "tests/draw.h"
#include "tests/kernels/ptx/ptx_library.h"
#include "tests/kernels/sass/sass.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

#define TABLE "tests/kernels/sass.table"

enum {
    MOST_TILES = 96,
    TILES_LEFT_OUT =
        4 * 2 * 3, /* 4 pairs of type and head size, each with and without dropout, in 3 kernels */
    ROW_THREADS = 256 /* threads of a block if a kernel has no launch bounds (grid.cuh) */
};

static struct rig {
    struct ptx_library library;
    const char *folder;
    char version[32];
    char *table; /* text of the file TABLE */
    struct tile {
        const struct ptx_kernel *kernel;
        long shared_bytes, head_dim;
    } tiles[MOST_TILES];
    int num_tiles;
    long head_dim; /* head_dim of the attention launch that is being recorded */
    struct ptx_kernel **kernels;
    int num_kernels;
} rig;

/* --- loops of attention ------------------------------------------------------------------- */

/* One iteration of a kernel's main loop has, for one warp, this number of matrix products of rows x
 * columns x head_dim each. */
struct loop_shape {
    int products, rows, columns;
};

static struct loop_shape loop_shape_of(const char *kernel, int head_dim)
{
    bool drops = strstr(kernel, "ELb1E") != NULL;
    if (strstr(kernel, "forward_tile")) /* the products for scores, and for sums of values weighted
                                           by probabilities */
        return (struct loop_shape){ 2, 32, drops ? 32 : head_dim > 96 ? 48 : 64 };
    /* Two warps share a tile and compute two products each: one warp those for scores and for
     * gradients of values, the other those for gradients of probabilities and of keys. */
    if (strstr(kernel, "key_gradients"))
        return (struct loop_shape){ 2, drops ? 32 : 256 / head_dim * 16, 32 };
    /* these are the products for scores, gradients of probabilities and gradients of queries */
    if (strstr(kernel, "query_gradients"))
        return (struct loop_shape){ 3, drops ? 16 : 32, 32 };
    return (struct loop_shape){ 0 };
}

/* --- launches of attention ---------------------------------------------------------------- */

static int note_launch(const void *function, const struct grid_shape *shape,
                       const void *const *arguments)
{
    struct err err = { 0 };
    (void)arguments;
    const char *name = ptx_name_of_function(&rig.library, function);
    const struct ptx_kernel *kernel = name ? ptx_library_find(&rig.library, name, &err) : NULL;
    check_ok(kernel != NULL, &err);
    if (loop_shape_of(kernel->name, 64).products == 0)
        return 1; /* not a tile */
    ck_assert_int_lt(rig.num_tiles, MOST_TILES);
    rig.tiles[rig.num_tiles++] = (struct tile){ kernel, (long)shape->shared_bytes, rig.head_dim };
    return 1;
}

static void note_attention(enum dtype storage, long head_dim, double dropout)
{
    static char memory[64] __attribute__((aligned(16))); /* never read */
    struct launch launch = { .storage = storage };
    struct attention a = { .sequences = 1, .seq = 64, .heads = 1, .kv_heads = 1 };
    a.head_dim = rig.head_dim = head_dim;
    a.dropout = (struct attention_dropout){ .dropout = dropout, .model_heads = 1 };
    float *floats = (float *)memory;
    struct flash_forward forward = { a, memory, memory, floats, memory };
    struct flash_backward backward = { a, memory, memory, memory, floats, memory, memory };
    ck_assert_int_eq(launch_flash_forward(&launch, &forward), cudaSuccess);
    ck_assert_int_eq(launch_flash_backward(&launch, &backward), cudaSuccess);
}

static void note_tiles(void)
{
    static const long head_dims[] = { 64, 80, 96, 112, 128 };
    grid_interpreted_by = note_launch;
    for (int i = 0; i < LENGTH(head_dims); i++)
        for (int drops = 0; drops < 2; drops++) {
            note_attention(DTYPE_BF16, head_dims[i], 0.5 * drops);
            note_attention(DTYPE_FP16, head_dims[i], 0.5 * drops);
        }
    grid_interpreted_by = NULL;
}

static const struct tile *tile_of(const struct ptx_kernel *kernel)
{
    for (int i = 0; i < rig.num_tiles; i++)
        if (rig.tiles[i].kernel == kernel)
            return &rig.tiles[i];
    return NULL;
}

/* --- laws --------------------------------------------------------------------------------- */

static void check_tile(const struct ptx_kernel *kernel, const struct sass_kernel *sass,
                       long head_dim)
{
    enum { FLOPS_OF_A_PRODUCT = 2 * 16 * 8 * 16 };
    struct loop_shape s = loop_shape_of(kernel->name, (int)head_dim);
    long flops = 2L * s.products * s.rows * s.columns * head_dim;
    ck_assert_msg(sass->loop.num_products * FLOPS_OF_A_PRODUCT == flops,
                  "%s: %ld products per loop do not have %ld FLOPs", kernel->name,
                  sass->loop.num_products, flops);
    ck_assert_int_eq(sass->all.num_products, sass->loop.num_products);
}

static int count_of(const char *text, const char *end, const char *word)
{
    int count = 0;
    for (; (text = strstr(text, word)) && text < end; text++)
        count++;
    return count;
}

static void check_laws(const struct ptx_kernel *kernel, const struct sass_kernel *sass)
{
    const struct tile *tile = tile_of(kernel);
    const char *end = strstr(kernel->body, "\n}\n");
    int copies = count_of(kernel->body, end, "cp.async.cg");
    ck_assert_msg(sass->spill_bytes == 0, "%s spills %d bytes", kernel->name, sass->spill_bytes);
    ck_assert_msg(sass->stack_bytes == 0, "%s uses %d bytes of stack (local memory)", kernel->name,
                  sass->stack_bytes);
    ck_assert_msg(sass->all.num_copies >= copies, "%s has %ld LDGSTS instructions for %d cp.async",
                  kernel->name, sass->all.num_copies, copies);
    if (tile)
        check_tile(kernel, sass, tile->head_dim);
    else
        ck_assert_int_eq(sass->all.num_products, 0);
}

/* --- the table ---------------------------------------------------------------------------- */

enum { MOST_LINE = 512 };
static const char header[] =
    "# Columns: registers, spilled bytes, shared bytes, resident warps (at most 64); "
    "of the main loop: code\n"
    "# bytes, HMMA instructions, bytes of shared and of global memory that a warp "
    "moves; of the whole\n"
    "# kernel: LDGSTS instructions; file and kernel.\n"
    "# tests/kernels/test_cuda_sass.c writes and explains it.\n";

static void add_line(struct text *text, const struct ptx_kernel *kernel,
                     const struct sass_kernel *sass)
{
    const struct tile *tile = tile_of(kernel);
    int threads = kernel->most_threads ? kernel->most_threads : ROW_THREADS;
    long shared = sass->shared_bytes + (tile ? tile->shared_bytes : 0);
    int warps = sass_resident_blocks(sass->registers, threads, shared) * threads / PTX_LANES;
    text_add(text, "%3d %2d %6ld %2d %6ld %4ld %6ld %6ld %3ld %s %s\n", sass->registers,
             sass->spill_bytes, shared, warps, sass->loop.code_bytes, sass->loop.num_products,
             sass->loop.shared_bytes, sass->loop.global_bytes, sass->all.num_copies, kernel->file,
             kernel->name);
}

static void assemble(const struct ptx_kernel *kernel, struct sass_kernel *sass)
{
    struct err err = { 0 };
    char path[MOST_LINE];
    snprintf(path, sizeof path, "%s/%s", rig.folder, kernel->file);
    check_ok(sass_assemble(&rig.library.arena, path, kernel->full_name, sass, &err), &err);
}

/* The table's line for the same file and kernel, or NULL. */
static const char *line_like(const char *line)
{
    const char *name = strstr(line, ".ptx");
    while (name > line && *name != ' ')
        name--;
    const char *at = strstr(rig.table, name);
    while (at && at > rig.table && at[-1] != '\n')
        at--;
    return at;
}

START_TEST(each_kernel_equals_its_line_in_the_table)
{
    const struct ptx_kernel *kernel = rig.kernels[_i];
    struct sass_kernel sass;
    struct text line = { 0 };
    assemble(kernel, &sass);
    check_laws(kernel, &sass);
    add_line(&line, kernel, &sass);
    const char *old = line_like(text_get(&line));
    int length = old ? (int)strcspn(old, "\n") : 0;
    bool is_same = old && strncmp(old, text_get(&line), line.length) == 0;
    ck_assert_msg(is_same || !strstr(rig.table, rig.version),
                  "the line of " TABLE " must change, and the commit must say why:\n- %.*s\n+ %s",
                  length, old ? old : "", text_get(&line));
    text_release(&line);
}
END_TEST

static bool has_kernel(const char *file, const char *name)
{
    for (int i = 0; i < rig.num_kernels; i++)
        if (strcmp(rig.kernels[i]->file, file) == 0 && strcmp(rig.kernels[i]->name, name) == 0)
            return true;
    return false;
}

/* The test fails also if the table has a line for a kernel that no longer exists. Outside a
 * campaign tiles are compiled for some types and head sizes only (kernels/cuda/flash.cuh). */
START_TEST(the_table_has_a_line_for_each_kernel)
{
    int lines = 0, tiles = 0;
    for (const char *at = rig.table; (at = strstr(at, ".ptx ")); at++) {
        const char *file = at;
        while (file[-1] != ' ')
            file--;
        char words[2][MOST_LINE];
        ck_assert_int_eq(sscanf(file, "%511s %511s", words[0], words[1]), 2);
        bool is_there = has_kernel(words[0], words[1]);
        lines += is_there;
        tiles += !is_there && loop_shape_of(words[1], 64).products > 0;
        ck_assert_msg(is_there || loop_shape_of(words[1], 64).products > 0, "%s: there is no %s",
                      words[0], words[1]);
    }
    ck_assert_int_eq(lines, rig.num_kernels);
    ck_assert_int_eq(tiles, is_campaign() ? 0 : TILES_LEFT_OUT);
}
END_TEST

/* The first cases are limited by registers, by warps or by blocks, and the last two by shared
 * memory. */
START_TEST(occupancy_equals_nvidias_calculator)
{
    ck_assert_int_eq(sass_resident_blocks(255, 128, 0), 2);
    ck_assert_int_eq(sass_resident_blocks(168, 128, 0), 3);
    ck_assert_int_eq(sass_resident_blocks(128, 128, 0), 4);
    ck_assert_int_eq(sass_resident_blocks(32, 256, 0), 8);
    ck_assert_int_eq(sass_resident_blocks(16, 32, 0), 32);
    ck_assert_int_eq(sass_resident_blocks(32, 128, 227 << 10), 1);
    ck_assert_int_eq(sass_resident_blocks(32, 128, 75 << 10), 3);
}
END_TEST

static void write_table(void)
{
    struct err err = { 0 };
    struct text text = { 0 };
    text_add(&text, "# ptxas %s\n%s", rig.version, header);
    for (int i = 0; i < rig.num_kernels; i++) {
        struct sass_kernel sass;
        assemble(rig.kernels[i], &sass);
        add_line(&text, rig.kernels[i], &sass);
    }
    check_ok(file_write(TABLE, text.at, text.length, &err), &err);
    text_release(&text);
}

/* --- all parts ---------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct ptx_kernel *x = *(struct ptx_kernel *const *)a,
                            *y = *(struct ptx_kernel *const *)b;
    int order = strcmp(x->file, y->file);
    return order ? order : strcmp(x->name, y->name);
}

static void sort_kernels(void)
{
    for (struct ptx_kernel *k = rig.library.kernels; k; k = k->next)
        rig.num_kernels++;
    rig.kernels = ARENA_ARRAY(&rig.library.arena, struct ptx_kernel *, (size_t)rig.num_kernels);
    int i = 0;
    for (struct ptx_kernel *k = rig.library.kernels; k; k = k->next)
        rig.kernels[i++] = k;
    qsort(rig.kernels, (size_t)rig.num_kernels, sizeof(struct ptx_kernel *), by_name);
}

/* `make test` tests the kernels of attention that take most time in large models, and a sample of
 * the others. */
static bool is_in_gate(int i, uint64_t seed)
{
    if (strstr(rig.kernels[i]->name, "I4bf16Li128ELb0E"))
        return true;
    return !is_spared(i + (int)(seed % 48), 48);
}

static Suite *cuda_sass_suite(uint64_t seed)
{
    Suite *suite = suite_create("cuda_sass");
    TCase *laws = tcase_create("laws"), *kernels = tcase_create("kernels");
    tcase_add_test(laws, occupancy_equals_nvidias_calculator);
    tcase_add_test(laws, the_table_has_a_line_for_each_kernel);
    tcase_set_timeout(kernels, 30);
    for (int i = 0; i < rig.num_kernels; i++)
        if (is_in_gate(i, seed))
            tcase_add_loop_test(kernels, each_kernel_equals_its_line_in_the_table, i, i + 1);
    suite_add_tcase(suite, laws);
    suite_add_tcase(suite, kernels);
    return suite;
}

static int not_run(const char *why)
{
    enum { NOT_RUN = 77 };
    printf("not run: %s\n", why);
    return NOT_RUN;
}

int main(void)
{
    struct err err = { 0 };
    const char *golden = getenv("SIMSEARCH_GOLDEN");
    rig.folder = getenv("SIMSEARCH_PTX");
    if (!rig.folder || !*rig.folder)
        return not_run("install nvcc, which makes the PTX of kernels/cuda");
    if (!sass_version(rig.version))
        return not_run("install ptxas, which makes machine code of PTX");
    if (!ptx_library_open(&rig.library, rig.folder, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        return 1;
    }
    sort_kernels();
    note_tiles();
    if (golden && strcmp(golden, "write") == 0)
        write_table();
    rig.table = file_read(TABLE, FILE_MAX_BYTES, NULL, &err);
    if (!rig.table) {
        printf("%s: %s\n", err.where, err.msg);
        return 1;
    }
    int status = run_suite(cuda_sass_suite(told_seed()));
    free(rig.table);
    ptx_library_close(&rig.library);
    return status;
}
