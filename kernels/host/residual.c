/* Bias, dropout and the sum with the residual stream on the CPU. */
#include "kernels/host/residual.h"

#include "kernels/host/vector.h"

/* A row is processed in parts of PART values, which stay in the L1 cache between passes. */
enum { PART = 1024 };

static float kept_scale(const struct residual *residual)
{
    return (float)(1 / (1 - residual->dropout));
}

EACH_MACHINE
void residual_add(long n, const float *restrict x, float *restrict sum)
{
    for (long i = 0; i < n; i++)
        sum[i] += x[i];
}

EACH_MACHINE
static void apply_keeps(long n, float scale, const uint8_t *keeps, const float *x, float *y)
{
    SAME_OR_APART
    for (long i = 0; i < n; i++)
        y[i] = keeps[i] ? x[i] * scale : 0;
}

/* Adds bias and dropout to n values of x, the output of a residual branch. `first` is the index of
 * the first value among dropout's random numbers. */
static void branch_part(const struct residual *residual, const float *x, const float *bias,
                        uint64_t first, uint8_t *keeps, long n, float *out)
{
    memcpy(out, x, sizeof *out * (size_t)n);
    if (bias)
        residual_add(n, bias, out);
    if (!keeps)
        return;
    draw_keeps(&residual->draw, residual->dropout, first, n, keeps);
    apply_keeps(n, kept_scale(residual), keeps, out, out);
}

/* Number of rows of the global batch before this row. */
static uint64_t rows_before(const struct residual *residual, long row)
{
    uint64_t of_sequences = draw_first_sequence(&residual->draw) * (uint64_t)residual->seq;
    return of_sequences + residual->first_row + (uint64_t)row;
}

static void forward_row(const struct residual *residual, long row, const float *x,
                        const float *bias, const float *h, uint8_t *keeps, float *y)
{
    float branch[PART];
    for (long from = 0; from < residual->width; from += PART) {
        long n = residual->width - from < PART ? residual->width - from : PART;
        long at = row * residual->width + from;
        uint64_t first = rows_before(residual, row) * (uint64_t)residual->width + (uint64_t)from;
        branch_part(residual, x + at, bias ? bias + from : NULL, first, keeps ? keeps + at : NULL,
                    n, branch);
        if (h)
            residual_add(n, h + at, branch);
        memcpy(y + at, branch, sizeof *y * (size_t)n);
    }
}

void residual_forward(const struct residual *residual, const float *x, const float *bias,
                      const float *h, uint8_t *keeps, float *y)
{
    for (long row = 0; row < residual->rows; row++)
        forward_row(residual, row, x, bias, h, keeps, y);
}

void residual_backward(const struct residual *residual, const float *dy, const uint8_t *keeps,
                       float *dx)
{
    long n = residual->rows * residual->width;
    if (keeps)
        apply_keeps(n, kept_scale(residual), keeps, dy, dx);
    else if (dx != dy)
        memcpy(dx, dy, sizeof *dx * (size_t)n);
}
