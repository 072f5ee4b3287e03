/* Cross-entropy with one block per row. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

#include <float.h>

enum { ROW_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(double) };

/* Number of columns that are not padding. */
__device__ __forceinline__ long used_columns(const struct cross_entropy &loss)
{
    int64_t used = loss.vocab - loss.first;
    used = used < loss.columns ? used : loss.columns;
    return used > 0 ? used : 0;
}

__device__ __forceinline__ bool is_here(const struct cross_entropy &loss, int64_t target)
{
    return target >= loss.first && target < loss.first + loss.columns;
}

/* e^x for x <= 0; below -60 it is negligible in a sum with the row's largest term, 1. */
__device__ __forceinline__ float exp_below(float x)
{
    return expf(x < -60 ? -60 : x);
}

/* Loads N neighbours from `at` on; values at or after `end` become `rest`. */
template <int N, typename T>
__device__ __forceinline__ void load_until(const T *row, long at, long end, float rest, float *v)
{
    load_values<N>(row + at, v);
    for (int j = 0; j < N; j++)
        v[j] = at + j < end ? v[j] : rest;
}

template <typename T, int N> __global__ void find_maximum(struct loss_maxima a)
{
    long row = blockIdx.x, used = used_columns(a.loss);
    const T *logits = (const T *)a.logits + row * a.loss.columns;
    float most = -FLT_MAX, v[N];
    for (long i = (long)threadIdx.x * N; i < used; i += (long)blockDim.x * N) {
        load_until<N>(logits, i, used, -FLT_MAX, v);
        for (int j = 0; j < N; j++)
            most = fmaxf(most, v[j]);
    }
    most = reduce_block(most, -FLT_MAX, larger(), (float *)shared_memory());
    if (threadIdx.x == 0)
        a.maxima[row] = most;
}

template <typename T, int N> __global__ void sum_exponentials(struct loss_sums a)
{
    long row = blockIdx.x, used = used_columns(a.loss);
    const T *logits = (const T *)a.logits + row * a.loss.columns;
    float maximum = a.maxima[row];
    float sum = sum_row<N>(used, (float *)shared_memory(), [&](long i) {
        float v[N], part = 0;
        load_until<N>(logits, i, used, 0, v);
        for (int j = 0; j < N; j++)
            part += i + j < used ? exp_below(v[j] - maximum) : 0;
        return part;
    });
    if (threadIdx.x > 0)
        return;
    int64_t target = a.targets[row];
    a.sums[2 * row] = sum;
    a.sums[2 * row + 1] =
        is_here(a.loss, target) ? value_of(logits[target - a.loss.first]) - maximum : 0;
}

/* Adds the losses of all rows to the total, in one block. */
__global__ void add_losses(struct loss_total a)
{
    double sum = 0;
    for (long row = threadIdx.x; row < a.rows; row += blockDim.x)
        if (a.targets[row] >= 0)
            sum += log((double)a.sums[2 * row]) - (double)a.sums[2 * row + 1];
    sum = reduce_block(sum, 0.0, add(), (double *)shared_memory());
    if (threadIdx.x == 0)
        *a.total += sum;
}

template <typename T, int N> __global__ void find_gradient(struct loss_gradient a)
{
    long row = blockIdx.x, used = used_columns(a.loss), columns = a.loss.columns;
    const T *logits = (const T *)a.logits + row * columns;
    T *dlogits = (T *)a.dlogits + row * columns;
    int64_t target = a.targets[row];
    float row_scale = target < 0 ? 0 : *a.scale;
    float factor = row_scale / a.sums[2 * row], maximum = a.maxima[row];
    for (long i = (long)threadIdx.x * N; i < columns; i += (long)blockDim.x * N) {
        float v[N];
        load_until<N>(logits, i, used, 0, v);
        for (int j = 0; j < N; j++) {
            v[j] = i + j < used ? factor * exp_below(v[j] - maximum) : 0;
            if (a.loss.first + i + j == target)
                v[j] -= row_scale;
        }
        store_values<N>(dlogits + i, v);
    }
}

static struct grid grid_of_rows(long rows)
{
    return { .blocks = rows, .threads = THREADS, .shared_bytes = ROW_BYTES };
}

/* Calls run(T(), lanes<N>()) with the storage type and the number of values of an access. */
template <typename Run>
static cudaError_t by_logits(const struct launch *on, const struct cross_entropy &loss,
                             const void *logits, const void *dlogits, const Run &run)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        return by_lanes<T>(rows_are_aligned<T>(loss.columns, logits, dlogits),
                           [&](auto lanes) { return run(type, lanes); });
    });
}

cudaError_t launch_loss_maxima(const struct launch *on, const struct loss_maxima *a)
{
    return by_logits(on, a->loss, a->logits, NULL, [&](auto type, auto lanes) {
        return run_grid(on, grid_of_rows(a->loss.rows), find_maximum<decltype(type), lanes.count>,
                        *a);
    });
}

cudaError_t launch_loss_sums(const struct launch *on, const struct loss_sums *a)
{
    return by_logits(on, a->loss, a->logits, NULL, [&](auto type, auto lanes) {
        return run_grid(on, grid_of_rows(a->loss.rows),
                        sum_exponentials<decltype(type), lanes.count>, *a);
    });
}

cudaError_t launch_loss_total(const struct launch *on, const struct loss_total *a)
{
    return run_grid(on, grid_of_rows(1), add_losses, *a);
}

cudaError_t launch_loss_gradient(const struct launch *on, const struct loss_gradient *a)
{
    return by_logits(on, a->loss, a->logits, a->dlogits, [&](auto type, auto lanes) {
        return run_grid(on, grid_of_rows(a->loss.rows), find_gradient<decltype(type), lanes.count>,
                        *a);
    });
}
