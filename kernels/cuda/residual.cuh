/* kernels/cuda/residual.cuh - bias, dropout and the sum with the residual stream. */
#ifndef KERNELS_CUDA_RESIDUAL_CUH
#define KERNELS_CUDA_RESIDUAL_CUH

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/philox.cuh"

/* The index of the first element, counted over the global batch. */
__device__ __forceinline__ uint64_t first_element(const struct residual &r)
{
    uint64_t sequences = r.draw.place ? r.draw.place->first_sequence : 0;
    return (sequences * (uint64_t)r.seq + r.first_row) * (uint64_t)r.width;
}

/* Adds N values of a row from `column` on. */
template <typename T, int N, bool drops>
__device__ __forceinline__ void add_residual(const struct residual_args &a,
                                             const struct dropper &dropper, long row, long column)
{
    long at = row * a.residual.width + column;
    float v[N], bias[N] = {}, h[N] = {};
    load_values<N>((const T *)a.x + at, v);
    if (a.bias)
        load_values<N>((const T *)a.bias + column, bias);
    if (a.h)
        load_values<N>((const T *)a.h + at, h); /* loaded early, as the load cannot move before
                                                   dropout's store */
    for (int j = 0; j < N; j++)
        v[j] += bias[j];
    if (drops) {
        neighbours<uint8_t, N> keeps;
        bool is_kept[N];
        draw_keeps_of<N>(dropper, first_element(a.residual) + (uint64_t)at, is_kept);
        for (int j = 0; j < N; j++) {
            keeps.at[j] = is_kept[j];
            v[j] = is_kept[j] ? v[j] * dropper.kept_scale : 0;
        }
        *reinterpret_cast<neighbours<uint8_t, N> *>(a.keeps + at) = keeps;
    }
    for (int j = 0; j < N; j++)
        v[j] += h[j];
    store_values<N>((T *)a.y + at, v);
}

#endif
