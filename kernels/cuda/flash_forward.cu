/* Fused attention on tensor cores, after Dao 2023 (FlashAttention-2, algorithm 1): a block has the
 * queries [query0, query0 + ROWS) of one head, passes over the keys that these see, KEYS at a time,
 * and rescales its sums when a row's maximum grows. The next keys and values are loaded during the
 * computation on the current ones. */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/tile.cuh"

namespace
{

/* A warp has MATRICES groups of 16 queries. */
enum { WARPS = 4, BLOCK = WARPS * LANES, MATRICES = 2, ROWS = WARPS * MATRICES * MMA_ROWS };

/* Keys per pass. With more keys, each query that is read from shared memory is used more often, but
 * more registers are needed. */
template <int HEAD_DIM, bool drops> constexpr int KEYS = drops ? 32 : HEAD_DIM > 96 ? 48 : 64;

/* A warp's queries, which are read from shared memory only once where the registers suffice. */
template <int HEAD_DIM> struct kept_queries {
    static constexpr bool are_kept = HEAD_DIM <= 64;
    fragment at[MATRICES][are_kept ? HEAD_DIM / MMA_DEPTH : 1];
};

/* Queries, and two stages of keys and values. */
template <typename T, int HEAD_DIM, bool drops> struct shared_tiles {
    T queries[ROWS * HEAD_DIM];
    struct stage {
        T keys[KEYS<HEAD_DIM, drops> * HEAD_DIM];
        T values[KEYS<HEAD_DIM, drops> * HEAD_DIM];
    } stages[2];
};

/* The queries and head of a block. The last queries, which see most keys, come first. */
struct work {
    int sequence, head, query0;
};

__device__ __forceinline__ work work_of(const struct attention &a, int block)
{
    int heads = (int)(a.sequences * a.heads), tiles = ((int)a.seq + ROWS - 1) / ROWS;
    int head = block % heads;
    return { head / (int)a.heads, head % (int)a.heads, (tiles - 1 - block / heads) * ROWS };
}

/* Copies COLUMNS keys, and their values; only the first `left` of them exist. */
template <int COLUMNS, int HEAD_DIM, typename T, typename Stage>
__device__ __forceinline__ void copy_stage(Stage *to, const T *keys, long stride, int left)
{
    copy_tile<COLUMNS, HEAD_DIM, BLOCK>(to->keys, keys, stride, left);
    copy_tile<COLUMNS, HEAD_DIM, BLOCK>(to->values, keys + HEAD_DIM, stride, left);
}

/* This lane's running state for rows g and g + 8 of 16 queries: the largest raw score so far, and
 * the sum over the columns that the lane has. */
struct running {
    float most[2], sum[2];
};

template <int HEAD_DIM, typename T>
__device__ __forceinline__ void keep_queries(kept_queries<HEAD_DIM> *kept, const T *queries)
{
    lane_row<HEAD_DIM, T> row = fragments_of<HEAD_DIM>(queries);
#pragma unroll
    for (int m = 0; m < MATRICES; m++)
#pragma unroll
        for (int k = 0; k < (kept->are_kept ? HEAD_DIM / MMA_DEPTH : 0); k++)
            row.load(kept->at[m][k], m * MMA_ROWS, k * MMA_DEPTH);
}

template <int COLUMNS, int HEAD_DIM, typename T>
__device__ __forceinline__ void multiply_queries(accumulator (*scores)[COLUMNS / MMA_COLUMNS],
                                                 const kept_queries<HEAD_DIM> &kept,
                                                 const T *queries, const T *keys)
{
    if constexpr (kept_queries<HEAD_DIM>::are_kept)
        multiply_fragments<MATRICES, COLUMNS, HEAD_DIM>(
            scores,
            [&](int m, int k, fragment to) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    to[i] = kept.at[m][k / MMA_DEPTH][i];
            },
            keys);
    else
        multiply_by_rows<MATRICES, COLUMNS, HEAD_DIM>(scores, queries, keys);
}

/* Masks the scores of keys after the query with -infinity. `ahead` is the position of this lane's
 * first query minus that of its first key. Every row sees the first key, so a row's maximum is
 * finite. */
template <int COLUMNS> __device__ __forceinline__ void hide_keys(accumulator *scores, int ahead)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (n * MMA_COLUMNS + i % 2 > ahead + i / 2 * 8)
                scores[n][i] = -INFINITY;
}

/* Turns scores into exp(scale (score - maximum so far)), and returns the factor by which earlier
 * sums must be multiplied. scale2 is scale x log2 e. The maximum is updated only when exp(new -
 * old) exceeds 4, so most tiles need no rescaling. */
template <int COLUMNS>
__device__ __forceinline__ float exponentials(accumulator *scores, int half, float scale2,
                                              running *run)
{
    float before = run->most[half], most = before, sum = 0;
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
        most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    most = reduce_row(most, larger());
    most = (most - before) * scale2 <= 2 ? before : most;
    float rescale = exp2_fast((before - most) * scale2), shift = most * scale2;
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
            scores[n][i] = exp2_fast(scores[n][i] * scale2 - shift);
            sum += scores[n][i];
        }
    run->most[half] = most;
    run->sum[half] = run->sum[half] * rescale + sum;
    return rescale;
}

/* Multiplies the rows of `out` by the factors from `exponentials`, most of which are 1. */
template <int HEAD_DIM>
__device__ __forceinline__ void rescale_rows(accumulator *out, const float rescale[2])
{
    if (__ballot_sync(~0u, rescale[0] != 1 || rescale[1] != 1) == 0)
        return;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[n][i] *= rescale[i / 2];
}

/* Applies dropout to probabilities; `kept` comes from draw_by_query. */
template <int COLUMNS>
__device__ __forceinline__ void drop(accumulator *p, float kept_scale, uint32_t kept)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[n][i] = kept >> (4 * n + i) & 1 ? p[n][i] * kept_scale : 0;
}

template <typename T, int HEAD_DIM, bool drops>
__global__ void __launch_bounds__(BLOCK, 2)
    forward_tile(struct flash_forward a, float scale2, struct dropper dropper)
{
    constexpr int COLUMNS = KEYS<HEAD_DIM, drops>;
    const struct attention &attention = a.attention;
    auto *shared = (shared_tiles<T, HEAD_DIM, drops> *)shared_memory();
    work w = work_of(attention, (int)blockIdx.x);
    head_place at = head_at(attention, w.sequence, w.head);
    int seq = (int)attention.seq;
    const T *keys = (const T *)a.qkv + at.key; /* the next keys to be copied */
    int warp_row = (int)threadIdx.x / LANES * MATRICES * MMA_ROWS;
    int g = own_lane() / 4, t = own_lane() % 4;
    int own_query = w.query0 + warp_row; /* the warp's first query */
    T *queries = shared->queries + warp_row * HEAD_DIM;
    int end = w.query0 + ROWS < seq ? w.query0 + ROWS : seq; /* end of the keys that the block's
                                                                queries see */

    copy_tile<ROWS, HEAD_DIM, BLOCK>(shared->queries,
                                     (const T *)a.qkv + at.query + w.query0 * at.qkv_stride,
                                     at.qkv_stride, seq - w.query0);
    copy_stage<COLUMNS, HEAD_DIM>(&shared->stages[0], keys, at.qkv_stride, seq);
    copies_commit();

    accumulator out[MATRICES][HEAD_DIM / MMA_COLUMNS] = {};
    running run[MATRICES];
    kept_queries<HEAD_DIM> kept;
    uint64_t number = 0; /* index of the lane's first probability in dropout's random numbers */
    if (drops) {
        dropper = settled(dropper);
        number =
            first_probability(attention, w.sequence, w.head, own_query + g) + (uint64_t)(2 * t);
    }
    for (int m = 0; m < MATRICES; m++)
        run[m] = { { -INFINITY, -INFINITY }, { 0, 0 } };
    if (kept_queries<HEAD_DIM>::are_kept) {
        copies_wait<0>();
        __syncthreads(); /* the queries have arrived */
        keep_queries(&kept, queries);
    }
    for (int key0 = 0; key0 < end; key0 += COLUMNS) {
        auto *stage = &shared->stages[key0 / COLUMNS % 2];
        /* Some of the warp's queries see some of these keys. */
        bool is_seen = key0 < own_query + MATRICES * MMA_ROWS;
        uint32_t drawn[MATRICES]; /* drawn before the scores are computed, as draws and scores
                                        together need too many registers */
        if (drops && is_seen)
#pragma unroll
            for (int m = 0; m < MATRICES; m++)
                drawn[m] = draw_by_query<COLUMNS>(
                    dropper, number + (uint64_t)((long)m * MMA_ROWS * seq + key0), seq);
        copies_wait<0>();
        __syncthreads(); /* the current stage has arrived; the other stage is no longer read */
        keys += COLUMNS * at.qkv_stride;
        if (key0 + COLUMNS < end)
            copy_stage<COLUMNS, HEAD_DIM>(&shared->stages[(key0 / COLUMNS + 1) % 2], keys,
                                          at.qkv_stride, seq - key0 - COLUMNS);
        copies_commit();
        if (is_seen) {
            accumulator scores[MATRICES][COLUMNS / MMA_COLUMNS] = {};
            multiply_queries<COLUMNS>(scores, kept, queries, stage->keys);
#pragma unroll
            for (int m = 0; m < MATRICES; m++) {
                int query = own_query + m * MMA_ROWS + g, key = key0 + 2 * t;
                if (key0 + COLUMNS > own_query + m * MMA_ROWS + 1)
                    hide_keys<COLUMNS>(scores[m], query - key);
                float rescale[2];
#pragma unroll
                for (int half = 0; half < 2; half++)
                    rescale[half] = exponentials<COLUMNS>(scores[m], half, scale2, &run[m]);
                rescale_rows<HEAD_DIM>(out[m], rescale);
                if (drops)
                    drop<COLUMNS>(scores[m], dropper.kept_scale, drawn[m]);
            }
            multiply_by_columns<MATRICES, COLUMNS, HEAD_DIM>(out, scores, stage->values);
        }
    }
    __syncwarp(); /* no lane reads the warp's queries any more */

    w = work_of(attention, again((int)blockIdx.x));
    at = head_at(attention, w.sequence, w.head);
    own_query = w.query0 + warp_row;
#pragma unroll
    for (int m = 0; m < MATRICES; m++) {
        int first = own_query + m * MMA_ROWS, left = seq - first;
        T *rows = queries + m * MMA_ROWS * HEAD_DIM;
        float sums[2];
        for (int half = 0; half < 2; half++) {
            sums[half] = reduce_row(run[m].sum[half], add());
            if (t == 0 && g + 8 * half < left)
                a.log_sums[at.row + first + g + 8 * half] =
                    run[m].most[half] * scale2 * LN_2 + logf(sums[half]);
        }
        store_rows<HEAD_DIM>(rows, out[m], [&](int half) { return 1 / sums[half]; });
        __syncwarp();
        write_rows<HEAD_DIM>((T *)a.context + at.context + first * at.context_stride,
                             at.context_stride, rows, left);
    }
}

template <typename T, int HEAD_DIM, bool drops>
cudaError_t forward(const struct launch *on, const struct flash_forward &a)
{
    static_assert(sizeof(shared_tiles<T, HEAD_DIM, drops>) <= MOST_SHARED_BYTES, "");
    const struct attention &attention = a.attention;
    struct grid grid = {
        .blocks = attention.sequences * attention.heads * ceil_div(attention.seq, ROWS),
        .threads = BLOCK,
        .shared_bytes = sizeof(shared_tiles<T, HEAD_DIM, drops>),
    };
    return run_grid(on, grid, forward_tile<T, HEAD_DIM, drops>, a, score_scale(attention) * LOG2_E,
                    dropper_of(attention.dropout.draw, attention.dropout.dropout));
}

} // namespace

cudaError_t flash_tiles_forward(const struct launch *on, const struct flash_forward &a)
{
    return by_tile(on->storage, a.attention.head_dim, [&](auto type, auto head_dim) {
        using T = decltype(type);
        constexpr int HEAD_DIM = head_dim.count;
        return a.attention.dropout.dropout > 0 ? forward<T, HEAD_DIM, true>(on, a)
                                               : forward<T, HEAD_DIM, false>(on, a);
    });
}
