#include "sim/cost/user_buffers.h"

#include <math.h>

enum { SCATTER_PARTS = 4, COPYING_SMS = 16 };

static bool is_product(const struct ops *ops, int i)
{
    return i >= 0 && i < ops->count && ops->at[i].kind == OP_GEMM;
}

static bool computes(const struct ops *ops, int i)
{
    return i < ops->count && ops->at[i].stream == STREAM_COMPUTE;
}

static bool reads(const struct ops *ops, int reader, int maker)
{
    return op_reads(&ops->at[reader], ops->at[maker].out.at[0]);
}

/* Op `next` waits for `comm`, which runs beside `product`, and for what of the two does not
 * overlap: together they take `both_s`, of which `overlapped_s` have passed at the end of both. */
static void join(int comm, int next, double both_s, double overlapped_s, int *after, double *left_s)
{
    after[next] = comm;
    left_s[next] += both_s - overlapped_s;
}

static void gather(const struct ops *ops, int i, int ranks, int *after, double *left_s)
{
    if (!is_product(ops, i + 1) || !computes(ops, i + 2) || !reads(ops, i + 1, i))
        return;
    double product_s = left_s[i + 1];
    double both_s = fmax(product_s, left_s[i] + product_s / ranks);
    after[i + 1] = after[i];
    join(i, i + 2, both_s, fmax(product_s, left_s[i]), after, left_s);
}

static void scatter(const struct ops *ops, int i, int *after, double *left_s)
{
    if (!is_product(ops, i - 1) || !computes(ops, i + 1) || !reads(ops, i, i - 1))
        return;
    double part = 1.0 / SCATTER_PARTS;
    double product_s = left_s[i - 1];
    double both_s = fmax(product_s + left_s[i] * part, product_s * part + left_s[i]);
    left_s[i] *= 1 - part;
    after[i] = after[i - 1];
    join(i, i + 1, both_s, fmax(product_s, left_s[i]), after, left_s);
}

void user_buffers_overlap(const struct ops *ops, int ranks, int *after, double *left_s)
{
    for (int i = 0; i < ops->count; i++) {
        const struct op *op = &ops->at[i];
        if (op->stream != STREAM_TENSOR)
            continue;
        if (op->kind == OP_ALL_GATHER)
            gather(ops, i, ranks, after, left_s);
        if (op->kind == OP_REDUCE_SCATTER && op->pass == PASS_FORWARD)
            scatter(ops, i, after, left_s);
    }
}

double user_buffers_slowdown(int num_sms)
{
    return num_sms / (num_sms - (double)COPYING_SMS);
}
