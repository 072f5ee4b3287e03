/* sim/memory/state_memory.h - bytes of weights, gradients and optimizer state that one rank of a
 * stage holds: all the time, and while the optimizer runs. */
#ifndef SIM_MEMORY_STATE_MEMORY_H
#define SIM_MEMORY_STATE_MEMORY_H

#include "sim/memory/memory_input.h"
#include "sim/memory/stage_memory.h"

/* Bytes of a rank's share of the reduced gradients. */
double summed_gradients_bytes(const struct memory_input *input, const struct holding *held);

/* Adds the state of a stage that holds `held`. */
void add_state(struct stage_memory *memory, const struct memory_input *input,
               const struct holding *held);
/* A lower bound of the state while the optimizer runs, averaged over stages. It is the same for all
 * ways to divide the model into chunks. */
double mean_state_bytes(const struct memory_input *input);

/* The optimizer's bytes per trained parameter: the smaller of the number for matrices with a
 * separate optimizer and the number for other parameters. */
double least_optimizer_bytes(const struct stack *stack, const struct plan *plan,
                             const struct model *model);

#endif
