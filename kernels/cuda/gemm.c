/* Matrix products by cuBLASLt. */
#include "kernels/cuda/gemm_part.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a product in cuBLASLt's words -------------------------------------------------------- */

static cudaDataType_t type_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_BF16:
        return CUDA_R_16BF;
    case DTYPE_FP16:
        return CUDA_R_16F;
    default:
        return CUDA_R_32F;
    }
}

static cublasStatus_t set(struct gemm_call *call, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t size)
{
    return cublasLtMatmulDescSetAttribute(&call->product, attribute, value, size);
}

/* The library names epilogues by its operands A and B; its B is our a (gemm_part.h). */
cublasLtEpilogue_t gemm_epilogue(const struct gemm_product *p)
{
    if (p->a_sums)
        return CUBLASLT_EPILOGUE_BGRADB;
    if (p->gelu_at)
        return CUBLASLT_EPILOGUE_DGELU;
    if (p->before_gelu)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t describe_epilogue(struct gemm_call *call, const struct gemm_product *p)
{
    cublasLtEpilogue_t epilogue = gemm_epilogue(p);
    const void *vector = p->a_sums ? p->a_sums : p->bias;
    const void *matrix = p->gelu_at ? p->gelu_at : p->before_gelu;
    int64_t stride = p->c_stride;
    TRY(set(call, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (vector)
        TRY(set(call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector));
    if (!matrix)
        return CUBLAS_STATUS_SUCCESS;
    TRY(set(call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &matrix, sizeof matrix));
    return set(call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof stride);
}

static cublasStatus_t describe_product(struct gemm_call *call, const struct gemm_product *p)
{
    cublasOperation_t plain = CUBLAS_OP_N, transposed = CUBLAS_OP_T;
    TRY(cublasLtMatmulDescInit(&call->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY(set(call, CUBLASLT_MATMUL_DESC_TRANSA, p->b_is_transposed ? &transposed : &plain,
            sizeof plain));
    TRY(set(call, CUBLASLT_MATMUL_DESC_TRANSB, p->a_is_transposed ? &transposed : &plain,
            sizeof plain));
    return describe_epilogue(call, p);
}

/* Describes a row-major matrix [rows, columns]. */
static cublasStatus_t describe_matrix(cublasLtMatrixLayoutOpaque_t *layout, enum dtype dtype,
                                      long rows, long columns, long stride, long batch, long step)
{
    int32_t count = (int32_t)batch;
    int64_t offset = step;
    TRY(cublasLtMatrixLayoutInit(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows,
                                 stride));
    if (batch == 1)
        return CUBLAS_STATUS_SUCCESS;
    TRY(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count));
    return cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &offset, sizeof offset);
}

cublasStatus_t gemm_describe(struct gemm_call *call, const struct gemm_product *p,
                             enum dtype storage)
{
    bool a_turned = p->a_is_transposed, b_turned = p->b_is_transposed;
    call->alpha = 1;
    call->beta = p->is_added ? 1 : 0;
    TRY(describe_product(call, p));
    TRY(describe_matrix(&call->a, storage, a_turned ? p->k : p->m, a_turned ? p->m : p->k,
                        p->a_stride, p->batch, p->a_step));
    TRY(describe_matrix(&call->b, storage, b_turned ? p->n : p->k, b_turned ? p->k : p->n,
                        p->b_stride, p->batch, p->b_step));
    return describe_matrix(&call->c, p->c_dtype, p->m, p->n, p->c_stride, p->batch, p->c_step);
}

cublasStatus_t gemm_multiply(const struct launch *on, const struct gemm_call *call,
                             const struct gemm_product *p, void *to,
                             const cublasLtMatmulAlgo_t *algorithm)
{
    return cublasLtMatmul(on->gemm->handle, (cublasLtMatmulDesc_t)&call->product, &call->alpha,
                          p->b, (cublasLtMatrixLayout_t)&call->b, p->a,
                          (cublasLtMatrixLayout_t)&call->a, &call->beta, p->c,
                          (cublasLtMatrixLayout_t)&call->c, to, (cublasLtMatrixLayout_t)&call->c,
                          algorithm, on->workspace, PRODUCT_BYTES, on->stream);
}

/* --- running ------------------------------------------------------------------------------ */

/* Stores a failed status as text with the product's shape, and returns a CUDA error. */
static cudaError_t failed(struct gemm *gemm, const char *what, const struct gemm_product *p,
                          cublasStatus_t status)
{
    snprintf(gemm->failure, sizeof gemm->failure, "%s of [%ld,%ld] from %ld failed: %s", what, p->m,
             p->n, p->k, cublasLtGetStatusString(status));
    return cudaErrorUnknown;
}

cudaError_t gemm_run(const struct launch *on, const struct gemm_product *p)
{
    struct gemm_call call;
    cublasLtMatmulAlgo_t algorithm;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return cudaSuccess;
    cublasStatus_t status = gemm_describe(&call, p, on->storage);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "describing the product", p, status);
    status = gemm_choose(on, &call, p, &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "finding an algorithm for the product", p, status);
    status = gemm_multiply(on, &call, p, p->c, &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "the product", p, status);
    return cudaSuccess;
}

/* --- opening ------------------------------------------------------------------------------ */

static bool ask(enum cudaDeviceAttr attribute, int *out, struct err *err)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(out, attribute, device);
    return error == cudaSuccess ||
           err_set(err, ERR_SYSTEM, "CUDA", "%s", cudaGetErrorString(error));
}

static bool find_gpu(struct gemm *gemm, struct err *err)
{
    int driver = 0, major = 0, minor = 0, num_processors = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        return err_set(err, ERR_UNAVAILABLE, "CUDA", "the driver does not report its version");
    if (!ask(cudaDevAttrComputeCapabilityMajor, &major, err) ||
        !ask(cudaDevAttrComputeCapabilityMinor, &minor, err) ||
        !ask(cudaDevAttrMultiProcessorCount, &num_processors, err))
        return false;
    gemm->driver = driver;
    gemm->capability = 10 * major + minor;
    gemm->num_processors = num_processors;
    return true;
}

static bool open_gemm(struct gemm *gemm, struct err *err)
{
    cublasStatus_t status = cublasLtCreate(&gemm->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return err_set(err, ERR_SYSTEM, "cuBLASLt", "%s", cublasLtGetStatusString(status));
    gemm->library = (int64_t)cublasLtGetVersion();
    return find_gpu(gemm, err) &&
           (!gemm->table_path || gemm_table_read(gemm->table_path, &gemm->table, err));
}

struct gemm *gemm_open(const char *table_path, struct err *err)
{
    struct gemm *gemm = arena_grow(NULL, sizeof *gemm);
    *gemm = (struct gemm){ 0 };
    if (table_path) {
        size_t bytes = strlen(table_path) + 1;
        gemm->table_path = memcpy(arena_grow(NULL, bytes), table_path, bytes);
    }
    if (open_gemm(gemm, err))
        return gemm;
    gemm_close(gemm);
    return NULL;
}

void gemm_close(struct gemm *gemm)
{
    if (!gemm)
        return;
    if (gemm->handle)
        cublasLtDestroy(gemm->handle);
    free(gemm->table_path);
    gemm_table_release(&gemm->table);
    gemm_table_release(&gemm->unwritten);
    free(gemm);
}

long launch_num_processors(const struct launch *on)
{
    return (long)on->gemm->num_processors;
}

const char *gemm_failure(const struct gemm *gemm)
{
    return gemm->failure;
}
