/* exec/ops/head.h - the loss of a microbatch's rows, and the head's logits in row blocks. Only
 * forward.c and backward.c include it. */
#ifndef EXEC_OPS_HEAD_H
#define EXEC_OPS_HEAD_H

#include "exec/ops/flow.h"

/* For each row of logits, finds the maximum and the sum of exponentials over all tensor ranks. It
 * is called for a reduce op, or for a loss that has no reduce op. The logits of the rows of `flow`
 * are contiguous. */
void head_reduce_rows(struct flow *flow, const struct op *reduce);
/* Adds the rows' part of the loss. */
void head_find_loss(struct flow *flow, const struct op *loss);
/* Replaces the logits by their gradients; the op's operands from `first` on are the maxima and
 * sums. */
void head_find_gradient(struct flow *flow, const struct op *loss, void *logits, int first);

/* Runs the op at `i` and the ops directly after it that are also divided into row blocks, block by
 * block. Returns the index after the last of these ops. The forward keeps no logits; the backward
 * recomputes them and makes the gradients of their input and of the weights block by block. */
int head_forward_blocks(struct flow *flow, int i);
int head_backward_blocks(struct flow *flow, int i);

#endif
