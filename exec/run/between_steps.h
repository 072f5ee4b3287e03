/* exec/run/between_steps.h - operations of all ranks together between steps. */
#ifndef EXEC_RUN_BETWEEN_STEPS_H
#define EXEC_RUN_BETWEEN_STEPS_H

#include "base/err.h"

struct group;
struct rank;

/* The group of all ranks, for calls between steps; NULL: one rank. */
struct group *rank_world(struct rank *rank);

/* All ranks call these together, between steps. rank_mean_losses: turns the ranks' losses into
 * means over the tokens of the global batch. rank_most: the largest of each value over all ranks.
 * rank_agrees: whether `ok` is true on all ranks; on a rank where `ok` is false, `err` keeps its
 * own cause, and on the other ranks it is ERR_SYSTEM. All return false when another rank cannot be
 * reached. */
bool rank_mean_losses(struct rank *rank, double *losses, int count, struct err *err);
bool rank_most(struct rank *rank, double *values, int count, struct err *err);
bool rank_agrees(struct rank *rank, bool ok, struct err *err);

/* For work between steps that takes ranks unequally long, such as writing a checkpoint. A working
 * rank calls rank_goes_on after each piece; a rank that is finished calls rank_is_done, which
 * returns when all are. Meanwhile ranks signal each other regularly, which counts as progress for
 * the watchdogs. `what` is as in lane_status_wait. */
bool rank_goes_on(struct rank *rank, const char *what, struct err *err);
bool rank_is_done(struct rank *rank, const char *what, struct err *err);
/* Whether the next call of rank_goes_on will signal the other ranks; otherwise it returns at
 * once. */
bool rank_is_due(const struct rank *rank);

#endif
