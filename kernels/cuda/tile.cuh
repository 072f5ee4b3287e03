/* kernels/cuda/tile.cuh - matrix rows in shared memory, and their products on tensor cores.
 *
 * A tile is a number of rows of HEAD_DIM 16-bit values, a row being HEAD_DIM / CHUNK chunks of 16
 * bytes. ldmatrix reads the same chunk of 8 neighbouring rows at once, which is fastest when they
 * are in different banks of shared memory (128 bytes, 8 chunks). So groups of RUN neighbouring
 * chunks are permuted, in a different order from row to row (place_of). A warp computes a product.
 * Its result is an array of `accumulator`, each with 16 rows and 8 columns in mma's layout: lane 4
 * g + t has columns 2t and 2t + 1 of row g (values 0 and 1) and of row g + 8 (values 2 and 3). */
#ifndef KERNELS_CUDA_TILE_CUH
#define KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"

enum { CHUNK = 8, MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_DEPTH = 16 };

typedef float accumulator[4];
typedef uint32_t fragment[4];

/* The largest power of 2 up to 8 that divides the chunks of a row. */
template <int HEAD_DIM>
constexpr int RUN = HEAD_DIM % (8 * CHUNK) == 0   ? 8
                    : HEAD_DIM % (4 * CHUNK) == 0 ? 4
                    : HEAD_DIM % (2 * CHUNK) == 0 ? 2
                                                  : 1;

__device__ __forceinline__ int own_lane()
{
    return (int)threadIdx.x % LANES;
}

/* Where a row stores column `column`, a multiple of CHUNK. Without the permutation, only 8 / RUN
 * neighbouring rows would have the same chunk in different banks; the next rows would use the same
 * banks again. */
template <int HEAD_DIM> __device__ __forceinline__ int place_of(int row, int column)
{
    return column ^ row % 8 * RUN<HEAD_DIM> / 8 * CHUNK;
}

/* The address that a lane passes to load_matrices: one of 16 rows, at the first of its columns.
 * Addresses of the other columns differ only in some bits, so they need no registers of their own,
 * as tiles begin at multiples of RUN chunks. */
template <int HEAD_DIM, typename T> struct lane_row {
    const T *first;

    __device__ __forceinline__ lane_row(const T *rows, int row, int column)
        : first(rows + row * HEAD_DIM + place_of<HEAD_DIM>(row, column))
    {
    }
    /* The address `rows` further down, a multiple of 8, and `columns` to the right, a multiple of
     * MMA_DEPTH. */
    __device__ __forceinline__ void load(fragment to, int rows, int columns) const
    {
        load_matrices(to, first, columns % WIDTH * BYTES, further(rows, columns));
    }
    __device__ __forceinline__ void load_transposed(fragment to, int rows, int columns) const
    {
        load_matrices_transposed(to, first, columns % WIDTH * BYTES, further(rows, columns));
    }

  private:
    static constexpr int WIDTH = RUN<HEAD_DIM> * CHUNK, BYTES = (int)sizeof(T);

    __device__ __forceinline__ static int further(int rows, int columns)
    {
        return (rows * HEAD_DIM + columns / WIDTH * WIDTH) * BYTES;
    }
};

/* Starts the block's asynchronous copy of rows from global memory, `stride` values apart; rows at
 * or after `rows_left` become zeros. A thread has one column and every AT_ONCE-th row: it adds to
 * an address, as an address for each row would need too many registers. */
template <int ROWS, int HEAD_DIM, int BLOCK_THREADS, typename T>
__device__ __forceinline__ void copy_tile(T *tile, const T *from, long stride, int rows_left)
{
    constexpr int CHUNKS = HEAD_DIM / CHUNK, AT_ONCE = BLOCK_THREADS / CHUNKS;
    int row = (int)threadIdx.x / CHUNKS, column = (int)threadIdx.x % CHUNKS * CHUNK;
    const T *at = from + row * (int)stride + column;
    if (BLOCK_THREADS % CHUNKS != 0 && row >= AT_ONCE)
        return;
#pragma unroll
    for (int first = 0; first < ROWS; first += AT_ONCE, at += AT_ONCE * (int)stride) {
        bool is_there = first + row < rows_left;
        if (ROWS % AT_ONCE == 0 || first + row < ROWS)
            copy_16_bytes(tile + (first + row) * HEAD_DIM + place_of<HEAD_DIM>(first + row, column),
                          at, is_there);
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
                *reinterpret_cast<const chunk *>(tile + row * HEAD_DIM +
                                                 place_of<HEAD_DIM>(row, column));
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

/* The addresses that this lane reads for the fragments of 16 rows of a tile, MMA_DEPTH columns
 * each. */
template <int HEAD_DIM, typename T>
__device__ __forceinline__ lane_row<HEAD_DIM, T> fragments_of(const T *rows)
{
    return { rows, own_lane() % 16, own_lane() / 16 * CHUNK };
}

/* d[16, COLUMNS] += a[16 rows, HEAD_DIM] b[COLUMNS rows, HEAD_DIM]^T for each of MATRICES groups of
 * 16 rows of a; b is a tile. load(m, k, to) gives the fragment of a for group m from column k
 * on. */
template <int MATRICES, int COLUMNS, int HEAD_DIM, typename T, typename Load>
__device__ __forceinline__ void multiply_fragments(accumulator (*d)[COLUMNS / MMA_COLUMNS],
                                                   const Load &load, const T *b)
{
    int lane = own_lane();
    lane_row<HEAD_DIM, T> b_row(b, lane / 16 * 8 + lane % 8, lane / 8 % 2 * CHUNK);
#pragma unroll
    for (int k = 0; k < HEAD_DIM; k += MMA_DEPTH) {
        fragment left[MATRICES];
#pragma unroll
        for (int m = 0; m < MATRICES; m++)
            load(m, k, left[m]);
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            fragment right; /* fragments of two groups of 8 columns */
            b_row.load(right, n * 16, k);
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
    lane_row<HEAD_DIM, T> a_row = fragments_of<HEAD_DIM>(a);
    multiply_fragments<MATRICES, COLUMNS, HEAD_DIM>(
        d, [&](int m, int k, fragment to) { a_row.load(to, m * MMA_ROWS, k); }, b);
}

/* d[16, HEAD_DIM] += a[16, DEPTH] b[DEPTH rows, HEAD_DIM]: a is an accumulator, rounded to T, and b
 * a tile. */
template <int MATRICES, int DEPTH, int HEAD_DIM, typename T>
__device__ __forceinline__ void multiply_by_columns(accumulator (*d)[HEAD_DIM / MMA_COLUMNS],
                                                    const accumulator (*a)[DEPTH / MMA_COLUMNS],
                                                    const T *b)
{
    lane_row<HEAD_DIM, T> b_row = fragments_of<HEAD_DIM>(b);
#pragma unroll
    for (int k = 0; k < DEPTH / MMA_DEPTH; k++) {
        fragment left[MATRICES];
#pragma unroll
        for (int m = 0; m < MATRICES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) /* first rows g and g + 8 of the first 8 columns, then those
                                           of the other columns */
                left[m][i] = pair_of(a[m][2 * k + i / 2][i % 2 * 2],
                                     a[m][2 * k + i / 2][i % 2 * 2 + 1], T());
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 16; n++) {
            fragment right;
            b_row.load_transposed(right, k * MMA_DEPTH, n * 16);
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
            T *to =
                tile + (g + 8 * half) * HEAD_DIM + place_of<HEAD_DIM>(g, n * MMA_COLUMNS) + 2 * t;
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
