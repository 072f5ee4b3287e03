/* sim/cost/network_memory.h - memory of a GPU that NCCL's communicators take.
 *
 * A connection of a channel has a buffer for each protocol, whatever is sent; a switch that sums
 * (NVLS) has some for every channel and member. */
#ifndef SIM_COST_NETWORK_MEMORY_H
#define SIM_COST_NETWORK_MEMORY_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* On every rank of the plan. Where the stack opens communicators of its axes: the rings of these,
 * as NCCL connects what is called. Where it connects a communicator for every group
 * (exec/groups.h): all of their algorithms, on the stage that has most groups. */
double network_memory_bytes(const struct system *system, const struct plan *plan);

#endif
