/* exec/head.h - the loss of a microbatch's rows, and the head's logits a run of rows at a time.
 * Only forward.c and backward.c include it. */
#ifndef EXEC_HEAD_H
#define EXEC_HEAD_H

#include "exec/flow.h"

/* Finds the maximum and the sum of each row of logits over all tensor ranks, for an op that reduces
 * them or a loss without such an op. The logits of the rows of `flow` lie packed. */
void head_reduce_rows(struct flow *flow, const struct op *reduce);
/* Adds the rows' part of the loss. */
void head_find_loss(struct flow *flow, const struct op *loss);
/* Their gradients in the same place; the op's operands from `first` on are maxima and sums. */
void head_find_gradient(struct flow *flow, const struct op *loss, void *logits, int first);

/* All runs of the ops of the list from `i` on that have as many chunks: the index behind them. The
 * forward leaves no logits; the backward makes them again, and the gradients of their input and of
 * the weights as it goes. */
int head_forward_runs(struct flow *flow, int i);
int head_backward_runs(struct flow *flow, int i);

#endif
