/* exec/run/rank_exchange.h - what a rank of a plan exchanges with its data peers other than by
 * all-reduce: one exchanger for each of its chunks. Only rank.c, step.c and checkpoints include it.
 */
#ifndef EXEC_RUN_RANK_EXCHANGE_H
#define EXEC_RUN_RANK_EXCHANGE_H

#include "exec/run/rank_part.h"

/* All ranks together, once stores and groups are there; nothing where the plan all-reduces. */
bool rank_exchange_new(struct rank *rank, struct err *err);
void rank_exchange_free(struct rank *rank);

/* Before a step, from 0. */
void rank_exchange_begin_step(struct rank *rank, int step);
/* What gradients, of which each is one of all data ranks' to a mean, are to be multiplied by in it:
 * more than 1 where fewer are summed. */
double rank_exchange_gradient_scale(const struct rank *rank);

/* On the data lane: the gradients of a chunk, summed. */
void rank_exchange_gradients(struct rank *rank, const struct chunk *chunk);
/* On the data lane: the average of a chunk's weights, which take its place at once, or, where it is
 * made beside the passes, before the update. */
void rank_exchange_weights(struct rank *rank, const struct chunk *chunk);
void rank_exchange_before_update(struct rank *rank);

/* After a step whose loss, as this rank counts it, is `loss`: where the method adapts to the mean,
 * all ranks tell theirs. */
bool rank_exchange_end_step(struct rank *rank, double loss, struct err *err);

/* Lists what the exchanger of a local chunk keeps (exchanger_kept); nothing where the plan
 * all-reduces. */
int rank_exchange_kept(const struct rank *rank, int chunk, struct kept kept[MAX_KEPT]);
/* Where in their period all exchangers of the rank are; all 0 where the plan all-reduces. */
struct exchange_period rank_exchange_period(const struct rank *rank);
void rank_exchange_set_period(struct rank *rank, struct exchange_period period);

#endif
