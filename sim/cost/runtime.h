/* sim/cost/runtime.h - what programs run on beneath a stack, and what that keeps and waits for. */
#ifndef SIM_COST_RUNTIME_H
#define SIM_COST_RUNTIME_H

#include "sim/cost/hardware.h"

struct runtime {
    bool has_workspaces;       /* of cuBLAS and Transformer Engine, for the whole run */
    bool has_channels;         /* NCCL's buffers, for each axis that is called on */
    bool walks_passes;         /* a pass holds what the executor's steps take, one by one; else the
                                  allocator's slack and the workspaces stand for it */
    bool keeps_for_weights;    /* activations stay until the weight gradients are made; else those
                                  that none of them reads go behind the input gradients */
    bool adds_whole_gradients; /* a layer's gradient is made whole, and added to its shard */
    bool sends_ahead;          /* no schedule waits for its sends; else only the interleaved does
                                  not (Megatron's p2p_communication.py) */
    bool is_a_core;            /* what computes also issues, sends and receives */
    bool widens_16_bits;       /* products of 16 bits run at the rate of fp32 where a GPU states no
                                  other */
};

enum { NUM_RUNTIMES = 2 };
extern const struct runtime runtimes[NUM_RUNTIMES];
extern const char *const runtime_names[NUM_RUNTIMES + 1]; /* NULL-terminated */

const struct runtime *stack_runtime(const struct stack *stack);

#endif
