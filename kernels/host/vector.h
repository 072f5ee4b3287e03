/* kernels/host/vector.h - vectorised loops over rows, with the same bits on every machine.
 *
 * A sum runs over 16 lanes, which are added in a fixed order at the end, for any vector width of
 * the machine. Without contraction (-ffp-contract=off) all instruction sets then give the same
 * bits. Only the sources of kernels/host include this. */
#ifndef KERNELS_HOST_VECTOR_H
#define KERNELS_HOST_VECTOR_H

#include <stdint.h>
#include <string.h>

/* Compiles a function once per instruction set; the loader chooses at program start. Not used with
 * sanitizers, whose run-time is not initialised at that moment. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_MACHINE
#endif
/* Stands before a loop whose arrays are equal or disjoint, so no iteration writes data that another
 * iteration reads. */
#if defined(__GNUC__) && !defined(__clang__)
#define SAME_OR_APART _Pragma("GCC ivdep")
#else
#define SAME_OR_APART
#endif
#define INLINED static inline __attribute__((always_inline))

enum { NUM_LANES_F32 = 16, NUM_LANES_F64 = 8 };
/* Vectors are passed by pointer, because how they are passed by value depends on the instruction
 * set. */
typedef float lanes_f32 __attribute__((vector_size(64)));
typedef double lanes_f64 __attribute__((vector_size(64)));

INLINED void lanes_load(const float *x, lanes_f32 *out)
{
    memcpy(out, x, sizeof *out);
}

/* Loads the last n < 16 values of a row and fills the other lanes with `rest`. */
INLINED void lanes_load_tail(const float *x, long n, float rest, lanes_f32 *out)
{
    float values[NUM_LANES_F32];
    for (long i = 0; i < NUM_LANES_F32; i++)
        values[i] = i < n ? x[i] : rest;
    memcpy(out, values, sizeof *out);
}

INLINED float lanes_sum(const lanes_f32 *lanes)
{
    float sums[NUM_LANES_F32];
    memcpy(sums, lanes, sizeof sums);
    for (int half = NUM_LANES_F32 / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

INLINED float row_sum(long n, const float *x)
{
    lanes_f32 sum = { 0 }, value;
    long i = 0;
    for (; i + NUM_LANES_F32 <= n; i += NUM_LANES_F32) {
        lanes_load(x + i, &value);
        sum += value;
    }
    lanes_load_tail(x + i, n - i, 0, &value);
    sum += value;
    return lanes_sum(&sum);
}

INLINED float row_dot(long n, const float *x, const float *y)
{
    lanes_f32 sum = { 0 }, a, b;
    long i = 0;
    for (; i + NUM_LANES_F32 <= n; i += NUM_LANES_F32) {
        lanes_load(x + i, &a);
        lanes_load(y + i, &b);
        sum += a * b;
    }
    lanes_load_tail(x + i, n - i, 0, &a);
    lanes_load_tail(y + i, n - i, 0, &b);
    sum += a * b;
    return lanes_sum(&sum);
}

/* Sum of (x - mean)^2. */
INLINED float row_squares(long n, const float *x, float mean)
{
    lanes_f32 sum = { 0 }, value;
    long i = 0;
    for (; i + NUM_LANES_F32 <= n; i += NUM_LANES_F32) {
        lanes_load(x + i, &value);
        value -= mean;
        sum += value * value;
    }
    lanes_load_tail(x + i, n - i, mean, &value);
    value -= mean;
    sum += value * value;
    return lanes_sum(&sum);
}

/* Sum of g gamma (x - mean). */
INLINED float row_covariance(long n, const float *g, const float *gamma, const float *x, float mean)
{
    lanes_f32 sum = { 0 }, a, b, c;
    long i = 0;
    for (; i + NUM_LANES_F32 <= n; i += NUM_LANES_F32) {
        lanes_load(g + i, &a);
        lanes_load(gamma + i, &b);
        lanes_load(x + i, &c);
        sum += a * b * (c - mean);
    }
    lanes_load_tail(g + i, n - i, 0, &a);
    lanes_load_tail(gamma + i, n - i, 0, &b);
    lanes_load_tail(x + i, n - i, mean, &c);
    sum += a * b * (c - mean);
    return lanes_sum(&sum);
}

/* The maximum of x and `least`; NaNs are ignored. */
INLINED float row_max(long n, const float *x, float least)
{
    float max[NUM_LANES_F32];
    for (int i = 0; i < NUM_LANES_F32; i++)
        max[i] = least;
    long i = 0;
    for (; i + NUM_LANES_F32 <= n; i += NUM_LANES_F32)
        for (int j = 0; j < NUM_LANES_F32; j++)
            max[j] = x[i + j] > max[j] ? x[i + j] : max[j];
    for (; i < n; i++)
        max[0] = x[i] > max[0] ? x[i] : max[0];
    for (int j = 1; j < NUM_LANES_F32; j++)
        max[0] = max[j] > max[0] ? max[j] : max[0];
    return max[0];
}

/* e^x within 1 ulp for |x| <= 60, clamped to e^60 or e^-60 beyond. The clamp does not change
 * results that are compared with or added to 1 in fp32, and it avoids denormal products, which are
 * a hundred times slower. NaN stays NaN. The method: x = n ln 2 + r with |r| <= ln 2 / 2 and ln 2
 * in two parts (Cody and Waite); the polynomial is that of Cephes' expf. */
INLINED float exp_f32(float x)
{
    const float round_to_whole = 0x1.8p23f;
    x = x < -60 ? -60 : x;
    x = x > 60 ? 60 : x;
    float shifted = x * 0x1.715476p+0F + round_to_whole;
    float n = shifted - round_to_whole;
    float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = (p * (r * r) + r) + 1;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits); /* the lowest bits of `shifted` are the integer n */
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
