#include <cublasLt.h>

#include "base/arena.h"
#include "kernels/host/round.h"
#include "tests/cuda_on_host/hollow.h"
#include "tests/cuda_on_host/runtime.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- descriptions ------------------------------------------------------------------------- */

struct cublasLtContext {
    int unused;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = malloc(sizeof **handle);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_...";
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t product, cublasComputeType_t compute,
                                      cudaDataType_t scale)
{
    *product = (cublasLtMatmulDescOpaque_t){ .epilogue = CUBLASLT_EPILOGUE_DEFAULT };
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS
                                                                : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        memcpy(&product->a, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        memcpy(&product->b, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        memcpy(&product->epilogue, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        memcpy(&product->bias, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        memcpy(&product->beside, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        memcpy(&product->beside_leading, value, size);
        break;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type,
                                        uint64_t rows, uint64_t columns, int64_t leading)
{
    *layout = (cublasLtMatrixLayoutOpaque_t){
        .type = type, .rows = rows, .columns = columns, .leading = leading, .batch = 1
    };
    return leading >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        memcpy(&layout->batch, value, size);
    else
        memcpy(&layout->step, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
    *preference =
        (cublasLtMatmulPreferenceOpaque_t){ .reductions = CUBLASLT_REDUCTION_SCHEME_MASK };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&preference->workspace_bytes, value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&preference->reductions, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- products ----------------------------------------------------------------------------- */

enum { NO_ALGORITHM };

int algorithms_asked;

static bool has_rare_epilogue(const cublasLtMatmulDescOpaque_t *product)
{
    return product->epilogue > CUBLASLT_EPILOGUE_BIAS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    (void)handle, (void)a, (void)b, (void)c;
    algorithms_asked++;
    *count = 0;
    if (runtime_captures())
        return CUBLAS_STATUS_INTERNAL_ERROR;
    if (has_rare_epilogue(product) && (d->rows % 8 != 0 || d->columns % 8 != 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    int last = preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ? IN_PARTS : FAST;
    for (int i = NO_ALGORITHM; i <= last && *count < most; i++)
        results[(*count)++] = (cublasLtMatmulHeuristicResult_t){
            .algo = { .data = { (uint64_t)i } },
            .state = i == NO_ALGORITHM ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS
        };
    return CUBLAS_STATUS_SUCCESS;
}

static float load(cudaDataType_t type, const void *values, int64_t i)
{
    float value;
    if (type == CUDA_R_16BF)
        bf16_unpack(1, (const uint16_t *)values + i, &value);
    else if (type == CUDA_R_16F)
        fp16_unpack(1, (const uint16_t *)values + i, &value);
    else
        value = ((const float *)values)[i];
    return value;
}

static void store(cudaDataType_t type, float value, void *values, int64_t i)
{
    if (type == CUDA_R_16BF)
        bf16_pack(1, &value, (uint16_t *)values + i);
    else if (type == CUDA_R_16F)
        fp16_pack(1, &value, (uint16_t *)values + i);
    else
        ((float *)values)[i] = value;
}

static float rounded(cudaDataType_t type, float value)
{
    float stored;
    store(type, value, &stored, 0);
    return load(type, &stored, 0);
}

/* Returns the element in row `row` and column `column` of op(x), for one matrix of a batch. */
static float element(const void *x, const cublasLtMatrixLayoutOpaque_t *layout,
                     cublasOperation_t operation, int32_t batch, int64_t row, int64_t column)
{
    int64_t i =
        operation == CUBLAS_OP_T ? row * layout->leading + column : column * layout->leading + row;
    return load(layout->type, x, batch * layout->step + i);
}

static bool fits(cublasLtMatrixLayout_t layout, cublasOperation_t operation, uint64_t rows,
                 uint64_t columns)
{
    bool is_turned = operation == CUBLAS_OP_T;
    return layout->rows == (is_turned ? columns : rows) &&
           layout->columns == (is_turned ? rows : columns);
}

/* Computes tanh; for fp32 with the accuracy of tanh.approx.f32 (PTX ISA), because no higher
 * accuracy is documented. */
static double tanh_of(cudaDataType_t type, double x)
{
    return type == CUDA_R_32F ? tanh(x) * (1 - 0x1p-11) : tanh(x);
}

/* Computes gelu in its tanh form (Hendrycks and Gimpel 2016), and its derivative. */
static const double sqrt_two_over_pi = 0.79788456080286536, cubic = 0.044715;

static double gelu(cudaDataType_t type, double x)
{
    return 0.5 * x * (1 + tanh_of(type, sqrt_two_over_pi * (x + cubic * x * x * x)));
}

static double gelu_derivative(cudaDataType_t type, double x)
{
    double t = tanh_of(type, sqrt_two_over_pi * (x + cubic * x * x * x));
    double du = sqrt_two_over_pi * (1 + 3 * cubic * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du;
}

static bool has_bias(cublasLtEpilogue_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static bool writes_beside(cublasLtEpilogue_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static bool has_matrix_beside(const cublasLtMatmulDescOpaque_t *product)
{
    return writes_beside(product->epilogue) || product->epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static bool has_leading_beside(const cublasLtMatmulDescOpaque_t *product, uint64_t rows)
{
    return !has_matrix_beside(product) ||
           (product->beside_leading >= (int64_t)rows && product->beside_leading % 8 == 0);
}

/* Applies the epilogue to the sum of one element of the result. */
static float finished(const cublasLtMatmulDescOpaque_t *product, cudaDataType_t type, float sum,
                      int64_t row, int64_t column)
{
    int64_t beside = column * product->beside_leading + row;
    if (has_bias(product->epilogue))
        sum += load(type, product->bias, row);
    if (writes_beside(product->epilogue)) {
        store(type, sum, product->beside, beside);
        return (float)gelu(type, (double)sum);
    }
    if (product->epilogue == CUBLASLT_EPILOGUE_DGELU)
        return (float)((double)sum *
                       gelu_derivative(type, (double)load(type, product->beside, beside)));
    return sum;
}

/* A product, with copies of everything that the caller may change after the call. */
struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d;
    float alpha, beta;
    uint64_t algorithm;
};

/* Copies one matrix of a batch as fp32 [outer, depth], so that the terms of a sum are adjacent. */
static float *unpack(const void *x, const cublasLtMatrixLayoutOpaque_t *layout,
                     cublasOperation_t operation, int32_t batch, bool is_right)
{
    bool is_turned = operation == CUBLAS_OP_T;
    int64_t rows = (int64_t)(is_turned ? layout->columns : layout->rows);
    int64_t columns = (int64_t)(is_turned ? layout->rows : layout->columns);
    float *out = arena_grow(NULL, sizeof *out * (size_t)(rows * columns));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            out[is_right ? column * rows + row : row * columns + column] =
                element(x, layout, operation, batch, row, column);
    return out;
}

static float dot(const float *a, const float *b, int64_t depth)
{
    float sum = 0;
    for (int64_t k = 0; k < depth; k++)
        sum += a[k] * b[k];
    return sum;
}

/* A fault seen in cuBLASLt: the terms after the last whole block are left out
 * (facebookexperimental/triton#2767). */
static float dot_in_parts(const float *a, const float *b, int64_t depth)
{
    enum { BLOCK = 64 };
    int64_t all = depth - depth % BLOCK, half = all / 2;
    return dot(a, b, half) + dot(a + half, b + half, all - half);
}

/* Another fault: with split k, the epilogue gets a rounded sum (pytorch/pytorch#180875). */
static float sum_of(const struct product *p, const float *a, const float *b, int64_t depth)
{
    if (p->algorithm != IN_PARTS)
        return dot(a, b, depth);
    float sum = dot_in_parts(a, b, depth);
    bool is_finished = has_bias(p->desc.epilogue) || has_matrix_beside(&p->desc);
    return is_finished ? rounded(p->d_layout.type, sum) : sum;
}

static void finish(const struct product *p, int32_t batch, int64_t row, int64_t column, float sum)
{
    sum *= p->alpha;
    if (p->beta != 0)
        sum += p->beta * element(p->c, &p->c_layout, CUBLAS_OP_N, batch, row, column);
    store(p->d_layout.type, finished(&p->desc, p->d_layout.type, sum, row, column), p->d,
          batch * p->d_layout.step + column * p->d_layout.leading + row);
}

static void run_one(const struct product *p, int32_t batch)
{
    int64_t depth = (int64_t)(p->desc.a == CUBLAS_OP_T ? p->a_layout.rows : p->a_layout.columns);
    float *a = unpack(p->a, &p->a_layout, p->desc.a, batch, false);
    float *b = unpack(p->b, &p->b_layout, p->desc.b, batch, true);
    for (int64_t column = 0; column < (int64_t)p->d_layout.columns; column++)
        for (int64_t row = 0; row < (int64_t)p->d_layout.rows; row++)
            finish(p, batch, row, column, sum_of(p, a + row * depth, b + column * depth, depth));
    free(a);
    free(b);
}

/* Sums the columns of op(b) over the depth, in the order of the stored result. */
static void sum_columns(const struct product *p)
{
    int64_t depth = (int64_t)(p->desc.a == CUBLAS_OP_T ? p->a_layout.rows : p->a_layout.columns);
    for (int64_t column = 0; column < (int64_t)p->d_layout.columns; column++) {
        float sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += element(p->b, &p->b_layout, p->desc.b, 0, k, column);
        store(p->d_layout.type, sum, p->desc.bias, column);
    }
}

static double flops_of(const struct product *p)
{
    double depth = (double)(p->desc.a == CUBLAS_OP_T ? p->a_layout.rows : p->a_layout.columns);
    return 2 * depth * (double)p->d_layout.rows * (double)p->d_layout.columns * p->d_layout.batch;
}

double sums_ms = -1000;

static void run_product(void *args)
{
    static const double slower_ms = 1000; /* slower than any other algorithm here */
    const struct product *p = args;
    if (hollow_is_on()) {
        hollow_product((p->algorithm == FAST ? 1 : 1.5) * flops_of(p));
        return;
    }
    runtime_add_ms(slower_ms * (double)(IN_PARTS - p->algorithm));
    if (p->desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        runtime_add_ms(sums_ms);
        sum_columns(p);
    }
    for (int32_t batch = 0; batch < p->d_layout.batch; batch++)
        run_one(p, batch);
}

/* Products with the same algorithm, types and epilogue share a kernel. */
static uint64_t kernel_of(const struct product *p)
{
    uint64_t no_address = (uint64_t)1 << 63;
    return no_address | p->algorithm | (uint64_t)p->desc.epilogue << 8 | (uint64_t)p->desc.a << 40 |
           (uint64_t)p->desc.b << 44 | (uint64_t)p->a_layout.type << 48 |
           (uint64_t)p->d_layout.type << 52;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    (void)handle, (void)workspace, (void)workspace_bytes;
    uint64_t depth = product->a == CUBLAS_OP_T ? a_layout->rows : a_layout->columns;
    if (!fits(a_layout, product->a, d_layout->rows, depth) ||
        !fits(b_layout, product->b, depth, d_layout->columns))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!has_leading_beside(product, d_layout->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm->data[0] == NO_ALGORITHM || (has_rare_epilogue(product) && depth % 5 == 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct product work = { .desc = *product,
                            .a_layout = *a_layout,
                            .b_layout = *b_layout,
                            .c_layout = *c_layout,
                            .d_layout = *d_layout,
                            .a = a,
                            .b = b,
                            .c = c,
                            .d = d,
                            .alpha = *(const float *)alpha,
                            .beta = *(const float *)beta,
                            .algorithm = algorithm->data[0] };
    runtime_load(kernel_of(&work));
    return runtime_issue(stream, run_product, &work, sizeof work) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}
