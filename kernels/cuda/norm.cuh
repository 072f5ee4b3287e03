/* kernels/cuda/norm.cuh - LayerNorm or RMSNorm of one row per block, which rereads the row from the
 * cache for each pass. */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

extern "C" {
#include "models/model.h"
}

enum { PARTS_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(float) };

/* One block per row, with only as many warps as have work, so that more rows run at once. */
inline struct grid grid_of_norm_rows(const struct norm &norm, int lanes)
{
    long warps = ceil_div(norm.width, (long)LANES * lanes);
    return { .blocks = norm.rows,
             .threads = (int)least(warps * LANES, THREADS),
             .shared_bytes = PARTS_BYTES };
}

/* A thread reads the N values at its index and at whole block strides after it, the same values in
 * each pass. `parts` is shared memory of PARTS_BYTES. */
template <typename T, int N, bool is_centered>
__device__ __forceinline__ void normalise_row(const struct norm_forward &a, long row, float *parts)
{
    long width = a.norm.width;
    const T *x = (const T *)a.x + row * width, *gamma = (const T *)a.scale;
    const T *beta = (const T *)a.shift;
    T *y = (T *)a.y + row * width;
    float mean = 0;
    if (is_centered)
        mean = sum_row<N>(width, parts,
                          [&](long i) {
                              float v[N], sum = 0;
                              load_values<N>(x + i, v);
                              for (int j = 0; j < N; j++)
                                  sum += v[j];
                              return sum;
                          }) /
               (float)width;
    float squares = sum_row<N>(width, parts, [&](long i) {
        float v[N], sum = 0;
        load_values<N>(x + i, v);
        for (int j = 0; j < N; j++)
            sum += (v[j] - mean) * (v[j] - mean);
        return sum;
    });
    float rstd = 1 / sqrtf(squares / (float)width + a.norm.epsilon);
    for (long i = (long)threadIdx.x * N; i < width; i += (long)blockDim.x * N) {
        float v[N], g[N], b[N] = {};
        load_values<N>(x + i, v);
        load_values<N>(gamma + i, g);
        if (is_centered)
            load_values<N>(beta + i, b);
        for (int j = 0; j < N; j++)
            v[j] = (v[j] - mean) * rstd * g[j] + b[j];
        store_values<N>(y + i, v);
    }
    if (threadIdx.x == 0) {
        if (is_centered)
            a.statistics[row] = mean;
        a.statistics[is_centered ? a.norm.rows + row : row] = rstd;
    }
}

#endif
