/* sim/cost/runtime.h - what a stack's programs run on, and the memory and waiting this implies. */
#ifndef SIM_COST_RUNTIME_H
#define SIM_COST_RUNTIME_H

#include "sim/cost/hardware.h"

struct runtime {
    bool has_workspaces; /* workspaces of cuBLAS and Transformer Engine, held for the whole run */
    bool has_channels;   /* NCCL's buffers, for each axis that communicates */
    bool walks_passes;   /* a pass's temporary memory is counted op by op, as the executor takes it;
                            else the allocator's slack and the workspaces cover it */
    bool keeps_for_weights; /* all activations stay until the weight gradients are made; else those
                               that weight gradients do not read are freed after the input gradients
                             */
    bool adds_whole_gradients; /* a layer's whole gradient is made first, then added to its shard */
    bool sends_ahead;    /* sends never block; else they block except in the interleaved schedule
                            (Megatron's p2p_communication.py) */
    bool is_a_core;      /* the core that computes also issues, sends and receives */
    bool widens_16_bits; /* 16-bit products run at the fp32 rate unless the GPU states another */
};

enum { NUM_RUNTIMES = 2 };
extern const struct runtime runtimes[NUM_RUNTIMES];
extern const char *const runtime_names[NUM_RUNTIMES + 1]; /* NULL-terminated */

const struct runtime *stack_runtime(const struct stack *stack);

#endif
