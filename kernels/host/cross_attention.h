/* kernels/host/cross_attention.h - unmasked attention to keys and values of another sequence
 * (OP_FLASH_ATTENTION with two input values).
 *
 * queries, context [sequences, queries, heads, head_dim]; key_values [sequences, keys, kv_heads, 2,
 * head_dim], where each head stores its key, then its value. Query head h uses key-value head h /
 * (heads / kv_heads). Scores are scaled by 1 / sqrt(head_dim) and never stored. Sums run in a fixed
 * order. */
#ifndef KERNELS_HOST_CROSS_ATTENTION_H
#define KERNELS_HOST_CROSS_ATTENTION_H

struct cross_attention {
    long sequences, queries, keys;
    long heads, kv_heads, head_dim; /* kv_heads divides heads */
};

long cross_attention_query_count(const struct cross_attention *attention);
long cross_attention_key_value_count(const struct cross_attention *attention);

/* Saves log_sums [sequences, queries, heads]: log of the sum of exp of a row's scaled scores. */
void cross_attention_forward(const struct cross_attention *attention, const float *queries,
                             const float *key_values, float *context, float *log_sums);

/* Writes both gradients. Probabilities are recomputed (Dao et al. 2022, algorithm 4). */
void cross_attention_backward(const struct cross_attention *attention, const float *dcontext,
                              const float *queries, const float *key_values, const float *context,
                              const float *log_sums, float *dqueries, float *dkey_values);

#endif
