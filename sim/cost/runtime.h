/* sim/cost/runtime.h - the two runtimes of stacks, CUDA frameworks such as PyTorch and the
 * project's executor, and their effects on memory and waiting. */
#ifndef SIM_COST_RUNTIME_H
#define SIM_COST_RUNTIME_H

#include "sim/cost/hardware.h"

struct runtime {
    bool has_workspaces; /* workspaces of cuBLAS and Transformer Engine, held for the whole run */
    bool has_channels;   /* NCCL's buffers, for each axis that communicates */
    /* a pass's temporary memory is counted op by op, as the executor allocates it; otherwise it
     * is part of the allocator's slack and the workspaces */
    bool walks_passes;
    /* all activations are kept until the weight gradients are computed; otherwise those that
     * weight gradients do not read are freed after the input gradients */
    bool keeps_for_weights;
    /* whether a layer's whole gradient is computed first, then added to its shard */
    bool adds_whole_gradients;
    /* with a single stage, overlapped reductions send the gradients of one piece (sim/plan/pass.h)
     * after another instead of buckets of equal size */
    bool reduces_pieces;
    /* sends never block; otherwise they block except in the interleaved schedule (Megatron's
     * p2p_communication.py) */
    bool sends_ahead;
    bool runs_in_place;  /* whether selective recompute follows the executor's rules instead of the
                            frameworks' ("in place": models/recompute.h) */
    bool is_a_core;      /* whether the core that computes also launches ops, sends and receives */
    bool widens_16_bits; /* whether 16-bit products run at the fp32 rate, unless the GPU's file
                            states another */
};

enum { NUM_RUNTIMES = 2 };
extern const struct runtime runtimes[NUM_RUNTIMES];
extern const char *const runtime_names[NUM_RUNTIMES + 1]; /* NULL-terminated */

const struct runtime *stack_runtime(const struct stack *stack);

#endif
