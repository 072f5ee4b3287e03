#include <cublasLt.h>

#include "kernels/host/round.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- the run-time ------------------------------------------------------------------------- */

struct CUevent_st {
    double ms;
};

static __thread double clock_ms;

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error";
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return *memory ? cudaSuccess : cudaErrorUnknown;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    return *event ? cudaSuccess : cudaErrorUnknown;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    event->ms = clock_ms;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(to->ms - from->ms);
    return cudaSuccess;
}

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
    *preference = (cublasLtMatmulPreferenceOpaque_t){ 0 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&preference->workspace_bytes, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- products ----------------------------------------------------------------------------- */

int algorithms_asked;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    (void)handle, (void)a, (void)b, (void)c, (void)preference;
    algorithms_asked++;
    if (product->epilogue > CUBLASLT_EPILOGUE_BIAS && (d->rows % 8 != 0 || d->columns % 8 != 0)) {
        *count = 0;
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *count = most < 2 ? most : 2;
    for (int i = 0; i < *count; i++)
        results[i] = (cublasLtMatmulHeuristicResult_t){ .algo = { .data = { (uint64_t)i + 1 } } };
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

/* Row `row` and column `column` of op(x) of one matrix of a batch. */
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

/* Hendrycks and Gimpel 2016, the tanh form, and its derivative. */
static const double sqrt_two_over_pi = 0.79788456080286536, cubic = 0.044715;

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt_two_over_pi * (x + cubic * x * x * x)));
}

static double gelu_derivative(double x)
{
    double t = tanh(sqrt_two_over_pi * (x + cubic * x * x * x));
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

static bool has_leading_beside(const cublasLtMatmulDescOpaque_t *product, uint64_t rows)
{
    bool is_used = writes_beside(product->epilogue) || product->epilogue == CUBLASLT_EPILOGUE_DGELU;
    return !is_used ||
           (product->beside_leading >= (int64_t)rows && product->beside_leading % 8 == 0);
}

/* What the epilogue makes of a sum for one row and column of the result. */
static float finished(const cublasLtMatmulDescOpaque_t *product, cudaDataType_t type, float sum,
                      int64_t row, int64_t column)
{
    int64_t beside = column * product->beside_leading + row;
    if (has_bias(product->epilogue))
        sum += load(type, product->bias, row);
    if (writes_beside(product->epilogue)) {
        store(type, sum, product->beside, beside);
        return (float)gelu((double)sum);
    }
    if (product->epilogue == CUBLASLT_EPILOGUE_DGELU)
        return (float)((double)sum * gelu_derivative((double)load(type, product->beside, beside)));
    return sum;
}

/* The columns of op(b) summed over the depth, as the result is stored. */
static void sum_columns(const cublasLtMatmulDescOpaque_t *product, const void *b,
                        const cublasLtMatrixLayoutOpaque_t *b_layout, int64_t depth,
                        const cublasLtMatrixLayoutOpaque_t *d_layout)
{
    for (int64_t column = 0; column < (int64_t)d_layout->columns; column++) {
        float sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += element(b, b_layout, product->b, 0, k, column);
        store(d_layout->type, sum, product->bias, column);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    (void)handle, (void)workspace, (void)workspace_bytes, (void)stream;
    uint64_t rows = d_layout->rows, columns = d_layout->columns;
    uint64_t depth = product->a == CUBLAS_OP_T ? a_layout->rows : a_layout->columns;
    float add = *(const float *)beta;
    if (!fits(a_layout, product->a, rows, depth) || !fits(b_layout, product->b, depth, columns))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!has_leading_beside(product, rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    clock_ms += algorithm->data[0] == 2 ? 1 : 2;
    if (product->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sum_columns(product, b, b_layout, (int64_t)depth, d_layout);
    for (int32_t batch = 0; batch < d_layout->batch; batch++)
        for (int64_t column = 0; column < (int64_t)columns; column++)
            for (int64_t row = 0; row < (int64_t)rows; row++) {
                float sum = 0;
                for (int64_t k = 0; k < (int64_t)depth; k++)
                    sum += element(a, a_layout, product->a, batch, row, k) *
                           element(b, b_layout, product->b, batch, k, column);
                sum *= *(const float *)alpha;
                if (add != 0)
                    sum += add * element(c, c_layout, CUBLAS_OP_N, batch, row, column);
                store(d_layout->type, finished(product, d_layout->type, sum, row, column), d,
                      batch * d_layout->step + column * d_layout->leading + row);
            }
    return CUBLAS_STATUS_SUCCESS;
}
