/* exec/head.h - the loss of a microbatch's rows, and the head's logits a run of rows at a time.
 * Only forward.c and backward.c include it. */
#ifndef EXEC_HEAD_H
#define EXEC_HEAD_H

#include "exec/flow.h"

/* Room in the record for the maxima and sums of all rows. */
void head_take_statistics(struct flow *flow, const struct op *loss);
void head_give_back_statistics(struct flow *flow);

/* Of the rows of `flow`, whose logits lie packed: their maxima and sums, over all tensor ranks;
 * what they add to the loss; their gradients in the same place. `loss` is the forward op. */
void head_find_statistics(struct flow *flow, const struct op *loss, const void *logits);
void head_add_losses(struct flow *flow);
void head_find_gradient(struct flow *flow, const struct op *loss, void *logits);

/* All runs of the ops of a list from `i` on that have as many chunks: the index behind them. The
 * forward leaves no logits; the backward makes them again, and the gradients of their input and of
 * the weights as it goes. */
int head_forward_runs(struct flow *flow, const struct ops *list, int i);
int head_backward_runs(struct flow *flow, const struct ops *list, int i);

#endif
