/* CUDA kernels of the embedding: the look-up of token rows, and the gradient of the table. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

__device__ __forceinline__ bool holds(const struct embedding &embedding, int64_t id)
{
    return id >= embedding.first && id < embedding.first + embedding.rows;
}

/* A thread has N values of one token. */
template <typename T, int N> __global__ void gather(struct embedding_args a)
{
    long width = a.embedding.width, at = own_element<N>();
    if (at >= a.embedding.tokens * width)
        return;
    long token = at / width, column = at % width;
    int64_t id = a.ids[token];
    float v[N] = {}, p[N];
    if (holds(a.embedding, id))
        load_values<N>((const T *)a.table + (id - a.embedding.first) * width + column, v);
    if (a.positions) {
        load_values<N>((const T *)a.positions + token % a.seq * width + column, p);
        for (int j = 0; j < N; j++)
            v[j] += p[j];
    }
    store_values<N>((T *)a.y + at, v);
}

/* The range of tokens that have one id. first: index of the first such token; behind: number of
 * tokens after the last. Both are found as minima, so the order of the atomics does not matter. */
struct span {
    uint32_t first, behind;
};

__global__ void begin_spans(long rows, struct span *spans)
{
    long row = own_element<1>();
    if (row < rows)
        spans[row] = { ~0u, ~0u };
}

__global__ void find_spans(struct embedding_gradient a, struct span *spans)
{
    long token = own_element<1>(), tokens = a.embedding.tokens;
    if (token >= tokens || !holds(a.embedding, a.ids[token]))
        return;
    struct span *span = &spans[a.ids[token] - a.embedding.first];
    atomicMin(&span->first, (uint32_t)token);
    atomicMin(&span->behind, (uint32_t)(tokens - 1 - token));
}

/* Sets bits in shared memory: one for each of the `THREADS` tokens from `first` on that has the
 * id. */
__device__ __forceinline__ void find_id(const struct embedding_gradient &a, int64_t id, long first,
                                        unsigned *found)
{
    long at = first + threadIdx.x;
    unsigned votes = __ballot_sync(~0u, at < a.embedding.tokens && a.ids[at] == id);
    __syncthreads(); /* all threads have read the previous bits */
    if (threadIdx.x % LANES == 0)
        found[threadIdx.x / LANES] = votes;
    __syncthreads();
}

/* One block per token. The block of the first token with an id sums the gradients of all tokens
 * with that id, in the host's order, so no two blocks add to the same sum. Block (x, y) has the
 * y-th part of the columns; a thread has UNITS x N columns. */
enum { UNITS = 2 };

template <typename T, int N>
__global__ void accumulate(struct embedding_gradient a, const struct span *spans)
{
    unsigned *found = (unsigned *)shared_memory();
    long token = blockIdx.x, width = a.embedding.width;
    int64_t id = a.ids[token], row = id - a.embedding.first;
    if (!holds(a.embedding, id) || spans[row].first != token)
        return;
    long column = ((long)blockIdx.y * UNITS * THREADS + threadIdx.x) * N;
    long end = a.embedding.tokens - spans[row].behind;
    float *to = a.dtable + row * width;
    float sums[UNITS][N] = {}, d[N];
    for (int u = 0; u < UNITS; u++)
        if (column + u * THREADS * N < width)
            load_values<N>(to + column + u * THREADS * N, sums[u]);
    for (long first = token; first < end; first += THREADS) {
        find_id(a, id, first, found);
        for (int warp = 0; warp < THREADS / LANES; warp++)
            for (unsigned bits = found[warp]; bits; bits &= bits - 1) {
                long at = (first + warp * LANES + __ffs((int)bits) - 1) * width;
                for (int u = 0; u < UNITS; u++) {
                    long i = column + u * THREADS * N;
                    if (i >= width)
                        continue;
                    load_values<N>((const T *)a.dy + at + i, d);
                    for (int j = 0; j < N; j++)
                        sums[u][j] += d[j];
                }
            }
    }
    for (int u = 0; u < UNITS; u++)
        if (column + u * THREADS * N < width)
            store_values<N>(to + column + u * THREADS * N, sums[u]);
}

/* A thread sums N columns of one position over all sequences, one after another. */
template <typename T, int N> __global__ void accumulate_positions(struct embedding_gradient a)
{
    long width = a.embedding.width, at = own_element<N>(), step = a.seq * width;
    if (at >= step)
        return;
    float sums[N], d[N];
    load_values<N>(a.dpositions + at, sums);
    for (long i = at; i < a.embedding.tokens * width; i += step) {
        load_values<N>((const T *)a.dy + i, d);
        for (int j = 0; j < N; j++)
            sums[j] += d[j];
    }
    store_values<N>(a.dpositions + at, sums);
}

cudaError_t launch_embedding(const struct launch *on, const struct embedding_args *a)
{
    long width = a->embedding.width;
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(width, a->table, a->positions, a->y);
        return by_lanes<T>(is_aligned, [&](auto lanes) {
            constexpr int N = lanes.count;
            return run_grid(on, grid_of_elements(a->embedding.tokens * width, N), gather<T, N>, *a);
        });
    });
}

template <typename T, int N>
static cudaError_t add_rows(const struct launch *on, const struct embedding_gradient &a)
{
    struct span *spans = (struct span *)on->workspace;
    long rows = a.embedding.rows;
    if (rows > WORKSPACE_BYTES / (long)sizeof *spans)
        return cudaErrorInvalidValue;
    cudaError_t error = run_grid(on, grid_of_elements(rows, 1), begin_spans, rows, spans);
    if (error == cudaSuccess)
        error = run_grid(on, grid_of_elements(a.embedding.tokens, 1), find_spans, a, spans);
    if (error != cudaSuccess)
        return error;
    struct grid grid = { .blocks = a.embedding.tokens,
                         .threads = THREADS,
                         .shared_bytes = THREADS / LANES * sizeof(unsigned),
                         .blocks_y = (int)ceil_div(a.embedding.width, UNITS * THREADS * N) };
    return run_grid(on, grid, accumulate<T, N>, a, spans);
}

template <typename T, int N>
static cudaError_t add_gradients(const struct launch *on, const struct embedding_gradient &a)
{
    cudaError_t error = add_rows<T, N>(on, a);
    if (error != cudaSuccess || !a.dpositions || a.embedding.tokens == 0)
        return error;
    return run_grid(on, grid_of_elements(a.seq * a.embedding.width, N), accumulate_positions<T, N>,
                    a);
}

cudaError_t launch_embedding_gradient(const struct launch *on, const struct embedding_gradient *a)
{
    return by_storage(on->storage, [&](auto type) {
        using T = decltype(type);
        bool is_aligned = rows_are_aligned<T>(a->embedding.width, a->dy, a->dtable, a->dpositions);
        return by_lanes<T>(is_aligned,
                           [&](auto lanes) { return add_gradients<T, lanes.count>(on, *a); });
    });
}
