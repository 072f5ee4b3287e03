/* LayerNorm and RMSNorm. The backward reads its rows once and keeps them in registers, where they
 * fit. Wider rows, and rows that are not aligned, go through two kernels: one for the weights'
 * gradients and one for dx. */
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

/* --- the backward in one pass
 * ------------------------------------------------------------------- */

/* A block has several rows at once, each with row_threads threads, which are whole warps. A thread
 * has the same C runs of N columns in every row that it processes, and sums the terms of their
 * weights' gradients. */
enum { NORM_THREADS = 512, NORM_WARPS = NORM_THREADS / LANES };
enum {
    LEAST_TURNS = 4
}; /* least number of rows per block and thread group, so that a block writes
      fewer bytes of sums than it reads of rows */

/* Threads of a block, and blocks that a multiprocessor should hold at once. Threads with one run
 * need half as many registers, so twice as many blocks fit. */
template <int C> constexpr int THREADS_OF_BLOCK = C == 1 ? NORM_THREADS / 2 : NORM_THREADS;
template <int C> constexpr int BLOCKS_AT_ONCE = C == 1 ? 3 : 1;

struct norm_sums {
    float g, covariance;
};

/* The sums over a row. `parts` has a value for each warp of the block. Consecutive rows use two
 * such arrays in turn, so that one barrier per row is enough. */
__device__ __forceinline__ norm_sums sum_over_row(norm_sums own, int row_warps, norm_sums *parts)
{
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    own.g = reduce_warp(own.g, add());
    own.covariance = reduce_warp(own.covariance, add());
    if (lane == 0)
        parts[warp] = own;
    __syncthreads();
    norm_sums other = { 0, 0 };
    if (lane < row_warps)
        other = parts[warp / row_warps * row_warps + lane];
    return { reduce_warp(other.g, add()), reduce_warp(other.covariance, add()) };
}

/* The sum of a thread's value over the rows of the block, for the threads of the first row. */
__device__ __forceinline__ float sum_over_block(float value, int row_threads, float *values)
{
    __syncthreads();
    values[threadIdx.x] = value;
    __syncthreads();
    float sum = 0;
    for (int i = (int)threadIdx.x % row_threads; i < (int)blockDim.x; i += row_threads)
        sum += values[i];
    return sum;
}

/* Writes the block's sums of the terms of gamma and beta to slices[blocks, 2 or 1, width]. */
template <typename T, int N, int C, bool is_centered>
__global__ void __launch_bounds__(THREADS_OF_BLOCK<C>, BLOCKS_AT_ONCE<C>)
    norm_backward_rows(struct norm_backward a, int row_threads, float *slices)
{
    typedef neighbours<T, N> run;
    constexpr int K = is_centered ? 2 : 1;
    norm_sums(*parts)[NORM_WARPS] = (norm_sums(*)[NORM_WARPS])shared_memory(); /* of two rows */
    int rows_at_once = (int)blockDim.x / row_threads, turn = 0;
    long width = a.norm.width, first = (long)((int)threadIdx.x % row_threads) * N;
    float dgamma[C][N] = {}, dbeta[C][N] = {};
    for (long row0 = (long)blockIdx.x * rows_at_once; row0 < a.norm.rows;
         row0 += (long)gridDim.x * rows_at_once, turn = !turn) {
        long row = row0 + (int)threadIdx.x / row_threads, at = row * width;
        bool is_there = row < a.norm.rows;
        row_statistics s = statistics_at<is_centered>(a, is_there ? row : row0);
        run x[C], dy[C]; /* in the storage type, which needs fewer registers */
        norm_sums sums = { 0, 0 };
#pragma unroll
        for (int c = 0; c < C; c++) {
            long i = first + (long)c * row_threads * N;
            if (!is_there || i >= width)
                continue;
            float g[N];
            dy[c] = *reinterpret_cast<const run *>((const T *)a.dy + at + i);
            x[c] = *reinterpret_cast<const run *>((const T *)a.x + at + i);
            load_values<N>((const T *)a.scale + i, g);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float d = value_of(dy[c].at[j]), v = value_of(x[c].at[j]) - s.mean;
                sums.g += d * g[j];
                sums.covariance += d * g[j] * v;
                dgamma[c][j] += d * v * s.rstd;
                dbeta[c][j] += d;
            }
        }
        sums = sum_over_row(sums, row_threads / LANES, parts[turn]);
        float mean_g = is_centered ? sums.g / (float)width : 0;
        float mean_g_xhat = sums.covariance * s.rstd / (float)width;
#pragma unroll
        for (int c = 0; c < C; c++) {
            long i = first + (long)c * row_threads * N;
            if (!is_there || i >= width)
                continue;
            float g[N], d[N], others[N] = {};
            load_values<N>((const T *)a.scale + i, g);
            if (a.stream)
                load_values<N>((const T *)a.stream + at + i, others);
#pragma unroll
            for (int j = 0; j < N; j++) {
                float xhat = (value_of(x[c].at[j]) - s.mean) * s.rstd;
                d[j] = s.rstd * (value_of(dy[c].at[j]) * g[j] - mean_g - xhat * mean_g_xhat) +
                       others[j];
            }
            store_values<N>((T *)a.dx + at + i, d);
        }
    }
#pragma unroll
    for (int c = 0; c < C; c++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                float sum = sum_over_block(k == 0 ? dgamma[c][j] : dbeta[c][j], row_threads,
                                           (float *)shared_memory());
                long i = first + (long)c * row_threads * N;
                if ((int)threadIdx.x < row_threads && i < width)
                    slices[((long)blockIdx.x * K + k) * width + i + j] = sum;
            }
}

/* The largest number of runs that fits in registers; centered rows also have the sums of beta. */
template <bool is_centered> constexpr int MOST_RUNS = is_centered ? 3 : 4;

template <typename T, int N, int C, bool is_centered>
static cudaError_t backward_at_once(const struct launch *on, const struct norm_backward &a)
{
    constexpr int K = is_centered ? 2 : 1;
    long width = a.norm.width, row_threads = ceil_div(width, (long)N * C * LANES) * LANES;
    long rows_at_once = THREADS_OF_BLOCK<C> / row_threads;
    long most = least(BLOCKS_AT_ONCE<C> * launch_num_processors(on),
                      WORKSPACE_BYTES / (K * width * (long)sizeof(float)));
    struct grid grid = { .blocks = least(ceil_div(a.norm.rows, rows_at_once * LEAST_TURNS), most),
                         .threads = (int)(row_threads * rows_at_once),
                         .shared_bytes = NORM_THREADS * sizeof(float) };
    static_assert(NORM_THREADS * sizeof(float) >= 2 * NORM_WARPS * sizeof(norm_sums), "");
    float *const sums[] = { a.dscale, a.dshift };
    cudaError_t error = run_grid(on, grid, norm_backward_rows<T, N, C, is_centered>, a,
                                 (int)row_threads, (float *)on->workspace);
    return error == cudaSuccess && grid.blocks > 0
               ? add_all_slices<K>(on, (int)grid.blocks, width, sums)
               : error;
}

/* --- launches
 * ----------------------------------------------------------------------------------- */

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
    if constexpr (N > 1) {
        constexpr int MOST = MOST_RUNS<is_centered>;
        long runs = ceil_div(a.norm.width, N);
        if (runs <= NORM_THREADS / 2)
            return backward_at_once<T, N, 1, is_centered>(on, a);
        if (runs <= 2 * NORM_THREADS)
            return backward_at_once<T, N, 2, is_centered>(on, a);
        if (runs <= MOST * NORM_THREADS)
            return backward_at_once<T, N, MOST, is_centered>(on, a);
    }
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
