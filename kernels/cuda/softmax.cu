/* Softmax of unfused attention: one block per row, which rereads the row from the cache for each
 * pass. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/reduce.cuh"

#include <float.h>

enum { ROW_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(float) };

/* e^x for x <= 0; like the host's, it is never exactly 0. */
__device__ __forceinline__ float exp_of_seen(float x)
{
    return expf(x < -60 ? -60 : x);
}

/* Scale, mask, softmax, and dropout if `keeps` is given. `probabilities` may be the array
 * `scores`: each thread writes only after the last sum, and only values that it alone reads. */
template <typename T>
__global__ void softmax_row(struct softmax a, float scale, struct dropper dropper)
{
    float *parts = (float *)shared_memory();
    const struct attention &attention = a.attention;
    long seq = attention.seq, row = blockIdx.x, query = row % seq, seen = query + 1;
    const T *scores = (const T *)a.scores + row * seq;
    T *probabilities = (T *)a.probabilities + row * seq;
    uint64_t first = first_probability(attention, row / seq / attention.heads,
                                       row / seq % attention.heads, query);
    float most = -FLT_MAX, sum = 0;
    for (long key = threadIdx.x; key < seen; key += blockDim.x)
        most = fmaxf(most, value_of(scores[key]));
    most = scale * reduce_block(most, -FLT_MAX, larger(), parts);
    for (long key = threadIdx.x; key < seen; key += blockDim.x)
        sum += exp_of_seen(scale * value_of(scores[key]) - most);
    float inverse = 1 / reduce_block(sum, 0.0F, add(), parts);
    for (long key = threadIdx.x; key < seq; key += blockDim.x) {
        float p = key < seen ? inverse * exp_of_seen(scale * value_of(scores[key]) - most) : 0;
        store(&probabilities[key], p);
        if (!a.keeps)
            continue;
        bool is_kept;
        draw_keeps_of<1>(dropper, first + (uint64_t)key, &is_kept);
        a.keeps[row * seq + key] = is_kept;
        store((T *)a.dropped + row * seq + key, is_kept ? p * dropper.kept_scale : 0);
    }
}

/* dscore = scale p (dp - sum of p dp), where p are the probabilities before dropout and dp
 * their gradient. `dscores` may be the array `ddropped`. */
template <typename T>
__global__ void softmax_backward_row(struct softmax_backward a, float scale, float kept_scale)
{
    long seq = a.attention.seq, row = (long)blockIdx.x * seq;
    const T *probabilities = (const T *)a.probabilities + row;
    auto gradient_at = [&](long key) {
        float gradient = value_of(((const T *)a.ddropped)[row + key]);
        return !a.keeps ? gradient : a.keeps[row + key] ? gradient * kept_scale : 0;
    };
    float sum = sum_row<1>(seq, (float *)shared_memory(), [&](long key) {
        return value_of(probabilities[key]) * gradient_at(key);
    });
    for (long key = threadIdx.x; key < seq; key += blockDim.x)
        store((T *)a.dscores + row + key,
              scale * value_of(probabilities[key]) * (gradient_at(key) - sum));
}

static struct grid grid_of_queries(const struct attention &a)
{
    return { .blocks = a.sequences * a.heads * a.seq,
             .threads = THREADS,
             .shared_bytes = ROW_BYTES };
}

cudaError_t launch_softmax(const struct launch *on, const struct softmax *a)
{
    const struct attention_dropout &d = a->attention.dropout;
    struct dropper dropper = dropper_of(d.draw, a->keeps ? d.dropout : 0);
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid_of_queries(a->attention), softmax_row<decltype(type)>, *a,
                        score_scale(a->attention), dropper);
    });
}

cudaError_t launch_softmax_backward(const struct launch *on, const struct softmax_backward *a)
{
    float kept_scale = a->keeps ? (float)(1 / (1 - a->attention.dropout.dropout)) : 1;
    return by_storage(on->storage, [&](auto type) {
        return run_grid(on, grid_of_queries(a->attention), softmax_backward_row<decltype(type)>, *a,
                        score_scale(a->attention), kept_scale);
    });
}
