/* tests/kernels/reference_template.h - included by reference.h once for each REAL (float and
 * double). Shapes are those of the headers in kernels/host. The loops are plain: no blocks, no
 * fused ops, no code shared with the kernels. */

/* y[rows, out] = x[rows, in] weight[out, in]^T + bias[out] */
static inline void NAMED(linear)(long rows, long out, long in, const REAL *x, const REAL *weight,
                                 const REAL *bias, REAL *y)
{
    for (long r = 0; r < rows; r++)
        for (long o = 0; o < out; o++) {
            REAL sum = 0;
            for (long i = 0; i < in; i++)
                sum += x[r * in + i] * weight[o * in + i];
            y[r * out + o] = sum + bias[o];
        }
}

static inline void NAMED(layer_norm)(long rows, long width, REAL epsilon, const REAL *x,
                                     const REAL *gamma, const REAL *beta, REAL *y)
{
    for (long r = 0; r < rows; r++, x += width, y += width) {
        REAL mean = 0, variance = 0;
        for (long i = 0; i < width; i++)
            mean += x[i];
        mean /= (REAL)width;
        for (long i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean);
        REAL deviation = sqrt(variance / (REAL)width + epsilon);
        for (long i = 0; i < width; i++)
            y[i] = (x[i] - mean) / deviation * gamma[i] + beta[i];
    }
}

static inline void NAMED(rms_norm)(long rows, long width, REAL epsilon, const REAL *x,
                                   const REAL *gamma, REAL *y)
{
    for (long r = 0; r < rows; r++, x += width, y += width) {
        REAL squares = 0;
        for (long i = 0; i < width; i++)
            squares += x[i] * x[i];
        REAL root = sqrt(squares / (REAL)width + epsilon);
        for (long i = 0; i < width; i++)
            y[i] = x[i] / root * gamma[i];
    }
}

/* Computes only dx. If `is_centered` is 0, no mean is subtracted, as in RMSNorm. */
static inline void NAMED(norm_backward)(long rows, long width, REAL epsilon, int is_centered,
                                        const REAL *dy, const REAL *x, const REAL *gamma, REAL *dx)
{
    for (long r = 0; r < rows; r++, x += width, dy += width, dx += width) {
        REAL mean = 0, squares = 0, mean_g = 0, mean_g_xhat = 0;
        for (long i = 0; i < width && is_centered; i++)
            mean += x[i] / (REAL)width;
        for (long i = 0; i < width; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        REAL rstd = 1 / sqrt(squares / (REAL)width + epsilon);
        for (long i = 0; i < width; i++) {
            mean_g += is_centered ? dy[i] * gamma[i] / (REAL)width : 0;
            mean_g_xhat += dy[i] * gamma[i] * (x[i] - mean) * rstd / (REAL)width;
        }
        for (long i = 0; i < width; i++)
            dx[i] = rstd * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * rstd * mean_g_xhat);
    }
}

static inline REAL NAMED(gelu)(REAL x)
{
    REAL u = (REAL)0.7978845608028654 * (x + (REAL)0.044715 * x * x * x);
    return (REAL)0.5 * x * (1 + tanh(u));
}

static inline REAL NAMED(gelu_slope)(REAL x)
{
    REAL t = tanh((REAL)0.7978845608028654 * (x + (REAL)0.044715 * x * x * x));
    REAL du = (REAL)0.7978845608028654 * (1 + 3 * (REAL)0.044715 * x * x);
    return (REAL)0.5 * (1 + t) + (REAL)0.5 * x * (1 - t * t) * du;
}

static inline REAL NAMED(silu)(REAL x)
{
    return x / (1 + exp(-x));
}

static inline REAL NAMED(silu_slope)(REAL x)
{
    REAL s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

static inline REAL NAMED(relu)(REAL x)
{
    return x > 0 ? x : 0;
}

static inline REAL NAMED(relu_slope)(REAL x)
{
    return x > 0 ? 1 : 0;
}

static inline REAL NAMED(relu2)(REAL x)
{
    return x > 0 ? x * x : 0;
}

static inline REAL NAMED(relu2_slope)(REAL x)
{
    return x > 0 ? 2 * x : 0;
}

/* Sizes of attention, and dropout's mask keeps[sequences, heads, seq, seq] or NULL. */
struct NAMED(attention_shape) {
    long sequences, seq, heads, kv_heads, head_dim;
    const uint8_t *keeps;
    REAL kept_scale;
};

/* Index of the first element of a head. `part` counts the heads of a token's group: its queries,
 * then the key, then the value. */
static inline long NAMED(qkv_at)(const struct NAMED(attention_shape) * a, long sequence, long token,
                                 long group, long part)
{
    long queries = a->heads / a->kv_heads;
    return (((sequence * a->seq + token) * a->kv_heads + group) * (queries + 2) + part) *
           a->head_dim;
}

static inline REAL NAMED(dot)(long n, const REAL *x, const REAL *y)
{
    REAL sum = 0;
    for (long i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Writes the probabilities of one query of one head, before dropout, to out[seq]. */
static inline void NAMED(probabilities)(const struct NAMED(attention_shape) * a, const REAL *qkv,
                                        long sequence, long head, long query, REAL *out)
{
    long queries = a->heads / a->kv_heads, group = head / queries;
    const REAL *q = qkv + NAMED(qkv_at)(a, sequence, query, group, head % queries);
    REAL largest = -INFINITY, sum = 0;
    for (long key = 0; key <= query; key++) {
        const REAL *k = qkv + NAMED(qkv_at)(a, sequence, key, group, queries);
        out[key] = NAMED(dot)(a->head_dim, q, k) / sqrt((REAL)a->head_dim);
        largest = out[key] > largest ? out[key] : largest;
    }
    for (long key = 0; key <= query; key++)
        sum += out[key] = exp(out[key] - largest);
    for (long key = 0; key < a->seq; key++)
        out[key] = key <= query ? out[key] / sum : 0;
}

static inline REAL NAMED(kept)(const struct NAMED(attention_shape) * a, long sequence, long head,
                               long query, long key)
{
    if (!a->keeps)
        return 1;
    long at = ((sequence * a->heads + head) * a->seq + query) * a->seq + key;
    return a->keeps[at] ? a->kept_scale : 0;
}

/* `row` is scratch memory for seq values. */
static inline void NAMED(attention)(const struct NAMED(attention_shape) * a, const REAL *qkv,
                                    REAL *row, REAL *context)
{
    long queries = a->heads / a->kv_heads;
    for (long s = 0; s < a->sequences; s++)
        for (long h = 0; h < a->heads; h++)
            for (long q = 0; q < a->seq; q++) {
                REAL *out = context + ((s * a->seq + q) * a->heads + h) * a->head_dim;
                NAMED(probabilities)(a, qkv, s, h, q, row);
                for (long i = 0; i < a->head_dim; i++)
                    out[i] = 0;
                for (long k = 0; k <= q; k++) {
                    const REAL *v = qkv + NAMED(qkv_at)(a, s, k, h / queries, queries + 1);
                    for (long i = 0; i < a->head_dim; i++)
                        out[i] += row[k] * NAMED(kept)(a, s, h, q, k) * v[i];
                }
            }
}

/* Adds the gradients of one query of one head to dqkv; row and drow [seq] are scratch. */
static inline void NAMED(attention_query_backward)(const struct NAMED(attention_shape) * a,
                                                   const REAL *qkv, const REAL *dcontext, long s,
                                                   long h, long q, REAL *row, REAL *drow,
                                                   REAL *dqkv)
{
    long queries = a->heads / a->kv_heads, group = h / queries, d = a->head_dim;
    const REAL *dout = dcontext + ((s * a->seq + q) * a->heads + h) * d;
    long query_at = NAMED(qkv_at)(a, s, q, group, h % queries);
    REAL sum = 0;
    NAMED(probabilities)(a, qkv, s, h, q, row);
    for (long k = 0; k <= q; k++) {
        long value_at = NAMED(qkv_at)(a, s, k, group, queries + 1);
        REAL kept = NAMED(kept)(a, s, h, q, k);
        drow[k] = kept * NAMED(dot)(d, dout, qkv + value_at);
        sum += row[k] * drow[k];
        for (long i = 0; i < d; i++)
            dqkv[value_at + i] += row[k] * kept * dout[i];
    }
    for (long k = 0; k <= q; k++) {
        long key_at = NAMED(qkv_at)(a, s, k, group, queries);
        REAL dscore = row[k] * (drow[k] - sum) / sqrt((REAL)d);
        for (long i = 0; i < d; i++) {
            dqkv[query_at + i] += dscore * qkv[key_at + i];
            dqkv[key_at + i] += dscore * qkv[query_at + i];
        }
    }
}

/* dqkv must be zero before the call. */
static inline void NAMED(attention_backward)(const struct NAMED(attention_shape) * a,
                                             const REAL *qkv, const REAL *dcontext, REAL *row,
                                             REAL *drow, REAL *dqkv)
{
    for (long s = 0; s < a->sequences; s++)
        for (long h = 0; h < a->heads; h++)
            for (long q = 0; q < a->seq; q++)
                NAMED(attention_query_backward)(a, qkv, dcontext, s, h, q, row, drow, dqkv);
}

/* The loss of one row over `vocab` logits. */
static inline REAL NAMED(row_loss)(long vocab, const REAL *logits, long target)
{
    REAL largest = logits[0], sum = 0;
    for (long i = 0; i < vocab; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (long i = 0; i < vocab; i++)
        sum += exp(logits[i] - largest);
    return log(sum) - (logits[target] - largest);
}

static inline void NAMED(row_loss_gradient)(long vocab, const REAL *logits, long target, REAL scale,
                                            REAL *dlogits)
{
    REAL largest = logits[0], sum = 0;
    for (long i = 0; i < vocab; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (long i = 0; i < vocab; i++)
        sum += exp(logits[i] - largest);
    for (long i = 0; i < vocab; i++)
        dlogits[i] = scale * (exp(logits[i] - largest) / sum - (i == target ? 1 : 0));
}
