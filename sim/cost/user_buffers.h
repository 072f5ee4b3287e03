/* sim/cost/user_buffers.h - tensor-parallel collectives that are split into pieces and overlap the
 * products that read or compute their tokens.
 *
 * Transformer Engine (pytorch/module/base.py, initialize_ub) gathers a product's input piece by
 * piece around the ring, while the pieces that have arrived are multiplied, and scatters a forward
 * product's output in four parts, each while the next part is multiplied. With product G,
 * collective R, t ranks and n = 4 parts:
 *
 *     gather and product     max(G, R + G/t)
 *     product and scatter    max(G + R/n, G/n + R)
 *
 * In the backward the all-gather of the input overlaps the input gradient, and the reduce-scatter
 * of the input gradient overlaps the weight gradient, as without user buffers (sim/plan/local.c).
 * The kernels that copy take 16 multiprocessors. */
#ifndef SIM_COST_USER_BUFFERS_H
#define SIM_COST_USER_BUFFERS_H

#include "sim/cost/timed_op.h"

/* Changes an op list (sequence of operations) that runs op by op: after[i] is the op that op i
 * waits for, or -1, and left_s[i] its time. `ranks` is the size of the tensor group. */
void user_buffers_overlap(const struct timed_op *ops, int count, int ranks, int *after,
                          double *left_s);

/* Factor on compute time while the copies run on a GPU of num_sms multiprocessors. */
double user_buffers_slowdown(int num_sms);

#endif
