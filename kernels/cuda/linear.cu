/* The op of a linear layer that is not a matrix product: the bias gradient. */
#include "kernels/cuda/column_sums.cuh"

template <typename T, int N> struct bias_terms {
    const T *dy;
    long width;

    __device__ void operator()(long row, long column, float out[][N]) const
    {
        load_values<N>(dy + row * width + column, out[0]);
    }
};

cudaError_t launch_linear_bias_gradient(const struct launch *on,
                                        const struct linear_bias_gradient *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        return by_lanes<T>(rows_are_aligned<T>(a->width, a->dy), [&](auto lanes) {
            constexpr int N = lanes.count;
            bias_terms<T, N> terms = { (const T *)a->dy, a->width };
            return add_column_sums<1, N>(on, a->rows, a->width, terms, &a->dbias);
        });
    });
}
