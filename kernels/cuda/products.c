/* The ops that are matrix products: linear layers, and unfused attention. */
#include "kernels/cuda/gemm.h"

/* --- linear layers ------------------------------------------------------------------------ */

/* Whether a product may have gelu in its epilogue. The matrix before gelu needs rows of a multiple
 * of 8 values (cuBLAS 13.0, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD). The epilogue's accuracy is
 * undocumented, so fp32, which serves as a reference, does not use it. */
static bool offers_gelu(const struct launch *on, const struct gemm_product *product)
{
    return on->storage != DTYPE_FP32 && product->c_stride % 8 == 0 && gemm_offers(on, product);
}

static struct gemm_product forward(const struct launch *on, const struct linear_forward *a)
{
    return (struct gemm_product){
        .m = a->rows,
        .n = a->out,
        .k = a->in,
        .b_is_transposed = true,
        .c_dtype = on->storage,
        .a = a->x,
        .b = a->weight,
        .bias = a->bias,
        .c = a->y,
        .before_gelu = a->before_gelu,
        .a_stride = a->in,
        .b_stride = a->in,
        .c_stride = a->out,
        .batch = 1,
    };
}

cudaError_t launch_linear_forward(const struct launch *on, const struct linear_forward *a)
{
    struct gemm_product product = forward(on, a);
    if (!a->before_gelu || offers_gelu(on, &product))
        return gemm_run(on, &product);
    product.before_gelu = NULL;
    product.c = a->before_gelu;
    cudaError_t error = gemm_run(on, &product);
    struct activation_args gelu = { .shape = { ACTIVATION_GELU, a->rows, a->out },
                                    .x = a->before_gelu,
                                    .y = a->y };
    return error == cudaSuccess ? launch_activation(on, &gelu) : error;
}

static struct gemm_product input_gradient(const struct launch *on,
                                          const struct linear_input_gradient *a)
{
    return (struct gemm_product){
        .m = a->rows,
        .n = a->in,
        .k = a->out,
        .c_dtype = on->storage,
        .a = a->dy,
        .b = a->weight,
        .c = a->dx,
        .gelu_at = a->before_gelu,
        .a_stride = a->out,
        .b_stride = a->in,
        .c_stride = a->in,
        .batch = 1,
    };
}

cudaError_t launch_linear_input_gradient(const struct launch *on,
                                         const struct linear_input_gradient *a)
{
    struct gemm_product product = input_gradient(on, a);
    if (!a->before_gelu || offers_gelu(on, &product))
        return gemm_run(on, &product);
    product.gelu_at = NULL;
    cudaError_t error = gemm_run(on, &product);
    struct activation_gradient gelu = {
        .shape = { ACTIVATION_GELU, a->rows, a->in }, .dy = a->dx, .x = a->before_gelu, .dx = a->dx
    };
    return error == cudaSuccess ? launch_activation_gradient(on, &gelu) : error;
}

/* The product of a weight gradient, which adds to the fp32 main gradient. */
static struct gemm_product weight_gradient(const struct linear_weight_gradient *a)
{
    return (struct gemm_product){
        .m = a->out,
        .n = a->in,
        .k = a->rows,
        .a_is_transposed = true,
        .is_added = true,
        .c_dtype = DTYPE_FP32,
        .a = a->dy,
        .b = a->x,
        .c = a->dweight,
        .a_stride = a->out,
        .b_stride = a->in,
        .c_stride = a->in,
        .batch = 1,
    };
}

/* Memory for `count` sums in the workspace. A product's epilogue cannot add its sums to existing
 * values. */
static float *room_for_sums(const struct launch *on, long count)
{
    bool is_enough = count * (long)sizeof(float) <= SUMS_BYTES;
    return is_enough ? (float *)((char *)on->workspace + PRODUCT_BYTES) : NULL;
}

static cudaError_t add_bias_gradient(const struct launch *on,
                                     const struct linear_weight_gradient *a, const float *sums)
{
    if (sums)
        return launch_gradient_sum(on, &(struct gradient_sum){ a->out, sums, a->dbias });
    return launch_linear_bias_gradient(
        on, &(struct linear_bias_gradient){ a->rows, a->out, a->dy, a->dbias });
}

static cudaError_t issue_bias_gradient(const struct launch *on, const void *args)
{
    return launch_linear_bias_gradient(on, args);
}

/* Whether the bias gradient's sums are faster in the product's epilogue than in a separate pass.
 * The separate pass that is timed adds its sums to values in the workspace, too. */
static bool epilogue_pays(const struct launch *on, const struct linear_weight_gradient *a,
                          const struct gemm_product *product)
{
    struct linear_bias_gradient pass = { a->rows, a->out, a->dy, product->a_sums };
    return gemm_sums_pay(on, product, &(struct gemm_work){ issue_bias_gradient, &pass });
}

cudaError_t launch_linear_weight_gradient(const struct launch *on,
                                          const struct linear_weight_gradient *a)
{
    if (a->rows == 0)
        return cudaSuccess;
    struct gemm_product product = weight_gradient(a);
    if (!a->dbias)
        return gemm_run(on, &product);
    product.a_sums = room_for_sums(on, a->out);
    if (product.a_sums && !epilogue_pays(on, a, &product))
        product.a_sums = NULL;
    cudaError_t error = gemm_run(on, &product);
    return error == cudaSuccess ? add_bias_gradient(on, a, product.a_sums) : error;
}

/* --- attention ---------------------------------------------------------------------------- */

/* Heads are packed as in kernels/host/attention.h. The n-th query heads of all groups are equally
 * spaced, so they form one batched product. There is one batch for each sequence and n. */
struct batch {
    const struct attention *attention;
    long sequence, in_group;
};

/* The position of the rows of one part (a query, key or value) of all groups: the first value, the
 * stride between rows and the step between groups, in values. */
struct rows {
    long first, stride, step;
};

static long queries_of_a_group(const struct attention *a)
{
    return a->heads / a->kv_heads;
}

/* `part` counts a group's queries, then its key, then its value. */
static struct rows rows_of_part(const struct batch *b, long part)
{
    const struct attention *a = b->attention;
    long width = (a->heads + 2 * a->kv_heads) * a->head_dim;
    return (struct rows){ b->sequence * a->seq * width + part * a->head_dim, width,
                          (queries_of_a_group(a) + 2) * a->head_dim };
}

static struct rows rows_of_query(const struct batch *b)
{
    return rows_of_part(b, b->in_group);
}

static struct rows rows_of_key(const struct batch *b)
{
    return rows_of_part(b, queries_of_a_group(b->attention));
}

static struct rows rows_of_value(const struct batch *b)
{
    return rows_of_part(b, queries_of_a_group(b->attention) + 1);
}

static struct rows rows_of_context(const struct batch *b)
{
    const struct attention *a = b->attention;
    long width = a->heads * a->head_dim;
    return (struct rows){ b->sequence * a->seq * width + b->in_group * a->head_dim, width,
                          queries_of_a_group(a) * a->head_dim };
}

static struct rows rows_of_matrix(const struct batch *b)
{
    const struct attention *a = b->attention;
    long matrix = a->seq * a->seq;
    return (struct rows){ (b->sequence * a->heads + b->in_group) * matrix, a->seq,
                          queries_of_a_group(a) * matrix };
}

/* Address of value `first`. */
static void *at(const struct launch *on, const void *values, long first)
{
    return (char *)values + (size_t)first * stored_bytes(on->storage);
}

/* matrix[seq, seq] = x[seq, head_dim] y[seq, head_dim]^T */
static cudaError_t outer_products(const struct launch *on, const struct batch *b, const void *x,
                                  struct rows x_rows, const void *y, struct rows y_rows,
                                  void *matrix)
{
    struct rows out = rows_of_matrix(b);
    return gemm_run(on, &(struct gemm_product){
                            .m = b->attention->seq,
                            .n = b->attention->seq,
                            .k = b->attention->head_dim,
                            .b_is_transposed = true,
                            .c_dtype = on->storage,
                            .a = at(on, x, x_rows.first),
                            .b = at(on, y, y_rows.first),
                            .c = at(on, matrix, out.first),
                            .a_stride = x_rows.stride,
                            .b_stride = y_rows.stride,
                            .c_stride = out.stride,
                            .batch = b->attention->kv_heads,
                            .a_step = x_rows.step,
                            .b_step = y_rows.step,
                            .c_step = out.step,
                        });
}

/* out[seq, head_dim] (+)= weights[seq, seq] x[seq, head_dim]; if the sum is over the queries, the
 * weights are transposed. */
struct weighted_sum {
    const void *weights, *x;
    void *out;
    struct rows x_rows, out_rows;
    bool is_over_queries, is_added;
};

static cudaError_t sum_rows(const struct launch *on, const struct batch *b,
                            const struct weighted_sum *sum)
{
    struct rows weights = rows_of_matrix(b);
    return gemm_run(on, &(struct gemm_product){
                            .m = b->attention->seq,
                            .n = b->attention->head_dim,
                            .k = b->attention->seq,
                            .a_is_transposed = sum->is_over_queries,
                            .is_added = sum->is_added,
                            .c_dtype = on->storage,
                            .a = at(on, sum->weights, weights.first),
                            .b = at(on, sum->x, sum->x_rows.first),
                            .c = at(on, sum->out, sum->out_rows.first),
                            .a_stride = weights.stride,
                            .b_stride = sum->x_rows.stride,
                            .c_stride = sum->out_rows.stride,
                            .batch = b->attention->kv_heads,
                            .a_step = weights.step,
                            .b_step = sum->x_rows.step,
                            .c_step = sum->out_rows.step,
                        });
}

/* issue(on, batch, a) for every batch, until one fails. */
#define EACH_BATCH(issue, on, a)                                                           \
    do {                                                                                   \
        struct batch batch = { .attention = &(a)->attention };                             \
        cudaError_t error = cudaSuccess;                                                   \
        for (; batch.sequence < (a)->attention.sequences; batch.sequence++)                \
            for (batch.in_group = 0; batch.in_group < queries_of_a_group(batch.attention); \
                 batch.in_group++)                                                         \
                if (error == cudaSuccess)                                                  \
                    error = issue(on, &batch, a);                                          \
        return error;                                                                      \
    } while (0)

static cudaError_t issue_scores(const struct launch *on, const struct batch *b,
                                const struct scores *a)
{
    return outer_products(on, b, a->qkv, rows_of_query(b), a->qkv, rows_of_key(b), a->scores);
}

cudaError_t launch_scores(const struct launch *on, const struct scores *a)
{
    EACH_BATCH(issue_scores, on, a);
}

static cudaError_t issue_context(const struct launch *on, const struct batch *b,
                                 const struct context *a)
{
    return sum_rows(on, b,
                    &(struct weighted_sum){ .weights = a->dropped,
                                            .x = a->qkv,
                                            .out = a->context,
                                            .x_rows = rows_of_value(b),
                                            .out_rows = rows_of_context(b) });
}

cudaError_t launch_context(const struct launch *on, const struct context *a)
{
    EACH_BATCH(issue_context, on, a);
}

static cudaError_t issue_probability_gradient(const struct launch *on, const struct batch *b,
                                              const struct context_backward *a)
{
    return outer_products(on, b, a->dcontext, rows_of_context(b), a->qkv, rows_of_value(b),
                          a->ddropped);
}

cudaError_t launch_context_probability_gradient(const struct launch *on,
                                                const struct context_backward *a)
{
    EACH_BATCH(issue_probability_gradient, on, a);
}

/* The query heads of a group add up the gradient of the value that they share; the first head
 * overwrites it. */
static cudaError_t issue_value_gradient(const struct launch *on, const struct batch *b,
                                        const struct context_backward *a)
{
    return sum_rows(on, b,
                    &(struct weighted_sum){ .weights = a->dropped,
                                            .x = a->dcontext,
                                            .out = a->dqkv,
                                            .x_rows = rows_of_context(b),
                                            .out_rows = rows_of_value(b),
                                            .is_over_queries = true,
                                            .is_added = b->in_group > 0 });
}

cudaError_t launch_context_value_gradient(const struct launch *on, const struct context_backward *a)
{
    EACH_BATCH(issue_value_gradient, on, a);
}

static cudaError_t issue_query_gradient(const struct launch *on, const struct batch *b,
                                        const struct scores_backward *a)
{
    return sum_rows(on, b,
                    &(struct weighted_sum){ .weights = a->dscores,
                                            .x = a->qkv,
                                            .out = a->dqkv,
                                            .x_rows = rows_of_key(b),
                                            .out_rows = rows_of_query(b) });
}

cudaError_t launch_scores_query_gradient(const struct launch *on, const struct scores_backward *a)
{
    EACH_BATCH(issue_query_gradient, on, a);
}

static cudaError_t issue_key_gradient(const struct launch *on, const struct batch *b,
                                      const struct scores_backward *a)
{
    return sum_rows(on, b,
                    &(struct weighted_sum){ .weights = a->dscores,
                                            .x = a->qkv,
                                            .out = a->dqkv,
                                            .x_rows = rows_of_query(b),
                                            .out_rows = rows_of_key(b),
                                            .is_over_queries = true,
                                            .is_added = b->in_group > 0 });
}

cudaError_t launch_scores_key_gradient(const struct launch *on, const struct scores_backward *a)
{
    EACH_BATCH(issue_key_gradient, on, a);
}
