#include "tests/kernels/ptx/ptx_matrix.h"

#include <math.h>

/* Formulas of the PTX ISA, with group = lane / 4 and in_group = lane % 4. Matrix a: row = group for
 * values 0, 1, 4, 5, else group + 8; column = 2 in_group + i % 2, and 8 more from value 4 on. */
struct ptx_place ptx_place_of_a(int lane, int i)
{
    int group = lane >> 2, in_group = lane % 4;
    bool is_upper = i < 2 || (i >= 4 && i < 6);
    return (struct ptx_place){ is_upper ? group : group + 8,
                               in_group * 2 + (i & 1) + (i < 4 ? 0 : 8) };
}

/* Matrix b: row = 2 in_group + i % 2, and 8 more from value 2 on; column = group. */
struct ptx_place ptx_place_of_b(int lane, int i)
{
    return (struct ptx_place){ lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane >> 2 };
}

/* Matrices c and d: row = group, and 8 more from value 2 on; column = 2 in_group + i % 2. */
struct ptx_place ptx_place_of_sum(int lane, int i)
{
    return (struct ptx_place){ (lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1) };
}

/* Row lane / 4, columns 2 (lane % 4) and the next; if transposed, rows and columns are
 * exchanged. */
struct ptx_place ptx_place_of_loaded(int lane, int i, bool is_transposed)
{
    int row = lane / 4, column = lane % 4 * 2 + i;
    return is_transposed ? (struct ptx_place){ column, row } : (struct ptx_place){ row, column };
}

/* The exponent of a product, before normalisation, is the sum of the factors' exponents. A
 * subnormal fp16 factor is counted with its true exponent, which lies below -14. So truncation is
 * at most finer than on a GPU. */
static int exponent_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    return exponent - 1;
}

static double cut_off(double x, int last_bit)
{
    return ldexp(trunc(ldexp(x, -last_bit)), last_bit);
}

static float cut_to_float(double x)
{
    if (x == 0 || !isfinite(x))
        return (float)x;
    int last_bit = exponent_of(x) - 23;
    return (float)cut_off(x, last_bit < -149 ? -149 : last_bit);
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Doubles are exact here: products have 22 bits, and truncated sums of up to 17 terms fewer than
 * 40. */
static float add_block(struct ptx_numerics numerics, float sum, const float *a, const float *b)
{
    enum { NONE = -100000 };
    int largest = sum != 0 ? exponent_of((double)sum) : NONE;
    double exact = (double)sum;
    for (int k = 0; k < numerics.block; k++) {
        double product = (double)a[k] * (double)b[k];
        exact += product;
        if (product != 0 && isfinite(product))
            largest = most(largest, exponent_of((double)a[k]) + exponent_of((double)b[k]));
    }
    if (largest == NONE || !isfinite(exact))
        return (float)exact;
    int last_bit = largest - 23 - numerics.extra_bits;
    double total = cut_off((double)sum, last_bit);
    for (int k = 0; k < numerics.block; k++)
        total += cut_off((double)a[k] * (double)b[k], last_bit);
    return cut_to_float(total);
}

float ptx_dot(struct ptx_numerics numerics, float sum, const float a[PTX_K], const float b[PTX_K])
{
    for (int k = 0; k < PTX_K && numerics.block == 0; k++)
        sum += a[k] * b[k];
    for (int k = 0; k < PTX_K && numerics.block > 0; k += numerics.block)
        sum = add_block(numerics, sum, a + k, b + k);
    return sum;
}
