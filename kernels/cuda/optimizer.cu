/* CUDA kernels of AdamW and of gradient clipping. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

#include <math.h>

/* Writes element i's new weight, also to the 16-bit copy if there is one. A thread has one
 * element. */
template <typename T, typename Args> __device__ __forceinline__ void keep(const Args &a, long i)
{
    if (a.values)
        store((T *)a.values + i, a.weights[i]);
}

template <typename T> __global__ void update_sgd(struct sgd_args a)
{
    long i = own_element<1>();
    if (i >= a.n || isnan(*a.scale))
        return;
    float gradient = *a.scale * a.gradients[i] + a.sgd.decay * a.weights[i];
    a.weights[i] -= a.sgd.rate * gradient;
    keep<T>(a, i);
}

template <typename T> __global__ void update_momentum(struct momentum_args a)
{
    long i = own_element<1>();
    if (i >= a.n || isnan(*a.scale))
        return;
    float gradient = *a.scale * a.gradients[i] + a.momentum.decay * a.weights[i];
    a.velocities[i] = a.momentum.momentum * a.velocities[i] + gradient;
    a.weights[i] -= a.momentum.rate * a.velocities[i];
    keep<T>(a, i);
}

/* The numbers of AdamW that are the same for all elements, with the moments' bias corrections. */
struct adamw_step {
    float kept, step_size, root_scale;
};

static struct adamw_step adamw_step_of(const struct adamw *adamw)
{
    double step = (double)adamw->step;
    double first = 1 - pow((double)adamw->beta1, step);
    double second = 1 - pow((double)adamw->beta2, step);
    return { 1 - adamw->rate * adamw->decay, (float)((double)adamw->rate / first),
             (float)(1 / sqrt(second)) };
}

template <typename T> __global__ void update_adamw(struct adamw_args a, struct adamw_step step)
{
    long i = own_element<1>();
    if (i >= a.n || isnan(*a.scale))
        return;
    float gradient = *a.scale * a.gradients[i];
    float first = a.adamw.beta1 * a.first_moments[i] + (1 - a.adamw.beta1) * gradient;
    float second =
        a.adamw.beta2 * a.second_moments[i] + (1 - a.adamw.beta2) * (gradient * gradient);
    float root = sqrtf(second) * step.root_scale + a.adamw.epsilon;
    a.first_moments[i] = first;
    a.second_moments[i] = second;
    a.weights[i] = step.kept * a.weights[i] - step.step_size * (first / root);
    keep<T>(a, i);
}

enum { SQUARE_BLOCKS = 2048, SQUARE_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(double) };

/* Each block sums its part of the squares; then one block adds the blocks' sums. */
__global__ void sum_squares(struct square_sum a, double *sums)
{
    double sum = 0;
    for (long i = own_element<1>(); i < a.n; i += (long)gridDim.x * THREADS)
        sum += (double)a.gradients[i] * (double)a.gradients[i];
    sum = reduce_block(sum, 0.0, add(), (double *)shared_memory());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

__global__ void add_squares(long count, const double *sums, double *to)
{
    double sum = 0;
    for (long i = threadIdx.x; i < count; i += blockDim.x)
        sum += sums[i];
    sum = reduce_block(sum, 0.0, add(), (double *)shared_memory());
    if (threadIdx.x == 0)
        *to += sum;
}

/* Computes the same as gradient_clip and its caller on the host. One thread of the warp writes the
 * result. */
__global__ void find_clip(struct clip a)
{
    if (threadIdx.x != 0)
        return;
    double norm = sqrt(*a.squares) / a.loss_scale;
    bool fits = a.limit == 0 || norm + 1e-6 <= a.limit;
    float factor = fits ? 1 : (float)(a.limit / (norm + 1e-6));
    *a.scale = isfinite(norm) ? (float)((double)factor / a.loss_scale) : NAN;
}

template <typename T, int N> __global__ void store_all(long n, const float *x, T *y)
{
    long at = own_element<N>();
    if (at >= n)
        return;
    float v[N];
    load_values<N>(x + at, v);
    store_values<N>(y + at, v);
}

cudaError_t launch_sgd(const struct launch *on, const struct sgd_args *a)
{
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid_of_elements(a->n, 1), update_sgd<decltype(type)>, *a);
    });
}

cudaError_t launch_momentum(const struct launch *on, const struct momentum_args *a)
{
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid_of_elements(a->n, 1), update_momentum<decltype(type)>, *a);
    });
}

cudaError_t launch_adamw(const struct launch *on, const struct adamw_args *a)
{
    struct adamw_step step = adamw_step_of(&a->adamw);
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid_of_elements(a->n, 1), update_adamw<decltype(type)>, *a, step);
    });
}

cudaError_t launch_square_sum(const struct launch *on, const struct square_sum *a)
{
    long blocks = least(ceil_div(a->n, THREADS), SQUARE_BLOCKS);
    double *sums = (double *)on->workspace;
    struct grid all = { .blocks = blocks, .threads = THREADS, .shared_bytes = SQUARE_BYTES };
    struct grid one = { .blocks = 1, .threads = THREADS, .shared_bytes = SQUARE_BYTES };
    cudaError_t error = run_grid(on, all, sum_squares, *a, sums);
    return error == cudaSuccess ? run_grid(on, one, add_squares, blocks, sums, a->sum) : error;
}

cudaError_t launch_clip(const struct launch *on, const struct clip *a)
{
    return run_grid(on, { .blocks = 1, .threads = LANES }, find_clip, *a);
}

cudaError_t launch_pack(const struct launch *on, const struct pack *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(a->n, a->x, a->y);
        return by_lanes<T>(is_aligned, [&](auto lanes) {
            constexpr int N = lanes.count;
            return run_grid(on, grid_of_elements(a->n, N), store_all<T, N>, a->n, a->x, (T *)a->y);
        });
    });
}
