/* sim/memory/network_memory.h - GPU memory that NCCL's communicators take.
 *
 * Each connection of a channel has a buffer per protocol, whatever is sent; in-switch sums (NVLS)
 * need buffers per channel and member. */
#ifndef SIM_MEMORY_NETWORK_MEMORY_H
#define SIM_MEMORY_NETWORK_MEMORY_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* Bytes on every rank of the plan. If the stack (training software) opens a communicator for each
 * axis, only the buffers of its rings count, as NCCL connects only the algorithms that are used. If
 * the stack connects a communicator for every group (exec/comm/groups.h), the buffers of all
 * algorithms count, on the stage with the most groups. */
double network_memory_bytes(const struct system *system, const struct plan *plan);

#endif
