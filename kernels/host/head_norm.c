/* RMSNorm of each query and key head on the CPU. */
#include "kernels/host/norm.h"

#include <string.h>

/* A group consists of the query heads that share a key, then that key, then its value (packing
 * order of attention.h). Query heads and keys are normalised; values are not. */
struct heads {
    long groups; /* number of groups over all tokens */
    long queries, head_dim;
};

static struct heads heads_of(const struct attention *attention)
{
    return (struct heads){
        .groups = attention_tokens(attention) * attention->kv_heads,
        .queries = attention->heads / attention->kv_heads,
        .head_dim = attention->head_dim,
    };
}

void head_norm_forward(const struct attention *attention, float epsilon,
                       struct head_norm_weights gamma, float *qkv, float *inputs, float *rstd)
{
    struct heads heads = heads_of(attention);
    struct norm norm = { .rows = 1, .width = heads.head_dim, .epsilon = epsilon };
    for (long group = 0; group < heads.groups; group++, qkv += heads.head_dim)
        for (long head = 0; head <= heads.queries; head++) {
            const float *weights = head < heads.queries ? gamma.query : gamma.key;
            memcpy(inputs, qkv, sizeof *inputs * (size_t)heads.head_dim);
            rms_norm_forward(&norm, inputs, weights, qkv, rstd);
            qkv += heads.head_dim;
            inputs += heads.head_dim;
            rstd++;
        }
}

void head_norm_backward(const struct attention *attention, struct head_norm_weights gamma,
                        const float *inputs, const float *rstd, float *dqkv,
                        struct head_norm_gradients dgamma)
{
    struct heads heads = heads_of(attention);
    struct norm norm = { .rows = 1, .width = heads.head_dim };
    for (long group = 0; group < heads.groups; group++, dqkv += heads.head_dim)
        for (long head = 0; head <= heads.queries; head++) {
            const float *weights = head < heads.queries ? gamma.query : gamma.key;
            float *dweights = head < heads.queries ? dgamma.query : dgamma.key;
            rms_norm_backward(&norm, dqkv, inputs, weights, rstd, dqkv, dweights);
            dqkv += heads.head_dim;
            inputs += heads.head_dim;
            rstd++;
        }
}
