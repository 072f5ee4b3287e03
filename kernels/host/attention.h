/* kernels/host/attention.h - causal attention over whole sequences (OP_FLASH_ATTENTION; OP_SCORES,
 * OP_SOFTMAX, OP_CONTEXT).
 *
 * Packing. The qkv linear writes qkv[tokens, kv_heads, heads / kv_heads + 2, head_dim]: for each
 * key-value head the query heads that share it, then the key, then the value, as Megatron-LM
 * does. A tensor rank's share of the fused weight is then a contiguous block of its rows, whatever
 * the number of ranks that divides kv_heads. Query head h belongs to group h / (heads / kv_heads).
 * The output is context[tokens, heads, head_dim]. Row sequence * seq + position is a token; a
 * token sees its own sequence up to itself. Scores are scaled by 1 / sqrt(head_dim).
 *
 * Matrices per head, [sequences, heads, seq, seq], have a row for each query; what a row must not
 * see is 0 in them. The two ways agree up to rounding and draw the same dropout. */
#ifndef KERNELS_HOST_ATTENTION_H
#define KERNELS_HOST_ATTENTION_H

#include "kernels/host/blas.h"
#include "kernels/host/philox.h"

/* Of the probabilities. Element ((sequence * heads + head) * seq + query) * seq + key, counted over
 * the global batch and the whole model, decides. */
struct attention_dropout {
    double dropout; /* 0: none, the rest is not read */
    struct draw draw;
    long first_sequence; /* of these sequences, from the draw's place on */
    long first_head;     /* of these heads, in the model */
    long model_heads;
};

/* One rank's share. */
struct attention {
    long sequences, seq;
    long heads, kv_heads, head_dim; /* kv_heads divides heads */
    struct attention_dropout dropout;
    const struct blas *blas;
};

long attention_tokens(const struct attention *attention);
long attention_qkv_width(const struct attention *attention);
long attention_context_width(const struct attention *attention);
long attention_score_count(const struct attention *attention); /* sequences heads seq seq */

/* --- fused: tiles of scores live in scratch alone --- */

/* Floats of scratch that either direction needs. */
long flash_attention_scratch(const struct attention *attention);

/* Saves log_sums[sequences, heads, seq]: log of the sum of exp of a row's scaled scores. Tiles and
 * a running maximum as in Dao et al. 2022, algorithm 1. */
void flash_attention_forward(const struct attention *attention, const float *qkv, float *context,
                             float *log_sums, float *scratch);

/* Writes all of dqkv. Probabilities are made again; sums run in one fixed order. Dao et al. 2022,
 * algorithm 4. */
void flash_attention_backward(const struct attention *attention, const float *dcontext,
                              const float *qkv, const float *context, const float *log_sums,
                              float *dqkv, float *scratch);

/* --- unfused: the matrices lie in memory --- */

/* scores = q k^T, unscaled and unmasked. */
void attention_scores(const struct attention *attention, const float *qkv, float *scores);

/* Scale, mask, softmax, dropout. probabilities may be `scores`. With dropout, keeps (1 or 0) and
 * the dropped probabilities, kept / (1 - dropout), are written too; else both are NULL, and the
 * probabilities themselves go on to the context. */
void attention_softmax(const struct attention *attention, const float *scores, float *probabilities,
                       uint8_t *keeps, float *dropped);

/* context = dropped v */
void attention_context(const struct attention *attention, const float *dropped, const float *qkv,
                       float *context);

/* The backward, last op first. Each product writes its own part of dqkv: together all of it. */
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
