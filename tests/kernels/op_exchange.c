/* Cases of exchanges other than all-reduce. Their tensors are fp32 for every storage type.
 */
#include "tests/kernels/op_case.h"

/* --- weighted sums ------------------------------------------------------------------------ */

static void run_combine(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->combine(b->self, &(struct combine_args){ c->width, 0.3F, at[0], -1.7F, at[1], at[2] });
    b->combine(b->self, &(struct combine_args){ c->width, 0.25F, at[3], 0, at[3], at[3] });
}

static struct op_case combine_case(long n)
{
    struct op_case c = { .name = "combine", .run = run_combine, .width = n };
    add(&c, "x", EXACT, IN, 1, n);
    add(&c, "y", EXACT, IN, 1, n);
    add(&c, "out", EXACT, OUT, 1, n);
    add(&c, "in place", EXACT, IN_OUT, 1, n);
    return c;
}

/* --- quantised codes -------------------------------------------------------------------- */

static struct quantiser quantiser_of(const struct op_case *c)
{
    int bits = (int)c->inner;
    return (struct quantiser){ .bits = bits, .levels = (1 << (bits - 1)) - 1, .bucket = c->rows };
}

static void run_quantise(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    const struct draw draw = { .seed = 5, .step = 2, .layer = 1, .op = 3 };
    struct quantiser quantiser = quantiser_of(c);
    uint64_t first = (uint64_t)3 << 40 | 1;
    b->quantise(b->self,
                &(struct quantise_args){ quantiser, draw, first, c->width, at[0], at[1], at[2] });
    b->dequantise_add(b->self,
                      &(struct dequantise_args){ quantiser, c->width, at[1], at[2], at[3] });
}

static struct op_case quantise_case(int bits, long bucket, long n, enum tensor_kind kind)
{
    struct op_case c = {
        .name = "quantise", .run = run_quantise, .rows = bucket, .width = n, .inner = bits
    };
    add(&c, "x", kind, IN, 1, n);
    add(&c, "norms", kind, OUT, 1, (n + bucket - 1) / bucket);
    add(&c, "codes", BYTES, OUT, 1, (n * bits + 31) / 32 * (long)sizeof(uint32_t));
    add(&c, "sum", EXACT, IN_OUT, 1, n);
    return c;
}

/* --- top-k: the largest elements -------------------------------------------------------- */

static void run_top_k(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct top_k_args args = { c->width, at[0], c->inner, at[1], at[2] };
    b->top_k_take(b->self, &args);
    args.x = at[3];
    b->top_k_add(b->self, &args);
}

static struct op_case top_k_case(long n, long k, enum tensor_kind kind)
{
    struct op_case c = { .name = "top k", .run = run_top_k, .width = n, .inner = k };
    add(&c, "x", kind, IN_OUT, 1, n);
    add(&c, "indices", BYTES, OUT, 1, k * (long)sizeof(uint32_t));
    add(&c, "values", EXACT, OUT, 1, k);
    add(&c, "sum", EXACT, IN_OUT, 1, n);
    return c;
}

/* --- low rank ----------------------------------------------------------------------------- */

static void run_orthogonalise(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->orthogonalise(b->self, &(struct orthogonalise_args){ c->rows, c->width, at[0] });
}

static struct op_case orthogonalise_case(long rows, long rank)
{
    struct op_case c = {
        .name = "orthogonalise", .run = run_orthogonalise, .rows = rows, .width = rank
    };
    add(&c, "columns", FLOATS, IN_OUT, rows, rank);
    return c;
}

int op_exchange_cases(struct op_case *at)
{
    int count = 0;
    at[count++] = combine_case(1003);
    at[count++] = combine_case(1024);
    at[count++] = quantise_case(2, 512, 1029, EXACT);
    at[count++] = quantise_case(4, 512, 1536, EXACT);
    at[count++] = quantise_case(7, 37, 1003, EXACT);
    at[count++] = quantise_case(16, 5, 33, EXACT);
    at[count++] = quantise_case(8, 64, 640, TIES); /* some buckets contain an infinity */
    /* buckets with a norm so small that levels / norm overflows a float */
    at[count++] = quantise_case(8, 64, 640, TINY);
    at[count++] = top_k_case(1, 1, EXACT);
    at[count++] = top_k_case(1003, 1003, EXACT);
    at[count++] = top_k_case(13001, 130, EXACT); /* processed in several parts */
    at[count++] = top_k_case(13001, 700, TIES);
    at[count++] = top_k_case(9000, 8000, TIES); /* the values include +0 and -0 */
    at[count++] = orthogonalise_case(7, 1);
    at[count++] = orthogonalise_case(601, 4);
    at[count++] = orthogonalise_case(2, 3); /* the third column is linearly dependent */
    return count;
}
