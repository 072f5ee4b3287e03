/* kernels/host/cross_entropy.h - the loss over a vocabulary that is split over tensor ranks
 * (OP_CROSS_ENTROPY, and the OP_ALL_REDUCE of its row sums).
 *
 * logits [rows, columns] are the columns [first, first + columns) of the padded vocabulary; columns
 * at or beyond `vocab` are padding and ignored. A token's loss is log(sum of exp(logit - max)) -
 * (logit of its target - max). The functions are called in this order:
 *   cross_entropy_maxima        -> all-reduce (max) of maxima [rows]
 *   cross_entropy_sums          -> all-reduce (sum) of sums [rows, 2]
 *   cross_entropy_loss, and in the backward cross_entropy_gradient.
 * The backward reads the logits, the maxima and the sums. A token with target -1 has no loss and no
 * gradient. (Shoeybi et al. 2019, section 3.) */
#ifndef KERNELS_HOST_CROSS_ENTROPY_H
#define KERNELS_HOST_CROSS_ENTROPY_H

#include <stdint.h>

struct cross_entropy {
    long rows, columns;
    int64_t first; /* index of this rank's first column in the whole vocabulary */
    int64_t vocab; /* size of the vocabulary without padding */
};

/* The maximum of each row; -FLT_MAX when every column is padding. */
void cross_entropy_maxima(const struct cross_entropy *loss, const float *logits, float *maxima);

/* For each row: the sum of exp(logit - max), and the target's logit - max if it is among these
 * columns, else 0. `maxima` must be the maxima over all ranks. */
void cross_entropy_sums(const struct cross_entropy *loss, const float *logits,
                        const int64_t *targets, const float *maxima, float *sums);

/* The sum of the rows' losses, in double; `sums` must be the sums over all ranks. */
double cross_entropy_loss(long rows, const int64_t *targets, const float *sums);

/* dlogits = scale (softmax - t), where t is 1 at the target and 0 elsewhere; scale is loss scale /
 * tokens of the global batch. dlogits of padding is 0. dlogits may be logits. */
void cross_entropy_gradient(const struct cross_entropy *loss, const float *logits,
                            const int64_t *targets, const float *maxima, const float *sums,
                            float scale, float *dlogits);

#endif
