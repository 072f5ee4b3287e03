/* sim/memory/executor_pass_memory.h - the memory that the executor's own allocator holds during a
 * pass, piece by piece (layer, embedding, head). The host backend has neither a caching allocator's
 * slack nor a library's workspaces. */
#ifndef SIM_MEMORY_EXECUTOR_PASS_MEMORY_H
#define SIM_MEMORY_EXECUTOR_PASS_MEMORY_H

#include "sim/memory/memory_input.h"

/* Working memory of a layer's backward, in addition to kept values: gradients between its ops, the
 * gradient of the residual stream, and messages on their way in and out. */
double pass_working_bytes(const struct memory_input *input);

/* The peak of a forward and a backward over `chunk`, in addition to the state and the activations
 * of the microbatches in flight: gathered parameters and whole gradients by the steps of
 * sim/plan/pass.h, plus transient values, minus the activations that this microbatch does not keep
 * yet or no longer keeps. `logits_bytes` is the memory of the logits while the loss is computed. */
double pass_most_bytes(const struct memory_input *input, int chunk, double logits_bytes);

#endif
