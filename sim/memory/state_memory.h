/* sim/memory/state_memory.h - bytes of weights, gradients and optimizer state that one rank of a
 * stage holds: all the time, and while the optimizer runs. */
#ifndef SIM_MEMORY_STATE_MEMORY_H
#define SIM_MEMORY_STATE_MEMORY_H

#include "sim/memory/memory.h"

void add_state(struct stage_memory *memory, const struct memory_input *input, int stage);

#endif
