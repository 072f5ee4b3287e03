/* kernels/cuda/column_sums.cuh - column sums of matrices, in fp32 and a fixed order, for gradients
 * of weights that apply to every row (biases, norms).
 *
 * Rows are cut into slices; each slice's sums go to the workspace, and are then added in order. */
#ifndef KERNELS_CUDA_COLUMN_SUMS_CUH
#define KERNELS_CUDA_COLUMN_SUMS_CUH

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

enum { SLICE_WARPS = 8, LEAST_SLICE_ROWS = 32, MOST_SLICES = 64 };

/* Sums a slice of rows into slices[num_slices, K, width]. A warp has LANES x N columns and every
 * SLICE_WARPS-th row of its slice. terms(row, column, out) gives K terms for each of the N columns
 * from `column` on. */
template <int K, int N, typename Terms>
__global__ void sum_slice(long rows, long width, Terms terms, float *slices)
{
    float(*parts)[LANES] = (float(*)[LANES])shared_memory(); /* [SLICE_WARPS][LANES] */
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    long column = ((long)blockIdx.x * LANES + lane) * N;
    long slice_rows = (rows + gridDim.y - 1) / gridDim.y;
    long first = blockIdx.y * slice_rows;
    long end = first + slice_rows < rows ? first + slice_rows : rows;
    float sums[K][N] = {};
    for (long row = first + warp; row < end && column < width; row += SLICE_WARPS) {
        float term[K][N];
        terms(row, column, term);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                sums[k][j] += term[k][j];
    }
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) {
            parts[warp][lane] = sums[k][j];
            __syncthreads();
            float sum = 0;
            for (int w = 0; w < SLICE_WARPS; w++)
                sum += parts[w][lane];
            if (warp == 0 && column < width)
                slices[((long)blockIdx.y * K + k) * width + column + j] = sum;
            __syncthreads();
        }
}

/* sums += the slices' sums, for one of the K kinds of terms. A warp has LANES columns of every
 * SLICE_WARPS-th slice. */
template <int K>
__global__ void add_slices(int num_slices, long width, const float *slices, float *sums)
{
    float(*parts)[LANES] = (float(*)[LANES])shared_memory(); /* [SLICE_WARPS][LANES] */
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    long column = (long)blockIdx.x * LANES + lane;
    float sum = 0;
    for (int slice = warp; slice < num_slices && column < width; slice += SLICE_WARPS)
        sum += slices[(long)slice * K * width + column];
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= width)
        return;
    sum = 0;
    for (int w = 0; w < SLICE_WARPS; w++)
        sum += parts[w][lane];
    sums[column] += sum;
}

enum { SLICE_SHARED_BYTES = SLICE_WARPS * LANES * (int)sizeof(float) };

/* sums[k][width] += the slices in the workspace, which are [num_slices, K, width]. */
template <int K>
cudaError_t add_all_slices(const struct launch *on, int num_slices, long width, float *const *sums)
{
    struct grid grid = { .blocks = ceil_div(width, LANES),
                         .threads = SLICE_WARPS * LANES,
                         .shared_bytes = SLICE_SHARED_BYTES };
    cudaError_t error = cudaSuccess;
    for (int k = 0; k < K && error == cudaSuccess; k++)
        error = run_grid(on, grid, add_slices<K>, num_slices, width,
                         (const float *)on->workspace + k * width, sums[k]);
    return error;
}

/* sums[k][width] += the k-th terms of all rows. width is a multiple of N. */
template <int K, int N, typename Terms>
cudaError_t add_column_sums(const struct launch *on, long rows, long width, const Terms &terms,
                            float *const *sums)
{
    if (rows == 0 || width == 0)
        return cudaSuccess;
    long num_slices = least(ceil_div(rows, LEAST_SLICE_ROWS), MOST_SLICES);
    num_slices = least(num_slices, WORKSPACE_BYTES / (K * width * (long)sizeof(float)));
    if (num_slices == 0)
        return cudaErrorInvalidValue;
    float *slices = (float *)on->workspace;
    struct grid grid = { .blocks = ceil_div(width, LANES * N),
                         .threads = SLICE_WARPS * LANES,
                         .shared_bytes = SLICE_SHARED_BYTES,
                         .blocks_y = (int)num_slices };
    cudaError_t error = run_grid(on, grid, sum_slice<K, N, Terms>, rows, width, terms, slices);
    return error == cudaSuccess ? add_all_slices<K>(on, (int)num_slices, width, sums) : error;
}

#endif
