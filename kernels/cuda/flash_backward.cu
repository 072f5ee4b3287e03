/* The gradients of fused attention on tensor cores, after Dao 2023 (FlashAttention-2, algorithm 2),
 * in two passes instead of one: blocks of keys sum over the queries, then blocks of queries sum
 * over the keys. Probabilities are computed twice (7 products instead of 5), but no two blocks add
 * to the same value, so results are the same bits every time, without atomics. */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/tile.cuh"

namespace
{

enum { WARPS = 4, BLOCK = WARPS * LANES, COLUMNS = 32 };

/* A warp has MATRICES groups of 16 rows of its block; rows are keys in one pass, queries in the
 * other. A column that is read from shared memory serves all groups, so a warp has two groups where
 * the registers suffice. */
template <int HEAD_DIM, bool drops> constexpr int MATRICES = HEAD_DIM > 64 || drops ? 1 : 2;
template <int HEAD_DIM, bool drops> constexpr int ROWS = WARPS *MATRICES<HEAD_DIM, drops> *MMA_ROWS;

/* Arguments of both passes. Columns are keys when rows are queries, and vice versa. */
struct backward_args {
    struct flash_backward a;
    const float *row_dots; /* [sequences, heads, seq]: context . its gradient */
    float scale, scale2;   /* the scores' scale; scale2 = scale x log2 e */
    struct dropper dropper;
};

__device__ __forceinline__ long last_of(long end, long seq)
{
    return end < seq ? end : seq;
}

/* The probability of a raw score; 0 when the key is masked. The results for queries past the
 * sequence's end are multiplied only by zeros. */
__device__ __forceinline__ float probability(const backward_args &b, float score, float log2_sum,
                                             bool is_seen)
{
    return exp2_fast(is_seen ? score * b.scale2 - log2_sum : -INFINITY);
}

/* Applies dropout to the gradient of a probability and to the probability. */
__device__ __forceinline__ void drop(const backward_args &b, bool is_kept, float *gradient,
                                     float *dropped)
{
    *gradient = is_kept ? *gradient * b.dropper.kept_scale : 0;
    *dropped = is_kept ? *dropped * b.dropper.kept_scale : 0;
}

/* Copies LINES queries of a head, from query0 on, and the gradients of their contexts. */
template <int LINES, int HEAD_DIM, typename T, typename Tiles>
__device__ __forceinline__ void copy_queries(Tiles *to, const backward_args &b,
                                             const head_place &at, long query0)
{
    long left = b.a.attention.seq - query0;
    copy_tile<LINES, HEAD_DIM, BLOCK>(
        to->queries, (const T *)b.a.qkv + at.query + query0 * at.qkv_stride, at.qkv_stride, left);
    copy_tile<LINES, HEAD_DIM, BLOCK>(
        to->dcontext, (const T *)b.a.dcontext + at.context + query0 * at.context_stride,
        at.context_stride, left);
}

/* Copies LINES keys of a head, from key0 on, and their values. */
template <int LINES, int HEAD_DIM, typename T, typename Tiles>
__device__ __forceinline__ void copy_keys(Tiles *to, const backward_args &b, const head_place &at,
                                          long key0)
{
    const T *qkv = (const T *)b.a.qkv + key0 * at.qkv_stride;
    long left = b.a.attention.seq - key0;
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->keys, qkv + at.key, at.qkv_stride, left);
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->values, qkv + at.value, at.qkv_stride, left);
}

/* Writes the warp's rows of a gradient, through shared memory of a tile that the warp no longer
 * needs. */
template <int M, int HEAD_DIM, typename T>
__device__ __forceinline__ void write_gradient(T *to, long stride, T *tile,
                                               const accumulator (*d)[HEAD_DIM / MMA_COLUMNS],
                                               float scale, long rows_left)
{
#pragma unroll
    for (int m = 0; m < M; m++) {
        int first = m * MMA_ROWS;
        T *rows = tile + first * tile_stride<HEAD_DIM>;
        store_rows<HEAD_DIM>(rows, d[m], [&](int) { return scale; });
        __syncwarp();
        write_rows<HEAD_DIM>(to + first * stride, stride, rows, rows_left - first);
    }
}

/* --- keys and values ---------------------------------------------------------------------- */

template <typename T, int HEAD_DIM, bool drops> struct key_tiles {
    T keys[tile_values<HEAD_DIM>(ROWS<HEAD_DIM, drops>)],
        values[tile_values<HEAD_DIM>(ROWS<HEAD_DIM, drops>)];
    struct stage {
        T queries[tile_values<HEAD_DIM>(COLUMNS)], dcontext[tile_values<HEAD_DIM>(COLUMNS)];
        float log2_sums[COLUMNS], row_dots[COLUMNS];
    } stages[2];
};

/* A step of the pass over queries: COLUMNS queries of one of the heads that share the keys. */
struct query_step {
    head_place at;
    long head, query0;
};

/* The next step: a head's queries from the block's first key on, then those of the next head. */
__device__ __forceinline__ query_step next_step(const struct attention &a, const query_step &step,
                                                long key0)
{
    if (step.query0 + COLUMNS < a.seq)
        return { step.at, step.head, step.query0 + COLUMNS };
    head_place at = step.at; /* the next head of the same key-value group */
    at.query += a.head_dim;
    at.context += a.head_dim;
    at.row += a.seq;
    return { at, step.head + 1, key0 };
}

/* The first 2 COLUMNS threads each load one log sum or row dot of the next step while the current
 * step is computed. */
__device__ __forceinline__ float fetch_row(const backward_args &b, const query_step &step)
{
    int i = (int)threadIdx.x % COLUMNS;
    const float *rows = (int)threadIdx.x < COLUMNS ? b.a.log_sums : b.row_dots;
    bool is_there = (int)threadIdx.x < 2 * COLUMNS && step.query0 + i < b.a.attention.seq;
    return is_there ? rows[step.at.row + step.query0 + i] : 0;
}

template <typename Stage> __device__ __forceinline__ void keep_row(Stage *to, float value)
{
    int i = (int)threadIdx.x % COLUMNS;
    if ((int)threadIdx.x < COLUMNS)
        to->log2_sums[i] = value * LOG2_E;
    else if ((int)threadIdx.x < 2 * COLUMNS)
        to->row_dots[i] = value;
}

/* Turns raw scores and gradients of probabilities, both [16 keys, COLUMNS queries], into the
 * dropped probabilities and the unscaled gradients of the scores. The key of row g is visible to
 * the queries from column first_seen on. `number` is the index of the lane's first probability in
 * dropout's random numbers. */
template <bool drops, typename Stage>
__device__ __forceinline__ void score_gradients(const backward_args &b, const Stage *stage,
                                                int first_seen, uint64_t number,
                                                accumulator *scores, accumulator *gradients)
{
    uint32_t kept[4];
    if (drops)
        draw_by_key<COLUMNS>(b.dropper, number, b.a.attention.seq, kept);
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = n * MMA_COLUMNS + own_lane() % 4 * 2 + i % 2;
            float p = probability(b, scores[n][i], stage->log2_sums[column],
                                  column >= first_seen + i / 2 * 8);
            scores[n][i] = p;
            if (drops)
                drop(b, kept[i] >> 4 * n & 1, &gradients[n][i], &scores[n][i]);
            gradients[n][i] = p * (gradients[n][i] - stage->row_dots[column]);
        }
}

template <typename T, int HEAD_DIM, bool drops>
__global__ void __launch_bounds__(BLOCK) key_gradients(backward_args b)
{
    constexpr int M = MATRICES<HEAD_DIM, drops>;
    const struct attention &a = b.a.attention;
    auto *shared = (key_tiles<T, HEAD_DIM, drops> *)shared_memory();
    long groups = a.sequences * a.kv_heads,
         tiles = (a.seq + ROWS<HEAD_DIM, drops> - 1) / ROWS<HEAD_DIM, drops>;
    long group = blockIdx.x % groups, sequence = group / a.kv_heads;
    /* The first keys, which most queries see, come first. */
    long key0 = blockIdx.x / groups % tiles * ROWS<HEAD_DIM, drops>;
    group %= a.kv_heads;
    int warp_row = (int)threadIdx.x / LANES * M * MMA_ROWS;
    T *keys = shared->keys + warp_row * tile_stride<HEAD_DIM>;
    T *values = shared->values + warp_row * tile_stride<HEAD_DIM>;
    long key = key0 + warp_row + own_lane() / 4;
    long steps = (a.heads / a.kv_heads) * ((a.seq - key0 + COLUMNS - 1) / COLUMNS);
    long first_head = group * (a.heads / a.kv_heads);
    head_place at = head_at(a, sequence, first_head);
    query_step step = { at, first_head, key0 };
    uint64_t number = 0; /* index of the sequence's first probability in dropout's random numbers */
    if (drops) {
        b.dropper = settled(b.dropper);
        number = first_probability(a, sequence, 0, 0);
    }

    copy_keys<ROWS<HEAD_DIM, drops>, HEAD_DIM, T>(shared, b, at, key0);
    copy_queries<COLUMNS, HEAD_DIM, T>(&shared->stages[0], b, at, key0);
    copies_commit();
    keep_row(&shared->stages[0], fetch_row(b, step));

    accumulator dkeys[M][HEAD_DIM / MMA_COLUMNS] = {}, dvalues[M][HEAD_DIM / MMA_COLUMNS] = {};
    for (long i = 0; i < steps; i++) {
        auto *stage = &shared->stages[i % 2], *next = &shared->stages[(i + 1) % 2];
        query_step present = step;
        float row = 0;
        copies_wait<0>();
        __syncthreads(); /* the current stage has arrived; the other stage is no longer read */
        if (i + 1 < steps) {
            step = next_step(a, step, key0);
            copy_queries<COLUMNS, HEAD_DIM, T>(next, b, step.at, step.query0);
            row = fetch_row(b, step);
        }
        copies_commit();
        accumulator scores[M][COLUMNS / MMA_COLUMNS] = {};
        accumulator gradients[M][COLUMNS / MMA_COLUMNS] = {};
        multiply_by_rows<M, COLUMNS, HEAD_DIM>(scores, keys, stage->queries);
        multiply_by_rows<M, COLUMNS, HEAD_DIM>(gradients, values, stage->dcontext);
        long query = present.query0 + own_lane() % 4 * 2;
#pragma unroll
        for (int m = 0; m < M; m++) {
            long own = key + m * MMA_ROWS;
            score_gradients<drops>(b, stage, (int)(own - present.query0),
                                   number +
                                       (uint64_t)((present.head * a.seq + query) * a.seq + own),
                                   scores[m], gradients[m]);
        }
        multiply_by_columns<M, COLUMNS, HEAD_DIM>(dvalues, scores, stage->dcontext);
        multiply_by_columns<M, COLUMNS, HEAD_DIM>(dkeys, gradients, stage->queries);
        keep_row(next, row);
    }
    __syncwarp(); /* no lane reads the warp's tiles any more */

    T *dqkv = (T *)b.a.dqkv + (key0 + warp_row) * at.qkv_stride;
    long left = a.seq - key0 - warp_row;
    write_gradient<M, HEAD_DIM>(dqkv + at.key, at.qkv_stride, keys, dkeys, b.scale, left);
    write_gradient<M, HEAD_DIM>(dqkv + at.value, at.qkv_stride, values, dvalues, 1, left);
}

/* --- queries ------------------------------------------------------------------------------ */

template <typename T, int HEAD_DIM, bool drops> struct query_tiles {
    T queries[tile_values<HEAD_DIM>(ROWS<HEAD_DIM, drops>)];
    T dcontext[tile_values<HEAD_DIM>(ROWS<HEAD_DIM, drops>)];
    struct stage {
        T keys[tile_values<HEAD_DIM>(COLUMNS)], values[tile_values<HEAD_DIM>(COLUMNS)];
    } stages[2];
};

/* Like score_gradients, but for [16 queries, COLUMNS keys], and the dropped probabilities are not
 * needed. The query of row g sees the columns up to last_seen. log2_sums and row_dots are for rows
 * g and g + 8. */
template <bool drops>
__device__ __forceinline__ void
query_score_gradients(const backward_args &b, const float *log2_sums, const float *row_dots,
                      int last_seen, uint64_t number, accumulator *scores, accumulator *gradients)
{
    uint32_t kept[2];
    if (drops)
        draw_by_query<COLUMNS>(b.dropper, number, b.a.attention.seq, kept);
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = n * MMA_COLUMNS + own_lane() % 4 * 2 + i % 2;
            float p =
                probability(b, scores[n][i], log2_sums[i / 2], column <= last_seen + i / 2 * 8);
            if (drops)
                drop(b, kept[i / 2] >> (4 * n + i % 2) & 1, &gradients[n][i], &scores[n][i]);
            gradients[n][i] = p * (gradients[n][i] - row_dots[i / 2]);
        }
}

template <typename T, int HEAD_DIM, bool drops>
__global__ void __launch_bounds__(BLOCK) query_gradients(backward_args b)
{
    constexpr int M = MATRICES<HEAD_DIM, drops>;
    const struct attention &a = b.a.attention;
    auto *shared = (query_tiles<T, HEAD_DIM, drops> *)shared_memory();
    long heads = a.sequences * a.heads,
         tiles = (a.seq + ROWS<HEAD_DIM, drops> - 1) / ROWS<HEAD_DIM, drops>;
    long head = blockIdx.x % heads, sequence = head / a.heads;
    /* The last queries, which see most keys, come first. */
    long query0 = (tiles - 1 - blockIdx.x / heads) * ROWS<HEAD_DIM, drops>;
    head %= a.heads;
    head_place at = head_at(a, sequence, head);
    int warp_row = (int)threadIdx.x / LANES * M * MMA_ROWS;
    T *queries = shared->queries + warp_row * tile_stride<HEAD_DIM>;
    const T *dcontext = shared->dcontext + warp_row * tile_stride<HEAD_DIM>;
    long query = query0 + warp_row + own_lane() / 4,
         end = last_of(query0 + ROWS<HEAD_DIM, drops>, a.seq);
    float log2_sums[2 * M], row_dots[2 * M]; /* for each of the lane's rows, which are 8 apart */
#pragma unroll
    for (int half = 0; half < 2 * M; half++) {
        bool is_there = query + 8 * half < a.seq;
        log2_sums[half] = is_there ? b.a.log_sums[at.row + query + 8 * half] * LOG2_E : 0;
        row_dots[half] = is_there ? b.row_dots[at.row + query + 8 * half] : 0;
    }

    uint64_t number = 0; /* index of the lane's first probability */
    if (drops) {
        b.dropper = settled(b.dropper);
        number = first_probability(a, sequence, head, query) + (uint64_t)(own_lane() % 4 * 2);
    }

    copy_queries<ROWS<HEAD_DIM, drops>, HEAD_DIM, T>(shared, b, at, query0);
    copy_keys<COLUMNS, HEAD_DIM, T>(&shared->stages[0], b, at, 0);
    copies_commit();

    accumulator dqueries[M][HEAD_DIM / MMA_COLUMNS] = {};
    for (long key0 = 0; key0 < end; key0 += COLUMNS) {
        auto *stage = &shared->stages[key0 / COLUMNS % 2];
        copies_wait<0>();
        __syncthreads(); /* as above */
        if (key0 + COLUMNS < end)
            copy_keys<COLUMNS, HEAD_DIM, T>(&shared->stages[(key0 / COLUMNS + 1) % 2], b, at,
                                            key0 + COLUMNS);
        copies_commit();
        /* Some of the warp's queries see some of these keys. */
        if (key0 < query0 + warp_row + M * MMA_ROWS) {
            accumulator scores[M][COLUMNS / MMA_COLUMNS] = {};
            accumulator gradients[M][COLUMNS / MMA_COLUMNS] = {};
            multiply_by_rows<M, COLUMNS, HEAD_DIM>(scores, queries, stage->keys);
            multiply_by_rows<M, COLUMNS, HEAD_DIM>(gradients, dcontext, stage->values);
#pragma unroll
            for (int m = 0; m < M; m++)
                query_score_gradients<drops>(
                    b, &log2_sums[2 * m], &row_dots[2 * m], (int)(query + m * MMA_ROWS - key0),
                    number + (uint64_t)(m * MMA_ROWS * a.seq + key0), scores[m], gradients[m]);
            multiply_by_columns<M, COLUMNS, HEAD_DIM>(dqueries, gradients, stage->keys);
        }
    }
    __syncwarp();
    write_gradient<M, HEAD_DIM>((T *)b.a.dqkv + at.query + (query0 + warp_row) * at.qkv_stride,
                                at.qkv_stride, queries, dqueries, b.scale,
                                a.seq - query0 - warp_row);
}

template <typename T, int HEAD_DIM, bool drops>
cudaError_t backward(const struct launch *on, const backward_args &b)
{
    typedef key_tiles<T, HEAD_DIM, drops> of_keys;
    typedef query_tiles<T, HEAD_DIM, drops> of_queries;
    static_assert(sizeof(of_keys) <= MOST_SHARED_BYTES, "");
    static_assert(sizeof(of_queries) <= MOST_SHARED_BYTES, "");
    const struct attention &a = b.a.attention;
    long tiles = ceil_div(a.seq, ROWS<HEAD_DIM, drops>);
    struct grid keys = { .blocks = tiles * a.sequences * a.kv_heads,
                         .threads = BLOCK,
                         .shared_bytes = sizeof(of_keys) };
    struct grid queries = { .blocks = tiles * a.sequences * a.heads,
                            .threads = BLOCK,
                            .shared_bytes = sizeof(of_queries) };
    cudaError_t error = run_grid(on, keys, key_gradients<T, HEAD_DIM, drops>, b);
    return error == cudaSuccess ? run_grid(on, queries, query_gradients<T, HEAD_DIM, drops>, b)
                                : error;
}

} // namespace

cudaError_t flash_tiles_backward(const struct launch *on, const struct flash_backward &a,
                                 const float *row_dots)
{
    float scale = score_scale(a.attention);
    backward_args b = { a, row_dots, scale, scale * LOG2_E,
                        dropper_of(a.attention.dropout.draw, a.attention.dropout.dropout) };
    return by_tile(on->storage, a.attention.head_dim, [&](auto type, auto head_dim) {
        using T = decltype(type);
        constexpr int HEAD_DIM = head_dim.count;
        return a.attention.dropout.dropout > 0 ? backward<T, HEAD_DIM, true>(on, b)
                                               : backward<T, HEAD_DIM, false>(on, b);
    });
}
