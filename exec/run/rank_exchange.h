/* exec/run/rank_exchange.h - exchanges between data ranks other than all-reduce, with one exchanger
 * per chunk. Only rank.c, step.c and checkpoints include it. */
#ifndef EXEC_RUN_RANK_EXCHANGE_H
#define EXEC_RUN_RANK_EXCHANGE_H

#include "exec/run/rank_state.h"

/* Makes the exchangers; all ranks call it together after stores and groups exist. It does nothing
 * when the plan uses all-reduce. */
bool rank_exchange_new(struct rank *rank, struct err *err);
void rank_exchange_free(struct rank *rank);

/* Call it before each step; `step` counts from 0. */
void rank_exchange_begin_step(struct rank *rank, int step);
/* The factor on this step's gradients. Gradients are scaled for a sum over all data ranks, so the
 * factor exceeds 1 when fewer ranks are summed. */
double rank_exchange_gradient_scale(const struct rank *rank);

/* Sums the gradients of a chunk, on the data lane (the stream of data ranks' collectives). */
void rank_exchange_gradients(struct rank *rank, const struct chunk *chunk);
/* Averages a chunk's weights, or sums its gradients of the previous step, on the data lane. The
 * average replaces the weights at once or, if it overlaps the passes, in
 * rank_exchange_before_update. */
void rank_exchange_weights(struct rank *rank, const struct chunk *chunk);
void rank_exchange_before_update(struct rank *rank);

/* Call it after a step with this rank's `loss`. If the method adapts to the mean loss, all ranks
 * exchange their losses. */
bool rank_exchange_end_step(struct rank *rank, double loss, struct err *err);

/* Lists the state of a local chunk's exchanger (exchanger_kept); no state when the plan uses
 * all-reduce. */
int rank_exchange_kept(const struct rank *rank, int chunk, struct kept kept[MAX_KEPT]);
/* The position in the period of averages, which all exchangers of the rank have in common; all
 * members are 0 when the plan uses all-reduce. */
struct exchange_period rank_exchange_period(const struct rank *rank);
void rank_exchange_set_period(struct rank *rank, struct exchange_period period);

#endif
