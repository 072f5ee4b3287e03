/* Attention on the CPU as separate products and softmax: the scores and the probabilities are
 * stored whole. */
#include "kernels/host/attention_part.h"

#include "kernels/host/vector.h"

#include <float.h>

/* State of a loop over all heads of all sequences, in a fixed order. */
struct all_heads {
    const struct attention *attention;
    long next;
};

static bool next_head(struct all_heads *heads, struct head *out)
{
    const struct attention *attention = heads->attention;
    if (heads->next == attention->sequences * attention->heads)
        return false;
    *out = head_at(attention, heads->next / attention->heads, heads->next % attention->heads);
    heads->next++;
    return true;
}

/* out[seq, seq] = x[seq, head_dim] y[seq, head_dim]^T */
static void outer_product(const struct attention *attention, const float *x, long x_stride,
                          const float *y, long y_stride, float *out)
{
    attention->blas->product(attention->blas, &(struct product){
                                                  .m = attention->seq,
                                                  .n = attention->seq,
                                                  .k = attention->head_dim,
                                                  .b_is_transposed = true,
                                                  .alpha = 1,
                                                  .a = x,
                                                  .b = y,
                                                  .c = out,
                                                  .a_stride = x_stride,
                                                  .b_stride = y_stride,
                                                  .c_stride = attention->seq,
                                              });
}

/* out[seq, head_dim] = weights[seq, seq] x[seq, head_dim] + beta out; for a sum over queries the
 * weights are transposed. */
struct weighted_sum {
    const float *weights, *x;
    float *out;
    long x_stride, out_stride;
    bool is_over_queries;
    float beta;
};

static void sum_rows(const struct attention *attention, const struct weighted_sum *sum)
{
    attention->blas->product(attention->blas, &(struct product){
                                                  .m = attention->seq,
                                                  .n = attention->head_dim,
                                                  .k = attention->seq,
                                                  .a_is_transposed = sum->is_over_queries,
                                                  .alpha = 1,
                                                  .beta = sum->beta,
                                                  .a = sum->weights,
                                                  .b = sum->x,
                                                  .c = sum->out,
                                                  .a_stride = attention->seq,
                                                  .b_stride = sum->x_stride,
                                                  .c_stride = sum->out_stride,
                                              });
}

void attention_scores(const struct attention *attention, const float *qkv, float *scores)
{
    long width = attention_qkv_width(attention);
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        outer_product(attention, qkv + at.query, width, qkv + at.key, width, scores + at.matrix);
}

/* Softmax of the first `seen` of n values. The others become 0. */
EACH_MACHINE
static void softmax_row(long seen, long n, float scale, const float *scores, float *probabilities)
{
    float maximum = scale * row_max(seen, scores, -FLT_MAX);
    SAME_OR_APART
    for (long i = 0; i < seen; i++)
        probabilities[i] = exp_f32(scale * scores[i] - maximum);
    float inverse = 1 / row_sum(seen, probabilities);
    for (long i = 0; i < seen; i++)
        probabilities[i] *= inverse;
    for (long i = seen; i < n; i++)
        probabilities[i] = 0;
}

/* out = x / (1 - dropout) where kept, else 0; out may be x. */
EACH_MACHINE
static void apply_keeps(long n, float kept_scale, const uint8_t *keeps, const float *x, float *out)
{
    SAME_OR_APART
    for (long i = 0; i < n; i++)
        out[i] = keeps[i] ? x[i] * kept_scale : 0;
}

void attention_softmax(const struct attention *attention, const float *scores, float *probabilities,
                       uint8_t *keeps, float *dropped)
{
    long seq = attention->seq;
    float scale = attention_scale(attention), kept_scale = attention_kept_scale(attention);
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        for (long query = 0; query < seq; query++) {
            long row = at.matrix + query * seq;
            softmax_row(query + 1, seq, scale, scores + row, probabilities + row);
            if (!dropped)
                continue;
            attention_keeps(attention, &at, query, 0, seq, keeps + row);
            apply_keeps(seq, kept_scale, keeps + row, probabilities + row, dropped + row);
        }
}

void attention_context(const struct attention *attention, const float *dropped, const float *qkv,
                       float *context)
{
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        sum_rows(attention, &(struct weighted_sum){
                                .weights = dropped + at.matrix,
                                .x = qkv + at.value,
                                .out = context + at.context,
                                .x_stride = attention_qkv_width(attention),
                                .out_stride = attention_context_width(attention),
                            });
}

void attention_context_probability_gradient(const struct attention *attention,
                                            const float *dcontext, const float *qkv,
                                            float *ddropped)
{
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        outer_product(attention, dcontext + at.context, attention_context_width(attention),
                      qkv + at.value, attention_qkv_width(attention), ddropped + at.matrix);
}

/* Sums the value's gradient over the query heads that share the value. The first head overwrites
 * it. */
void attention_context_value_gradient(const struct attention *attention, const float *dcontext,
                                      const float *dropped, float *dqkv)
{
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        sum_rows(attention, &(struct weighted_sum){
                                .weights = dropped + at.matrix,
                                .x = dcontext + at.context,
                                .out = dqkv + at.value,
                                .x_stride = attention_context_width(attention),
                                .out_stride = attention_qkv_width(attention),
                                .is_over_queries = true,
                                .beta = at.is_first_of_group ? 0 : 1,
                            });
}

/* dscore = scale p (dp - sum of p dp) */
EACH_MACHINE
static void softmax_backward_row(long n, float scale, const float *probabilities,
                                 const float *dprobabilities, float *dscores)
{
    float sum = row_dot(n, probabilities, dprobabilities);
    SAME_OR_APART
    for (long i = 0; i < n; i++)
        dscores[i] = scale * probabilities[i] * (dprobabilities[i] - sum);
}

void attention_softmax_backward(const struct attention *attention, const float *ddropped,
                                const float *probabilities, const uint8_t *keeps, float *dscores)
{
    long seq = attention->seq;
    float scale = attention_scale(attention), kept_scale = attention_kept_scale(attention);
    for (long row = 0; row < attention_score_count(attention); row += seq) {
        const float *dprobabilities = ddropped + row;
        if (keeps) {
            apply_keeps(seq, kept_scale, keeps + row, ddropped + row, dscores + row);
            dprobabilities = dscores + row;
        }
        softmax_backward_row(seq, scale, probabilities + row, dprobabilities, dscores + row);
    }
}

void attention_scores_query_gradient(const struct attention *attention, const float *dscores,
                                     const float *qkv, float *dqkv)
{
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        sum_rows(attention, &(struct weighted_sum){
                                .weights = dscores + at.matrix,
                                .x = qkv + at.key,
                                .out = dqkv + at.query,
                                .x_stride = attention_qkv_width(attention),
                                .out_stride = attention_qkv_width(attention),
                            });
}

void attention_scores_key_gradient(const struct attention *attention, const float *dscores,
                                   const float *qkv, float *dqkv)
{
    struct all_heads heads = { .attention = attention };
    for (struct head at; next_head(&heads, &at);)
        sum_rows(attention, &(struct weighted_sum){
                                .weights = dscores + at.matrix,
                                .x = qkv + at.query,
                                .out = dqkv + at.key,
                                .x_stride = attention_qkv_width(attention),
                                .out_stride = attention_qkv_width(attention),
                                .is_over_queries = true,
                                .beta = at.is_first_of_group ? 0 : 1,
                            });
}
