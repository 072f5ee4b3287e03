/* The sum with the residual stream, and the norm of the sum: one block per row. */
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/residual.cuh"

/* A thread normalises the rounded values that it stored, as the backward reads these. With 4 blocks
 * on an SM a thread has 64 registers, which dropout's draws need; with 6 blocks it has 40. */
template <typename T, int N, bool is_centered, bool drops>
__global__ void __launch_bounds__(THREADS, drops ? 4 : 6)
    residual_norm_row(struct residual_norm a, struct dropper dropper)
{
    long row = blockIdx.x, width = a.norm.norm.width;
    for (long i = (long)threadIdx.x * N; i < width; i += (long)blockDim.x * N)
        add_residual<T, N, drops>(a.residual, dropper, row, i);
    normalise_row<T, N, is_centered>(a.norm, row, (float *)shared_memory());
}

template <typename T, int N, bool is_centered>
static cudaError_t run(const struct launch *on, const struct residual_norm &a)
{
    bool drops = a.residual.keeps != NULL;
    struct residual r = a.residual.residual;
    struct dropper dropper = dropper_of(r.draw, drops ? r.dropout : 0);
    auto kernel = drops ? residual_norm_row<T, N, is_centered, true>
                        : residual_norm_row<T, N, is_centered, false>;
    return run_grid(on, grid_of_norm_rows(a.norm.norm, N), kernel, a, dropper);
}

cudaError_t launch_residual_norm(const struct launch *on, const struct residual_norm *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        const struct residual_args &r = a->residual;
        const struct norm_forward &n = a->norm;
        bool is_aligned = rows_are_aligned<T>(n.norm.width, r.x, r.bias, r.h, r.keeps, r.y, n.scale,
                                              n.shift, n.y);
        return by_lanes<T>(is_aligned, [&](auto lanes) {
            constexpr int N = lanes.count;
            return n.kind == NORM_LAYER ? run<T, N, true>(on, *a) : run<T, N, false>(on, *a);
        });
    });
}
