/* Fused attention for any head size and storage: one warp per query (or key), which passes over the
 * keys (or queries) one at a time; each lane has every 32nd dimension. Used for fp32 and for shapes
 * that tiles do not support. */
#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/reduce.cuh"

namespace
{

enum { WARPS = THREADS / LANES };

__device__ __forceinline__ int lane()
{
    return (int)threadIdx.x % LANES;
}

/* Row `which` of the warp's `count` rows of sums in shared memory. */
__device__ __forceinline__ float *own_sums(long head_dim, int count, int which)
{
    float *sums = (float *)shared_memory();
    sums += ((threadIdx.x / LANES) * (unsigned)count + (unsigned)which) * (unsigned)head_dim;
    for (long i = lane(); i < head_dim; i += LANES)
        sums[i] = 0;
    return sums;
}

template <typename T> __device__ __forceinline__ float dot(long n, const T *x, const T *y)
{
    float sum = 0;
    for (long i = lane(); i < n; i += LANES)
        sum += value_of(x[i]) * value_of(y[i]);
    return reduce_warp(sum, add());
}

/* sums = rescale sums + factor x */
template <typename T>
__device__ __forceinline__ void accumulate(long n, float rescale, float factor, const T *x,
                                           float *sums)
{
    for (long i = lane(); i < n; i += LANES)
        sums[i] = rescale * sums[i] + factor * value_of(x[i]);
}

template <typename T>
__device__ __forceinline__ void store_sums(long n, float factor, const float *sums, T *to)
{
    for (long i = lane(); i < n; i += LANES)
        store(to + i, factor * sums[i]);
}

struct plain_args {
    struct attention attention;
    struct dropper dropper;
    float scale;
};

static struct plain_args plain_args_of(const struct attention &a)
{
    return { a, dropper_of(a.dropout.draw, a.dropout.dropout), score_scale(a) };
}

/* The factor by which dropout multiplies a probability. */
__device__ __forceinline__ float kept(const plain_args &p, long sequence, long head, long query,
                                      long key)
{
    if (p.attention.dropout.dropout == 0)
        return 1;
    bool is_kept;
    uint64_t first = first_probability(p.attention, sequence, head, query);
    draw_keeps_of<1>(p.dropper, first + (uint64_t)key, &is_kept);
    return is_kept ? p.dropper.kept_scale : 0;
}

/* The index of this warp's row, counted over the grid. */
__device__ __forceinline__ long own_row()
{
    return (long)blockIdx.x * WARPS + threadIdx.x / LANES;
}

template <typename T> __global__ void forward_query(struct flash_forward a, struct plain_args p)
{
    long seq = a.attention.seq, heads = a.attention.heads, n = a.attention.head_dim;
    long row = own_row(), query = row % seq, head = row / seq % heads, sequence = row / seq / heads;
    if (sequence >= a.attention.sequences)
        return;
    head_place at = head_at(a.attention, sequence, head);
    const T *qkv = (const T *)a.qkv, *q = qkv + at.query + query * at.qkv_stride;
    float *sums = own_sums(n, 1, 0), most = -INFINITY, sum = 0;
    for (long key = 0; key <= query; key++) {
        float score = p.scale * dot(n, q, qkv + at.key + key * at.qkv_stride);
        float larger = fmaxf(most, score), rescale = expf(most - larger);
        float probability = expf(score - larger);
        sum = sum * rescale + probability;
        accumulate(n, rescale, probability * kept(p, sequence, head, query, key),
                   qkv + at.value + key * at.qkv_stride, sums);
        most = larger;
    }
    store_sums(n, 1 / sum, sums, (T *)a.context + at.context + query * at.context_stride);
    if (lane() == 0)
        a.log_sums[at.row + query] = most + logf(sum);
}

/* For one query and one key of a head: the dropped probability, and the gradient of the scaled
 * score. */
struct pair {
    float dropped, dscore;
};

template <typename T>
__device__ __forceinline__ pair pair_at(const struct flash_backward &a, const plain_args &p,
                                        const float *row_dots, const head_place &at, long sequence,
                                        long head, long query, long key)
{
    const T *qkv = (const T *)a.qkv;
    long n = a.attention.head_dim, row = at.row + query, key_at = key * at.qkv_stride;
    float score = p.scale * dot(n, qkv + at.query + query * at.qkv_stride, qkv + at.key + key_at);
    float gradient = dot(n, (const T *)a.dcontext + at.context + query * at.context_stride,
                         qkv + at.value + key_at);
    float probability = expf(score - a.log_sums[row]);
    float factor = kept(p, sequence, head, query, key);
    return { factor * probability, probability * (factor * gradient - row_dots[row]) };
}

template <typename T>
__global__ void query_gradient(struct flash_backward a, struct plain_args p, const float *row_dots)
{
    long seq = a.attention.seq, heads = a.attention.heads, n = a.attention.head_dim;
    long row = own_row(), query = row % seq, head = row / seq % heads, sequence = row / seq / heads;
    if (sequence >= a.attention.sequences)
        return;
    head_place at = head_at(a.attention, sequence, head);
    float *sums = own_sums(n, 1, 0);
    for (long key = 0; key <= query; key++) {
        pair pair = pair_at<T>(a, p, row_dots, at, sequence, head, query, key);
        accumulate(n, 1, pair.dscore, (const T *)a.qkv + at.key + key * at.qkv_stride, sums);
    }
    store_sums(n, p.scale, sums, (T *)a.dqkv + at.query + query * at.qkv_stride);
}

template <typename T>
__global__ void key_gradient(struct flash_backward a, struct plain_args p, const float *row_dots)
{
    long seq = a.attention.seq, groups = a.attention.kv_heads, n = a.attention.head_dim;
    long row = own_row(), key = row % seq, group = row / seq % groups,
         sequence = row / seq / groups;
    if (sequence >= a.attention.sequences)
        return;
    long queries = a.attention.heads / groups;
    float *dkey = own_sums(n, 2, 0), *dvalue = own_sums(n, 2, 1);
    head_place at = head_at(a.attention, sequence, group * queries);
    for (long head = group * queries; head < (group + 1) * queries; head++) {
        at = head_at(a.attention, sequence, head); /* the next head with the same key and value */
        for (long query = key; query < seq; query++) {
            pair pair = pair_at<T>(a, p, row_dots, at, sequence, head, query, key);
            accumulate(n, 1, pair.dscore, (const T *)a.qkv + at.query + query * at.qkv_stride,
                       dkey);
            accumulate(n, 1, pair.dropped,
                       (const T *)a.dcontext + at.context + query * at.context_stride, dvalue);
        }
    }
    store_sums(n, p.scale, dkey, (T *)a.dqkv + at.key + key * at.qkv_stride);
    store_sums(n, 1, dvalue, (T *)a.dqkv + at.value + key * at.qkv_stride);
}

/* A grid with a warp for each of `rows`; each warp has `sums` rows of sums in shared memory. */
static struct grid grid_of_warps(const struct attention &a, long rows, long sums)
{
    return { .blocks = ceil_div(rows, WARPS),
             .threads = THREADS,
             .shared_bytes = WARPS * (size_t)(sums * a.head_dim) * sizeof(float) };
}

} // namespace

cudaError_t flash_plain_forward(const struct launch *on, const struct flash_forward &a)
{
    const struct attention &at = a.attention;
    struct grid grid = grid_of_warps(at, at.sequences * at.heads * at.seq, 1);
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid, forward_query<decltype(type)>, a, plain_args_of(at));
    });
}

cudaError_t flash_plain_backward(const struct launch *on, const struct flash_backward &a,
                                 const float *row_dots)
{
    const struct attention &at = a.attention;
    struct grid queries = grid_of_warps(at, at.sequences * at.heads * at.seq, 1);
    struct grid keys = grid_of_warps(at, at.sequences * at.kv_heads * at.seq, 2);
    struct plain_args p = plain_args_of(at);
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        cudaError_t error = run_grid(on, queries, query_gradient<T>, a, p, row_dots);
        return error == cudaSuccess ? run_grid(on, keys, key_gradient<T>, a, p, row_dots) : error;
    });
}
