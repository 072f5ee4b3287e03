/* RMSNorm of the query and key heads in packed qkv: one warp per head. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

enum { WARPS = THREADS / LANES };

/* A key-value group has its query heads, then one key head, then one value head. Queries and keys
 * are normed, values are not. */
struct head_layout {
    long head_dim, queries;
    long heads; /* number of normed heads of all tokens */
};

static struct head_layout head_layout_of(const struct attention *a)
{
    long queries = a->heads / a->kv_heads;
    return { a->head_dim, queries, a->sequences * a->seq * a->kv_heads * (queries + 1) };
}

/* Offset of a normed head in qkv. */
__device__ __forceinline__ long in_qkv(const struct head_layout &l, long head)
{
    return (head + head / (l.queries + 1)) * l.head_dim;
}

__device__ __forceinline__ bool is_key(const struct head_layout &l, long head)
{
    return head % (l.queries + 1) == l.queries;
}

__device__ __forceinline__ long own_head()
{
    return (long)blockIdx.x * WARPS + threadIdx.x / LANES;
}

template <typename T>
__global__ void head_norm_forward(struct head_norm_forward a, struct head_layout l)
{
    long head = own_head();
    if (head >= l.heads)
        return;
    T *x = (T *)a.qkv + in_qkv(l, head), *kept = (T *)a.inputs + head * l.head_dim;
    const T *gamma = (const T *)a.scale + (is_key(l, head) ? l.head_dim : 0);
    float squares = 0;
    for (long i = threadIdx.x % LANES; i < l.head_dim; i += LANES)
        squares += value_of(x[i]) * value_of(x[i]);
    squares = reduce_warp(squares, add());
    float rstd = 1 / sqrtf(squares / (float)l.head_dim + a.epsilon);
    for (long i = threadIdx.x % LANES; i < l.head_dim; i += LANES) {
        kept[i] = x[i];
        store(x + i, value_of(x[i]) * rstd * value_of(gamma[i]));
    }
    if (threadIdx.x % LANES == 0)
        a.statistics[head] = rstd;
}

/* dx = rstd (g - xhat mean(g xhat)) with g = dy gamma and xhat = x rstd. */
template <typename T>
__global__ void head_norm_backward(struct head_norm_backward a, struct head_layout l)
{
    long head = own_head();
    if (head >= l.heads)
        return;
    T *d = (T *)a.dqkv + in_qkv(l, head);
    const T *x = (const T *)a.inputs + head * l.head_dim;
    const T *gamma = (const T *)a.scale + (is_key(l, head) ? l.head_dim : 0);
    float rstd = a.statistics[head], sum = 0;
    for (long i = threadIdx.x % LANES; i < l.head_dim; i += LANES)
        sum += value_of(d[i]) * value_of(gamma[i]) * value_of(x[i]);
    float mean_g_xhat = reduce_warp(sum, add()) * rstd / (float)l.head_dim;
    for (long i = threadIdx.x % LANES; i < l.head_dim; i += LANES) {
        float xhat = value_of(x[i]) * rstd;
        store(d + i, rstd * (value_of(d[i]) * value_of(gamma[i]) - xhat * mean_g_xhat));
    }
}

/* Terms of the gradient of one gamma, either that of the queries or that of the keys. It applies to
 * `count` heads, from head `first` on, in each key-value group. In qkv, a group also has a value
 * head, which adds one head per group to the offset. */
template <typename T> struct head_terms {
    struct head_norm_backward a;
    struct head_layout l;
    long first, count;

    __device__ void operator()(long group, long column, float out[][1]) const
    {
        long head = group * (l.queries + 1) + first, end = head + count;
        out[0][0] = 0;
        for (; head < end; head++) {
            float x = value_of(((const T *)a.inputs)[head * l.head_dim + column]);
            float d = value_of(((const T *)a.dqkv)[(head + group) * l.head_dim + column]);
            out[0][0] += d * x * a.statistics[head];
        }
    }
};

cudaError_t launch_head_norm_forward(const struct launch *on, const struct head_norm_forward *a)
{
    struct head_layout l = head_layout_of(&a->attention);
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, { .blocks = ceil_div(l.heads, WARPS), .threads = THREADS },
                        head_norm_forward<decltype(type)>, *a, l);
    });
}

/* The weights' gradients are computed first, as dqkv is overwritten after that. */
template <typename T>
static cudaError_t backward(const struct launch *on, const struct head_norm_backward &a)
{
    struct head_layout l = head_layout_of(&a.attention);
    long groups = l.heads / (l.queries + 1);
    float *dquery = a.dscale, *dkey = a.dscale + l.head_dim;
    head_terms<T> of_queries = { a, l, 0, l.queries }, of_keys = { a, l, l.queries, 1 };
    cudaError_t error = add_column_sums<1, 1>(on, groups, l.head_dim, of_queries, &dquery);
    if (error == cudaSuccess)
        error = add_column_sums<1, 1>(on, groups, l.head_dim, of_keys, &dkey);
    if (error != cudaSuccess)
        return error;
    return run_grid(on, { .blocks = ceil_div(l.heads, WARPS), .threads = THREADS },
                    head_norm_backward<T>, a, l);
}

cudaError_t launch_head_norm_backward(const struct launch *on, const struct head_norm_backward *a)
{
    return by_storage(on->storage, [&](auto type) { return backward<decltype(type)>(on, *a); });
}
