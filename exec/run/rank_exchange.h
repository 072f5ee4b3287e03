/* exec/run/rank_exchange.h - a rank's exchange with its data peers when it is not all-reduce: one
 * exchanger per chunk. Only rank.c, step.c and checkpoints include it. */
#ifndef EXEC_RUN_RANK_EXCHANGE_H
#define EXEC_RUN_RANK_EXCHANGE_H

#include "exec/run/rank_state.h"

/* All ranks together, after stores and groups exist; does nothing when the plan all-reduces. */
bool rank_exchange_new(struct rank *rank, struct err *err);
void rank_exchange_free(struct rank *rank);

/* Call it before each step, from 0. */
void rank_exchange_begin_step(struct rank *rank, int step);
/* The factor on this step's gradients. They are scaled for a sum over all data ranks, so it is
 * above 1 when fewer are summed. */
double rank_exchange_gradient_scale(const struct rank *rank);

/* On the data lane: sums the gradients of a chunk. */
void rank_exchange_gradients(struct rank *rank, const struct chunk *chunk);
/* On the data lane: averages a chunk's weights, or sums its gradients of the step before. The
 * average replaces them at once or, when it is made beside the passes, in
 * rank_exchange_before_update. */
void rank_exchange_weights(struct rank *rank, const struct chunk *chunk);
void rank_exchange_before_update(struct rank *rank);

/* After a step with this rank's `loss`. When the method adapts to the mean loss, all ranks exchange
 * theirs. */
bool rank_exchange_end_step(struct rank *rank, double loss, struct err *err);

/* Lists the state of a local chunk's exchanger (exchanger_kept); none when the plan all-reduces. */
int rank_exchange_kept(const struct rank *rank, int chunk, struct kept kept[MAX_KEPT]);
/* The position in the period, common to all exchangers of the rank; all 0 when the plan
 * all-reduces. */
struct exchange_period rank_exchange_period(const struct rank *rank);
void rank_exchange_set_period(struct rank *rank, struct exchange_period period);

#endif
