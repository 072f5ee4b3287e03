/* Opcodes that each lane executes independently, with their meaning, and the names of the other
 * opcodes. PTX ISA 9.0, sections 9.7.1 to 9.7.9. */
#include "kernels/host/round.h"
#include "tests/kernels/ptx/ptx_module.h"

#include "base/length.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- results of opcodes ------------------------------------------------------------------- */

/* Division. The ISA leaves division by zero undefined; as on GPUs it gives all ones here, with the
 * dividend as remainder. The smallest number divided by -1 is itself. */
static int64_t divided(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t remainder_of(int64_t a, int64_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

/* The maximum: a number is larger than NaN, and +0 is larger than -0. */
static float larger(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static float smaller(float a, float b)
{
    return -larger(-a, -b);
}

/* Clamps to the range [0, 1]; NaN becomes 0. */
static float saturated(float a)
{
    return a > 0 ? (a < 1 ? a : 1) : 0;
}

/* a b + c rounded towards minus infinity. */
static float fused_down(float a, float b, float c)
{
    int rounding = fegetround();
    fesetround(FE_DOWNWARD);
    volatile float sum = fmaf(a, b, c);
    fesetround(rounding);
    return sum;
}

/* 2^a. A GPU may have an error of 2 units in the last place, so an error is added here that depends
 * only on the input's bits. Subnormal inputs and results are zero; 2^0 and infinities are exact. */
static float exp2_approximate(float a)
{
    float exact = exp2f(fabsf(a) < 0x1p-126F ? 0 : a);
    if (fabsf(a) < 0x1p-126F || !isfinite(exact) || exact < 0x1p-125F)
        return exact < 0x1p-126F ? 0 : exact;
    uint32_t drawn = bits_of(a) * 2654435761u >> 16;
    return float_of(bits_of(exact) + drawn % 5 - 2);
}

/* Reads the upper 32 bits of a, and clears the lower ones of the result. */
static double reciprocal_approximate(double a)
{
    uint64_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits &= 0xffffffff00000000ull;
    memcpy(&a, &bits, sizeof bits);
    a = 1 / a;
    memcpy(&bits, &a, sizeof bits);
    bits &= 0xffffffff00000000ull;
    memcpy(&a, &bits, sizeof bits);
    return a;
}

static uint32_t reversed(uint32_t a)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i++)
        out |= (a >> i & 1) << (31 - i);
    return out;
}

/* Inserts `length` bits of a into b at bit `first`. */
static uint32_t inserted(uint32_t a, uint32_t b, uint32_t first, uint32_t length)
{
    first &= 0xff, length &= 0xff;
    uint64_t mask = first > 31 ? 0 : ((length > 31 ? 1ull << 32 : 1ull << length) - 1) << first;
    return (uint32_t)(((uint64_t)b & ~mask) | ((first > 31 ? 0 : (uint64_t)a << first) & mask));
}

/* Shifts beyond the width give what shifting bit by bit gives. */
#define LEFT(a, b)        ((b) >= 8 * sizeof(a) ? 0 : (a) << (b))
#define RIGHT(a, b)       ((b) >= 8 * sizeof(a) ? ((a) < 0 ? -1 : 0) : (a) >> (b))
#define RIGHT_ZEROS(a, b) ((b) >= 8 * sizeof(a) ? 0 : (a) >> (b))

/* --- the table ---------------------------------------------------------------------------- */

typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef bool pred;

/* Operand i of a lane, with its type. A predicate is one bit of a word. */
#define AT(type, i) (((type *)(void *)(registers + insn->at[i].slot))[lane])
#define WORD(i)     (*(u32 *)(void *)(registers + insn->at[i].slot))
#define GET_u16(i)  AT(u16, i)
#define GET_s16(i)  AT(s16, i)
#define GET_u32(i)  AT(u32, i)
#define GET_s32(i)  AT(s32, i)
#define GET_u64(i)  AT(u64, i)
#define GET_s64(i)  AT(s64, i)
#define GET_f32(i)  AT(f32, i)
#define GET_f64(i)  AT(f64, i)
#define GET_pred(i) (WORD(i) >> lane & 1)
#define GET_none(i) 0
#define PUT_u16(v)  AT(u16, 0) = (u16)(v)
#define PUT_s16(v)  AT(s16, 0) = (s16)(v)
#define PUT_u32(v)  AT(u32, 0) = (u32)(v)
#define PUT_s32(v)  AT(s32, 0) = (s32)(v)
#define PUT_u64(v)  AT(u64, 0) = (u64)(v)
#define PUT_s64(v)  AT(s64, 0) = (s64)(v)
#define PUT_f32(v)  AT(f32, 0) = (f32)(v)
#define PUT_f64(v)  AT(f64, 0) = (f64)(v)
#define PUT_pred(v) WORD(0) = (WORD(0) & ~(1u << lane)) | (u32)((v) ? 1u : 0u) << lane

typedef int none;
#define LETTER_u16  "h"
#define LETTER_s16  "h"
#define LETTER_u32  "w"
#define LETTER_s32  "w"
#define LETTER_u64  "d"
#define LETTER_s64  "d"
#define LETTER_f32  "w"
#define LETTER_f64  "d"
#define LETTER_pred "p"

/* clang-format off */
#define COMPARED(X, type, text)                              \
    X(setp_eq_##type, "setp.eq." text, pred, type, type, none, a == b) \
    X(setp_ne_##type, "setp.ne." text, pred, type, type, none, a != b) \
    X(setp_lt_##type, "setp.lt." text, pred, type, type, none, a < b)  \
    X(setp_le_##type, "setp.le." text, pred, type, type, none, a <= b) \
    X(setp_gt_##type, "setp.gt." text, pred, type, type, none, a > b)  \
    X(setp_ge_##type, "setp.ge." text, pred, type, type, none, a >= b)
/* Comparisons of floats. NaN satisfies only the unordered comparisons (with a `u`); `ne` is an
 * ordered comparison. */
#define COMPARED_FLOATS(X, type, text)                                              \
    X(setp_eq_##type,  "setp.eq."  text, pred, type, type, none, a == b)             \
    X(setp_ne_##type,  "setp.ne."  text, pred, type, type, none, a < b || a > b)     \
    X(setp_lt_##type,  "setp.lt."  text, pred, type, type, none, a < b)              \
    X(setp_le_##type,  "setp.le."  text, pred, type, type, none, a <= b)             \
    X(setp_gt_##type,  "setp.gt."  text, pred, type, type, none, a > b)              \
    X(setp_ge_##type,  "setp.ge."  text, pred, type, type, none, a >= b)             \
    X(setp_equ_##type, "setp.equ." text, pred, type, type, none, !(a < b || a > b))  \
    X(setp_neu_##type, "setp.neu." text, pred, type, type, none, !(a == b))          \
    X(setp_ltu_##type, "setp.ltu." text, pred, type, type, none, !(a >= b))          \
    X(setp_leu_##type, "setp.leu." text, pred, type, type, none, !(a > b))           \
    X(setp_gtu_##type, "setp.gtu." text, pred, type, type, none, !(a <= b))          \
    X(setp_geu_##type, "setp.geu." text, pred, type, type, none, !(a < b))

/* X(NAME, text, types of the result and of operands a, b and c, the result). */
#define OPCODES(X)                                                                  \
    X(add_s32, "add.s32", u32, u32, u32, none, a + b)                               \
    X(add_s64, "add.s64", u64, u64, u64, none, a + b)                               \
    X(sub_s32, "sub.s32", u32, u32, u32, none, a - b)                               \
    X(sub_s64, "sub.s64", u64, u64, u64, none, a - b)                               \
    X(neg_s32, "neg.s32", u32, u32, none, none, 0 - a)                              \
    X(neg_s64, "neg.s64", u64, u64, none, none, 0 - a)                              \
    X(abs_s32, "abs.s32", u32, s32, none, none, a < 0 ? 0 - (u32)a : (u32)a)        \
    X(mul_lo_s32, "mul.lo.s32", u32, u32, u32, none, a * b)                         \
    X(mul_lo_s64, "mul.lo.s64", u64, u64, u64, none, a * b)                         \
    X(mul_hi_u32, "mul.hi.u32", u32, u32, u32, none, (u64)a * b >> 32)              \
    X(mul_hi_s32, "mul.hi.s32", s32, s32, s32, none, (s64)a * b >> 32)              \
    X(mul_wide_u16, "mul.wide.u16", u32, u16, u16, none, (u32)a * b)                \
    X(mul_wide_u32, "mul.wide.u32", u64, u32, u32, none, (u64)a * b)                \
    X(mul_wide_s32, "mul.wide.s32", s64, s32, s32, none, (s64)a * b)                \
    X(mad_lo_s32, "mad.lo.s32", u32, u32, u32, u32, a * b + c)                      \
    X(mad_lo_s64, "mad.lo.s64", u64, u64, u64, u64, a * b + c)                      \
    X(div_s32, "div.s32", s32, s32, s32, none, divided(a, b))                       \
    X(div_s64, "div.s64", s64, s64, s64, none, divided(a, b))                       \
    X(div_u32, "div.u32", u32, u32, u32, none, b ? a / b : ~0u)                     \
    X(div_u64, "div.u64", u64, u64, u64, none, b ? a / b : ~0ull)                   \
    X(rem_s32, "rem.s32", s32, s32, s32, none, remainder_of(a, b))                  \
    X(rem_s64, "rem.s64", s64, s64, s64, none, remainder_of(a, b))                  \
    X(rem_u32, "rem.u32", u32, u32, u32, none, b ? a % b : a)                       \
    X(rem_u64, "rem.u64", u64, u64, u64, none, b ? a % b : a)                       \
    X(max_s32, "max.s32", s32, s32, s32, none, a > b ? a : b)                       \
    X(max_s64, "max.s64", s64, s64, s64, none, a > b ? a : b)                       \
    X(max_u32, "max.u32", u32, u32, u32, none, a > b ? a : b)                       \
    X(min_s32, "min.s32", s32, s32, s32, none, a < b ? a : b)                       \
    X(min_s64, "min.s64", s64, s64, s64, none, a < b ? a : b)                       \
    X(min_u32, "min.u32", u32, u32, u32, none, a < b ? a : b)                       \
    X(min_u64, "min.u64", u64, u64, u64, none, a < b ? a : b)                       \
    X(and_b16, "and.b16", u16, u16, u16, none, a & b)                               \
    X(and_b32, "and.b32", u32, u32, u32, none, a & b)                               \
    X(and_b64, "and.b64", u64, u64, u64, none, a & b)                               \
    X(and_pred, "and.pred", pred, pred, pred, none, a && b)                         \
    X(or_b16, "or.b16", u16, u16, u16, none, a | b)                                 \
    X(or_b32, "or.b32", u32, u32, u32, none, a | b)                                 \
    X(or_b64, "or.b64", u64, u64, u64, none, a | b)                                 \
    X(or_pred, "or.pred", pred, pred, pred, none, a || b)                           \
    X(xor_b32, "xor.b32", u32, u32, u32, none, a ^ b)                               \
    X(xor_b64, "xor.b64", u64, u64, u64, none, a ^ b)                               \
    X(xor_pred, "xor.pred", pred, pred, pred, none, a != b)                         \
    X(not_b32, "not.b32", u32, u32, none, none, ~a)                                 \
    X(not_b64, "not.b64", u64, u64, none, none, ~a)                                 \
    X(not_pred, "not.pred", pred, pred, none, none, !a)                             \
    X(shl_b32, "shl.b32", u32, u32, u32, none, LEFT(a, b))                          \
    X(shl_b64, "shl.b64", u64, u64, u32, none, LEFT(a, b))                          \
    X(shr_s32, "shr.s32", s32, s32, u32, none, RIGHT(a, b))                         \
    X(shr_s64, "shr.s64", s64, s64, u32, none, RIGHT(a, b))                         \
    X(shr_u16, "shr.u16", u16, u16, u32, none, RIGHT_ZEROS(a, b))                   \
    X(shr_u32, "shr.u32", u32, u32, u32, none, RIGHT_ZEROS(a, b))                   \
    X(shr_u64, "shr.u64", u64, u64, u32, none, RIGHT_ZEROS(a, b))                   \
    X(brev_b32, "brev.b32", u32, u32, none, none, reversed(a))                      \
    X(bfind_shiftamt_u32, "bfind.shiftamt.u32", u32, u32, none, none, a ? (u32)__builtin_clz(a) : ~0u) \
    X(popc_b32, "popc.b32", u32, u32, none, none, (u32)__builtin_popcount(a))       \
    X(clz_b32, "clz.b32", u32, u32, none, none, a ? (u32)__builtin_clz(a) : 32)     \
    X(selp_u16, "selp.u16", u16, u16, u16, pred, c ? a : b)                         \
    X(selp_b16, "selp.b16", u16, u16, u16, pred, c ? a : b)                         \
    X(selp_u32, "selp.u32", u32, u32, u32, pred, c ? a : b)                         \
    X(selp_b32, "selp.b32", u32, u32, u32, pred, c ? a : b)                         \
    X(selp_f32, "selp.f32", u32, u32, u32, pred, c ? a : b)                         \
    X(selp_u64, "selp.u64", u64, u64, u64, pred, c ? a : b)                         \
    X(selp_b64, "selp.b64", u64, u64, u64, pred, c ? a : b)                         \
    X(selp_f64, "selp.f64", u64, u64, u64, pred, c ? a : b)                         \
    X(mov_u16, "mov.u16", u16, u16, none, none, a)                                  \
    X(mov_b16, "mov.b16", u16, u16, none, none, a)                                  \
    X(mov_u32, "mov.u32", u32, u32, none, none, a)                                  \
    X(mov_b32, "mov.b32", u32, u32, none, none, a)                                  \
    X(mov_f32, "mov.f32", u32, u32, none, none, a)                                  \
    X(mov_u64, "mov.u64", u64, u64, none, none, a)                                  \
    X(mov_b64, "mov.b64", u64, u64, none, none, a)                                  \
    X(mov_f64, "mov.f64", u64, u64, none, none, a)                                  \
    X(mov_pred, "mov.pred", pred, pred, none, none, a)                              \
    X(pack_b32, "pack mov.b32", u32, u16, u16, none, (u32)a | (u32)b << 16)         \
    X(pack_b64, "pack mov.b64", u64, u32, u32, none, (u64)a | (u64)b << 32)         \
    X(cvta_to_global_u64, "cvta.to.global.u64", u64, u64, none, none, a)            \
    X(cvt_u32_u64, "cvt.u32.u64", u32, u64, none, none, a)                          \
    X(cvt_s32_s64, "cvt.s32.s64", u32, u64, none, none, a)                          \
    X(cvt_u64_u32, "cvt.u64.u32", u64, u32, none, none, a)                          \
    X(cvt_s64_s32, "cvt.s64.s32", s64, s32, none, none, a)                          \
    X(cvt_s64_s32_of_64, "cvt.s64.s32 of 64", s64, u64, none, none, (s32)(u32)a)    \
    X(cvt_u64_u32_of_64, "cvt.u64.u32 of 64", u64, u64, none, none, (u32)a)         \
    X(cvt_u32_u16, "cvt.u32.u16", u32, u16, none, none, a)                          \
    X(cvt_s32_s16, "cvt.s32.s16", s32, s16, none, none, a)                          \
    X(cvt_u64_u16, "cvt.u64.u16", u64, u16, none, none, a)                          \
    X(cvt_u16_u32, "cvt.u16.u32", u16, u32, none, none, a)                          \
    X(cvt_f32_f16, "cvt.f32.f16", f32, u16, none, none, float_of_fp16(a))                 \
    X(cvt_rn_f16_f32, "cvt.rn.f16.f32", u16, f32, none, none, fp16_of(a))           \
    X(cvt_rn_bf16_f32, "cvt.rn.bf16.f32", u16, f32, none, none, bf16_of(a))         \
    X(cvt_rn_f16x2_f32, "cvt.rn.f16x2.f32", u32, f32, f32, none, (u32)fp16_of(a) << 16 | fp16_of(b))    \
    X(cvt_rn_bf16x2_f32, "cvt.rn.bf16x2.f32", u32, f32, f32, none, (u32)bf16_of(a) << 16 | bf16_of(b))  \
    X(cvt_sat_f32_f32, "cvt.sat.f32.f32", f32, f32, none, none, saturated(a))       \
    X(cvt_rn_f32_s32, "cvt.rn.f32.s32", f32, s32, none, none, a)                    \
    X(cvt_rn_f32_u32, "cvt.rn.f32.u32", f32, u32, none, none, a)                    \
    X(cvt_rn_f32_s64, "cvt.rn.f32.s64", f32, s64, none, none, a)                    \
    X(cvt_rn_f32_u64, "cvt.rn.f32.u64", f32, u64, none, none, a)                    \
    X(cvt_rn_f32_f64, "cvt.rn.f32.f64", f32, f64, none, none, a)                    \
    X(cvt_rn_f64_s32, "cvt.rn.f64.s32", f64, s32, none, none, a)                    \
    X(cvt_f64_f32, "cvt.f64.f32", f64, f32, none, none, a)                          \
    X(cvt_rzi_s32_f32, "cvt.rzi.s32.f32", s32, f32, none, none,                     \
      isnan(a) ? 0 : a >= 0x1p31F ? INT32_MAX : a < -0x1p31F ? INT32_MIN : (s32)a)  \
    X(add_f32, "add.f32", f32, f32, f32, none, a + b)                               \
    X(add_rn_f32, "add.rn.f32", f32, f32, f32, none, a + b)                         \
    X(sub_f32, "sub.f32", f32, f32, f32, none, a - b)                               \
    X(sub_rn_f32, "sub.rn.f32", f32, f32, f32, none, a - b)                         \
    X(mul_f32, "mul.f32", f32, f32, f32, none, a * b)                               \
    X(mul_rn_f32, "mul.rn.f32", f32, f32, f32, none, a * b)                         \
    X(neg_f32, "neg.f32", u32, u32, none, none, a ^ 0x80000000u)                    \
    X(abs_f32, "abs.f32", u32, u32, none, none, a & 0x7fffffffu)                    \
    X(max_f32, "max.f32", f32, f32, f32, none, larger(a, b))                        \
    X(min_f32, "min.f32", f32, f32, f32, none, smaller(a, b))                       \
    X(fma_rn_f32, "fma.rn.f32", f32, f32, f32, f32, fmaf(a, b, c))                  \
    X(fma_rm_f32, "fma.rm.f32", f32, f32, f32, f32, fused_down(a, b, c))            \
    X(div_rn_f32, "div.rn.f32", f32, f32, f32, none, a / b)                         \
    X(rcp_rn_f32, "rcp.rn.f32", f32, f32, none, none, 1 / a)                        \
    X(sqrt_rn_f32, "sqrt.rn.f32", f32, f32, none, none, sqrtf(a))                   \
    X(ex2_approx_ftz_f32, "ex2.approx.ftz.f32", f32, f32, none, none, exp2_approximate(a)) \
    X(add_f64, "add.f64", f64, f64, f64, none, a + b)                               \
    X(sub_f64, "sub.f64", f64, f64, f64, none, a - b)                               \
    X(mul_f64, "mul.f64", f64, f64, f64, none, a * b)                               \
    X(neg_f64, "neg.f64", f64, f64, none, none, -a)                                 \
    X(abs_f64, "abs.f64", f64, f64, none, none, fabs(a))                            \
    X(fma_rn_f64, "fma.rn.f64", f64, f64, f64, f64, fma(a, b, c))                   \
    X(div_rn_f64, "div.rn.f64", f64, f64, f64, none, a / b)                         \
    X(rcp_rn_f64, "rcp.rn.f64", f64, f64, none, none, 1 / a)                        \
    X(rcp_approx_ftz_f64, "rcp.approx.ftz.f64", f64, f64, none, none, reciprocal_approximate(a)) \
    X(sqrt_rn_f64, "sqrt.rn.f64", f64, f64, none, none, sqrt(a))                    \
    COMPARED(X, s16, "s16")                                                         \
    COMPARED(X, u16, "u16")                                                         \
    COMPARED(X, s32, "s32")                                                         \
    COMPARED(X, u32, "u32")                                                         \
    COMPARED(X, s64, "s64")                                                         \
    COMPARED(X, u64, "u64")                                                         \
    X(setp_eq_b32, "setp.eq.b32", pred, u32, u32, none, a == b)                     \
    X(setp_ne_b32, "setp.ne.b32", pred, u32, u32, none, a != b)                     \
    COMPARED_FLOATS(X, f32, "f32")                                                  \
    COMPARED_FLOATS(X, f64, "f64")
/* clang-format on */

#define EACH(type, ta, tb, tc, value) \
    {                                 \
        const ta a = GET_##ta(1);     \
        const tb b = GET_##tb(2);     \
        const tc c = GET_##tc(3);     \
        (void)a, (void)b, (void)c;    \
        PUT_##type(value);            \
    }
/* Defines an instruction: for all lanes, in a loop that a compiler can vectorise, or for some
 * lanes. */
#define DEFINE(name, text, type, ta, tb, tc, value)                                      \
    static void run_##name(const struct ptx_insn *insn, char *registers, uint32_t lanes) \
    {                                                                                    \
        if (lanes == ~0u)                                                                \
            for (int lane = 0; lane < PTX_LANES; lane++)                                 \
                EACH(type, ta, tb, tc, value)                                            \
        else                                                                             \
            for (uint32_t left = lanes; left; left &= left - 1) {                        \
                int lane = __builtin_ctz(left);                                          \
                EACH(type, ta, tb, tc, value)                                            \
            }                                                                            \
    }
OPCODES(DEFINE)
#undef DEFINE

/* mov.b32 {low, high}, whole */
static void run_unpack_b32(const struct ptx_insn *insn, char *registers, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (lanes >> lane & 1) {
            u32 whole = AT(u32, 2);
            AT(u16, 0) = (u16)whole;
            AT(u16, 1) = (u16)(whole >> 16);
        }
}

static void run_unpack_b64(const struct ptx_insn *insn, char *registers, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (lanes >> lane & 1) {
            u64 whole = AT(u64, 2);
            AT(u32, 0) = (u32)whole;
            AT(u32, 1) = (u32)(whole >> 32);
        }
}

/* Operands: result, inserted value, target, first bit, number of bits. */
static void run_bfi_b32(const struct ptx_insn *insn, char *registers, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (lanes >> lane & 1)
            AT(u32, 0) = inserted(AT(u32, 1), AT(u32, 2), AT(u32, 3), AT(u32, 4));
}

/* The kinds of operands of the opcodes above, as strings (ptx_kernel.h). */
#define OPERAND_none ""
#define OPERAND_u16  " h"
#define OPERAND_s16  " h"
#define OPERAND_u32  " w"
#define OPERAND_s32  " w"
#define OPERAND_f32  " w"
#define OPERAND_u64  " d"
#define OPERAND_s64  " d"
#define OPERAND_f64  " d"
#define OPERAND_pred " p"
#define ROW(name, text, type, ta, tb, tc, value)            \
    { text,                                                 \
      LETTER_##type OPERAND_##ta OPERAND_##tb OPERAND_##tc, \
      PTX_EACH_LANE,                                        \
      run_##name,                                           \
      PTX_GLOBAL,                                           \
      0,                                                    \
      0 },

static const struct ptx_opcode opcodes[] = {
    OPCODES(ROW){ "unpack mov.b32", "hh w", PTX_EACH_LANE, run_unpack_b32, PTX_GLOBAL, 0, 0 },
    { "unpack mov.b64", "ww d", PTX_EACH_LANE, run_unpack_b64, PTX_GLOBAL, 0, 0 },
    { "bfi.b32", "w w w w w", PTX_EACH_LANE, run_bfi_b32, PTX_GLOBAL, 0, 0 },
    { "bra", "l", PTX_BRANCH, NULL, PTX_GLOBAL, 0, 0 },
    { "bra.uni", "l", PTX_BRANCH, NULL, PTX_GLOBAL, 0, 0 },
    { "ret", "", PTX_RETURN, NULL, PTX_GLOBAL, 0, 0 },
    { "bar.sync", "i", PTX_BARRIER, NULL, PTX_GLOBAL, 0, 0 },
    { "bar.warp.sync", "w", PTX_WARP_BARRIER, NULL, PTX_GLOBAL, 0, 0 },
    { "shfl.sync.bfly.b32", "wp w w w w", PTX_SHUFFLE_XOR, NULL, PTX_GLOBAL, 0, 0 },
    { "shfl.sync.idx.b32", "wp w w w w", PTX_SHUFFLE_INDEX, NULL, PTX_GLOBAL, 0, 0 },
    { "vote.sync.ballot.b32", "w p w", PTX_BALLOT, NULL, PTX_GLOBAL, 0, 0 },
    { "atom.global.add.u32", "w m w", PTX_ATOMIC_ADD, NULL, PTX_GLOBAL, 1, 4 },
    { "atom.global.min.u32", "w m w", PTX_ATOMIC_MIN, NULL, PTX_GLOBAL, 1, 4 },
    { "atom.shared.add.u32", "w m w", PTX_ATOMIC_ADD, NULL, PTX_SHARED, 1, 4 },
    { "cp.async.cg.shared.global", "m m i w", PTX_COPY_ASYNC, NULL, PTX_SHARED, 1, 16 },
    { "cp.async.commit_group", "", PTX_COPY_COMMIT, NULL, PTX_SHARED, 0, 0 },
    { "cp.async.wait_group", "i", PTX_COPY_WAIT, NULL, PTX_SHARED, 0, 0 },
    { "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "wwww m", PTX_LOAD_MATRICES, NULL, PTX_SHARED, 1,
      16 },
    { "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "wwww m", PTX_LOAD_MATRICES_TRANSPOSED,
      NULL, PTX_SHARED, 1, 16 },
    { "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wwww wwww ww wwww", PTX_MULTIPLY_BF16,
      NULL, PTX_GLOBAL, 0, 0 },
    { "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "wwww wwww ww wwww", PTX_MULTIPLY_FP16,
      NULL, PTX_GLOBAL, 0, 0 },
};

/* --- loads and stores --------------------------------------------------------------------- */

static bool take_part(const char **name, const char *part)
{
    size_t length = strlen(part);
    if (strncmp(*name, part, length) != 0)
        return false;
    *name += length;
    return true;
}

/* Parses ld.SPACE[.v2|.v4].TYPE and the same forms of st. */
static bool find_access(const char *name, struct ptx_opcode *out)
{
    static const char *const types[] = { "u8",  "b8",  "u16", "b16", "u32", "b32",
                                         "f32", "u64", "b64", "f64", "s32", "s64" };
    static const char *const loads[] = { NULL, "* m", "** m", NULL, "**** m" };
    static const char *const stores[] = { NULL, "m *", "m **", NULL, "m ****" };
    const char *rest = name;
    bool is_load = take_part(&rest, "ld.");
    if (!is_load && !take_part(&rest, "st."))
        return false;
    *out = (struct ptx_opcode){ .kind = is_load ? PTX_LOAD : PTX_STORE };
    if (take_part(&rest, "shared."))
        out->space = PTX_SHARED;
    else if (is_load && take_part(&rest, "param."))
        out->space = PTX_PARAM;
    else if (take_part(&rest, "global."))
        out->space = PTX_GLOBAL;
    else
        return false;
    out->count = take_part(&rest, "v2.") ? 2 : take_part(&rest, "v4.") ? 4 : 1;
    out->operands = is_load ? loads[out->count] : stores[out->count];
    for (int i = 0; i < LENGTH(types); i++)
        if (strcmp(rest, types[i]) == 0) {
            out->bytes = atoi(types[i] + 1) / 8;
            return true;
        }
    return false;
}

bool ptx_find_opcode(const char *name, struct ptx_opcode *out)
{
    if (find_access(name, out))
        return true;
    for (int i = 0; i < LENGTH(opcodes); i++)
        if (strcmp(opcodes[i].name, name) == 0) {
            *out = opcodes[i];
            return true;
        }
    return false;
}
