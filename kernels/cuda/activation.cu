/* CUDA kernels of the activation between the two linear layers of the feed-forward. */
#include "kernels/cuda/grid.cuh"

/* e^x, clamped to e^60 or e^-60. The clamp changes no sum with 1 in fp32, and it avoids infinity,
 * which times 0 would give NaN. NaN stays NaN. */
__device__ __forceinline__ float exp_bounded(float x)
{
    x = x < -60 ? -60 : x;
    x = x > 60 ? 60 : x;
    return expf(x);
}

/* The value of an activation function, and of its derivative, at one x. */
struct slope {
    float value, derivative;
};

/* value: 1 / (1 + e^-x); rest: 1 - value, computed without cancellation. */
struct sigmoid {
    float value, rest;
};

__device__ __forceinline__ sigmoid sigmoid_of(float x)
{
    float e = exp_bounded(-x);
    float value = 1 / (1 + e);
    return { value, e * value };
}

struct silu {
    static __device__ __forceinline__ slope at(float x)
    {
        sigmoid s = sigmoid_of(x);
        return { x * s.value, s.value + x * s.value * s.rest };
    }
};

struct gelu {
    static __device__ __forceinline__ slope at(float x)
    {
        const float two_sqrt_two_over_pi = 1.5957691216057308F, cubic = 0.044715F;
        sigmoid s = sigmoid_of(two_sqrt_two_over_pi * (x + cubic * x * x * x));
        float du = two_sqrt_two_over_pi * (1 + 3 * cubic * x * x);
        return { x * s.value, s.value + x * s.value * s.rest * du };
    }
};

struct relu {
    static __device__ __forceinline__ slope at(float x)
    {
        return { x > 0 ? x : 0, x > 0 ? 1.0F : 0.0F };
    }
};

struct relu2 {
    static __device__ __forceinline__ slope at(float x)
    {
        float positive = x > 0 ? x : 0;
        return { positive * positive, 2 * positive };
    }
};

/* Loads inputs [at, at + COUNT) in accesses of N. They are in one row, from `column` on. */
template <typename T, int N, int COUNT>
__device__ __forceinline__ void load_biased(const void *x, const void *bias, long at, long column,
                                            float *v)
{
    for (int j = 0; j < COUNT; j += N)
        load_values<N>((const T *)x + at + j, v + j);
    if (!bias)
        return;
    float b[COUNT];
    for (int j = 0; j < COUNT; j += N)
        load_values<N>((const T *)bias + column + j, b + j);
    for (int j = 0; j < COUNT; j++)
        v[j] += b[j];
}

/* A thread processes N inputs. */
template <typename T, int N, typename Function> __global__ void plain(struct activation_args a)
{
    long width = a.shape.width, at = own_element<N>();
    if (at >= a.shape.rows * width)
        return;
    float v[N];
    load_biased<T, N, N>(a.x, a.bias, at, at % width, v);
    for (int j = 0; j < N; j++)
        v[j] = Function::at(v[j]).value;
    store_values<N>((T *)a.y + at, v);
}

template <typename T, int N, typename Function>
__global__ void plain_gradient(struct activation_gradient a)
{
    long width = a.shape.width, at = own_element<N>();
    if (at >= a.shape.rows * width)
        return;
    float v[N], d[N];
    load_biased<T, N, N>(a.x, a.bias, at, at % width, v);
    load_values<N>((const T *)a.dy + at, d);
    for (int j = 0; j < N; j++)
        d[j] *= Function::at(v[j]).derivative;
    store_values<N>((T *)a.dx + at, d);
}

/* Gate and up are adjacent: a thread has at least one such pair. */
template <int N> constexpr int gated_inputs = N == 1 ? 2 : N;

template <typename T, int N, typename Function> __global__ void gated(struct activation_args a)
{
    constexpr int INPUTS = gated_inputs<N>;
    long width = 2 * a.shape.width, at = own_element<INPUTS>();
    if (at >= a.shape.rows * width)
        return;
    float v[INPUTS], y[INPUTS / 2];
    load_biased<T, N, INPUTS>(a.x, a.bias, at, at % width, v);
    for (int j = 0; j < INPUTS / 2; j++)
        y[j] = Function::at(v[2 * j]).value * v[2 * j + 1];
    store_values<INPUTS / 2>((T *)a.y + at / 2, y);
}

template <typename T, int N, typename Function>
__global__ void gated_gradient(struct activation_gradient a)
{
    constexpr int INPUTS = gated_inputs<N>;
    long width = 2 * a.shape.width, at = own_element<INPUTS>();
    if (at >= a.shape.rows * width)
        return;
    float v[INPUTS], d[INPUTS / 2];
    load_biased<T, N, INPUTS>(a.x, a.bias, at, at % width, v);
    load_values<INPUTS / 2>((const T *)a.dy + at / 2, d);
    for (int j = 0; j < INPUTS / 2; j++) {
        float gate = v[2 * j], up = v[2 * j + 1];
        slope s = Function::at(gate);
        v[2 * j] = d[j] * up * s.derivative;
        v[2 * j + 1] = d[j] * s.value;
    }
    for (int j = 0; j < INPUTS; j += N)
        store_values<N>((T *)a.dx + at + j, v + j);
}

template <typename T, int N>
static cudaError_t forward(const struct launch *on, const struct activation_args &a)
{
    long n = a.shape.rows * a.shape.width;
    switch (a.shape.kind) {
    case ACTIVATION_GELU:
        return run_grid(on, grid_of_elements(n, N), plain<T, N, gelu>, a);
    case ACTIVATION_RELU:
        return run_grid(on, grid_of_elements(n, N), plain<T, N, relu>, a);
    case ACTIVATION_RELU2:
        return run_grid(on, grid_of_elements(n, N), plain<T, N, relu2>, a);
    case ACTIVATION_SWIGLU:
        return run_grid(on, grid_of_elements(2 * n, gated_inputs<N>), gated<T, N, silu>, a);
    case ACTIVATION_GEGLU:
        return run_grid(on, grid_of_elements(2 * n, gated_inputs<N>), gated<T, N, gelu>, a);
    }
    return cudaErrorInvalidValue;
}

template <typename T, int N>
static cudaError_t backward(const struct launch *on, const struct activation_gradient &a)
{
    long n = a.shape.rows * a.shape.width;
    switch (a.shape.kind) {
    case ACTIVATION_GELU:
        return run_grid(on, grid_of_elements(n, N), plain_gradient<T, N, gelu>, a);
    case ACTIVATION_RELU:
        return run_grid(on, grid_of_elements(n, N), plain_gradient<T, N, relu>, a);
    case ACTIVATION_RELU2:
        return run_grid(on, grid_of_elements(n, N), plain_gradient<T, N, relu2>, a);
    case ACTIVATION_SWIGLU:
        return run_grid(on, grid_of_elements(2 * n, gated_inputs<N>), gated_gradient<T, N, silu>,
                        a);
    case ACTIVATION_GEGLU:
        return run_grid(on, grid_of_elements(2 * n, gated_inputs<N>), gated_gradient<T, N, gelu>,
                        a);
    }
    return cudaErrorInvalidValue;
}

cudaError_t launch_activation(const struct launch *on, const struct activation_args *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(a->shape.width, a->x, a->bias, a->y);
        return by_lanes<T>(is_aligned, [&](auto n) { return forward<T, n.count>(on, *a); });
    });
}

cudaError_t launch_activation_gradient(const struct launch *on, const struct activation_gradient *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(a->shape.width, a->dy, a->x, a->bias, a->dx);
        return by_lanes<T>(is_aligned, [&](auto n) { return backward<T, n.count>(on, *a); });
    });
}
