/* The CUDA kernel of a weighted sum of two arrays. */
#include "kernels/cuda/grid.cuh"

/* Rounds after each operation, as on the host; a fused multiply-add would give other bits. */
template <int N> __global__ void combine_elements(struct combine_args a)
{
    long at = own_element<N>();
    if (at >= a.n)
        return;
    float x[N], y[N];
    load_values<N>(a.x + at, x);
    load_values<N>(a.y + at, y);
    for (int j = 0; j < N; j++)
        x[j] = __fadd_rn(__fmul_rn(a.a, x[j]), __fmul_rn(a.b, y[j]));
    store_values<N>(a.out + at, x);
}

cudaError_t launch_combine(const struct launch *on, const struct combine_args *a)
{
    return by_lanes<float>(rows_are_aligned<float>(a->n, a->x, a->y, a->out), [&](auto lanes) {
        constexpr int N = lanes.count;
        return run_grid(on, grid_of_elements(a->n, N), combine_elements<N>, *a);
    });
}
