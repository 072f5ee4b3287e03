/* Attention to the keys and values of another sequence, on the CPU. */
#include "kernels/host/cross_attention.h"

#include <math.h>
#include <string.h>

long cross_attention_query_count(const struct cross_attention *a)
{
    return a->sequences * a->queries * a->heads * a->head_dim;
}

long cross_attention_key_value_count(const struct cross_attention *a)
{
    return a->sequences * a->keys * a->kv_heads * 2 * a->head_dim;
}

struct row {
    long sequence, head;
    long index; /* index among all rows */
};

static struct row row_at(const struct cross_attention *a, long index)
{
    return (struct row){ index / (a->queries * a->heads), index % a->heads, index };
}

/* Offset of a key; its value is head_dim elements after it. */
static long key_at(const struct cross_attention *a, const struct row *row, long key)
{
    long kv_head = row->head / (a->heads / a->kv_heads);
    return ((row->sequence * a->keys + key) * a->kv_heads + kv_head) * 2 * a->head_dim;
}

static float dot(long n, const float *x, const float *y)
{
    float sum = 0;
    for (long i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add_scaled(long n, float scale, const float *x, float *sum)
{
    for (long i = 0; i < n; i++)
        sum[i] += scale * x[i];
}

static float scale_of(const struct cross_attention *a)
{
    return 1 / sqrtf((float)a->head_dim);
}

/* The log of the sum of exp of a row's scaled scores, by a running maximum. */
static float log_sum_of(const struct cross_attention *a, const struct row *row, const float *query,
                        const float *key_values)
{
    float largest = -INFINITY, sum = 0;
    for (long key = 0; key < a->keys; key++) {
        float score = scale_of(a) * dot(a->head_dim, query, key_values + key_at(a, row, key));
        float before = largest;
        largest = fmaxf(largest, score);
        sum = sum * expf(before - largest) + expf(score - largest);
    }
    return largest + logf(sum);
}

void cross_attention_forward(const struct cross_attention *a, const float *queries,
                             const float *key_values, float *context, float *log_sums)
{
    long n = a->head_dim;
    memset(context, 0, sizeof *context * (size_t)cross_attention_query_count(a));
    for (long i = 0; i < a->sequences * a->queries * a->heads; i++) {
        struct row row = row_at(a, i);
        const float *query = queries + i * n;
        log_sums[i] = log_sum_of(a, &row, query, key_values);
        for (long key = 0; key < a->keys; key++) {
            const float *at = key_values + key_at(a, &row, key);
            add_scaled(n, expf(scale_of(a) * dot(n, query, at) - log_sums[i]), at + n,
                       context + i * n);
        }
    }
}

void cross_attention_backward(const struct cross_attention *a, const float *dcontext,
                              const float *queries, const float *key_values, const float *context,
                              const float *log_sums, float *dqueries, float *dkey_values)
{
    long n = a->head_dim;
    memset(dqueries, 0, sizeof *dqueries * (size_t)cross_attention_query_count(a));
    memset(dkey_values, 0, sizeof *dkey_values * (size_t)cross_attention_key_value_count(a));
    for (long i = 0; i < a->sequences * a->queries * a->heads; i++) {
        struct row row = row_at(a, i);
        const float *query = queries + i * n, *dy = dcontext + i * n;
        float mean = dot(n, dy, context + i * n);
        for (long key = 0; key < a->keys; key++) {
            const float *at = key_values + key_at(a, &row, key);
            float *dat = dkey_values + key_at(a, &row, key);
            float probability = expf(scale_of(a) * dot(n, query, at) - log_sums[i]);
            float dscore = scale_of(a) * probability * (dot(n, dy, at + n) - mean);
            add_scaled(n, dscore, at, dqueries + i * n);
            add_scaled(n, dscore, query, dat);
            add_scaled(n, probability, dy, dat + n);
        }
    }
}
