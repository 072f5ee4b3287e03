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

/* Arguments of both passes. Columns are keys when rows are queries, and vice versa. */
struct backward_args {
    struct flash_backward a;
    const float *row_dots; /* row dots [sequences, heads, seq]: the dot product of each row of the
                              context with its gradient */
    float *part_sums;      /* used if there are several head parts (flash.cuh) */
    int parts;
    float scale, scale2; /* the scores' scale; scale2 = scale x log2 e */
    struct dropper dropper;
};

/* The probability of a raw score; 0 when the key is masked. For queries past the sequence's end the
 * result is not 0, but it is multiplied only by zeros. */
__device__ __forceinline__ float probability(const backward_args &b, float score, float log2_sum,
                                             bool is_seen)
{
    return exp2_fast(is_seen ? score * b.scale2 - log2_sum : -INFINITY);
}

/* Copies LINES queries, and the gradients of their contexts; only the first `left` of them
 * exist. */
template <int LINES, int HEAD_DIM, typename T, typename Tiles>
__device__ __forceinline__ void copy_queries(Tiles *to, const backward_args &b, const T *queries,
                                             const T *dcontext, int left)
{
    const struct attention &a = b.a.attention;
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->queries, queries, qkv_stride(a), left);
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->dcontext, dcontext, context_stride(a), left);
}

/* Copies LINES keys, and their values; only the first `left` of them exist. */
template <int LINES, int HEAD_DIM, typename T, typename Tiles>
__device__ __forceinline__ void copy_keys(Tiles *to, const backward_args &b, const T *keys,
                                          int left)
{
    const struct attention &a = b.a.attention;
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->keys, keys, qkv_stride(a), left);
    copy_tile<LINES, HEAD_DIM, BLOCK>(to->values, keys + HEAD_DIM, qkv_stride(a), left);
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
        T *rows = tile + first * HEAD_DIM;
        store_rows<HEAD_DIM>(rows, d[m], [&](int) { return scale; });
        __syncwarp();
        write_rows<HEAD_DIM>(to + first * stride, stride, rows, rows_left - first);
    }
}

/* --- keys and values ---------------------------------------------------------------------- */

/* Two warps share KEY_GROUPS groups of 16 keys: one computes the probabilities and the gradients of
 * the values, the other the gradients of the scores and of the keys. So each warp keeps one sum of
 * products in its registers instead of two, and has registers for twice as many rows per column
 * that it reads from shared memory. The probabilities go from one warp to the other through shared
 * memory. */
enum { PAIRS = WARPS / 2 };
template <int HEAD_DIM, bool drops> constexpr int KEY_GROUPS = drops ? 2 : 256 / HEAD_DIM;
template <int HEAD_DIM, bool drops>
constexpr int KEY_ROWS = PAIRS *KEY_GROUPS<HEAD_DIM, drops> *MMA_ROWS;

typedef neighbours<float, 4> probabilities; /* an accumulator */

template <typename T, int HEAD_DIM, bool drops> struct key_tiles {
    T keys[KEY_ROWS<HEAD_DIM, drops> * HEAD_DIM], values[KEY_ROWS<HEAD_DIM, drops> * HEAD_DIM];
    struct stage {
        T queries[COLUMNS * HEAD_DIM], dcontext[COLUMNS * HEAD_DIM];
        float log2_sums[COLUMNS], row_dots[COLUMNS];
    } stages[2];
    probabilities passed[PAIRS][KEY_GROUPS<HEAD_DIM, drops>][COLUMNS / MMA_COLUMNS][LANES];
};

/* A step of the pass over queries: COLUMNS queries, from query0 on, of one of the heads that share
 * the keys. */
template <typename T> struct query_step {
    const T *queries, *dcontext;
    long row; /* index of query0 in [sequences, heads, seq] */
    int head, query0;
};

/* The next step: a head's queries from the block's first key on, then those of the next head. */
template <typename T, int HEAD_DIM>
__device__ __forceinline__ query_step<T> next_step(const struct attention &a,
                                                   const query_step<T> &step, int key0)
{
    int seq = (int)a.seq, on = step.query0 + COLUMNS < seq ? COLUMNS : key0 - step.query0;
    bool is_next = on <= 0; /* the next head of the same key-value group */
    return { step.queries + on * qkv_stride(a) + (is_next ? HEAD_DIM : 0),
             step.dcontext + on * context_stride(a) + (is_next ? HEAD_DIM : 0),
             step.row + on + (is_next ? seq : 0), step.head + is_next, step.query0 + on };
}

/* The first 2 COLUMNS threads each load one log sum or row dot of the next step while the current
 * step is computed. */
template <typename T>
__device__ __forceinline__ float fetch_row(const backward_args &b, const query_step<T> &step)
{
    int i = (int)threadIdx.x % COLUMNS;
    const float *rows = (int)threadIdx.x < COLUMNS ? b.a.log_sums : b.row_dots;
    bool is_there = (int)threadIdx.x < 2 * COLUMNS && step.query0 + i < b.a.attention.seq;
    return is_there ? rows[step.row + i] : 0;
}

template <typename Stage> __device__ __forceinline__ void keep_row(Stage *to, float value)
{
    int i = (int)threadIdx.x % COLUMNS;
    if ((int)threadIdx.x < COLUMNS)
        to->log2_sums[i] = value * LOG2_E;
    else if ((int)threadIdx.x < 2 * COLUMNS)
        to->row_dots[i] = value;
}

/* Turns raw scores [16 M keys, COLUMNS queries] into probabilities after dropout. It also passes on
 * the probabilities before dropout, negated where they are dropped. The key of row g is visible to
 * the queries from column first_seen on. `kept` comes from draw_by_key. */
template <int M, bool drops, typename Passed>
__device__ __forceinline__ void
pass_probabilities(const backward_args &b, const float *log2_sums, int first_seen,
                   const uint32_t *kept, accumulator (*scores)[COLUMNS / MMA_COLUMNS], Passed to)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++) {
        int column = n * MMA_COLUMNS + own_lane() % 4 * 2;
#pragma unroll
        for (int m = 0; m < M; m++) {
            probabilities passed;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float p = probability(b, scores[m][n][i], log2_sums[column + i % 2],
                                      column + i % 2 >= first_seen + m * MMA_ROWS + i / 2 * 8);
                bool is_kept = !drops || kept[m] >> (4 * n + i) & 1;
                passed.at[i] = is_kept ? p : -p;
                scores[m][n][i] = drops ? is_kept ? p * b.dropper.kept_scale : 0 : p;
            }
            to[m][n][own_lane()] = passed;
        }
    }
}

/* Turns gradients of dropped probabilities into the unscaled gradients of the scores. */
template <int M, bool drops, typename Passed>
__device__ __forceinline__ void take_probabilities(const backward_args &b, const float *row_dots,
                                                   Passed from,
                                                   accumulator (*gradients)[COLUMNS / MMA_COLUMNS])
{
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++) {
        int column = n * MMA_COLUMNS + own_lane() % 4 * 2;
#pragma unroll
        for (int m = 0; m < M; m++) {
            probabilities passed = from[m][n][own_lane()];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float gradient = gradients[m][n][i];
                if (drops)
                    gradient = signbit(passed.at[i]) ? 0 : gradient * b.dropper.kept_scale;
                gradients[m][n][i] = fabsf(passed.at[i]) * (gradient - row_dots[column + i % 2]);
            }
        }
    }
}

/* The heads and keys of a block. The first keys, which most queries see, come first. */
struct key_work {
    int sequence, kv_head, part, heads, key0; /* heads: number of query heads in a head part */
    __device__ __forceinline__ int first_head(int parts) const
    {
        return (kv_head * parts + part) * heads;
    }
};

/* The kernel calls this function twice. `again` makes the compiler compute the result again instead
 * of keeping it in registers. */
__device__ __forceinline__ key_work key_work_of(const backward_args &b, int rows, int block)
{
    const struct attention &a = b.a.attention;
    int kv_heads = (int)a.kv_heads, parts = again(b.parts),
        heads = (int)a.heads / (kv_heads * parts);
    int groups = (int)a.sequences * kv_heads * parts, group = block % groups, own = group / parts;
    return { own / kv_heads, own % kv_heads, group % parts, heads, block / groups * rows };
}

/* Writes the warp's rows of a gradient, not yet scaled, to part_sums, at the place of the block's
 * head part. */
template <int M, int HEAD_DIM>
__device__ __forceinline__ void
write_part(float *to, int stride, const accumulator (*d)[HEAD_DIM / MMA_COLUMNS], int rows_left)
{
    typedef neighbours<float, 2> pair;
    int at = own_lane() / 4 * stride + own_lane() % 4 * 2;
    rows_left -= own_lane() / 4;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++, at = again(at + 8 * stride))
            if (m * MMA_ROWS + half * 8 < rows_left)
#pragma unroll
                for (int n = 0; n < HEAD_DIM / MMA_COLUMNS; n++)
                    *reinterpret_cast<pair *>(to + at + n * MMA_COLUMNS) = {
                        { d[m][n][2 * half], d[m][n][2 * half + 1] }
                    };
}

template <typename T, int HEAD_DIM, bool drops>
__global__ void __launch_bounds__(BLOCK, 2) key_gradients(backward_args b)
{
    constexpr int M = KEY_GROUPS<HEAD_DIM, drops>, ROWS = KEY_ROWS<HEAD_DIM, drops>;
    const struct attention &a = b.a.attention;
    auto *shared = (key_tiles<T, HEAD_DIM, drops> *)shared_memory();
    key_work w = key_work_of(b, ROWS, (int)blockIdx.x);
    int seq = (int)a.seq, key0 = w.key0;
    int pair = (int)threadIdx.x / LANES % PAIRS, pair_row = pair * M * MMA_ROWS;
    bool has_values = (int)threadIdx.x / LANES < PAIRS; /* the warp sums the gradients of the
                                                           values */
    T *own = (has_values ? shared->keys : shared->values) + pair_row * HEAD_DIM;
    auto *passed = shared->passed[pair];
    int key = key0 + pair_row + own_lane() / 4;
    int first_head = w.first_head(b.parts);
    head_place at = head_at(a, w.sequence, first_head);
    long from = key0 * at.qkv_stride;
    query_step<T> step = { (const T *)b.a.qkv + at.query + from,
                           (const T *)b.a.dcontext + at.context + key0 * at.context_stride,
                           at.row + key0, first_head, key0 };
    uint64_t number = 0; /* index of the sequence's first probability in dropout's random numbers */
    if (drops) {
        b.dropper = settled(b.dropper);
        number = first_probability(a, w.sequence, 0, 0);
    }

    copy_keys<ROWS, HEAD_DIM>(shared, b, (const T *)b.a.qkv + at.key + from, seq - key0);
    copy_queries<COLUMNS, HEAD_DIM>(&shared->stages[0], b, step.queries, step.dcontext, seq - key0);
    copies_commit();
    keep_row(&shared->stages[0], fetch_row(b, step));

    accumulator sums[M][HEAD_DIM / MMA_COLUMNS] = {};
    int steps = w.heads * ((seq - key0 + COLUMNS - 1) / COLUMNS);
    for (int i = 0; i < steps; i++) {
        auto *stage = &shared->stages[i % 2], *next = &shared->stages[(i + 1) % 2];
        int head = step.head, query0 = step.query0;
        float row = 0;
        copies_wait<0>();
        __syncthreads(); /* the current stage has arrived; the other stage is no longer read */
        if (i + 1 < steps) {
            step = next_step<T, HEAD_DIM>(a, step, key0);
            copy_queries<COLUMNS, HEAD_DIM>(next, b, step.queries, step.dcontext,
                                            seq - step.query0);
            row = fetch_row(b, step);
        }
        copies_commit();
        uint32_t drawn[M] = {}; /* drawn before the products are computed, as draws and products
                                   together need too many registers */
        long first = ((long)head * seq + query0 + own_lane() % 4 * 2) * seq + key;
#pragma unroll
        for (int m = 0; m < (drops && has_values ? M : 0); m++)
            drawn[m] =
                draw_by_key<COLUMNS>(b.dropper, number + (uint64_t)(first + m * MMA_ROWS), seq);
        /* scores, or gradients of probabilities */
        accumulator scores[M][COLUMNS / MMA_COLUMNS] = {};
        multiply_by_rows<M, COLUMNS, HEAD_DIM>(scores, own,
                                               has_values ? stage->queries : stage->dcontext);
        if (has_values)
            pass_probabilities<M, drops>(b, stage->log2_sums, key - query0, drawn, scores, passed);
        __syncthreads(); /* the probabilities have been written */
        if (!has_values)
            take_probabilities<M, drops>(b, stage->row_dots, passed, scores);
        multiply_by_columns<M, COLUMNS, HEAD_DIM>(sums, scores,
                                                  has_values ? stage->dcontext : stage->queries);
        keep_row(next, row);
    }
    __syncwarp(); /* no lane reads the warp's tile any more */

    w = key_work_of(b, ROWS, again((int)blockIdx.x));
    if (b.parts > 1) {
        long row = ((long)w.part * a.sequences + w.sequence) * seq + w.key0 + pair_row;
        long pairs = row * a.kv_heads + w.kv_head;
        write_part<M, HEAD_DIM>(b.part_sums + pairs * 2 * HEAD_DIM + (has_values ? HEAD_DIM : 0),
                                (int)a.kv_heads * 2 * HEAD_DIM, sums, seq - w.key0 - pair_row);
        return;
    }
    at = head_at(a, w.sequence, w.first_head(b.parts));
    T *dqkv = (T *)b.a.dqkv + (w.key0 + pair_row) * at.qkv_stride;
    write_gradient<M, HEAD_DIM>(dqkv + (has_values ? at.value : at.key), at.qkv_stride, own, sums,
                                has_values ? 1 : b.scale, seq - w.key0 - pair_row);
}

/* Adds the sums of the parts to the gradients of keys and values. A thread has CHUNK values. */
template <typename T> __global__ void __launch_bounds__(THREADS) add_parts(backward_args b)
{
    const struct attention &a = b.a.attention;
    long values = a.sequences * a.seq * a.kv_heads * 2 * a.head_dim, i = own_element<CHUNK>();
    if (i >= values)
        return;
    float sum[CHUNK], other[CHUNK];
    load_values<CHUNK>(b.part_sums + i, sum);
    for (int part = 1; part < b.parts; part++) {
        load_values<CHUNK>(b.part_sums + part * values + i, other);
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            sum[j] += other[j];
    }
    long width = 2 * a.head_dim, pair = i / width, token = pair / a.kv_heads;
    float scale = i % width < a.head_dim ? b.scale : 1; /* keys come before values */
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
        sum[j] *= scale;
    long heads = a.heads / a.kv_heads; /* query heads that share a key head; in memory, keys and
                                          values follow the queries */
    long first = (pair % a.kv_heads * (heads + 2) + heads) * a.head_dim + i % width;
    store_values<CHUNK>((T *)b.a.dqkv + token * qkv_stride(a) + first, sum);
}

/* --- queries ------------------------------------------------------------------------------ */

/* A warp has QUERY_GROUPS groups of 16 queries. */
template <bool drops> constexpr int QUERY_GROUPS = drops ? 1 : 2;
template <bool drops> constexpr int QUERY_ROWS = WARPS *QUERY_GROUPS<drops> *MMA_ROWS;

template <typename T, int HEAD_DIM, bool drops> struct query_tiles {
    T queries[QUERY_ROWS<drops> * HEAD_DIM], dcontext[QUERY_ROWS<drops> * HEAD_DIM];
    float log2_sums[QUERY_ROWS<drops>], row_dots[QUERY_ROWS<drops>];
    struct stage {
        T keys[COLUMNS * HEAD_DIM], values[COLUMNS * HEAD_DIM];
    } stages[2];
};

/* The log sums and row dots of a lane's rows, which are 8 apart. They are kept in registers if
 * there are enough registers. */
template <int HEAD_DIM, int M> struct lane_sums {
    const float *log2_sums, *row_dots;
    static constexpr bool are_kept = HEAD_DIM <= 64;
    float kept[2][are_kept ? 2 * M : 1];

    __device__ __forceinline__ lane_sums(const float *own_log2_sums, const float *own_row_dots)
        : log2_sums(own_log2_sums), row_dots(own_row_dots)
    {
#pragma unroll
        for (int i = 0; i < (are_kept ? 2 * M : 0); i++) {
            kept[0][i] = log2_sums[8 * i];
            kept[1][i] = row_dots[8 * i];
        }
    }
    __device__ __forceinline__ float log2_sum(int row) const
    {
        return are_kept ? kept[0][row / 8] : log2_sums[row];
    }
    __device__ __forceinline__ float row_dot(int row) const
    {
        return are_kept ? kept[1][row / 8] : row_dots[row];
    }
};

/* Turns raw scores and gradients of dropped probabilities, both [16 M queries, COLUMNS keys], into
 * the unscaled gradients of the scores. The query of row g sees the columns up to last_seen. `sums`
 * has the log sums and row dots of row g and of the rows after it; `kept` comes from
 * draw_by_query. */
template <int M, bool drops, typename Sums>
__device__ __forceinline__ void
query_score_gradients(const backward_args &b, const Sums &sums, int last_seen, const uint32_t *kept,
                      const accumulator (*scores)[COLUMNS / MMA_COLUMNS],
                      accumulator (*gradients)[COLUMNS / MMA_COLUMNS])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int column = n * MMA_COLUMNS + own_lane() % 4 * 2 + i % 2;
                int row = m * MMA_ROWS + i / 2 * 8;
                float gradient = gradients[m][n][i];
                float p =
                    probability(b, scores[m][n][i], sums.log2_sum(row), column <= last_seen + row);
                if (drops)
                    gradient = kept[m] >> (4 * n + i) & 1 ? gradient * b.dropper.kept_scale : 0;
                gradients[m][n][i] = p * (gradient - sums.row_dot(row));
            }
}

/* The head and queries of a block. The last queries, which see most keys, come first. */
struct query_work {
    int sequence, head, query0;
};

__device__ __forceinline__ query_work query_work_of(const struct attention &a, int rows, int block)
{
    int heads = (int)(a.sequences * a.heads), head = block % heads;
    int tiles = ((int)a.seq + rows - 1) / rows;
    return { head / (int)a.heads, head % (int)a.heads, (tiles - 1 - block / heads) * rows };
}

template <typename T, int HEAD_DIM, bool drops>
__global__ void __launch_bounds__(BLOCK, 2) query_gradients(backward_args b)
{
    constexpr int M = QUERY_GROUPS<drops>, ROWS = QUERY_ROWS<drops>;
    const struct attention &a = b.a.attention;
    auto *shared = (query_tiles<T, HEAD_DIM, drops> *)shared_memory();
    query_work w = query_work_of(a, ROWS, (int)blockIdx.x);
    head_place at = head_at(a, w.sequence, w.head);
    int seq = (int)a.seq, query0 = w.query0;
    int warp_row = (int)threadIdx.x / LANES * M * MMA_ROWS;
    T *queries = shared->queries + warp_row * HEAD_DIM;
    const T *dcontext = shared->dcontext + warp_row * HEAD_DIM;
    int own_row = warp_row + own_lane() / 4, query = query0 + own_row;
    int end = query0 + ROWS < seq ? query0 + ROWS : seq;
    for (int i = (int)threadIdx.x; i < ROWS; i += BLOCK) {
        bool is_there = query0 + i < seq;
        shared->log2_sums[i] = is_there ? b.a.log_sums[at.row + query0 + i] * LOG2_E : 0;
        shared->row_dots[i] = is_there ? b.row_dots[at.row + query0 + i] : 0;
    }

    __syncthreads();
    lane_sums<HEAD_DIM, M> sums(shared->log2_sums + own_row, shared->row_dots + own_row);

    uint64_t number = 0; /* index of the lane's first probability */
    if (drops) {
        b.dropper = settled(b.dropper);
        number = first_probability(a, w.sequence, w.head, query) + (uint64_t)(own_lane() % 4 * 2);
    }

    const T *keys = (const T *)b.a.qkv + at.key; /* the next keys to be copied */
    copy_queries<ROWS, HEAD_DIM>(shared, b, (const T *)b.a.qkv + at.query + query0 * at.qkv_stride,
                                 (const T *)b.a.dcontext + at.context + query0 * at.context_stride,
                                 seq - query0);
    copy_keys<COLUMNS, HEAD_DIM>(&shared->stages[0], b, keys, seq);
    copies_commit();

    accumulator dqueries[M][HEAD_DIM / MMA_COLUMNS] = {};
    for (int key0 = 0; key0 < end; key0 += COLUMNS) {
        auto *stage = &shared->stages[key0 / COLUMNS % 2];
        copies_wait<0>();
        __syncthreads(); /* the current stage has arrived; the other stage is no longer read */
        keys += COLUMNS * at.qkv_stride;
        if (key0 + COLUMNS < end)
            copy_keys<COLUMNS, HEAD_DIM>(&shared->stages[(key0 / COLUMNS + 1) % 2], b, keys,
                                         seq - key0 - COLUMNS);
        copies_commit();
        /* Some of the warp's queries see some of these keys. */
        if (key0 < query0 + warp_row + M * MMA_ROWS) {
            uint32_t drawn[M] = {};
#pragma unroll
            for (int m = 0; m < (drops ? M : 0); m++)
                drawn[m] = draw_by_query<COLUMNS>(
                    b.dropper, number + (uint64_t)((long)m * MMA_ROWS * seq + key0), seq);
            accumulator scores[M][COLUMNS / MMA_COLUMNS] = {};
            accumulator gradients[M][COLUMNS / MMA_COLUMNS] = {};
            multiply_by_rows<M, COLUMNS, HEAD_DIM>(scores, queries, stage->keys);
            multiply_by_rows<M, COLUMNS, HEAD_DIM>(gradients, dcontext, stage->values);
            query_score_gradients<M, drops>(b, sums, query - key0, drawn, scores, gradients);
            multiply_by_columns<M, COLUMNS, HEAD_DIM>(dqueries, gradients, stage->keys);
        }
    }
    __syncwarp(); /* no lane reads the warp's queries any more */

    w = query_work_of(a, ROWS, again((int)blockIdx.x));
    at = head_at(a, w.sequence, w.head);
    T *dqkv = (T *)b.a.dqkv + at.query + (w.query0 + warp_row) * at.qkv_stride;
    write_gradient<M, HEAD_DIM>(dqkv, at.qkv_stride, queries, dqueries, b.scale,
                                seq - w.query0 - warp_row);
}

template <typename T, int HEAD_DIM, bool drops>
cudaError_t backward(const struct launch *on, const backward_args &b)
{
    typedef key_tiles<T, HEAD_DIM, drops> of_keys;
    typedef query_tiles<T, HEAD_DIM, drops> of_queries;
    static_assert(sizeof(of_keys) <= MOST_SHARED_BYTES, "");
    static_assert(sizeof(of_queries) <= MOST_SHARED_BYTES, "");
    const struct attention &a = b.a.attention;
    struct grid keys = { .blocks = ceil_div(a.seq, KEY_ROWS<HEAD_DIM, drops>) * a.sequences *
                                   a.kv_heads * b.parts,
                         .threads = BLOCK,
                         .shared_bytes = sizeof(of_keys) };
    struct grid queries = { .blocks = ceil_div(a.seq, QUERY_ROWS<drops>) * a.sequences * a.heads,
                            .threads = BLOCK,
                            .shared_bytes = sizeof(of_queries) };
    cudaError_t error = run_grid(on, keys, key_gradients<T, HEAD_DIM, drops>, b);
    if (error == cudaSuccess && b.parts > 1)
        error =
            run_grid(on, grid_of_elements(head_parts_values(a) / b.parts, CHUNK), add_parts<T>, b);
    return error == cudaSuccess ? run_grid(on, queries, query_gradients<T, HEAD_DIM, drops>, b)
                                : error;
}

} // namespace

int head_parts(const struct attention &a)
{
    /* Blocks have unequal work, so a GPU is busy evenly only if there are about four times as many
     * blocks as run at once. An H100 runs two blocks on each of 132 multiprocessors. More parts
     * would need more memory. */
    enum { ENOUGH_BLOCKS = 1024, MOST_PARTS = 4, KEYS_OF_A_BLOCK = 64 };
    long blocks = ceil_div(a.seq, KEYS_OF_A_BLOCK) * a.sequences * a.kv_heads;
    int parts = 1;
    while (parts < MOST_PARTS && blocks * parts < ENOUGH_BLOCKS &&
           a.heads / a.kv_heads % (2 * parts) == 0)
        parts *= 2;
    return parts;
}

long head_parts_values(const struct attention &a)
{
    int parts = head_parts(a);
    return parts > 1 ? parts * a.sequences * a.seq * a.kv_heads * 2 * a.head_dim : 0;
}

cudaError_t flash_tiles_backward(const struct launch *on, const struct flash_backward &a,
                                 const float *row_dots, float *part_sums)
{
    float scale = score_scale(a.attention);
    backward_args b = { a,
                        row_dots,
                        part_sums,
                        head_parts(a.attention),
                        scale,
                        scale * LOG2_E,
                        dropper_of(a.attention.dropout.draw, a.attention.dropout.dropout) };
    return by_tile(on->storage, a.attention.head_dim, [&](auto type, auto head_dim) {
        using T = decltype(type);
        constexpr int HEAD_DIM = head_dim.count;
        return a.attention.dropout.dropout > 0 ? backward<T, HEAD_DIM, true>(on, b)
                                               : backward<T, HEAD_DIM, false>(on, b);
    });
}
