#include "sim/cost/user_buffers.h"

#include <math.h>

enum { SCATTER_PARTS = 4, COPYING_SMS = 16 };

struct list {
    const struct timed_op *ops;
    int count;
};

static bool is_product(const struct list *list, int i)
{
    return i >= 0 && i < list->count && list->ops[i].kind == OP_GEMM;
}

static bool computes(const struct list *list, int i)
{
    return i < list->count && list->ops[i].stream == STREAM_COMPUTE;
}

static bool reads(const struct list *list, int reader, int maker)
{
    const struct timed_op *op = &list->ops[reader];
    int value = list->ops[maker].made;
    bool is_read = ids_have(&op->in, value);
    for (int i = 0; i < MAX_SUMS; i++)
        is_read |= op->sum[i] == value;
    return is_read;
}

/* Op `next` waits for `comm`, which overlaps a product. If they overlapped fully, they would take
 * `overlapped_s`; they really take `both_s`, so the difference is added to `next`. */
static void join(int comm, int next, double both_s, double overlapped_s, int *after, double *left_s)
{
    after[next] = comm;
    left_s[next] += both_s - overlapped_s;
}

static void gather(const struct list *list, int i, int ranks, int *after, double *left_s)
{
    if (!is_product(list, i + 1) || !computes(list, i + 2) || !reads(list, i + 1, i))
        return;
    double product_s = left_s[i + 1];
    double both_s = fmax(product_s, left_s[i] + product_s / ranks);
    after[i + 1] = after[i];
    join(i, i + 2, both_s, fmax(product_s, left_s[i]), after, left_s);
}

static void scatter(const struct list *list, int i, int *after, double *left_s)
{
    if (!is_product(list, i - 1) || !computes(list, i + 1) || !reads(list, i, i - 1))
        return;
    double part = 1.0 / SCATTER_PARTS;
    double product_s = left_s[i - 1];
    double both_s = fmax(product_s + left_s[i] * part, product_s * part + left_s[i]);
    left_s[i] *= 1 - part;
    after[i] = after[i - 1];
    join(i, i + 1, both_s, fmax(product_s, left_s[i]), after, left_s);
}

void user_buffers_overlap(const struct timed_op *ops, int count, int ranks, int *after,
                          double *left_s)
{
    struct list list = { ops, count };
    for (int i = 0; i < count; i++) {
        const struct timed_op *op = &ops[i];
        if (op->stream != STREAM_TENSOR)
            continue;
        if (op->kind == OP_ALL_GATHER)
            gather(&list, i, ranks, after, left_s);
        if (op->kind == OP_REDUCE_SCATTER && op->pass == PASS_FORWARD)
            scatter(&list, i, after, left_s);
    }
}

double user_buffers_slowdown(int num_sms)
{
    return num_sms / (num_sms - (double)COPYING_SMS);
}
