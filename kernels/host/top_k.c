/* Extracts the k elements of largest magnitude, and adds such lists to an array. */
#include "kernels/host/top_k.h"

#include "kernels/host/vector.h"

/* The bits of x without the sign, as an integer; larger magnitudes give larger integers. */
static uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The 31 bits of a magnitude are examined as three digits, the highest first. */
enum { DIGIT_BITS = 11, NUM_DIGITS = 1 << DIGIT_BITS };
static const int shifts[] = { 20, 10, 0 };
static const int widths[] = { 11, 10, 10 };

/* Counts how often each value of a digit occurs among the elements whose higher digits are
 * `prefix`. */
static void count_digits(long n, const float *x, int turn, uint32_t prefix, long *counts)
{
    int shift = shifts[turn], above = shift + widths[turn];
    uint32_t mask = (1u << widths[turn]) - 1;
    memset(counts, 0, sizeof *counts * NUM_DIGITS);
    for (long i = 0; i < n; i++) {
        uint32_t bits = magnitude(x[i]);
        if (bits >> above == prefix >> above)
            counts[bits >> shift & mask]++;
    }
}

/* The k-th largest magnitude, and the number of the k largest elements that are equal to it. */
struct threshold {
    uint32_t bits;
    long num_equal;
};

static struct threshold find_threshold(long n, const float *x, long k)
{
    long counts[NUM_DIGITS];
    struct threshold threshold = { 0, k };
    for (int turn = 0; turn < 3; turn++) {
        count_digits(n, x, turn, threshold.bits, counts);
        uint32_t digit = (1u << widths[turn]) - 1;
        while (counts[digit] < threshold.num_equal)
            threshold.num_equal -= counts[digit--];
        threshold.bits |= digit << shifts[turn];
    }
    return threshold;
}

void top_k_take(long n, float *x, long k, uint32_t *indices, float *values)
{
    if (k == 0)
        return;
    struct threshold threshold = find_threshold(n, x, k);
    long taken = 0;
    for (long i = 0; i < n; i++) {
        uint32_t bits = magnitude(x[i]);
        if (bits < threshold.bits || (bits == threshold.bits && threshold.num_equal-- <= 0))
            continue;
        indices[taken] = (uint32_t)i;
        values[taken++] = x[i];
        x[i] = 0;
    }
}

void top_k_add(long k, const uint32_t *indices, const float *values, long n, float *sum)
{
    for (long i = 0; i < k; i++)
        if (indices[i] < (uint64_t)n)
            sum[indices[i]] += values[i];
}
