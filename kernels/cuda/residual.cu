/* CUDA kernels of the sum with the residual stream. */
#include "kernels/cuda/residual.cuh"

template <typename T, int N, bool drops>
__global__ void residual_forward(struct residual_args a, struct dropper dropper)
{
    long width = a.residual.width, at = own_element<N>();
    if (at < a.residual.rows * width)
        add_residual<T, N, drops>(a, dropper, at / width, at % width);
}

template <typename T, int N>
__global__ void residual_backward(struct residual_gradient a, float kept_scale)
{
    long at = own_element<N>();
    if (at >= a.residual.rows * a.residual.width)
        return;
    float v[N];
    load_values<N>((const T *)a.dy + at, v);
    if (a.keeps) {
        neighbours<uint8_t, N> keeps =
            *reinterpret_cast<const neighbours<uint8_t, N> *>(a.keeps + at);
        for (int j = 0; j < N; j++)
            v[j] = keeps.at[j] ? v[j] * kept_scale : 0;
    }
    store_values<N>((T *)a.dx + at, v);
}

template <typename T, int N> __global__ void add_into(long n, const T *x, T *sum)
{
    long at = own_element<N>();
    if (at >= n)
        return;
    float v[N], s[N];
    load_values<N>(x + at, v);
    load_values<N>(sum + at, s);
    for (int j = 0; j < N; j++)
        s[j] += v[j];
    store_values<N>(sum + at, s);
}

cudaError_t launch_residual(const struct launch *on, const struct residual_args *a)
{
    struct residual r = a->residual;
    long n = r.rows * r.width;
    struct dropper dropper = dropper_of(r.draw, a->keeps ? r.dropout : 0);
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(r.width, a->x, a->bias, a->h, a->keeps, a->y);
        return by_lanes<T>(is_aligned, [&](auto lanes) {
            constexpr int N = lanes.count;
            auto kernel = a->keeps ? residual_forward<T, N, true> : residual_forward<T, N, false>;
            return run_grid(on, grid_of_elements(n, N), kernel, *a, dropper);
        });
    });
}

cudaError_t launch_residual_gradient(const struct launch *on, const struct residual_gradient *a)
{
    struct residual r = a->residual;
    float kept_scale = a->keeps ? (float)(1 / (1 - r.dropout)) : 1;
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(r.rows * r.width, a->dy, a->keeps, a->dx);
        return by_lanes<T>(is_aligned, [&](auto lanes) {
            constexpr int N = lanes.count;
            return run_grid(on, grid_of_elements(r.rows * r.width, N), residual_backward<T, N>, *a,
                            kept_scale);
        });
    });
}

template <typename T> static cudaError_t add(const struct launch *on, long n, const T *x, T *sum)
{
    return by_lanes<T>(rows_are_aligned<T>(n, x, sum), [&](auto lanes) {
        constexpr int N = lanes.count;
        return run_grid(on, grid_of_elements(n, N), add_into<T, N>, n, x, sum);
    });
}

cudaError_t launch_sum_into(const struct launch *on, const struct sum_into *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        return add(on, a->n, (const T *)a->x, (T *)a->sum);
    });
}

cudaError_t launch_gradient_sum(const struct launch *on, const struct gradient_sum *a)
{
    return add(on, a->n, a->x, a->sum);
}
