/* LayerNorm and RMSNorm. */
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/norm.cuh"

template <typename T, int N, bool is_centered>
__global__ void norm_forward_row(struct norm_forward a)
{
    normalise_row<T, N, is_centered>(a, blockIdx.x, (float *)shared_memory());
}

/* A row's statistics, as the forward saved them. */
struct row_statistics {
    float mean, rstd;
};

template <bool is_centered>
__device__ __forceinline__ row_statistics statistics_at(const struct norm_backward &a, long row)
{
    if (is_centered)
        return { a.statistics[row], a.statistics[a.norm.rows + row] };
    return { 0, a.statistics[row] };
}

/* With g = dy gamma and xhat = (x - mean) rstd: dx = rstd (g - mean(g) - xhat mean(g xhat)),
 * without mean(g) when x was not centered. */
template <typename T, int N, bool is_centered>
__global__ void norm_backward_row(struct norm_backward a)
{
    float *parts = (float *)shared_memory();
    long row = blockIdx.x, width = a.norm.width;
    const T *x = (const T *)a.x + row * width, *dy = (const T *)a.dy + row * width;
    const T *gamma = (const T *)a.scale;
    const T *stream = a.stream ? (const T *)a.stream + row * width : NULL;
    T *dx = (T *)a.dx + row * width;
    row_statistics s = statistics_at<is_centered>(a, row);
    float sum_g = 0, covariance = 0;
    for (long i = (long)threadIdx.x * N; i < width; i += (long)blockDim.x * N) {
        float d[N], g[N], v[N], sum = 0, products = 0;
        load_values<N>(dy + i, d);
        load_values<N>(gamma + i, g);
        load_values<N>(x + i, v);
        for (int j = 0; j < N; j++) {
            sum += d[j] * g[j];
            products += d[j] * g[j] * (v[j] - s.mean);
        }
        sum_g += sum;
        covariance += products;
    }
    float mean_g = is_centered ? reduce_block(sum_g, 0.0F, add(), parts) / (float)width : 0;
    covariance = reduce_block(covariance, 0.0F, add(), parts);
    float mean_g_xhat = covariance * s.rstd / (float)width;
    for (long i = (long)threadIdx.x * N; i < width; i += (long)blockDim.x * N) {
        float d[N], g[N], v[N], others[N] = {};
        load_values<N>(dy + i, d);
        load_values<N>(gamma + i, g);
        load_values<N>(x + i, v);
        if (stream)
            load_values<N>(stream + i, others);
        for (int j = 0; j < N; j++) {
            float xhat = (v[j] - s.mean) * s.rstd;
            d[j] = s.rstd * (d[j] * g[j] - mean_g - xhat * mean_g_xhat) + others[j];
        }
        store_values<N>(dx + i, d);
    }
}

/* Terms of the gradients of gamma and, when x was centered, of beta. */
template <typename T, int N, bool is_centered> struct norm_terms {
    struct norm_backward a;

    __device__ void operator()(long row, long column, float out[][N]) const
    {
        long at = row * a.norm.width + column;
        row_statistics s = statistics_at<is_centered>(a, row);
        float d[N], v[N];
        load_values<N>((const T *)a.dy + at, d);
        load_values<N>((const T *)a.x + at, v);
        for (int j = 0; j < N; j++) {
            out[0][j] = d[j] * (v[j] - s.mean) * s.rstd;
            if (is_centered)
                out[1][j] = d[j];
        }
    }
};

template <typename T, int N>
static cudaError_t forward(const struct launch *on, const struct norm_forward &a)
{
    return a.kind == NORM_LAYER
               ? run_grid(on, grid_of_norm_rows(a.norm, N), norm_forward_row<T, N, true>, a)
               : run_grid(on, grid_of_norm_rows(a.norm, N), norm_forward_row<T, N, false>, a);
}

cudaError_t launch_norm_forward(const struct launch *on, const struct norm_forward *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(a->norm.width, a->x, a->scale, a->shift, a->y);
        return by_lanes<T>(is_aligned, [&](auto n) { return forward<T, n.count>(on, *a); });
    });
}

/* The weights' gradients are computed first, as dx may be dy. */
template <typename T, int N, bool is_centered>
static cudaError_t backward(const struct launch *on, const struct norm_backward &a)
{
    norm_terms<T, N, is_centered> terms = { a };
    float *const sums[] = { a.dscale, a.dshift };
    cudaError_t error = add_column_sums < is_centered ? 2 : 1,
                N > (on, a.norm.rows, a.norm.width, terms, sums);
    if (error != cudaSuccess)
        return error;
    return run_grid(on, grid_of_norm_rows(a.norm, N), norm_backward_row<T, N, is_centered>, a);
}

cudaError_t launch_norm_backward(const struct launch *on, const struct norm_backward *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned =
            rows_are_aligned<T>(a->norm.width, a->dy, a->x, a->scale, a->dx, a->stream);
        return by_lanes<T>(is_aligned, [&](auto n) {
            constexpr int N = n.count;
            return a->kind == NORM_LAYER ? backward<T, N, true>(on, *a)
                                         : backward<T, N, false>(on, *a);
        });
    });
}
