/* tests/cuda_on_host/cublasLt.h - replaces the CUDA toolkit's header; it declares the part of
 * cuBLASLt that kernels/cuda uses.
 *
 * Products are column-major and summed in order in fp32, as the library's documentation describes.
 * This replacement proposes the algorithms SLOW, FAST, and one with an invalid state. If the
 * preferences allow split k, it also proposes IN_PARTS, which is the fastest and has two faults
 * that were observed in cuBLASLt (cublasLt.c). For epilogues other than a bias it proposes
 * algorithms only if the numbers of rows and columns of the result are multiples of 8. If the inner
 * dimension is a multiple of 5, the proposed algorithms fail to run. It proposes nothing while the
 * thread captures a stream. */
#ifndef TESTS_CUDA_ON_HOST_CUBLASLT_H
#define TESTS_CUDA_ON_HOST_CUBLASLT_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    CUBLAS_STATUS_SUCCESS,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
} cublasStatus_t;
typedef enum { CUDA_R_32F, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;
typedef enum {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_BGRADB = 512,
} cublasLtEpilogue_t;
enum {
    CUBLASLT_REDUCTION_SCHEME_NONE,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
    CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

typedef enum {
    CUBLASLT_MATMUL_DESC_TRANSA,
    CUBLASLT_MATMUL_DESC_TRANSB,
    CUBLASLT_MATMUL_DESC_EPILOGUE,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
} cublasLtMatmulDescAttributes_t;
typedef enum {
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
} cublasLtMatrixLayoutAttribute_t;
typedef enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
} cublasLtMatmulPreferenceAttributes_t;

typedef struct {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    void *bias; /* bias that is read, or sums that are written */
    void *beside;
    int64_t beside_leading;
} cublasLtMatmulDescOpaque_t;
typedef struct {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t leading, step;
    int32_t batch;
} cublasLtMatrixLayoutOpaque_t;
typedef struct {
    size_t workspace_bytes;
    uint32_t reductions;
} cublasLtMatmulPreferenceOpaque_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
} cublasLtMatmulHeuristicResult_t;

/* Values of the first word of cublasLtMatmulAlgo_t, which names the algorithm. */
enum { SLOW = 1, FAST, IN_PARTS };

/* Number of requests for algorithms. */
extern int algorithms_asked;

/* Time in ms by which a product whose epilogue computes bias sums appears slower than it is. */
extern double sums_ms;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(cublasStatus_t status);

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t product, cublasComputeType_t compute,
                                      cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type,
                                        uint64_t rows, uint64_t columns, int64_t leading);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *results, int *count);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream);

#endif
