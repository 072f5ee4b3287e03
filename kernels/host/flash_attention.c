/* Flash attention on the CPU, forward and backward: scores are computed one tile at a time and
 * never stored whole. */
#include "kernels/host/attention_part.h"

#include "kernels/host/vector.h"

#include <float.h>
#include <math.h>

/* Number of queries and of keys of a tile. In measurements no other size was faster for sequences
 * of 64 to 1,024 tokens. Below 512 tokens this size was the fastest, as larger tiles on the
 * diagonal waste more masked work. */
enum { TILE = 64 };

static long least(long a, long b)
{
    return a < b ? a : b;
}

static long tile_rows(const struct attention *attention)
{
    return least(TILE, attention->seq);
}

/* Number of floats of scratch memory: two tiles, one number per query of a sequence, and one per
 * query of a tile. */
long flash_attention_scratch(const struct attention *attention)
{
    long rows = tile_rows(attention);
    return 2 * rows * rows + attention->seq + rows;
}

/* A tile: the queries [query, query + rows) and keys [key, key + columns) of one head. A tile on
 * the diagonal has query == key. In a tile below the diagonal every query attends to every key. */
struct tile {
    const struct attention *attention;
    struct head head;
    long query, rows, key, columns;
};

static bool is_diagonal(const struct tile *tile)
{
    return tile->query == tile->key;
}

static long seen_keys(const struct tile *tile, long row)
{
    return is_diagonal(tile) ? row + 1 : tile->columns;
}

/* Offsets in qkv of the tile's first query, key and value. */
static long query_at(const struct tile *tile)
{
    return tile->head.query + tile->query * attention_qkv_width(tile->attention);
}

static long key_at(const struct tile *tile)
{
    return tile->head.key + tile->key * attention_qkv_width(tile->attention);
}

static long value_at(const struct tile *tile)
{
    return tile->head.value + tile->key * attention_qkv_width(tile->attention);
}

static long context_at(const struct tile *tile)
{
    return tile->head.context + tile->query * attention_context_width(tile->attention);
}

/* out[rows, columns] = x[rows, head_dim] y[columns, head_dim]^T */
static void outer_product(const struct tile *tile, const float *x, long x_stride, const float *y,
                          long y_stride, float *out)
{
    const struct blas *blas = tile->attention->blas;
    blas->product(blas, &(struct product){
                            .m = tile->rows,
                            .n = tile->columns,
                            .k = tile->attention->head_dim,
                            .b_is_transposed = true,
                            .alpha = 1,
                            .a = x,
                            .b = y,
                            .c = out,
                            .a_stride = x_stride,
                            .b_stride = y_stride,
                            .c_stride = tile->columns,
                        });
}

/* out[rows, head_dim] += weights[rows, columns] x[columns, head_dim] */
static void add_over_keys(const struct tile *tile, const float *weights, const float *x, float *out,
                          long out_stride)
{
    const struct blas *blas = tile->attention->blas;
    blas->product(blas, &(struct product){
                            .m = tile->rows,
                            .n = tile->attention->head_dim,
                            .k = tile->columns,
                            .alpha = 1,
                            .beta = 1,
                            .a = weights,
                            .b = x,
                            .c = out,
                            .a_stride = tile->columns,
                            .b_stride = attention_qkv_width(tile->attention),
                            .c_stride = out_stride,
                        });
}

/* out[columns, head_dim] += weights[rows, columns]^T x[rows, head_dim], `out` is a part of dqkv */
static void add_over_queries(const struct tile *tile, const float *weights, const float *x,
                             long x_stride, float *out)
{
    const struct blas *blas = tile->attention->blas;
    blas->product(blas, &(struct product){
                            .m = tile->columns,
                            .n = tile->attention->head_dim,
                            .k = tile->rows,
                            .a_is_transposed = true,
                            .alpha = 1,
                            .beta = 1,
                            .a = weights,
                            .b = x,
                            .c = out,
                            .a_stride = tile->columns,
                            .b_stride = x_stride,
                            .c_stride = attention_qkv_width(tile->attention),
                        });
}

static void tile_scores(const struct tile *tile, const float *qkv, float *scores)
{
    long width = attention_qkv_width(tile->attention);
    outer_product(tile, qkv + query_at(tile), width, qkv + key_at(tile), width, scores);
}

EACH_MACHINE
static void scale_row(long n, float factor, float *row)
{
    for (long i = 0; i < n; i++)
        row[i] *= factor;
}

/* row = exp(scale row - shift) for visible keys, 0 elsewhere; returns the sum. */
EACH_MACHINE
static float exp_row(long seen, long n, float scale, float shift, float *row)
{
    for (long i = 0; i < seen; i++)
        row[i] = exp_f32(scale * row[i] - shift);
    for (long i = seen; i < n; i++)
        row[i] = 0;
    return row_sum(seen, row);
}

EACH_MACHINE
static float row_maximum(long n, const float *row)
{
    return row_max(n, row, -FLT_MAX);
}

EACH_MACHINE
static float row_product(long n, const float *x, const float *y)
{
    return row_dot(n, x, y);
}

static void drop_row(const struct tile *tile, long row, float *values)
{
    uint8_t keeps[TILE];
    float kept = attention_kept_scale(tile->attention);
    long seen = seen_keys(tile, row);
    attention_keeps(tile->attention, &tile->head, tile->query + row, tile->key, seen, keeps);
    for (long i = 0; i < seen; i++)
        values[i] = keeps[i] ? values[i] * kept : 0;
}

/* Turns a row's scores into exp(score - maximum of the row so far), and rescales the row's earlier
 * sums. */
static void add_row(const struct tile *tile, long row, float *scores, float *context,
                    float *maximum, float *sum)
{
    float scale = attention_scale(tile->attention);
    long seen = seen_keys(tile, row);
    float new_maximum = fmaxf(*maximum, scale * row_maximum(seen, scores));
    float rescale = exp_f32(*maximum - new_maximum);
    *sum = *sum * rescale + exp_row(seen, tile->columns, scale, new_maximum, scores);
    *maximum = new_maximum;
    scale_row(tile->attention->head_dim, rescale, context);
    if (tile->attention->dropout.dropout > 0)
        drop_row(tile, row, scores);
}

struct running {
    float *scores, *maxima, *sums;
};

static void forward_tile(const struct tile *tile, const float *qkv, const struct running *running,
                         float *context)
{
    long context_width = attention_context_width(tile->attention);
    float *out = context + context_at(tile);
    tile_scores(tile, qkv, running->scores);
    for (long row = 0; row < tile->rows; row++)
        add_row(tile, row, running->scores + row * tile->columns, out + row * context_width,
                &running->maxima[row], &running->sums[row]);
    add_over_keys(tile, running->scores, qkv + value_at(tile), out, context_width);
}

static void begin_queries(const struct tile *tile, const struct running *running, float *context)
{
    long context_width = attention_context_width(tile->attention);
    for (long row = 0; row < tile->rows; row++) {
        running->maxima[row] = -FLT_MAX;
        running->sums[row] = 0;
        memset(context + context_at(tile) + row * context_width, 0,
               sizeof *context * (size_t)tile->attention->head_dim);
    }
}

/* Takes the logarithm in double, as the fp32 logarithm differs between machines. */
static void finish_queries(const struct tile *tile, const struct running *running, float *context,
                           float *log_sums)
{
    long context_width = attention_context_width(tile->attention);
    for (long row = 0; row < tile->rows; row++) {
        scale_row(tile->attention->head_dim, 1 / running->sums[row],
                  context + context_at(tile) + row * context_width);
        log_sums[tile->head.row + tile->query + row] =
            running->maxima[row] + (float)log((double)running->sums[row]);
    }
}

static void forward_head(const struct attention *attention, const struct head *head,
                         const float *qkv, float *context, float *log_sums, float *scratch)
{
    long step = tile_rows(attention);
    struct running running;
    running.scores = scratch;
    running.maxima = running.scores + step * step;
    running.sums = running.maxima + step;
    struct tile tile = { .attention = attention, .head = *head };
    for (; tile.query < attention->seq; tile.query += step) {
        tile.rows = least(step, attention->seq - tile.query);
        begin_queries(&tile, &running, context);
        for (tile.key = 0; tile.key <= tile.query; tile.key += step) {
            tile.columns = least(step, attention->seq - tile.key);
            forward_tile(&tile, qkv, &running, context);
        }
        finish_queries(&tile, &running, context, log_sums);
    }
}

void flash_attention_forward(const struct attention *attention, const float *qkv, float *context,
                             float *log_sums, float *scratch)
{
    for (long sequence = 0; sequence < attention->sequences; sequence++)
        for (long head = 0; head < attention->heads; head++) {
            struct head at = head_at(attention, sequence, head);
            forward_head(attention, &at, qkv, context, log_sums, scratch);
        }
}

/* Arrays that the backward of a head reads and writes. */
struct gradients {
    const float *qkv, *context, *dcontext, *log_sums;
    float *dqkv;
    float *probabilities, *dscores; /* one tile each */
    float *row_dots;                /* [seq]: dot product of a query's context with its gradient */
};

/* row_dots is, for each query, the sum over keys of probability x its gradient. With or without
 * dropout this equals the sum over head_dim of context x its gradient. */
static void find_row_dots(const struct attention *attention, const struct head *head,
                          const struct gradients *g)
{
    long width = attention_context_width(attention);
    for (long row = 0; row < attention->seq; row++) {
        long at = head->context + row * width;
        g->row_dots[row] = row_product(attention->head_dim, g->context + at, g->dcontext + at);
    }
}

/* dscores = scale probabilities (dprobabilities - row_dot). In place: on entry dscores holds
 * dprobabilities. */
EACH_MACHINE
static void score_gradient_row(long n, float scale, float row_dot, const float *probabilities,
                               float *dscores)
{
    for (long i = 0; i < n; i++)
        dscores[i] = scale * probabilities[i] * (dscores[i] - row_dot);
}

/* From a row of scores and of gradients of probabilities, computes the probabilities after dropout
 * and dscores. */
static void backward_row(const struct tile *tile, const struct gradients *g, long row)
{
    const struct attention *attention = tile->attention;
    float scale = attention_scale(attention);
    float *probabilities = g->probabilities + row * tile->columns;
    float *dscores = g->dscores + row * tile->columns;
    long query = tile->query + row;
    exp_row(seen_keys(tile, row), tile->columns, scale, g->log_sums[tile->head.row + query],
            probabilities);
    if (attention->dropout.dropout > 0)
        drop_row(tile, row, dscores);
    score_gradient_row(tile->columns, scale, g->row_dots[query], probabilities, dscores);
    if (attention->dropout.dropout > 0)
        drop_row(tile, row, probabilities);
}

static void backward_tile(const struct tile *tile, const struct gradients *g)
{
    long width = attention_qkv_width(tile->attention);
    long context_width = attention_context_width(tile->attention);
    const float *dcontext = g->dcontext + context_at(tile);
    tile_scores(tile, g->qkv, g->probabilities);
    outer_product(tile, dcontext, context_width, g->qkv + value_at(tile), width, g->dscores);
    for (long row = 0; row < tile->rows; row++)
        backward_row(tile, g, row);
    add_over_queries(tile, g->probabilities, dcontext, context_width, g->dqkv + value_at(tile));
    add_over_queries(tile, g->dscores, g->qkv + query_at(tile), width, g->dqkv + key_at(tile));
    add_over_keys(tile, g->dscores, g->qkv + key_at(tile), g->dqkv + query_at(tile), width);
}

static void backward_head(const struct attention *attention, const struct head *head,
                          const struct gradients *g)
{
    long step = tile_rows(attention);
    struct tile tile = { .attention = attention, .head = *head };
    find_row_dots(attention, head, g);
    for (; tile.key < attention->seq; tile.key += step) {
        tile.columns = least(step, attention->seq - tile.key);
        for (tile.query = tile.key; tile.query < attention->seq; tile.query += step) {
            tile.rows = least(step, attention->seq - tile.query);
            backward_tile(&tile, g);
        }
    }
}

void flash_attention_backward(const struct attention *attention, const float *dcontext,
                              const float *qkv, const float *context, const float *log_sums,
                              float *dqkv, float *scratch)
{
    long tile_values = tile_rows(attention) * tile_rows(attention);
    struct gradients g = {
        .qkv = qkv, .context = context, .dcontext = dcontext, .log_sums = log_sums, .dqkv = dqkv
    };
    g.probabilities = scratch;
    g.dscores = g.probabilities + tile_values;
    g.row_dots = g.dscores + tile_values;
    long values = attention_tokens(attention) * attention_qkv_width(attention);
    memset(dqkv, 0, sizeof *dqkv * (size_t)values);
    for (long sequence = 0; sequence < attention->sequences; sequence++)
        for (long head = 0; head < attention->heads; head++) {
            struct head at = head_at(attention, sequence, head);
            backward_head(attention, &at, &g);
        }
}
