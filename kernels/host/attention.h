/* kernels/host/attention.h - causal attention over whole sequences (OP_FLASH_ATTENTION; OP_SCORES,
 * OP_SOFTMAX, OP_ATTENTION_VALUES).
 *
 * Packing. The qkv linear writes qkv[tokens, kv_heads, heads / kv_heads + 2, head_dim]: for each
 * key-value head the query heads that share it, then the key, then the value, as in Megatron-LM. A
 * tensor rank's part of the fused weight is then a contiguous block of rows for any number of ranks
 * that divides kv_heads. Query head h belongs to group h / (heads / kv_heads). The output is
 * context[tokens, heads, head_dim]. The row of a token is sequence * seq + position; a token
 * attends to itself and the earlier tokens of its sequence. Scores are scaled by 1 /
 * sqrt(head_dim).
 *
 * The unfused ops keep matrices per head, [sequences, heads, seq, seq], with a row per query;
 * masked entries are 0. Fused and unfused attention agree up to rounding and draw the same
 * dropout. */
#ifndef KERNELS_HOST_ATTENTION_H
#define KERNELS_HOST_ATTENTION_H

#include "kernels/host/blas.h"
#include "kernels/host/philox.h"

/* Dropout of the probabilities. Each probability uses the random number with index ((sequence *
 * heads + head) * seq + query) * seq + key, counted over the global batch and the whole model. */
struct attention_dropout {
    double dropout; /* 0: no dropout, and the other members are ignored */
    struct draw draw;
    long first_sequence; /* index of the first sequence, counted from draw.place (philox.h) */
    long first_head;     /* index of this rank's first head in the model */
    long model_heads;
};

/* Sizes of one rank's part of attention. */
struct attention {
    long sequences, seq;
    long heads, kv_heads, head_dim; /* kv_heads divides heads */
    struct attention_dropout dropout;
    const struct blas *blas;
};

long attention_tokens(const struct attention *attention);
long attention_qkv_width(const struct attention *attention);
long attention_context_width(const struct attention *attention);
long attention_score_count(const struct attention *attention); /* sequences x heads x seq x seq */

/* --- fused: tiles of scores live in scratch alone --- */

/* Number of floats of scratch memory for forward or backward. */
long flash_attention_scratch(const struct attention *attention);

/* Saves log_sums[sequences, heads, seq]: log of the sum of exp of a row's scaled scores. It works
 * in tiles with a running maximum (Dao et al. 2022, algorithm 1). */
void flash_attention_forward(const struct attention *attention, const float *qkv, float *context,
                             float *log_sums, float *scratch);

/* Writes all of dqkv. Probabilities are recomputed; sums run in a fixed order. Dao et al. 2022,
 * algorithm 4. */
void flash_attention_backward(const struct attention *attention, const float *dcontext,
                              const float *qkv, const float *context, const float *log_sums,
                              float *dqkv, float *scratch);

/* --- unfused: the matrices lie in memory --- */

/* scores = q k^T, unscaled and unmasked. */
void attention_scores(const struct attention *attention, const float *qkv, float *scores);

/* Scale, mask, softmax, dropout. probabilities may be `scores`. With dropout it also writes keeps
 * (1 or 0) and dropped = keep p / (1 - dropout). Without dropout, both are NULL, and
 * attention_context reads the probabilities instead. */
void attention_softmax(const struct attention *attention, const float *scores, float *probabilities,
                       uint8_t *keeps, float *dropped);

/* context = dropped v */
void attention_context(const struct attention *attention, const float *dropped, const float *qkv,
                       float *context);

/* The backward ops, in the order in which they run. Each product writes one part of dqkv; together
 * they write all of it. */
void attention_context_probability_gradient(const struct attention *attention,
                                            const float *dcontext, const float *qkv,
                                            float *ddropped);
void attention_context_value_gradient(const struct attention *attention, const float *dcontext,
                                      const float *dropped, float *dqkv);
/* dscores may be ddropped. */
void attention_softmax_backward(const struct attention *attention, const float *ddropped,
                                const float *probabilities, const uint8_t *keeps, float *dscores);
void attention_scores_query_gradient(const struct attention *attention, const float *dscores,
                                     const float *qkv, float *dqkv);
void attention_scores_key_gradient(const struct attention *attention, const float *dscores,
                                   const float *qkv, float *dqkv);

#endif
