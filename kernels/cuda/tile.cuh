/* kernels/cuda/tile.cuh - matrix rows in shared memory, and their products on tensor cores.
 *
 * A tile is a number of rows of HEAD_DIM 16-bit values. Rows are padded to an odd number of 16-byte
 * chunks, so that the 8 rows of a matrix that ldmatrix reads are in different banks of shared
 * memory. A warp computes a product. Its result is an array of `accumulator`, each with 16 rows and
 * 8 columns in mma's layout: lane 4 g + t has columns 2t and 2t + 1 of row g (values 0 and 1) and
 * of row g + 8 (values 2 and 3). */
#ifndef KERNELS_CUDA_TILE_CUH
#define KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"

enum { CHUNK = 8, MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_DEPTH = 16 };

typedef float accumulator[4];
typedef uint32_t fragment[4];

template <int HEAD_DIM> constexpr int tile_stride = (HEAD_DIM / CHUNK | 1) * CHUNK;
template <int HEAD_DIM> constexpr int tile_values(int rows)
{
    return rows * tile_stride<HEAD_DIM>;
}

__device__ __forceinline__ int own_lane()
{
    return (int)threadIdx.x % LANES;
}

/* Starts the block's asynchronous copy of rows from global memory, `stride` values apart; rows at
 * or after `rows_left` become zeros. */
template <int ROWS, int HEAD_DIM, int BLOCK_THREADS, typename T>
__device__ __forceinline__ void copy_tile(T *tile, const T *from, long stride, long rows_left)
{
    constexpr int CHUNKS = HEAD_DIM / CHUNK, COPIES = ROWS * CHUNKS;
    int left = (int)(rows_left < ROWS ? rows_left : ROWS), apart = (int)stride;
#pragma unroll
    for (int first = 0; first < COPIES; first += BLOCK_THREADS) {
        int i = first + (int)threadIdx.x, row = i / CHUNKS, column = i % CHUNKS * CHUNK;
        if (COPIES % BLOCK_THREADS == 0 || i < COPIES)
            copy_16_bytes(tile + row * tile_stride<HEAD_DIM> + column,
                          from + (row < left ? row * apart + column : 0), row < left);
    }
}

/* Copies the warp's 16 rows to global memory. */
template <int HEAD_DIM, typename T>
__device__ __forceinline__ void write_rows(T *to, long stride, const T *tile, long rows_left)
{
    constexpr int CHUNKS = HEAD_DIM / CHUNK;
    typedef neighbours<T, CHUNK> chunk;
    for (int i = own_lane(); i < MMA_ROWS * CHUNKS; i += LANES) {
        int row = i / CHUNKS, column = i % CHUNKS * CHUNK;
        if (row < rows_left)
            *reinterpret_cast<chunk *>(to + row * stride + column) =
                *reinterpret_cast<const chunk *>(tile + row * tile_stride<HEAD_DIM> + column);
    }
}

__device__ __forceinline__ void multiply(accumulator d, const fragment a, const uint32_t *b, bf16)
{
    mma_bf16(d, a, b);
}
__device__ __forceinline__ void multiply(accumulator d, const fragment a, const uint32_t *b, fp16)
{
    mma_fp16(d, a, b);
}
__device__ __forceinline__ uint32_t pair_of(float low, float high, bf16)
{
    return bf16_pair_of(low, high);
}
__device__ __forceinline__ uint32_t pair_of(float low, float high, fp16)
{
    return fp16_pair_of(low, high);
}

/* This lane's address for load_matrices of the first fragment of 16 rows of a tile; the next
 * fragments are MMA_DEPTH columns apart. */
template <int HEAD_DIM, typename T> __device__ __forceinline__ const T *fragment_at(const T *rows)
{
    return rows + own_lane() % 16 * tile_stride<HEAD_DIM> + own_lane() / 16 * CHUNK;
}

/* d[16, COLUMNS] += a[16 rows, HEAD_DIM] b[COLUMNS rows, HEAD_DIM]^T for each of MATRICES groups of
 * 16 rows of a; b is a tile. load(m, k, to) gives the fragment of a for group m from column k
 * on. */
template <int MATRICES, int COLUMNS, int HEAD_DIM, typename T, typename Load>
__device__ __forceinline__ void multiply_fragments(accumulator (*d)[COLUMNS / MMA_COLUMNS],
                                                   const Load &load, const T *b)
{
    constexpr int STRIDE = tile_stride<HEAD_DIM>;
    int lane = own_lane();
    const T *b_row = b + (lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * CHUNK;
#pragma unroll
    for (int k = 0; k < HEAD_DIM; k += MMA_DEPTH) {
        fragment left[MATRICES];
#pragma unroll
        for (int m = 0; m < MATRICES; m++)
            load(m, k, left[m]);
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            fragment right; /* fragments of two groups of 8 columns */
            load_matrices(right, b_row + n * 16 * STRIDE + k);
#pragma unroll
            for (int m = 0; m < MATRICES; m++) {
                multiply(d[m][2 * n], left[m], right, T());
                multiply(d[m][2 * n + 1], left[m], right + 2, T());
            }
        }
    }
}

/* The same product, where a is a tile too. */
template <int MATRICES, int COLUMNS, int HEAD_DIM, typename T>
__device__ __forceinline__ void multiply_by_rows(accumulator (*d)[COLUMNS / MMA_COLUMNS],
                                                 const T *a, const T *b)
{
    const T *a_row = fragment_at<HEAD_DIM>(a);
    multiply_fragments<MATRICES, COLUMNS, HEAD_DIM>(
        d,
        [&](int m, int k, fragment to) {
            load_matrices(to, a_row + m * MMA_ROWS * tile_stride<HEAD_DIM> + k);
        },
        b);
}

/* d[16, HEAD_DIM] += a[16, DEPTH] b[DEPTH rows, HEAD_DIM]: a is an accumulator, rounded to T, and b
 * a tile. */
template <int MATRICES, int DEPTH, int HEAD_DIM, typename T>
__device__ __forceinline__ void multiply_by_columns(accumulator (*d)[HEAD_DIM / MMA_COLUMNS],
                                                    const accumulator (*a)[DEPTH / MMA_COLUMNS],
                                                    const T *b)
{
    constexpr int STRIDE = tile_stride<HEAD_DIM>;
    int lane = own_lane();
    const T *b_row = b + lane % 16 * STRIDE + lane / 16 * CHUNK;
#pragma unroll
    for (int k = 0; k < DEPTH / MMA_DEPTH; k++) {
        fragment left[MATRICES];
#pragma unroll
        for (int m = 0; m < MATRICES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) /* rows g, g + 8 of the first 8 columns, then the others */
                left[m][i] = pair_of(a[m][2 * k + i / 2][i % 2 * 2],
                                     a[m][2 * k + i / 2][i % 2 * 2 + 1], T());
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 16; n++) {
            fragment right;
            load_matrices_transposed(right, b_row + k * MMA_DEPTH * STRIDE + n * 16);
#pragma unroll
            for (int m = 0; m < MATRICES; m++) {
                multiply(d[m][2 * n], left[m], right, T());
                multiply(d[m][2 * n + 1], left[m], right + 2, T());
            }
        }
    }
}

/* tile[16 rows, HEAD_DIM] = factor d, where factor(half) is the factor of row g (half 0) or g +
 * 8. */
template <int HEAD_DIM, typename T, typename Factor>
__device__ __forceinline__ void store_rows(T *tile, const accumulator *d, const Factor &factor)
{
    int g = own_lane() / 4, t = own_lane() % 4;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / MMA_COLUMNS; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t pair =
                pair_of(factor(half) * d[n][2 * half], factor(half) * d[n][2 * half + 1], T());
            T *to = tile + (g + 8 * half) * tile_stride<HEAD_DIM> + n * MMA_COLUMNS + 2 * t;
            *reinterpret_cast<uint32_t *>(to) = pair;
        }
}

/* Reduces over the four lanes that hold a row together. */
template <typename Op> __device__ __forceinline__ float reduce_row(float value, const Op &op)
{
    value = op(value, __shfl_xor_sync(~0u, value, 1));
    return op(value, __shfl_xor_sync(~0u, value, 2));
}

#endif
