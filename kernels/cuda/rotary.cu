/* CUDA kernels of rotary positions. */
#include "kernels/cuda/grid.cuh"

/* A thread rotates N elements of a head's lower half with those of its upper half. In each
 * key-value group the queries and the key are rotated, not the value. */
template <typename T, int N>
__global__ void turn(struct rotary a, long turned, float direction, long num_threads)
{
    long thread = own_element<1>();
    if (thread >= num_threads)
        return;
    long head_dim = a.attention.head_dim, half = head_dim / 2, per_head = half / N;
    long i = thread % per_head * N, head = thread / per_head;
    long group = head / turned; /* index among the groups of all tokens */
    long token = group / a.attention.kv_heads;
    T *low = (T *)a.qkv + (group * (turned + 1) + head % turned) * head_dim + i;
    const float *rope_cos_sin = a.rope_cos_sin + token % a.attention.seq * head_dim + i;
    float x[N], y[N], cosines[N], sines[N];
    load_values<N>(low, x);
    load_values<N>(low + half, y);
    load_values<N>(rope_cos_sin, cosines);
    load_values<N>(rope_cos_sin + half, sines);
    for (int j = 0; j < N; j++) {
        float sine = direction * sines[j], x_j = x[j];
        x[j] = x_j * cosines[j] - y[j] * sine;
        y[j] = y[j] * cosines[j] + x_j * sine;
    }
    store_values<N>(low, x);
    store_values<N>(low + half, y);
}

static cudaError_t turn_all(const struct launch *on, const struct rotary *a, float direction)
{
    const struct attention *at = &a->attention;
    long half = at->head_dim / 2, turned = at->heads / at->kv_heads + 1;
    long heads = at->sequences * at->seq * at->kv_heads * turned;
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        return by_lanes<T>(rows_are_aligned<T>(half, a->qkv, a->rope_cos_sin), [&](auto lanes) {
            constexpr int N = lanes.count;
            long threads = heads * (half / N);
            return run_grid(on, grid_of_elements(threads, 1), turn<T, N>, *a, turned, direction,
                            threads);
        });
    });
}

cudaError_t launch_rotary_forward(const struct launch *on, const struct rotary *a)
{
    return turn_all(on, a, 1);
}

cudaError_t launch_rotary_backward(const struct launch *on, const struct rotary *a)
{
    return turn_all(on, a, -1);
}
