#include "kernels/cuda/gemm_part.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
        .num_processors = gemm->num_processors,
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
        .epilogue = gemm_epilogue(p),
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

/* Sums of parts of k stay in fp32. In parts cuBLASLt 12.8 and 13.1 lose the rest of some k that 64
 * does not divide (facebookexperimental/triton#2767), and what an epilogue does comes after a first
 * rounding (pytorch/pytorch#180875): such products are made in one part. */
static uint32_t reductions_of(const struct gemm_product *p)
{
    bool is_finished = p->bias || p->before_gelu || p->gelu_at;
    return is_finished || p->k % 64 != 0 ? CUBLASLT_REDUCTION_SCHEME_NONE
                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

static cublasStatus_t describe_preference(cublasLtMatmulPreferenceOpaque_t *preference,
                                          const struct gemm_product *p)
{
    size_t workspace = PRODUCT_BYTES;
    uint32_t reductions = reductions_of(p), alignment = (uint32_t)alignment_of(p);
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
static cublasStatus_t propose(const struct gemm *gemm, const struct gemm_call *call,
                              const struct gemm_product *p, struct proposals *out)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    struct gemm_call c = *call; /* the library takes no const */
    TRY(describe_preference(&preference, p));
    return cublasLtMatmulAlgoGetHeuristic(gemm->handle, &c.product, &c.b, &c.a, &c.c, &c.c,
                                          &preference, MOST_PROPOSALS, out->at, &out->count);
}

/* Infinity where it can't run. */
static float run_ms(const struct launch *on, const struct gemm_call *call,
                    const struct gemm_product *p, void *to, const cublasLtMatmulAlgo_t *algorithm,
                    cudaEvent_t events[2])
{
    float ms = INFINITY;
    bool ran = gemm_multiply(on, call, p, to, algorithm) == CUBLAS_STATUS_SUCCESS;
    ran = ran && cudaEventRecord(events[0], on->stream) == cudaSuccess;
    for (int i = 0; i < TIMED_RUNS && ran; i++)
        ran = gemm_multiply(on, call, p, to, algorithm) == CUBLAS_STATUS_SUCCESS;
    ran = ran && cudaEventRecord(events[1], on->stream) == cudaSuccess;
    ran = ran && cudaEventSynchronize(events[1]) == cudaSuccess;
    return ran && cudaEventElapsedTime(&ms, events[0], events[1]) == cudaSuccess ? ms : INFINITY;
}

/* -1 when none can be timed. */
static int fastest(const struct launch *on, const struct gemm_call *call,
                   const struct gemm_product *p, void *to, const struct proposals *proposals)
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
static int tune(const struct launch *on, const struct gemm_call *call, const struct gemm_product *p,
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

/* A file that can't be written is no failure: the next run tunes anew. */
static void keep(struct gemm *gemm, const struct gemm_shape *shape,
                 const cublasLtMatmulHeuristicResult_t *chosen)
{
    struct gemm_choice choice = { .shape = *shape, .workspace_bytes = chosen->workspaceSize };
    static_assert(sizeof choice.algorithm == sizeof chosen->algo, "a line holds an algorithm");
    memcpy(choice.algorithm, &chosen->algo, sizeof choice.algorithm);
    gemm_table_add(&gemm->table, &choice);
    struct err err = { 0 };
    if (gemm->table_path)
        gemm_table_add_to_file(gemm->table_path, &gemm->table, &err);
}

cublasStatus_t gemm_choose(const struct launch *on, const struct gemm_call *call,
                           const struct gemm_product *p, cublasLtMatmulAlgo_t *out)
{
    struct gemm_shape shape = shape_of(on->gemm, p, on->storage);
    const struct gemm_choice *known = gemm_table_find(&on->gemm->table, &shape);
    if (known) {
        memcpy(out, known->algorithm, sizeof *out);
        return CUBLAS_STATUS_SUCCESS;
    }
    struct proposals proposals;
    TRY(propose(on->gemm, call, p, &proposals));
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
    struct gemm_call call;
    struct proposals proposals;
    if (gemm_table_find(&on->gemm->table, &shape))
        return true;
    if (gemm_table_find(&on->gemm->refused, &shape))
        return false;
    bool offers = gemm_describe(&call, p, on->storage) == CUBLAS_STATUS_SUCCESS &&
                  propose(on->gemm, &call, p, &proposals) == CUBLAS_STATUS_SUCCESS &&
                  proposals.count > 0;
    if (!offers)
        refuse(on->gemm, &shape);
    return offers;
}
