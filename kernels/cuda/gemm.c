#include "kernels/cuda/gemm.h"

#include "base/arena.h"
#include "kernels/cuda/gemm_table.h"

#include <cublasLt.h>

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gemm {
    cublasLtHandle_t handle;
    int64_t library, capability;
    char *table_path;
    struct gemm_table table;
    struct gemm_table refused; /* shapes that the library has no algorithm for */
    char failure[256];
};

/* --- a product in cuBLASLt's words -------------------------------------------------------- */

/* The library's matrices are column-major: ours, read so, are transposed, and so is the product:
 * c^T[n,m] = b^T[n,k] a^T[k,m]. Its first operand is our b. */
struct call {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    float alpha, beta;
};

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

/* A status is kept as text with the shape that it came for, and becomes an error of CUDA's. */
static cudaError_t failed(struct gemm *gemm, const char *what, const struct gemm_product *p,
                          cublasStatus_t status)
{
    snprintf(gemm->failure, sizeof gemm->failure, "%s of [%ld,%ld] from %ld failed: %s", what, p->m,
             p->n, p->k, cublasLtGetStatusString(status));
    return cudaErrorUnknown;
}

#define TRY(call)                           \
    do {                                    \
        cublasStatus_t tried = (call);      \
        if (tried != CUBLAS_STATUS_SUCCESS) \
            return tried;                   \
    } while (0)

static cublasStatus_t set(struct call *call, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t size)
{
    return cublasLtMatmulDescSetAttribute(&call->product, attribute, value, size);
}

/* The library's second operand is our a. */
static cublasLtEpilogue_t epilogue_of(const struct gemm_product *p)
{
    if (p->a_sums)
        return CUBLASLT_EPILOGUE_BGRADB;
    if (p->gelu_at)
        return CUBLASLT_EPILOGUE_DGELU;
    if (p->before_gelu)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t describe_epilogue(struct call *call, const struct gemm_product *p)
{
    cublasLtEpilogue_t epilogue = epilogue_of(p);
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

static cublasStatus_t describe_product(struct call *call, const struct gemm_product *p)
{
    cublasOperation_t plain = CUBLAS_OP_N, transposed = CUBLAS_OP_T;
    TRY(cublasLtMatmulDescInit(&call->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY(set(call, CUBLASLT_MATMUL_DESC_TRANSA, p->b_is_transposed ? &transposed : &plain,
            sizeof plain));
    TRY(set(call, CUBLASLT_MATMUL_DESC_TRANSB, p->a_is_transposed ? &transposed : &plain,
            sizeof plain));
    return describe_epilogue(call, p);
}

/* Of row-major [rows, columns]. */
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

static cublasStatus_t describe(struct call *call, const struct gemm_product *p, enum dtype storage)
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

/* Into `to`, which may be p->c. */
static cublasStatus_t multiply(const struct launch *on, const struct call *call,
                               const struct gemm_product *p, void *to,
                               const cublasLtMatmulAlgo_t *algorithm)
{
    return cublasLtMatmul(on->gemm->handle, (cublasLtMatmulDesc_t)&call->product, &call->alpha,
                          p->b, (cublasLtMatrixLayout_t)&call->b, p->a,
                          (cublasLtMatrixLayout_t)&call->a, &call->beta, p->c,
                          (cublasLtMatrixLayout_t)&call->c, to, (cublasLtMatrixLayout_t)&call->c,
                          algorithm, on->workspace, PRODUCT_BYTES, on->stream);
}

/* --- which algorithm ---------------------------------------------------------------------- */

enum { MOST_PROPOSALS = 8, TIMED_RUNS = 3, MOST_ALIGNMENT_BYTES = 256 };

struct proposals {
    cublasLtMatmulHeuristicResult_t at[MOST_PROPOSALS];
    int count;
};

static int64_t alignment_of(const struct gemm_product *p)
{
    uintptr_t bits = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c | (uintptr_t)p->bias |
                     (uintptr_t)p->a_sums | (uintptr_t)p->before_gelu | (uintptr_t)p->gelu_at;
    int64_t alignment = MOST_ALIGNMENT_BYTES;
    while (bits % (uintptr_t)alignment != 0)
        alignment /= 2;
    return alignment;
}

static struct gemm_shape shape_of(const struct gemm *gemm, const struct gemm_product *p,
                                  enum dtype storage)
{
    return (struct gemm_shape){
        .library = gemm->library,
        .capability = gemm->capability,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_is_transposed = p->a_is_transposed,
        .b_is_transposed = p->b_is_transposed,
        .a_stride = p->a_stride,
        .b_stride = p->b_stride,
        .c_stride = p->c_stride,
        .batch = p->batch,
        .a_step = p->a_step,
        .b_step = p->b_step,
        .c_step = p->c_step,
        .storage = storage,
        .c_dtype = p->c_dtype,
        .epilogue = epilogue_of(p),
        .is_added = p->is_added,
        .alignment_bytes = alignment_of(p),
    };
}

static cublasStatus_t prefer(cublasLtMatmulPreferenceOpaque_t *preference,
                             cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                             size_t size)
{
    return cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size);
}

/* Sums of parts of k stay in fp32. */
static cublasStatus_t describe_preference(cublasLtMatmulPreferenceOpaque_t *preference,
                                          uint32_t alignment)
{
    size_t workspace = PRODUCT_BYTES;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TRY(cublasLtMatmulPreferenceInit(preference));
    TRY(prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    TRY(prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
               sizeof reductions));
    TRY(prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment,
               sizeof alignment));
    TRY(prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment,
               sizeof alignment));
    TRY(prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment,
               sizeof alignment));
    return prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment,
                  sizeof alignment);
}

/* Best first, in the library's opinion. */
static cublasStatus_t propose(const struct gemm *gemm, const struct call *call, int64_t alignment,
                              struct proposals *out)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    struct call c = *call; /* the library takes no const */
    TRY(describe_preference(&preference, (uint32_t)alignment));
    return cublasLtMatmulAlgoGetHeuristic(gemm->handle, &c.product, &c.b, &c.a, &c.c, &c.c,
                                          &preference, MOST_PROPOSALS, out->at, &out->count);
}

/* Infinity where it can't run. */
static float run_ms(const struct launch *on, const struct call *call, const struct gemm_product *p,
                    void *to, const cublasLtMatmulAlgo_t *algorithm, cudaEvent_t events[2])
{
    float ms = INFINITY;
    bool ran = multiply(on, call, p, to, algorithm) == CUBLAS_STATUS_SUCCESS;
    ran = ran && cudaEventRecord(events[0], on->stream) == cudaSuccess;
    for (int i = 0; i < TIMED_RUNS && ran; i++)
        ran = multiply(on, call, p, to, algorithm) == CUBLAS_STATUS_SUCCESS;
    ran = ran && cudaEventRecord(events[1], on->stream) == cudaSuccess;
    ran = ran && cudaEventSynchronize(events[1]) == cudaSuccess;
    return ran && cudaEventElapsedTime(&ms, events[0], events[1]) == cudaSuccess ? ms : INFINITY;
}

/* -1 when none can be timed. */
static int fastest(const struct launch *on, const struct call *call, const struct gemm_product *p,
                   void *to, const struct proposals *proposals)
{
    cudaEvent_t events[2] = { NULL, NULL };
    int best = -1;
    float best_ms = INFINITY;
    bool has_events =
        cudaEventCreate(&events[0]) == cudaSuccess && cudaEventCreate(&events[1]) == cudaSuccess;
    for (int i = 0; i < proposals->count && has_events; i++) {
        float ms = run_ms(on, call, p, to, &proposals->at[i].algo, events);
        if (ms < best_ms) {
            best_ms = ms;
            best = i;
        }
    }
    for (int i = 0; i < 2; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    return best;
}

static size_t result_bytes(const struct gemm_product *p)
{
    long values = (p->batch - 1) * p->c_step + (p->m - 1) * p->c_stride + p->n;
    return (size_t)values * (p->c_dtype == DTYPE_FP32 ? 4 : 2);
}

/* Times the proposals; a result that is added to is left as it is. Memory of the stream's: other
 * memory might be had only when no message is under way. */
static int tune(const struct launch *on, const struct call *call, const struct gemm_product *p,
                const struct proposals *proposals)
{
    void *second = NULL;
    if (p->is_added && cudaMallocAsync(&second, result_bytes(p), on->stream) != cudaSuccess) {
        (void)cudaGetLastError(); /* no memory for it is no failure */
        return -1;
    }
    int best = fastest(on, call, p, second ? second : p->c, proposals);
    if (second)
        cudaFreeAsync(second, on->stream);
    return best;
}

static bool is_captured(const struct launch *on)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(on->stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

/* A table that can't be written is said, and used all the same. */
static void keep(struct gemm *gemm, const struct gemm_shape *shape,
                 const cublasLtMatmulHeuristicResult_t *chosen)
{
    struct gemm_choice choice = { .shape = *shape, .workspace_bytes = chosen->workspaceSize };
    static_assert(sizeof choice.algorithm == sizeof chosen->algo, "a line holds an algorithm");
    memcpy(choice.algorithm, &chosen->algo, sizeof choice.algorithm);
    gemm_table_add(&gemm->table, &choice);
    struct err err = { 0 };
    if (gemm->table_path && !gemm_table_write(gemm->table_path, &gemm->table, &err))
        snprintf(gemm->failure, sizeof gemm->failure, "%.100s: %.150s", err.where, err.msg);
}

static cublasStatus_t choose(const struct launch *on, const struct call *call,
                             const struct gemm_product *p, cublasLtMatmulAlgo_t *out)
{
    struct gemm_shape shape = shape_of(on->gemm, p, on->storage);
    const struct gemm_choice *known = gemm_table_find(&on->gemm->table, &shape);
    if (known) {
        memcpy(out, known->algorithm, sizeof *out);
        return CUBLAS_STATUS_SUCCESS;
    }
    struct proposals proposals;
    TRY(propose(on->gemm, call, shape.alignment_bytes, &proposals));
    if (proposals.count == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    int best = is_captured(on) ? -1 : tune(on, call, p, &proposals);
    if (best >= 0)
        keep(on->gemm, &shape, &proposals.at[best]);
    *out = proposals.at[best >= 0 ? best : 0].algo;
    return CUBLAS_STATUS_SUCCESS;
}

static void refuse(struct gemm *gemm, const struct gemm_shape *shape)
{
    gemm_table_add(&gemm->refused, &(struct gemm_choice){ .shape = *shape });
}

bool gemm_offers(const struct launch *on, const struct gemm_product *p)
{
    struct gemm_shape shape = shape_of(on->gemm, p, on->storage);
    struct call call;
    struct proposals proposals;
    if (gemm_table_find(&on->gemm->table, &shape))
        return true;
    if (gemm_table_find(&on->gemm->refused, &shape))
        return false;
    bool offers =
        describe(&call, p, on->storage) == CUBLAS_STATUS_SUCCESS &&
        propose(on->gemm, &call, shape.alignment_bytes, &proposals) == CUBLAS_STATUS_SUCCESS &&
        proposals.count > 0;
    if (!offers)
        refuse(on->gemm, &shape);
    return offers;
}

cudaError_t gemm_run(const struct launch *on, const struct gemm_product *p)
{
    struct call call;
    cublasLtMatmulAlgo_t algorithm;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return cudaSuccess;
    cublasStatus_t status = describe(&call, p, on->storage);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "describing the product", p, status);
    status = choose(on, &call, p, &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "finding an algorithm for the product", p, status);
    status = multiply(on, &call, p, p->c, &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS)
        return failed(on->gemm, "the product", p, status);
    return cudaSuccess;
}

/* --- opening ------------------------------------------------------------------------------ */

/* 90 for sm_90. */
static bool find_capability(int64_t *out, struct err *err)
{
    int device, major, minor;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (error != cudaSuccess)
        return err_set(err, ERR_SYSTEM, "CUDA", "%s", cudaGetErrorString(error));
    *out = 10 * major + minor;
    return true;
}

static bool open_gemm(struct gemm *gemm, struct err *err)
{
    cublasStatus_t status = cublasLtCreate(&gemm->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return err_set(err, ERR_SYSTEM, "cuBLASLt", "%s", cublasLtGetStatusString(status));
    gemm->library = (int64_t)cublasLtGetVersion();
    return find_capability(&gemm->capability, err) &&
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
    free(gemm->table.at);
    free(gemm->refused.at);
    free(gemm);
}

const char *gemm_failure(const struct gemm *gemm)
{
    return gemm->failure;
}
