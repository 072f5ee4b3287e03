/* sim/plan/ranks.h - how many ranks a plan's axes have together. */
#ifndef SIM_PLAN_RANKS_H
#define SIM_PLAN_RANKS_H

#include "sim/plan/plan.h"

/* Sets dp, if the plan has none, to num_gpus divided by the degrees of all other axes. Fails
 * (ERR_INFEASIBLE, naming both values) when the division leaves a remainder, or when dp was given
 * and the product is not num_gpus. */
bool plan_derive_data(struct plan *plan, int num_gpus, struct err *err);

int plan_ranks(const struct plan *plan); /* ranks of all axes; INT_MAX if there are more */
int plan_ranks_but_data(const struct plan *plan);
int plan_stage_ranks(const struct plan *plan); /* ranks of all axes except the pipeline */
int plan_replicas(const struct plan *plan);    /* dp x cp: ranks with the same weights */
/* Number of replicas over which one copy of the state is sharded. With HSDP other groups hold
 * further copies. */
int plan_shards(const struct plan *plan);

#endif
