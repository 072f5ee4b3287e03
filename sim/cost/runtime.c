#include "sim/cost/runtime.h"

const char *const runtime_names[NUM_RUNTIMES + 1] = { "cuda", "host", NULL };

/* The rows are in the order of runtime_names. "host" is the project's own executor (exec/), on CPU
 * cores and on GPUs. */
const struct runtime runtimes[NUM_RUNTIMES] = {
    { .has_workspaces = true, .has_channels = true },
    { .walks_passes = true,
      .keeps_for_weights = true,
      .adds_whole_gradients = true,
      .reduces_pieces = true,
      .sends_ahead = true,
      .runs_in_place = true,
      .is_a_core = true,
      .widens_16_bits = true },
};

const struct runtime *stack_runtime(const struct stack *stack)
{
    return &runtimes[stack->runtime];
}
