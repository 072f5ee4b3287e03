/* sim/cost/pass_memory.h - what the executor's own allocator sees of a pass, piece by piece: the
 * host backend has neither a caching allocator's slack nor a library's workspaces to hide it in. */
#ifndef SIM_COST_PASS_MEMORY_H
#define SIM_COST_PASS_MEMORY_H

#include "sim/cost/memory_input.h"

/* Beside what is kept while a layer runs backward: the gradients between its ops, that of the
 * residual stream, and messages on their way in and out. */
double pass_working_bytes(const struct memory_input *input);

/* The most of a forward and a backward over `chunk`, beside the state and the activations of the
 * microbatches in flight: gathered parameters and whole gradients by the steps of
 * sim/plan/pass.h, what is there for a moment, less what the microbatch itself does not keep
 * yet, or any more. `logits_bytes` are those at the loss. */
double pass_most_bytes(const struct memory_input *input, int chunk, double logits_bytes);

#endif
