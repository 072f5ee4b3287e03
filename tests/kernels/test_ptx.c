/* Tests the PTX interpreter (tests/kernels/ptx) on kernels written by hand, without nvcc. */
#include "base/length.h"
#include "tests/check_ok.h"
#include "tests/kernels/ptx/ptx_grid.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- fragments ---------------------------------------------------------------------------- */

/* The positions of fragments are compared with those of CUTLASS, an independent source. A layout is
 * a list of shapes and strides; a position is the sum of the products of coordinates and strides
 * (include/cute/atom/mma_traits_sm80.hpp, SM80_16x8x16_F32F16F16F32_TN, and copy_traits_sm75.hpp,
 * SM75_U32x4_LDSM_N and SM75_U16x8_LDSM_T). The index of a lane is split into (4, 8), the index of
 * a value as the layout's shapes say. */
struct layout {
    int lane_strides[2];
    int shapes[3], strides[3]; /* shapes and strides of values */
};

static int place_in(const struct layout *layout, int lane, int value)
{
    int place = lane % 4 * layout->lane_strides[0] + lane / 4 * layout->lane_strides[1];
    for (int i = 0; i < 3 && layout->shapes[i]; i++) {
        place += value % layout->shapes[i] * layout->strides[i];
        value /= layout->shapes[i];
    }
    return place;
}

/* Offsets in column-major matrices: with row m, column n and inner index k, they are m + 16 k in a,
 * n + 8 k in b (which CUTLASS stores as n x k) and m + 16 n in the sums. */
static const struct layout of_a = { { 32, 1 }, { 2, 2, 2 }, { 16, 8, 128 } };
static const struct layout of_b = { { 16, 1 }, { 2, 2 }, { 8, 64 } };
static const struct layout of_sum = { { 32, 1 }, { 2, 2 }, { 16, 8 } };
/* Offsets are in bits, in a matrix with rows of 128 bits. The 32 bits of a lane are adjacent, or,
 * if transposed, 16 bits are in one row and 16 in the next. */
static const struct layout of_loaded = { { 32, 128 }, { 32 }, { 1 } };
static const struct layout of_loaded_transposed = { { 256, 16 }, { 16, 2 }, { 1, 128 } };

START_TEST(fragment_positions_equal_cutlass)
{
    for (int lane = 0; lane < PTX_LANES; lane++) {
        for (int i = 0; i < 8; i++) {
            struct ptx_place at = ptx_place_of_a(lane, i);
            ck_assert_int_eq(at.row + PTX_M * at.column, place_in(&of_a, lane, i));
        }
        for (int i = 0; i < 4; i++) {
            struct ptx_place b = ptx_place_of_b(lane, i), sum = ptx_place_of_sum(lane, i);
            ck_assert_int_eq(b.column + PTX_N * b.row, place_in(&of_b, lane, i));
            ck_assert_int_eq(sum.row + PTX_M * sum.column, place_in(&of_sum, lane, i));
        }
    }
}
END_TEST

START_TEST(ldmatrix_positions_equal_cutlass)
{
    enum { VALUE_BITS = 16, ROW_BITS = 128 };
    for (int lane = 0; lane < PTX_LANES; lane++)
        for (int i = 0; i < 2; i++) {
            struct ptx_place at = ptx_place_of_loaded(lane, i, false);
            struct ptx_place turned = ptx_place_of_loaded(lane, i, true);
            ck_assert_int_eq(at.row * ROW_BITS + at.column * VALUE_BITS,
                             place_in(&of_loaded, lane, i * VALUE_BITS));
            ck_assert_int_eq(turned.row * ROW_BITS + turned.column * VALUE_BITS,
                             place_in(&of_loaded_transposed, lane, i * VALUE_BITS));
        }
}
END_TEST

/* --- sums --------------------------------------------------------------------------------- */

/* If each addition is rounded, 1 + 16 x 2^-25 is 1. Hopper keeps bits down to 2^-25, so the sum is
 * exactly 1 + 2^-21. Ampere keeps bits down to 2^-24 and Volta to 2^-23, so both truncate all
 * terms. With one term of 2^-24, Hopper's sum 17 x 2^-25 is truncated to the float 16 x 2^-25.
 * Terms that need no truncation are added exactly. */
START_TEST(tensor_core_sums_are_truncated_below_the_largest_term)
{
    float a[PTX_K], b[PTX_K], sum = 1;
    for (int k = 0; k < PTX_K; k++)
        a[k] = 0x1p-12F, b[k] = 0x1p-13F;
    const struct ptx_numerics in_order = { 0, 0 }, hopper = { 16, 2 }, ampere = { 8, 1 },
                              volta = { 4, 0 };
    ck_assert(ptx_dot(in_order, sum, a, b) == 1);
    ck_assert(ptx_dot(hopper, sum, a, b) == 1 + 0x1p-21F);
    ck_assert(ptx_dot(ampere, sum, a, b) == 1);
    ck_assert(ptx_dot(volta, sum, a, b) == 1);
    a[0] = 0x1p-11F;
    ck_assert(ptx_dot(hopper, sum, a, b) == 1 + 0x1p-21F);
    for (int k = 0; k < PTX_K; k++)
        a[k] = (float)(k + 1), b[k] = 2;
    for (int i = 0; i < 3; i++)
        ck_assert(ptx_dot((const struct ptx_numerics[]){ hopper, ampere, volta }[i], 3, a, b) ==
                  275);
}
END_TEST

/* --- kernels ------------------------------------------------------------------------------ */

enum { MOST_WORDS = 256 };

struct hand {
    const char *what, *body;
    unsigned threads, blocks;
    size_t shared_bytes;
    const char *error; /* part of the expected error; NULL if the kernel must run */
    uint32_t word;     /* result word of thread 5, if it runs */
};

/* %r1 is the thread's index, %r4 the address of its word in shared memory, %r5 that of its
 * neighbour's word, and %rd3 that of its word in global memory. */
static const char frame[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 "
    "shared_bytes[];\n"
    ".visible .entry k(.param .u64 k_param_0)\n{\n"
    ".reg .pred %%p<9>; .reg .b16 %%rs<9>; .reg .b32 %%r<30>; .reg .f32 %%f<9>; .reg .b64 "
    "%%rd<9>;\n"
    "ld.param.u64 %%rd1, [k_param_0]; mov.u32 %%r1, %%tid.x; shl.b32 %%r2, %%r1, 2;\n"
    "mov.u32 %%r3, shared_bytes; add.s32 %%r4, %%r3, %%r2; xor.b32 %%r6, %%r2, 4;\n"
    "add.s32 %%r5, %%r3, %%r6; cvt.u64.u32 %%rd2, %%r2; add.s64 %%rd3, %%rd1, %%rd2;\n"
    "shl.b32 %%r7, %%r1, 4; add.s32 %%r8, %%r3, %%r7; xor.b32 %%r9, %%r7, 512;\n"
    "add.s32 %%r9, %%r3, %%r9; mul.wide.u32 %%rd4, %%r1, 16; add.s64 %%rd4, %%rd1, %%rd4;\n"
    "%s\nret;\n}\n";

#define WRITE     "st.shared.u32 [%r4], %r1; "
#define READ_NEXT "ld.shared.u32 %r10, [%r5]; st.global.u32 [%rd3], %r10; "
#define COPY      "cp.async.cg.shared.global [%r8], [%rd4], 16, 16; "
#define READ_COPY "ld.shared.u32 %r10, [%r8]; "
/* The kernel reads a word of the other warp. */
#define READ_OTHER "ld.shared.u32 %r10, [%r9]; "

/* "reads w" is the beginning of two messages: which of them appears depends on whether the other
 * warp has written yet. */
static const struct hand hands[] = {
    { "a barrier", WRITE "bar.sync 0; " READ_NEXT, 64, 1, 256, NULL, 4 },
    { "no barrier", WRITE READ_NEXT, 64, 1, 256, "reads without a barrier what was written", 0 },
    { "a barrier of the warp", WRITE "bar.warp.sync -1; " READ_NEXT, 64, 1, 256, NULL, 4 },
    { "a warp's barrier orders no other warp",
      WRITE "bar.warp.sync -1; ld.shared.u32 %r10, [%r3+128];", 64, 1, 256, "reads w", 0 },
    { "a shuffle is no barrier", WRITE "shfl.sync.bfly.b32 %r11|%p1, %r1, 1, 31, -1; " READ_NEXT,
      32, 1, 256, "reads without a barrier", 0 },
    { "overwritten too early", WRITE "bar.sync 0; " READ_NEXT WRITE, 64, 1, 256,
      "writes without a barrier what was read", 0 },
    { "two writers", "st.shared.u32 [%r3], %r1;", 32, 1, 256,
      "writes without a barrier what was written", 0 },
    { "atomics are ordered",
      "setp.ne.s32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r3], 7; bar.sync 0; "
      "atom.shared.add.u32 %r10, [%r3], 2; bar.sync 0; ld.shared.u32 %r10, [%r3]; "
      "st.global.u32 [%rd3], %r10;",
      64, 1, 256, NULL, 135 },
    { "atomics are not ordered before a read",
      "setp.ne.s32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r3], 7; bar.sync 0; "
      "atom.shared.add.u32 %r10, [%r3], 2; ld.shared.u32 %r10, [%r3];",
      64, 1, 256, "reads without a barrier", 0 },
    { "nobody wrote it", "ld.shared.u32 %r10, [%r4];", 32, 1, 256, "reads what nobody wrote", 0 },
    { "beyond shared memory", "st.shared.u32 [%r4+4], %r1;", 64, 1, 256,
      "of shared memory, which has 256", 0 },
    { "before shared memory", "st.shared.u32 [%r4+-4], %r1;", 64, 1, 256, "of shared memory", 0 },
    { "beyond global memory", "st.global.u32 [%rd3+1024], %r1;", 32, 1, 0, "may not access", 0 },
    { "misaligned", "st.shared.u32 [%r4+2], %r1;", 32, 1, 256, "2 bytes beyond a multiple", 0 },
    { "misaligned four", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];", 32, 1, 0,
      "4 bytes beyond a multiple", 0 },
    { "two blocks", "st.global.u32 [%rd3], %r1;", 32, 2, 0,
      "writes without a barrier what was written", 0 },
    { "blocks that add", "setp.ne.s32 %p1, %r1, 5; @%p1 ret; atom.global.add.u32 %r10, [%rd3], 3;",
      32, 4, 0, NULL, 12 },
    { "a copy",
      COPY "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; " READ_OTHER
           "add.s32 %r10, %r10, %r1; bar.sync 0; st.global.u32 [%rd3], %r10;",
      64, 1, 1024, NULL, 5 },
    { "no wait", COPY "cp.async.commit_group; bar.sync 0; " READ_COPY, 64, 1, 1024,
      "asynchronous copy is still writing", 0 },
    { "a wait for earlier copies only",
      COPY "cp.async.commit_group; cp.async.wait_group 1; " READ_COPY, 64, 1, 1024,
      "asynchronous copy is still writing", 0 },
    { "a copy without a commit", COPY "cp.async.wait_group 0; " READ_COPY, 64, 1, 1024,
      "asynchronous copy is still writing", 0 },
    { "a wait without a barrier", COPY "cp.async.commit_group; cp.async.wait_group 0; " READ_OTHER,
      64, 1, 1024, "reads w", 0 },
    { "a copy without a wait", COPY "cp.async.commit_group;", 64, 1, 1024, "are under way", 0 },
    { "a copy of zeros",
      "cp.async.cg.shared.global [%r8], [%rd4], 16, 0; cp.async.commit_group; "
      "cp.async.wait_group 0; " READ_COPY "st.global.u32 [%rd3], %r10;",
      64, 1, 1024, NULL, 0 },
    { "lanes that part and meet",
      "and.b32 %r10, %r1, 1; setp.eq.s32 %p1, %r10, 0; @%p1 bra even; "
      "mul.lo.s32 %r11, %r1, 3; bra.uni all; even: mul.lo.s32 %r11, %r1, 5; all: "
      "shfl.sync.bfly.b32 %r12|%p2, %r11, 1, 31, -1; st.global.u32 [%rd3], %r12;",
      32, 1, 0, NULL, 20 },
    { "half a warp at a shuffle",
      "setp.lt.s32 %p1, %r1, 16; @%p1 bra out; "
      "shfl.sync.bfly.b32 %r12|%p2, %r1, 1, 31, -1; bar.sync 0; out: bar.warp.sync -1;",
      32, 1, 0, "wait for each other", 0 },
    { "a shuffle from lane 7",
      "shfl.sync.idx.b32 %r12|%p2, %r1, 7, 31, -1; st.global.u32 [%rd3], %r12;", 32, 1, 0, NULL,
      7 },
    { "a shuffle within a segment",
      "shfl.sync.bfly.b32 %r12|%p2, %r1, 2, 0x1c04, -1; "
      "selp.u32 %r13, 100, 0, %p2; add.s32 %r12, %r12, %r13; st.global.u32 [%rd3], %r12;",
      32, 1, 0, NULL, 5 },
    { "a ballot",
      "setp.gt.s32 %p1, %r1, 29; vote.sync.ballot.b32 %r12, %p1, -1; "
      "st.global.u32 [%rd3], %r12;",
      32, 1, 0, NULL, 0xc0000000 },
    { "a loop",
      "mov.u32 %r10, 0; mov.u32 %r11, 0; again: add.s32 %r11, %r11, %r10; "
      "add.s32 %r10, %r10, 1; setp.le.s32 %p1, %r10, %r1; @%p1 bra again; st.global.u32 [%rd3], "
      "%r11;",
      64, 1, 0, NULL, 15 },
    { "shifts beyond the width",
      "shr.s32 %r10, -8, 40; shl.b32 %r11, %r10, 33; shr.u32 %r12, 9, 32; "
      "add.s32 %r10, %r10, %r11; add.s32 %r10, %r10, %r12; st.global.u32 [%rd3], %r10;",
      32, 1, 0, NULL, 0xffffffff },
    { "the upper half of a product", "mul.hi.s32 %r10, -2, %r1; st.global.u32 [%rd3], %r10;", 32, 1,
      0, NULL, 0xffffffff },
    { "inserted bits", "bfi.b32 %r10, %r1, -1, 4, 8; st.global.u32 [%rd3], %r10;", 32, 1, 0, NULL,
      0xfffff05f },
    { "two bf16 values in a register",
      "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0fC0000000; "
      "cvt.rn.bf16x2.f32 %r10, %f1, %f2; st.global.u32 [%rd3], %r10;",
      32, 1, 0, NULL, 0x3f80c000 },
    { "the halves of a register",
      "mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r10, {%rs2, %rs1}; "
      "st.global.u32 [%rd3], %r10;",
      32, 1, 0, NULL, 0x50000 },
    { "comparisons with NaN",
      "mov.f32 %f1, 0f7FC00000; setp.lt.f32 %p1, %f1, 0f00000000; "
      "setp.geu.f32 %p2, %f1, 0f00000000; max.f32 %f2, %f1, 0f40000000; selp.u32 %r10, 1, 0, %p1; "
      "selp.u32 %r11, 2, 0, %p2; add.s32 %r10, %r10, %r11; cvt.rzi.s32.f32 %r12, %f2; "
      "add.s32 %r10, %r10, %r12; st.global.u32 [%rd3], %r10;",
      32, 1, 0, NULL, 4 },
    { "rounded down",
      "fma.rm.f32 %f1, 0fBF800000, 0f33800000, 0f3F800000; mov.b32 %r10, %f1; "
      "st.global.u32 [%rd3], %r10;",
      32, 1, 0, NULL, 0x3f7fffff },
    { "an opcode that is not known", "sin.approx.f32 %f1, %f1;", 32, 1, 0,
      "unknown opcode \"sin.approx.f32\"", 0 },
    { "an operand too few", "add.s32 %r1, %r2;", 32, 1, 0, "other operands", 0 },
    { "a register of another width", "add.s64 %rd1, %rd1, %r1;", 32, 1, 0, "another width", 0 },
    { "no such register", "add.s32 %r1, %r1, %r99;", 32, 1, 0, "neither register nor number", 0 },
    { "no such label", "bra nowhere;", 32, 1, 0, "no such label", 0 },
    { "too many threads", "", 2048, 1, 0, "a block has 2048 threads", 0 },
};

static bool run_hand(const struct hand *hand, uint32_t words[MOST_WORDS], struct err *err)
{
    enum { MOST_TEXT = 8192 };
    char *text = malloc(MOST_TEXT);
    ck_assert_ptr_nonnull(text);
    snprintf(text, MOST_TEXT, frame, hand->body);
    struct arena arena = { 0 };
    struct ptx_machine machine = { .random = random_new(1, (uint64_t)hand->threads) };
    ptx_memory_add(&machine.memory, words, sizeof *words * MOST_WORDS);
    const void *arguments[] = { &(const void *){ words } };
    struct ptx_kernel *kernel = ptx_parse(&arena, "hand.ptx", text, err);
    struct ptx_launch launch = { .kernel = kernel,
                                 .blocks = { hand->blocks, 1, 1 },
                                 .threads = { hand->threads, 1, 1 },
                                 .shared_bytes = hand->shared_bytes,
                                 .arguments = arguments };
    bool ok = kernel && ptx_decode(&arena, kernel, err) && ptx_run(&machine, &launch, err);
    ptx_memory_free(&machine.memory);
    arena_release(&arena);
    free(text);
    return ok;
}

START_TEST(hand_written_kernels_run_or_fail_as_in_the_ptx_isa)
{
    const struct hand *hand = &hands[_i];
    struct err err = { 0 };
    uint32_t *words = aligned_alloc(256, sizeof *words * MOST_WORDS);
    ck_assert_ptr_nonnull(words);
    memset(words, 0, sizeof *words * MOST_WORDS);
    bool ok = run_hand(hand, words, &err);
    if (hand->error)
        ck_assert_msg(!ok && strstr(err.msg, hand->error), "%s: %s", hand->what,
                      ok ? "runs without an error" : err.msg);
    else {
        ck_assert_msg(ok, "%s: %s: %s", hand->what, err.where, err.msg);
        ck_assert_msg(words[5] == hand->word, "%s: 0x%x", hand->what, words[5]);
    }
    free(words);
}
END_TEST

static Suite *ptx_suite(void)
{
    Suite *suite = suite_create("ptx");
    TCase *tests = tcase_create("ptx");
    tcase_add_test(tests, fragment_positions_equal_cutlass);
    tcase_add_test(tests, ldmatrix_positions_equal_cutlass);
    tcase_add_test(tests, tensor_core_sums_are_truncated_below_the_largest_term);
    tcase_add_loop_test(tests, hand_written_kernels_run_or_fail_as_in_the_ptx_isa, 0,
                        LENGTH(hands));
    suite_add_tcase(suite, tests);
    return suite;
}

TEST_MAIN(ptx_suite)
