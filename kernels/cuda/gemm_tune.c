/* Chooses the fastest of the algorithms that cuBLASLt proposes for a product, by timing them. The
 * choices are kept in a table and, if the caller names one, in a file. */
#include "kernels/cuda/gemm_part.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_PROPOSALS = 8, TIMED_RUNS = 3, ROUNDS = 3, MOST_ALIGNMENT_BYTES = 256 };

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
        .driver = gemm->driver,
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

/* The reduction schemes that an algorithm may use: partial sums over k must stay in fp32. With
 * split k, cuBLASLt 12.8 and 13.1 drop the remainder of some k that 64 does not divide
 * (facebookexperimental/triton#2767), and an epilogue is applied to a result that was already
 * rounded (pytorch/pytorch#180875), so such products are not split. */
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

static void leave_out_failed(struct proposals *proposals)
{
    int count = 0;
    for (int i = 0; i < proposals->count; i++)
        if (proposals->at[i].state == CUBLAS_STATUS_SUCCESS)
            proposals->at[count++] = proposals->at[i];
    proposals->count = count;
}

/* The library's proposals, best first by its estimate; at least one. */
static cublasStatus_t propose(const struct gemm *gemm, const struct gemm_call *call,
                              const struct gemm_product *p, struct proposals *out)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    struct gemm_call c = *call; /* the library takes non-const pointers */
    TRY(describe_preference(&preference, p));
    TRY(cublasLtMatmulAlgoGetHeuristic(gemm->handle, &c.product, &c.b, &c.a, &c.c, &c.c,
                                       &preference, MOST_PROPOSALS, out->at, &out->count));
    leave_out_failed(out);
    return out->count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* --- timing ------------------------------------------------------------------------------- */

static cudaError_t note_times(const struct launch *on, const struct gemm_work *work,
                              cudaEvent_t events[2])
{
    cudaError_t error = cudaEventRecord(events[0], on->stream);
    for (int i = 0; i < TIMED_RUNS && error == cudaSuccess; i++)
        error = work->issue(on, work->args);
    if (error == cudaSuccess)
        error = cudaEventRecord(events[1], on->stream);
    return error == cudaSuccess ? cudaEventSynchronize(events[1]) : error;
}

/* The minimum of ROUNDS times, as disturbances only lengthen a round. */
static bool note_rounds(const struct launch *on, const struct gemm_work *work,
                        cudaEvent_t events[2], float *least_ms)
{
    bool ok = work->issue(on, work->args) == cudaSuccess; /* the first run, slower, is not timed */
    for (int round = 0; round < ROUNDS && ok; round++) {
        float ms = 0;
        ok = note_times(on, work, events) == cudaSuccess &&
             cudaEventElapsedTime(&ms, events[0], events[1]) == cudaSuccess;
        *least_ms = ok && ms < *least_ms ? ms : *least_ms;
    }
    return ok;
}

/* Milliseconds of TIMED_RUNS runs; infinity when the work cannot run. */
static float work_ms(const struct launch *on, const struct gemm_work *work)
{
    float ms = INFINITY;
    cudaEvent_t events[2] = { NULL, NULL };
    bool ran = cudaEventCreate(&events[0]) == cudaSuccess &&
               cudaEventCreate(&events[1]) == cudaSuccess && note_rounds(on, work, events, &ms);
    for (int i = 0; i < 2; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    return ran ? ms : INFINITY;
}

/* A product with one of its proposed algorithms. */
struct attempt {
    const struct gemm_call *call;
    const struct gemm_product *product;
    void *to;
    const cublasLtMatmulAlgo_t *algorithm;
};

static cudaError_t issue_attempt(const struct launch *on, const void *args)
{
    const struct attempt *a = args;
    cublasStatus_t status = gemm_multiply(on, a->call, a->product, a->to, a->algorithm);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

static float attempt_ms(const struct launch *on, const struct attempt *attempt)
{
    return work_ms(on, &(struct gemm_work){ issue_attempt, attempt });
}

static size_t result_bytes(const struct gemm_product *p)
{
    long values = (p->batch - 1) * p->c_step + (p->m - 1) * p->c_stride + p->n;
    return (size_t)values * stored_bytes(p->c_dtype);
}

/* A product to time, with memory for its result. `part` is the whole product, or as many of its
 * first rows as free memory holds, at least a sixteenth. `times` is the number of rows of the whole
 * product divided by the number of rows of `part`. */
struct room {
    struct gemm_product part;
    struct gemm_call call; /* result of the part */
    void *to;
    float times;
};

/* Allocates in stream order, as cudaMalloc might wait for communication. */
static bool take_memory(const struct launch *on, struct room *room)
{
    room->to = room->part.c;
    if (!room->part.is_added ||
        cudaMallocAsync(&room->to, result_bytes(&room->part), on->stream) == cudaSuccess)
        return true;
    (void)cudaGetLastError(); /* clears the error, as lack of memory is no failure */
    return false;
}

static void leave_room(const struct launch *on, const struct room *room)
{
    if (room->part.is_added)
        cudaFreeAsync(room->to, on->stream);
}

static bool find_room(const struct launch *on, const struct gemm_product *p, struct room *room)
{
    enum { LEAST_PART = 16 };
    room->part = *p;
    bool is_found = take_memory(on, room);
    for (long m = p->m / 2; !is_found && p->batch == 1 && m > 0 && m >= p->m / LEAST_PART; m /= 2) {
        room->part.m = m;
        is_found = take_memory(on, room);
    }
    room->times = (float)p->m / (float)room->part.m;
    if (!is_found || gemm_describe(&room->call, &room->part, on->storage) == CUBLAS_STATUS_SUCCESS)
        return is_found;
    leave_room(on, room);
    return false;
}

static bool is_captured(const struct launch *on)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(on->stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

/* --- choosing ----------------------------------------------------------------------------- */

/* Index of the best proposal (-1: none works), and its time (infinity: not timed). */
struct tuned {
    int best;
    float ms;
};

static float room_ms(const struct launch *on, const struct room *room,
                     const cublasLtMatmulAlgo_t *algorithm)
{
    return room->times *
           attempt_ms(on, &(struct attempt){ &room->call, &room->part, room->to, algorithm });
}

static struct tuned fastest(const struct launch *on, const struct room *room,
                            const struct proposals *proposals)
{
    struct tuned tuned = { -1, INFINITY };
    for (int i = 0; i < proposals->count; i++) {
        float ms = room_ms(on, room, &proposals->at[i].algo);
        if (ms < tuned.ms)
            tuned = (struct tuned){ i, ms };
    }
    return tuned;
}

/* Times the proposals; uses the library's first when timing is not possible. An algorithm that
 * does not work for a part of the product may work for the whole. */
static struct tuned tune(const struct launch *on, const struct gemm_product *p,
                         const struct proposals *proposals)
{
    struct room room;
    if (is_captured(on) || !find_room(on, p, &room))
        return (struct tuned){ 0, INFINITY };
    struct tuned tuned = fastest(on, &room, proposals);
    leave_room(on, &room);
    bool is_part = room.part.m < p->m;
    return tuned.best < 0 && is_part ? (struct tuned){ 0, INFINITY } : tuned;
}

/* The time of the product without a_sums (gemm.h: the row sums of operand a), plus the time of
 * `pass`, which computes these sums separately. */
static float apart_ms(const struct launch *on, const struct gemm_product *p,
                      const struct gemm_work *pass)
{
    struct gemm_product plain = *p;
    struct gemm_call call;
    cublasLtMatmulAlgo_t algorithm;
    struct room room;
    plain.a_sums = NULL;
    if (gemm_describe(&call, &plain, on->storage) != CUBLAS_STATUS_SUCCESS ||
        gemm_choose(on, &call, &plain, &algorithm) != CUBLAS_STATUS_SUCCESS ||
        !find_room(on, &plain, &room))
        return INFINITY;
    float ms = room_ms(on, &room, &algorithm);
    leave_room(on, &room);
    return ms + work_ms(on, pass);
}

/* A file that cannot be written is no failure: the next run tunes again. */
static void keep_in_file(struct gemm *gemm, const struct gemm_choice *choice)
{
    struct err err = { 0 };
    gemm_table_add(&gemm->table, choice);
    if (gemm->table_path)
        gemm_table_add_to_file(gemm->table_path, &gemm->table, &err);
}

static cublasStatus_t choose_anew(const struct launch *on, const struct gemm_call *call,
                                  const struct gemm_product *p, struct gemm_choice *choice,
                                  float *ms)
{
    struct proposals proposals;
    TRY(propose(on->gemm, call, p, &proposals));
    struct tuned tuned = tune(on, p, &proposals);
    if (tuned.best < 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const cublasLtMatmulHeuristicResult_t *chosen = &proposals.at[tuned.best];
    static_assert(sizeof choice->algorithm == sizeof chosen->algo, "a line holds an algorithm");
    memcpy(choice->algorithm, &chosen->algo, sizeof choice->algorithm);
    choice->workspace_bytes = chosen->workspaceSize;
    choice->is_taken = true;
    *ms = tuned.ms;
    return CUBLAS_STATUS_SUCCESS;
}

/* The choice for a shape; NULL: none is known. */
static const struct gemm_choice *find(const struct gemm *gemm, const struct gemm_shape *shape)
{
    const struct gemm_choice *choice = gemm_table_find(&gemm->table, shape);
    return choice ? choice : gemm_table_find(&gemm->unwritten, shape);
}

static cublasStatus_t take(const struct gemm_choice *choice, cublasLtMatmulAlgo_t *out)
{
    memcpy(out, choice->algorithm, sizeof *out);
    return choice->is_taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Chooses the algorithm of a product. If `pass` is given, the choice also says whether a product
 * with a_sums is faster than one without them followed by `pass`. */
static cublasStatus_t choose(const struct launch *on, const struct gemm_call *call,
                             const struct gemm_product *p, const struct gemm_work *pass,
                             cublasLtMatmulAlgo_t *out)
{
    struct gemm_choice choice = { .shape = shape_of(on->gemm, p, on->storage) };
    const struct gemm_choice *known = find(on->gemm, &choice.shape);
    if (known)
        return take(known, out);
    float ms = INFINITY;
    cublasStatus_t status = choose_anew(on, call, p, &choice, &ms);
    bool is_timed = isfinite(ms);
    if (is_timed && pass)
        choice.is_taken = ms <= apart_ms(on, p, pass);
    if (is_timed)
        keep_in_file(on->gemm, &choice);
    else
        gemm_table_add(&on->gemm->unwritten, &choice);
    return status == CUBLAS_STATUS_SUCCESS ? take(&choice, out) : status;
}

cublasStatus_t gemm_choose(const struct launch *on, const struct gemm_call *call,
                           const struct gemm_product *p, cublasLtMatmulAlgo_t *out)
{
    return choose(on, call, p, NULL, out);
}

static bool is_taken(const struct launch *on, const struct gemm_product *p,
                     const struct gemm_work *pass)
{
    struct gemm_shape shape = shape_of(on->gemm, p, on->storage);
    const struct gemm_choice *known = find(on->gemm, &shape);
    struct gemm_call call;
    cublasLtMatmulAlgo_t algorithm;
    if (known)
        return known->is_taken;
    return gemm_describe(&call, p, on->storage) == CUBLAS_STATUS_SUCCESS &&
           choose(on, &call, p, pass, &algorithm) == CUBLAS_STATUS_SUCCESS;
}

bool gemm_offers(const struct launch *on, const struct gemm_product *p)
{
    return is_taken(on, p, NULL);
}

bool gemm_sums_pay(const struct launch *on, const struct gemm_product *p,
                   const struct gemm_work *pass)
{
    return is_taken(on, p, pass);
}
