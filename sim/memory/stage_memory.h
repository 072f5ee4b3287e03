/* sim/memory/stage_memory.h - the bytes that one rank of a stage holds, by kind (state,
 * activations, buffers, ...). */
#ifndef SIM_MEMORY_STAGE_MEMORY_H
#define SIM_MEMORY_STAGE_MEMORY_H

struct stage_memory {
    /* the state, which is held all the time */
    double weights_bytes;
    double gradients_bytes;
    double optimizer_bytes;
    /* further bytes during the optimizer's step, when there are no activations */
    double step_bytes;
    double activations_bytes; /* activations of all chunks in flight, or their checkpoints */
    double logits_bytes;      /* logits of the microbatches whose loss is in flight */
    double recompute_bytes; /* activations of one layer while it is recomputed, and its gradients */
    double buckets_bytes; /* gathered parameters, reduction buckets, other ranks' keys and values */
    double library_bytes; /* workspaces of matrix libraries */
    double allocated_bytes; /* the sum of the above at the peak: what the framework allocates */
    double slack_bytes;     /* reserved by the allocator beyond allocated_bytes */
    double network_bytes;   /* communicators' buffers */
    double context_bytes;   /* context and code of the runtime, pools of captured graphs */
    double total_bytes; /* allocated, slack, network and context together; this must fit the GPU */
};

#endif
