/* sim/memory/network_memory.h - GPU memory that NCCL's communicators take.
 *
 * Each connection of a channel has a buffer per protocol, whatever is sent; in-switch sums (NVLS)
 * need buffers per channel and member. */
#ifndef SIM_MEMORY_NETWORK_MEMORY_H
#define SIM_MEMORY_NETWORK_MEMORY_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* Bytes on every rank of the plan. When the stack opens communicators for its axes: those of their
 * rings, as NCCL connects only what is called. When it connects a communicator for every group
 * (exec/comm/groups.h): those of all algorithms, on the stage with the most groups. */
double network_memory_bytes(const struct system *system, const struct plan *plan);

#endif
